"""Dropout: its rate, its independence, its gradient."""

from __future__ import annotations

import pytest
import torch

from polysemy.nn.dropout import Dropout, dropout, keep_mask


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rate_and_scale(rate: float, dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    x = torch.ones(1000, 1001, dtype=dtype)
    out = dropout(x, rate)
    kept = (out > 0).float()
    deviation = (rate * (1 - rate) / x.numel()) ** 0.5
    assert abs(float(kept.mean()) - (1 - rate)) < 4 * deviation
    assert set(out.unique().tolist()) == {0.0, float(torch.tensor(1 / (1 - rate)).to(dtype))} or dtype == torch.float32
    torch.testing.assert_close(out[out > 0].float().mean(), torch.tensor(1 / (1 - rate)), rtol=3e-3, atol=0)


def test_units_are_independent_of_their_neighbours_and_between_calls() -> None:
    first, second = ((keep_mask(torch.empty(1 << 20), 0.5, seed) > 0).float() - 0.5 for seed in (11, 12))
    for a, b in [(first, second)] + [(first[:-lag], first[lag:]) for lag in (1, 2, 3, 4, 8, 256)]:
        assert abs(float((a * b).sum()) / (0.25 * len(a))) < 4 / len(a) ** 0.5


def test_gradient_passes_where_units_passed() -> None:
    x = torch.randn(7, 9, requires_grad=True)
    torch.manual_seed(1)
    out = dropout(x, 0.3)
    out.backward(torch.full_like(out, 2.0))
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x.detach(), 2 * out.detach())
    torch.manual_seed(1)
    assert torch.autograd.gradcheck(lambda y: torch.manual_seed(1) and dropout(y.float(), 0.3).double(), x.detach().double().requires_grad_(), eps=1e-2, atol=1e-2)  # fmt: skip


def test_threads_change_nothing() -> None:
    threads = torch.get_num_threads()
    results = []
    for n in (1, 2):
        torch.set_num_threads(n)
        torch.manual_seed(5)
        results.append(dropout(torch.ones(100_003), 0.1))
    torch.set_num_threads(threads)
    assert torch.equal(*results)


def test_evaluation_and_rate_zero_pass_everything() -> None:
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert dropout(x, 0.0) is x
    for rate in (-0.1, 1.0):
        with pytest.raises(ValueError, match=str(rate)):
            dropout(x, rate)
