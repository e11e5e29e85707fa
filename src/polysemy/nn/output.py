"""The softmax over words, exact or sampled (Jean et al. 2015; Bengio and Senécal 2008).

Sampled: the target competes with candidates instead of the whole vocabulary.  Each word k is a candidate with
probability q_k, independently of the others, and log q_k is taken off its logit.  The set T of candidates and target
y has P(T | y) = Π q_j over T without y and 1 − q_j over the rest, so that P(y | T) ∝ P(y) / q_y exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from polysemy.nn.precision import product_dtype, sum_dtype

LOGITS_HELD = 1 << 20  # logits held at once (4 MB)


class LogUniform:
    """Candidates from a vocabulary in order of falling frequency: q_k = 1 − (1 − p_k)^t with p_k = log((k+2)/(k+1)) /
    log(n+1), Zipf's law as TensorFlow's sampler has it, and t such that ``samples`` are expected."""

    def __init__(self, vocab_size: int, samples: int) -> None:
        if not 0 < samples < vocab_size:
            raise ValueError(f"{samples} samples of a vocabulary of {vocab_size}: give from 1 to {vocab_size - 1}")
        rank = np.arange(vocab_size, dtype=np.float64)
        misses = np.log1p(-np.log1p(1.0 / (rank + 1.0)) / np.log(vocab_size + 1.0))  # log(1 - p_k)
        low, high = 0.0, 64.0 * vocab_size * np.log(vocab_size + 1.0)
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if -np.expm1(middle * misses).sum() < samples else (low, middle)
        expected = -np.expm1(high * misses)
        expected[0] = 1.0  # there is always a candidate
        self.probability = torch.from_numpy(expected)  # (vocab_size,) fp64, q

    def draw(self, generator: torch.Generator) -> Tensor:
        """(k,) long, distinct words in rising order; k varies by about the root of ``samples``."""
        draws = torch.rand(len(self.probability), generator=generator, dtype=torch.float64)
        return (draws < self.probability).nonzero().squeeze(1)


class Softmax(nn.Module):
    """Output vectors and biases of ``vocab_size`` words."""

    def __init__(self, vocab_size: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, dim) / dim**0.5)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) -> (..., vocab_size) logits"""
        return F.linear(x, self.weight, self.bias)

    def loss(
        self, x: Tensor, targets: Tensor, candidates: Tensor | None = None, probability: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """``x`` (m, dim), ``targets`` (m,) -> their summed −log P, and each of them (m,) without gradient.

        With ``candidates`` (k,) of a ``LogUniform`` and its ``probability`` it is the sampled estimate; else exact.
        """
        run = _CrossEntropy.apply if torch.is_grad_enabled() else _cross_entropy
        rivals: tuple[Tensor, ...]  # weight, bias, weight and bias of the target, which rival is the target
        if candidates is None or probability is None:
            rivals = (self.weight, self.bias, F.embedding(targets, self.weight), self.bias[targets], targets)
        else:
            ids = torch.cat([candidates, targets])
            rows = F.embedding(ids, self.weight)  # a dense gradient: sparse ones cost the optimiser more than they save
            offsets = self.bias[ids] - probability.to(ids.device)[ids].log().to(self.bias.dtype)
            k = len(candidates)
            place = torch.full_like(self.bias, -1, dtype=torch.long)
            place[candidates] = torch.arange(k, device=ids.device)
            rivals = (rows[:k], offsets[:k], rows[k:], offsets[k:], place[targets])
        total, each = run(x, *rivals)
        return total, each


class _CrossEntropy(torch.autograd.Function):
    """The gradient is made on the way forward, while a slice of the logits is at hand: they are never held whole."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, true_weight: Tensor, true_bias: Tensor, hits: Tensor
    ) -> tuple[Tensor, Tensor]:
        each, grads = _compete(x, weight, bias, true_weight, true_bias, hits, gradients=True)
        ctx.save_for_backward(*grads)
        ctx.mark_non_differentiable(each)
        return each.sum(), each

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_total: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return *(grad * d_total for grad in ctx.saved_tensors), None


def _cross_entropy(
    x: Tensor, weight: Tensor, bias: Tensor, true_weight: Tensor, true_bias: Tensor, hits: Tensor
) -> tuple[Tensor, Tensor]:
    each, _ = _compete(x, weight, bias, true_weight, true_bias, hits, gradients=False)
    return each.sum(), each


def _compete(
    x: Tensor, weight: Tensor, bias: Tensor, true_weight: Tensor, true_bias: Tensor, hits: Tensor, *, gradients: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """−log softmax of the true logit among itself and the k others, where ``hits`` (m,) says which of the others is
    the true word again (-1: none) and does not count -> (m,), and the gradients of its sum in the order of arguments.
    """
    low, dtype = product_dtype(x, weight), sum_dtype(weight)
    m, k = len(x), len(weight)
    x_low, weight_low, true = x.to(low), weight.to(low), torch.empty(m, dtype=dtype, device=x.device)
    torch.sum(x.to(dtype) * true_weight, 1, out=true).add_(true_bias)
    each, d_true = torch.empty_like(true), torch.empty_like(true)
    d_x, d_weight, d_bias = (like.new_zeros(like.shape, dtype=dtype) for like in (x, weight, bias))
    step = max(LOGITS_HELD // k, 1)
    with torch.autocast(x.device.type, enabled=False):
        for part in (slice(begin, begin + step) for begin in range(0, m, step)):
            logits = torch.mm(x_low[part], weight_low.t()).to(dtype).add_(bias)
            again = (hits[part] >= 0).nonzero().squeeze(1)
            logits[again, hits[part][again]] = float("-inf")
            top = torch.maximum(logits.amax(1), true[part])
            own = (true[part] - top).exp_()
            z = logits.sub_(top[:, None]).exp_().sum(1).add_(own)
            each[part] = z.log().add_(top).sub_(true[part])
            if gradients:
                logits.div_(z[:, None])
                d_true[part] = own.div_(z).sub_(1)
                p = logits.to(low)
                d_x[part] = torch.mm(p, weight_low).to(dtype)
                d_weight += torch.mm(p.t(), x_low[part])
                d_bias += logits.sum(0)
    if not gradients:
        return each, ()
    d_x.addcmul_(d_true[:, None], true_weight.to(dtype))
    d_true_weight = d_true[:, None] * x.to(dtype)
    pairs = ((d_x, x), (d_weight, weight), (d_bias, bias), (d_true_weight, true_weight), (d_true, true_bias))
    return each, tuple(grad.to(like.dtype) for grad, like in pairs)
