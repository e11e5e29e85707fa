"""The softmax over words: exact and sampled, against torch and against theory."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from polysemy.nn import output
from polysemy.nn.output import LogUniform, Softmax

VOCAB, DIM, ROWS = 50, 6, 40


def problem(scale: float = 1.0) -> tuple[Softmax, Tensor, Tensor]:
    torch.manual_seed(2)
    head = Softmax(VOCAB, DIM).double()
    with torch.no_grad():
        head.weight.mul_(3 * scale)
        head.bias.normal_().mul_(scale)
    x = torch.randn(ROWS, DIM, dtype=torch.double, requires_grad=True)
    return head, x, torch.randint(0, VOCAB, (ROWS,))


@pytest.mark.parametrize("held", [1, 130, 1 << 20])
def test_exact_loss_and_gradients_are_those_of_cross_entropy(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "LOGITS_HELD", held)
    head, x, targets = problem()
    total, each = head.loss(x, targets)
    expected = F.cross_entropy(head(x), targets, reduction="none")
    torch.testing.assert_close(each, expected.detach())
    torch.testing.assert_close(total, expected.sum())
    inputs = [x, *head.parameters()]
    for ours, wanted in zip(
        torch.autograd.grad(2.5 * total, inputs), torch.autograd.grad(2.5 * expected.sum(), inputs), strict=True
    ):
        torch.testing.assert_close(ours, wanted)
    with torch.no_grad():
        torch.testing.assert_close(head.loss(x, targets)[1], each)


def test_every_word_a_candidate_is_the_exact_softmax() -> None:
    head, x, targets = problem()
    total, each = head.loss(x, targets, torch.arange(VOCAB), torch.ones(VOCAB, dtype=torch.double))
    torch.testing.assert_close(each, F.cross_entropy(head(x), targets, reduction="none").detach())
    grads = torch.autograd.grad(total, [x, *head.parameters()])
    wanted = torch.autograd.grad(F.cross_entropy(head(x), targets, reduction="sum"), [x, *head.parameters()])
    for ours, expected in zip(grads, wanted, strict=True):
        torch.testing.assert_close(ours, expected)


def test_sampled_loss_is_that_of_its_formula() -> None:
    """−log of exp(s_y − log q_y) over itself and the candidates, the target among them left out."""
    head, x, targets = problem()
    sampler = LogUniform(VOCAB, 12)
    candidates = sampler.draw(torch.Generator().manual_seed(1))
    assert set(candidates.tolist()) & set(targets.tolist())  # some candidates are targets
    _, each = head.loss(x, targets, candidates, sampler.probability)
    corrected = (head(x) - sampler.probability.log()).detach()
    for row, target in enumerate(targets.tolist()):
        rivals = [target, *(c for c in candidates.tolist() if c != target)]
        torch.testing.assert_close(each[row], -corrected[row, rivals].log_softmax(0)[0])


def test_posterior_of_the_target_given_the_set() -> None:
    """Draw a word from the model and candidates; among draws with one set, the word is distributed as the loss says."""
    draw = torch.Generator().manual_seed(0)
    logits, probability = torch.tensor([0.3, 1.0, -0.5, 0.8]), torch.tensor([1.0, 0.6, 0.4, 0.3])
    words = torch.multinomial(logits.softmax(0), 400_000, replacement=True, generator=draw)
    chosen = torch.rand(len(words), 4, generator=draw) < probability
    chosen[torch.arange(len(words)), words] = True
    of_set = words[(chosen == torch.tensor([True, False, True, True])).all(1)]
    assert len(of_set) > 10_000
    found = of_set.bincount(minlength=4) / len(of_set)
    expected = (logits - probability.log())[[0, 2, 3]].softmax(0)
    assert (found[[0, 2, 3]] - expected).abs().max() < 0.02


@pytest.mark.parametrize("corrected", [True, False])
def test_sampled_gradient_is_zero_on_average_where_the_exact_one_is(corrected: bool) -> None:
    """At the log of the words' frequencies nothing is left to learn; without log q there would be."""
    sampler, draw = LogUniform(VOCAB, 15), torch.Generator().manual_seed(4)
    counts = (600 / torch.arange(3, VOCAB + 3)).round().long()
    targets = torch.arange(VOCAB).repeat_interleave(counts)
    head, x = Softmax(VOCAB, 1).double(), torch.zeros(len(targets), 1, dtype=torch.double)
    with torch.no_grad():
        head.bias.copy_(counts.double().log())
    q = sampler.probability if corrected else torch.ones_like(sampler.probability)
    grads = []
    for _ in range(400):
        total, _ = head.loss(x, targets, sampler.draw(draw), q)
        grads.append(torch.autograd.grad(total, [head.bias])[0])
    found = torch.stack(grads)
    deviation = (found.mean(0) / (found.std(0) / len(found) ** 0.5)).abs().max()
    assert deviation < 4.5 if corrected else deviation > 20


def test_log_uniform_draws_with_the_probabilities_that_it_says() -> None:
    sampler, draw = LogUniform(1000, 64), torch.Generator().manual_seed(3)
    q = sampler.probability
    assert abs(float(q.sum()) - 64) < 0.1 + float(1 - q[1])
    assert (q[1:].diff() < 0).all()  # frequent words come first
    odds = torch.log1p(-q[1:])  # t log(1 - p_k)
    p = torch.log1p(1 / torch.arange(2, 1001).double()) / torch.tensor(1001.0).log()
    ratio = odds / torch.log1p(-p)
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))  # one number of tries t for all
    counts = torch.zeros(1000)
    for _ in range(2000):
        drawn = sampler.draw(draw)
        assert drawn[0] == 0
        counts[drawn] += 1
    deviation = (counts / 2000 - q) / (q * (1 - q) / 2000).sqrt().clamp(min=1e-6)
    assert deviation[1:].abs().max() < 4.5


def test_draws_depend_on_the_generator_alone() -> None:
    sampler = LogUniform(5000, 100)
    torch.manual_seed(1)
    first = sampler.draw(torch.Generator().manual_seed(9))
    torch.manual_seed(2)
    assert torch.equal(first, sampler.draw(torch.Generator().manual_seed(9)))
    assert not torch.equal(first, sampler.draw(torch.Generator().manual_seed(10)))


@pytest.mark.parametrize("samples", [0, 50, 51])
def test_samples_outside_the_vocabulary_are_refused(samples: int) -> None:
    with pytest.raises(ValueError, match="of a vocabulary of 50"):
        LogUniform(50, samples)


def test_large_logits_do_not_overflow() -> None:
    head, x, targets = problem(scale=300.0)
    total, each = head.loss(x, targets)
    torch.testing.assert_close(each, F.cross_entropy(head(x), targets, reduction="none").detach())
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(total, [x, *head.parameters()]))


def test_bf16_is_close_to_fp32() -> None:
    head, x, targets = problem()
    head, x = head.float(), x.detach().float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        low, _ = head.loss(x, targets)
    exact, _ = head.loss(x, targets)
    assert low.dtype == torch.float32
    assert low != exact
    assert abs(low.item() / exact.item() - 1) < 0.02
    (grad,) = torch.autograd.grad(low, [x])
    torch.testing.assert_close(grad, torch.autograd.grad(exact, [x])[0], atol=0.1, rtol=0.1)


def test_no_targets_at_all() -> None:
    head, x, targets = problem()
    total, each = head.loss(x[:0], targets[:0])
    assert total.item() == 0.0
    assert each.shape == (0,)
    assert not torch.autograd.grad(total, head.parameters())[0].any()
