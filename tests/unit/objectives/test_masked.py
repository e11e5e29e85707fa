"""Masked: how much, of what, replaced by what; and its loss under splitting."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from polysemy.data.batch import Batch
from polysemy.objectives.masked import Masked
from polysemy.systems.bert import BERT, BERTConfig
from polysemy.text.tokens import Special

SPECIAL = Special(pad=0, unk=1, begin=2, end=3, mask=4)
VOCAB_SIZE = 1000


def text(rows: int, length: int, *, seed: int = 0) -> Batch:
    """``[begin, pieces..., end]`` without padding, words of one to three pieces"""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, VOCAB_SIZE, (rows, length), generator=draw)
    ids[:, 0], ids[:, -1] = 2, 3
    words = (torch.rand(rows, length, generator=draw) < 0.5).cumsum(1)
    words[:, 0] = words[:, -1] = -1
    return Batch(size=rows, ids=ids, words=words, mask=torch.ones_like(ids, dtype=torch.bool))


def corrupted(batch: Batch, objective: Masked, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """ids, target_ids, which positions were chosen"""
    out = objective.corrupt(batch, torch.Generator().manual_seed(seed))
    assert out.ids is not None
    assert out.target_ids is not None
    return out.ids, out.target_ids, out.target_ids >= 0


@pytest.mark.parametrize("whole_words", [False, True])
def test_fifteen_percent_of_each_sequence_and_80_10_10(whole_words: bool) -> None:
    batch = text(400, 128)
    assert batch.ids is not None
    ids, targets, chosen = corrupted(batch, Masked(SPECIAL, VOCAB_SIZE, whole_words=whole_words))
    if whole_words:
        assert abs(float(chosen.float().mean()) - 0.15 * 126 / 128) < 0.004
    else:
        assert (chosen.sum(1) == 19).all()  # 0.15 x 126 = 18.9
    assert torch.equal(targets[chosen], batch.ids[chosen])
    assert torch.equal(ids[~chosen], batch.ids[~chosen])
    replaced = (ids[chosen] == 4).float().mean()
    kept = (ids[chosen] == batch.ids[chosen]).float().mean()
    assert abs(float(replaced) - 0.8) < 0.02
    assert abs(float(kept) - 0.1) < 0.015
    others = ids[chosen & (ids != 4) & (ids != batch.ids)]
    assert others.min() >= 5
    assert len(others.unique()) > 400


def test_every_position_and_every_word_is_as_likely_as_any_other() -> None:
    batch = text(1, 22)
    for whole_words in (False, True):
        objective, generator = Masked(SPECIAL, VOCAB_SIZE, whole_words=whole_words), torch.Generator().manual_seed(1)
        draws = torch.stack([objective.corrupt(batch, generator).target_ids >= 0 for _ in range(3000)])  # type: ignore[operator]
        rate = draws.float().mean(0)[0]
        assert rate[0] == 0
        assert rate[-1] == 0
        assert batch.words is not None
        words = len(batch.words.unique()) - 1
        exact = int(0.15 * words + 0.5) / words if whole_words else 3 / 20
        assert (rate[1:-1] - exact).abs().max() < 0.025  # 4 deviations


def test_whole_words_are_whole() -> None:
    batch = text(50, 64)
    assert batch.words is not None
    _, _, chosen = corrupted(batch, Masked(SPECIAL, VOCAB_SIZE, whole_words=True))
    for words, hidden in zip(batch.words, chosen, strict=True):
        for word in words[hidden].unique():
            assert hidden[words == word].all()


def test_specials_unknowns_and_padding_are_never_chosen() -> None:
    batch = text(200, 20)
    assert batch.ids is not None
    assert batch.mask is not None
    batch.ids[:, 5] = 1
    batch.mask[:, 12:] = False
    _, _, chosen = corrupted(batch, Masked(SPECIAL, VOCAB_SIZE, rate=1.0))
    expected = batch.mask.clone()
    expected[:, [0, 5]] = False
    assert torch.equal(chosen, expected)


def test_the_same_generator_gives_the_same_batch() -> None:
    batch, objective = text(8, 32), Masked(SPECIAL, VOCAB_SIZE)
    assert torch.equal(corrupted(batch, objective, 3)[0], corrupted(batch, objective, 3)[0])
    assert not torch.equal(corrupted(batch, objective, 3)[0], corrupted(batch, objective, 4)[0])


def test_the_loss_is_that_of_all_logits_at_the_chosen_positions() -> None:
    torch.manual_seed(0)
    model = BERT(BERTConfig(vocab_size=VOCAB_SIZE, dim=16, num_layers=2, num_heads=2, ffn_dim=16, max_length=20)).eval()
    objective = Masked(SPECIAL, VOCAB_SIZE, pair_weight=3.0)
    batch = objective.corrupt(text(5, 20), torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, -1, 1, 0])
    paired = Batch(**{**vars(batch), "labels": labels})
    states = model(batch.ids, None, batch.mask).last
    assert batch.target_ids is not None
    masked = F.cross_entropy(
        model.masked_lm(states).flatten(0, 1), batch.target_ids.flatten(), ignore_index=-1, reduction="sum"
    )
    judged = F.cross_entropy(model.next_sentence(states[:, 0]), labels, ignore_index=-1, reduction="sum")
    for given, total in ((batch, masked), (paired, masked + 3 * judged)):
        loss = objective.loss(model, given)
        torch.testing.assert_close(loss.total, total)
        assert loss.count == int((batch.target_ids >= 0).sum())
        assert loss.parts["masked"] == (pytest.approx(float(masked.detach())), loss.count)
    assert objective.loss(model, paired).parts["next_sentence"] == (pytest.approx(float(judged.detach())), 4)


def test_what_cannot_be_masked_is_refused() -> None:
    with pytest.raises(ValueError, match="mask symbol"):
        Masked(Special(pad=0), 10)
    for rate in (0.0, 1.5):
        with pytest.raises(ValueError, match=str(rate)):
            Masked(SPECIAL, 10, rate=rate)
    with pytest.raises(ValueError, match="corrupt"):
        Masked(SPECIAL, 10).loss(None, text(1, 4))  # type: ignore[arg-type]
