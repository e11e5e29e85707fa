"""The vectorised CRF against the sum over all paths, written out."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from polysemy.nn.crf import CRF, Transitions, constrained, log_likelihood, log_partition, viterbi

TAGS = 3


def random_transitions(seed: int = 0) -> Transitions:
    generator = torch.Generator().manual_seed(seed)
    return Transitions(
        torch.randn(TAGS, TAGS, generator=generator, requires_grad=True),
        torch.randn(TAGS, generator=generator, requires_grad=True),
        torch.randn(TAGS, generator=generator, requires_grad=True),
    )


def score(emissions: Tensor, path: tuple[int, ...], t: Transitions) -> Tensor:
    total = t.start[path[0]] + t.end[path[-1]]
    for i, tag in enumerate(path):
        total = total + emissions[i, tag]
    for a, b in itertools.pairwise(path):
        total = total + t.between[a, b]
    return total


def paths(length: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(TAGS), repeat=length))


LENGTHS = [4, 1, 0, 3]


def batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    emissions = torch.randn(len(LENGTHS), max(LENGTHS), TAGS, generator=generator, requires_grad=True)
    tags = torch.randint(TAGS, (len(LENGTHS), max(LENGTHS)), generator=generator)
    mask = torch.arange(max(LENGTHS))[None] < torch.tensor(LENGTHS)[:, None]
    return emissions, tags.masked_fill(~mask, -1), mask


def test_log_partition_and_likelihood_are_those_of_all_paths() -> None:
    emissions, tags, mask = batch()
    t = random_transitions()
    whole = log_partition(emissions, mask, t)
    likelihood = log_likelihood(emissions, tags, mask, t)
    for row, length in enumerate(LENGTHS):
        if length == 0:
            assert whole[row] == 0
            assert likelihood[row] == 0
            continue
        scores = torch.stack([score(emissions[row], path, t) for path in paths(length)])
        gold = score(emissions[row], tuple(tags[row, :length].tolist()), t)
        torch.testing.assert_close(whole[row], scores.logsumexp(0))
        torch.testing.assert_close(likelihood[row], gold - scores.logsumexp(0))


def test_gradient_is_finite_zero_in_padding_and_equal_to_that_of_rows_alone() -> None:
    emissions, tags, mask = batch()
    t = random_transitions()
    poisoned = emissions.detach().masked_fill(~mask[..., None], float("nan")).requires_grad_()
    log_likelihood(poisoned, tags, mask, t).sum().backward()
    grads = [p.grad.clone() for p in t if p.grad is not None]
    assert len(grads) == 3
    assert poisoned.grad is not None
    assert bool((poisoned.grad[~mask] == 0).all())
    alone = random_transitions()
    for row, length in enumerate(LENGTHS):
        if length == 0:
            continue
        cut = slice(row, row + 1), slice(0, length)
        log_likelihood(emissions[cut].detach(), tags[cut], mask[cut], alone).sum().backward()
    for got, parameter in zip(grads, alone, strict=True):
        torch.testing.assert_close(got, parameter.grad)


def test_an_unobserved_tag_is_summed_over() -> None:
    emissions, tags, mask = batch()
    t = random_transitions()
    tags[0, 1] = tags[3, 0] = -1
    likelihood = log_likelihood(emissions, tags, mask, t)
    for row in (0, 3):
        length = LENGTHS[row]
        gold = tags[row, :length].tolist()
        scores = {path: score(emissions[row], path, t) for path in paths(length)}
        agree = [s for path, s in scores.items() if all(g in (-1, p) for g, p in zip(gold, path, strict=True))]
        expected = torch.stack(agree).logsumexp(0) - torch.stack(list(scores.values())).logsumexp(0)
        torch.testing.assert_close(likelihood[row], expected)


def test_viterbi_finds_the_best_path_of_each_row() -> None:
    emissions, _, mask = batch()
    t = random_transitions(1)
    best = viterbi(emissions, mask, t)
    for row, length in enumerate(LENGTHS):
        expected = max(paths(length), key=lambda path: score(emissions[row], path, t).item()) if length else ()
        assert best[row].tolist() == [*expected, *[-1] * (max(LENGTHS) - length)]


def test_viterbi_keeps_to_what_is_allowed_and_still_answers_where_nothing_is() -> None:
    emissions, _, mask = batch()
    t = random_transitions(2)
    allowed = Transitions(
        torch.tensor([[1, 0, 1], [1, 1, 0], [0, 1, 1]]).bool(),
        torch.tensor([1, 0, 1]).bool(),
        torch.tensor([0, 1, 1]).bool(),
    )
    best = viterbi(emissions, mask, constrained(t, allowed))
    legal = [
        max(
            (p for p in paths(n) if allowed.start[p[0]] and allowed.end[p[-1]]
             and all(allowed.between[a, b] for a, b in itertools.pairwise(p))),
            key=lambda path: score(emissions[row], path, t).item(),
        )
        for row, n in enumerate(LENGTHS) if n
    ]  # fmt: skip
    assert [tuple(x for x in row if x >= 0) for row in best.tolist() if row[0] >= 0] == legal
    nothing = Transitions(*(torch.zeros_like(a) for a in allowed))
    assert viterbi(emissions, mask, constrained(t, nothing)).shape == mask.shape


@pytest.mark.parametrize("rows", [0, 2])
def test_a_batch_without_words(rows: int) -> None:
    t = CRF(TAGS)()
    emissions, mask = torch.zeros(rows, 0, TAGS), torch.zeros(rows, 0, dtype=torch.bool)
    assert log_likelihood(emissions, torch.zeros(rows, 0, dtype=torch.long), mask, t).tolist() == [0.0] * rows
    assert viterbi(emissions, mask, t).shape == (rows, 0)
