"""Cases ATT: rows without keys, and NaN behind a mask."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from polysemy.nn.attend import attend, record_attention

ROWS = torch.tensor([[True, True], [False, False]])[None, None]  # the mask "11" and "00"


def fused(*arguments: Tensor) -> Tensor:
    return attend(*arguments)


def plain(*arguments: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return attend(*arguments)


def recorded(*arguments: Tensor) -> Tensor:
    with record_attention():
        return attend(*arguments)


back_ends = pytest.mark.parametrize("back_end", [fused, plain, recorded])


def head(seed: int) -> Tensor:
    """One head, two positions, four numbers each"""
    return torch.randn(1, 1, 2, 4, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@back_ends
def test_att_01_a_row_with_every_key_masked_is_zero(back_end: Callable[..., Tensor]) -> None:
    query, key, value = head(1), head(2), head(3)
    out = back_end(query, key, value, ROWS)
    free = attend(query, key, value)
    assert torch.equal(out[0, 0, 1], torch.zeros(4))
    torch.testing.assert_close(out[0, 0, 0], free[0, 0, 0])
    for _ in range(2):
        out = back_end(out, out, out, ROWS)
    assert out.isfinite().all()


@back_ends
def test_att_02_such_a_row_leaves_the_gradients_alone(back_end: Callable[..., Tensor]) -> None:
    with_row, without = [head(s) for s in (1, 2, 3)], [head(s) for s in (1, 2, 3)]
    back_end(*with_row, ROWS)[0, 0, 0].sum().backward()
    query, key, value = without
    back_end(query[:, :, :1], key, value, ROWS[:, :, :1])[0, 0, 0].sum().backward()
    for a, b in zip(with_row, without, strict=True):
        assert a.grad is not None
        assert b.grad is not None
        assert a.grad.isfinite().all()
        torch.testing.assert_close(a.grad, b.grad)


@back_ends
def test_att_04_nan_in_a_masked_key_goes_nowhere(back_end: Callable[..., Tensor]) -> None:
    mask = torch.tensor([[[[True, False]]]])
    results = []
    for filler in (float("nan"), 0.0):
        query, key, value = head(1), head(2), head(3)
        second = torch.tensor([False, True])[:, None]
        out = back_end(query, key.masked_fill(second, filler), value.masked_fill(second, filler), mask)
        out.sum().backward()
        results.append([out, query.grad, key.grad, value.grad])
    for bad, good in zip(*results, strict=True):
        assert torch.equal(bad, good)
        assert bad.isfinite().all()
