"""The bidirectional language model's loss: what is predicted from where, and how it is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from polysemy.data.batch import Batch
from polysemy.objectives.bidirectional import Bidirectional
from polysemy.systems.elmo import ELMo, ELMoConfig

VOCAB = 30


def model() -> ELMo:
    torch.manual_seed(1)
    return ELMo(
        ELMoConfig(
            vocab_size=VOCAB,
            filters=((1, 6), (2, 6)),
            slots=8,
            num_highways=1,
            hidden_size=10,
            proj_size=4,
            dropout=0.0,
        )
    )


def batch(lengths: tuple[int, ...] = (5, 2, 7)) -> Batch:
    draw = torch.Generator().manual_seed(0)
    n = max(lengths)
    mask = torch.arange(n) < torch.tensor(lengths)[:, None]
    types = torch.randint(1, 12, mask.shape, generator=draw).masked_fill(~mask, 0)
    characters = torch.randint(1, 200, (12, 8), generator=draw)
    targets = torch.randint(0, VOCAB, mask.shape, generator=draw).masked_fill(~mask, -1)
    return Batch(size=len(lengths), types=types, characters=characters, mask=mask, target_ids=targets)


def by_hand(system: ELMo, b: Batch) -> tuple[Tensor, Tensor]:
    """Sums of −log P of the next word from the left and of the previous word from the right, token by token."""
    sums = [torch.zeros(()), torch.zeros(())]
    for row in range(b.size):
        length = int(b.mask[row].sum())
        states = system(b.types[row : row + 1, :length], b.characters).last[0]
        left, right = system.softmax(states[:, :4]).log_softmax(-1), system.softmax(states[:, 4:]).log_softmax(-1)
        for t in range(length - 1):
            sums[0] = sums[0] - left[t, b.target_ids[row, t + 1]]
            sums[1] = sums[1] - right[t + 1, b.target_ids[row, t]]
    return sums[0], sums[1]


@pytest.mark.parametrize("training", [True, False])
def test_next_word_from_the_left_and_previous_word_from_the_right(training: bool) -> None:
    system, b = model().train(training), batch()
    loss = Bidirectional(VOCAB).loss(system, b)
    forward, backward = by_hand(system, b)
    assert loss.count == 2 * (4 + 1 + 6)
    torch.testing.assert_close(loss.total, forward + backward)
    torch.testing.assert_close(loss.parts["forward"][0], forward.item(), rtol=1e-5, atol=0)
    torch.testing.assert_close(loss.parts["backward"][0], backward.item(), rtol=1e-5, atol=0)
    assert loss.parts["forward"][1] == loss.parts["backward"][1] == 11


def test_positions_without_a_target_are_not_counted() -> None:
    system, b = model(), batch()
    targets = b.target_ids.clone()
    targets[0, 2] = -1
    loss = Bidirectional(VOCAB).loss(system, replace(b, target_ids=targets))
    assert loss.count == 2 * 11 - 2  # once as the next word, once as the previous one


def test_candidates_are_drawn_once_a_step_and_shared_by_its_parts() -> None:
    objective, b = Bidirectional(VOCAB, samples=8), batch()
    drawn = objective.corrupt(b, torch.Generator().manual_seed(3))
    assert drawn.candidates is not None
    assert torch.equal(drawn.candidates, objective.corrupt(b, torch.Generator().manual_seed(3)).candidates)
    assert not torch.equal(drawn.candidates, objective.corrupt(b, torch.Generator().manual_seed(4)).candidates)
    system = model().double()
    whole = objective.loss(system, drawn)
    parts = [objective.loss(system, part) for part in drawn.split(3)]
    torch.testing.assert_close(sum(part.total for part in parts), whole.total)
    assert sum(part.count for part in parts) == whole.count


def test_sampling_differs_from_the_exact_loss_in_training_only() -> None:
    system, b = model(), batch()
    sampled = Bidirectional(VOCAB, samples=8)
    drawn = sampled.corrupt(b, torch.Generator().manual_seed(3))
    exact = Bidirectional(VOCAB).loss(system, b).total
    assert not torch.allclose(sampled.loss(system, drawn).total, exact)
    torch.testing.assert_close(sampled.loss(system.eval(), drawn).total, exact)


@pytest.mark.parametrize(("vocab_size", "samples"), [(30, 1024), (2048, 1024), (100_000, 0)])
def test_small_vocabularies_and_zero_samples_are_exact(vocab_size: int, samples: int) -> None:
    objective = Bidirectional(vocab_size, samples)
    assert objective.corrupt(batch(), torch.Generator()).candidates is None


def test_it_learns_a_pattern() -> None:
    """Words in a cycle are predicted from both sides after a few steps, with sampling too."""
    torch.manual_seed(0)
    characters = torch.randint(1, 200, (VOCAB, 8))
    types = torch.stack([torch.arange(12) % 10 + 1 + i for i in range(8)])
    b = Batch(
        size=8, types=types, characters=characters, mask=torch.ones_like(types, dtype=torch.bool), target_ids=types
    )
    system, objective = model(), Bidirectional(VOCAB, samples=10)
    optimizer = torch.optim.AdamW(system.parameters(), 0.02)
    for step in range(150):
        loss = objective.loss(system, objective.corrupt(b, torch.Generator().manual_seed(step)))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    exact = objective.loss(system.eval(), b)
    assert exact.total / exact.count < 0.5  # log 30 = 3.4 by chance
