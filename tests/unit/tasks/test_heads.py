"""Heads: equal to the textbook, and to themselves whatever stands beside a row."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from polysemy.core.config import parse
from polysemy.core.errors import InputError
from polysemy.data.batch import Batch
from polysemy.tasks.heads import BiLSTM, CharacterCNN, ClassificationHead, HeadConfig, TaggingHead

DIM, LAYERS = 6, 2
LENGTHS = [5, 0, 3, 1]
BILSTM = HeadConfig("bilstm", characters=True, crf=True, hidden_size=4, character_dim=3, character_filters=5)
LINEAR = HeadConfig("linear", dropout=0.1)


def make_batch(lengths: list[int]) -> tuple[Tensor, Batch]:
    """States (b, L, w, d) and a batch with characters, the same numbers for the same row."""
    width = max(lengths)
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(len(LENGTHS), LAYERS, max(LENGTHS), DIM, generator=generator)
    types = torch.randint(1, 7, (len(LENGTHS), max(LENGTHS)), generator=generator)
    characters = torch.randint(1, 262, (7, 9), generator=generator)
    characters[0], characters[3, 2:], characters[5, 4:] = 0, 0, 0
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    positions = torch.where(mask, torch.arange(width), -1)
    batch = Batch(
        len(lengths), mask=mask, word_mask=mask, word_positions=positions,
        types=types[:, :width].masked_fill(~mask, 0), characters=characters,
    )  # fmt: skip
    return states[:, :, :width].masked_fill(~mask[:, None, :, None], 0.0), batch


def one_row(batch: Batch, row: int, length: int) -> Batch:
    assert batch.types is not None
    assert batch.word_mask is not None
    assert batch.word_positions is not None
    cut = (slice(row, row + 1), slice(0, length))
    return replace(
        batch, size=1, mask=None, types=batch.types[cut], word_mask=batch.word_mask[cut],
        word_positions=batch.word_positions[cut],
    )  # fmt: skip


def test_bilstm_equals_torch_on_packed_sequences() -> None:
    torch.manual_seed(1)
    ours, theirs = BiLSTM(DIM, 4), nn.LSTM(DIM, 4, batch_first=True, bidirectional=True)
    theirs.load_state_dict(
        {**dict(ours.ahead.state_dict().items()),
         **{f"{k}_reverse": v for k, v in ours.back.state_dict().items()}}
    )  # fmt: skip
    states, batch = make_batch(LENGTHS)
    assert batch.word_mask is not None
    x = states[:, 0].masked_fill(
        ~batch.word_mask[..., None], float("nan")
    )  # what stands in padding is nobody's business
    got = ours(x, batch.word_mask)
    kept = [row for row, length in enumerate(LENGTHS) if length]
    packed = nn.utils.rnn.pack_padded_sequence(
        states[kept, 0], [LENGTHS[row] for row in kept], batch_first=True, enforce_sorted=False
    )
    expected, _ = nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True, total_length=max(LENGTHS))
    torch.testing.assert_close(got[kept], expected, atol=1e-6, rtol=1e-5)
    assert bool((got[1] == 0).all())
    got.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in ours.parameters() if p.grad is not None)


def test_character_cnn_sees_a_word_alone() -> None:
    torch.manual_seed(1)
    cnn = CharacterCNN(3, 5, 3)
    _, batch = make_batch(LENGTHS)
    assert batch.characters is not None
    all_rows = cnn(batch.characters)
    assert bool((all_rows[0] == 0).all())
    torch.testing.assert_close(cnn(batch.characters[3:4, :2]), all_rows[3:4])  # as narrow as the word
    wide = torch.cat([batch.characters[5:6], torch.zeros(1, 40, dtype=torch.long)], 1)
    torch.testing.assert_close(cnn(wide), all_rows[5:6])
    word = cnn.embed(batch.characters[3, :2]).T[None]
    torch.testing.assert_close(all_rows[3], cnn.convolution(word)[0].amax(1))


@pytest.mark.parametrize("config", [BILSTM, LINEAR], ids=["bilstm", "linear"])
@pytest.mark.parametrize("kind", [TaggingHead, ClassificationHead], ids=["tagging", "classification"])
def test_a_row_alone_equals_the_row_in_a_batch(kind: type[nn.Module], config: HeadConfig) -> None:
    torch.manual_seed(2)
    head = kind(DIM, LAYERS, 3, config).eval()
    states, batch = make_batch(LENGTHS)
    whole = head(states, batch)
    for row, length in enumerate(LENGTHS):
        alone = head(states[row : row + 1, :, :length], one_row(batch, row, length))
        if kind is TaggingHead:
            torch.testing.assert_close(whole.emissions[row, :length], alone.emissions[0], atol=1e-6, rtol=1e-5)
        else:
            torch.testing.assert_close(whole[row], alone[0], atol=1e-6, rtol=1e-5)


def test_mean_over_the_windows_of_a_text_is_the_mean_over_its_words() -> None:
    torch.manual_seed(3)
    head = ClassificationHead(DIM, LAYERS, 3, LINEAR).eval()
    states = torch.randn(1, LAYERS, 6, DIM)
    full = torch.ones(1, 6, dtype=torch.bool)
    whole = head(states, Batch(1, word_mask=full, word_positions=torch.arange(6)[None]))
    # words 0-3 and 2-5, of which the first window owns 0-2 and the second 3-5
    cut = torch.stack([states[0, :, :4], states[0, :, 2:]])
    positions = torch.tensor([[1, 2, 3, -1], [-1, 2, 3, 4]])
    mask = torch.ones(2, 4, dtype=torch.bool)
    windows = head(cut, Batch(2, word_mask=mask, word_positions=positions, rows=torch.tensor([0, 0])))
    torch.testing.assert_close(windows, whole)


def test_every_parameter_of_a_head_learns() -> None:
    states, batch = make_batch(LENGTHS)
    for head in (TaggingHead(DIM, LAYERS, 3, BILSTM), ClassificationHead(DIM, LAYERS, 3, BILSTM)):
        out = head(states, batch)
        total = out.square().sum() if isinstance(out, Tensor) else out.emissions.square().sum()
        if not isinstance(out, Tensor):
            assert out.transitions is not None
            total = total + sum(t.sum() for t in out.transitions)
        total.backward()
        assert [name for name, p in head.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_settings_that_make_no_sense_are_refused() -> None:
    for fields, name in (({"hidden_size": 0}, "sizes"), ({"dropout": 1.0}, "dropout"), ({"hidden": 3}, "hidden_size")):
        with pytest.raises(InputError, match=name):
            parse(HeadConfig, {"kind": "bilstm", **fields}, "head")
