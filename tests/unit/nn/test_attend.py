"""attend(): one result from every path, and nothing from what is masked."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from polysemy.nn.attend import attend, record_attention

SHAPE = (2, 3, 5, 8)  # b, h, n, d


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape or SHAPE, generator=torch.Generator().manual_seed(seed))


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (draw(seed=s).requires_grad_() for s in (1, 2, 3))
    return query, key, value


def by_the_equation(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, bias: Tensor | None) -> Tensor:
    """softmax(Q K^T / sqrt(d)) V, one query at a time, over the keys that are allowed and no others."""
    out = torch.zeros_like(query)
    for b, h, i in torch.cartesian_prod(*map(torch.arange, query.shape[:3])).tolist():
        keys = allowed[b, h, i].nonzero()[:, 0]
        if len(keys):
            scores = key[b, h, keys] @ query[b, h, i] / query.size(-1) ** 0.5
            scores = scores if bias is None else scores + bias[b, h, i, keys]
            out[b, h, i] = scores.softmax(0) @ value[b, h, keys]
    return out


PADDING = torch.tensor([[True, True, True, False, False], [True] * 5])[:, None, None, :]
EMPTY = torch.tensor([[False] * 5, [True] * 5])[:, None, None, :]
BY_PAIR = (draw(2, 1, 5, 5, seed=4) > 0).index_fill(2, torch.tensor([3]), False)


@pytest.mark.parametrize("mask", [None, PADDING, EMPTY, BY_PAIR, torch.ones(1, 1, 1, 5, dtype=torch.bool)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [None, draw(1, 3, 5, 5, seed=5)])
@pytest.mark.parametrize("record", [False, True])
def test_result_and_gradients_are_those_of_the_equation(
    mask: Tensor | None, causal: bool, bias: Tensor | None, record: bool
) -> None:
    allowed = torch.ones(5, 5).tril().bool() if causal else torch.ones(5, 5).bool()
    allowed = (allowed & (True if mask is None else mask)).expand(2, 3, 5, 5)
    wide = None if bias is None else bias.expand(2, 3, 5, 5)
    ours, expected = inputs(), inputs()
    if record:
        with record_attention() as tape:
            out = attend(*ours, mask, bias, causal=causal)
        assert torch.equal(tape[0] > 0, allowed)
        assert len(tape) == 1
    else:
        out = attend(*ours, mask, bias, causal=causal)
    torch.testing.assert_close(out, by_the_equation(*expected, allowed, wide), atol=1e-5, rtol=1e-5)
    (out * draw(seed=6)).sum().backward()
    (by_the_equation(*expected, allowed, wide) * draw(seed=6)).sum().backward()
    for a, b in zip(ours, expected, strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_hidden_key_may_be_anything(dropout: float, causal: bool, bad: float) -> None:
    results = []
    for filler in (bad, 0.0):
        query, key, value = inputs()
        hidden = ~PADDING.transpose(-2, -1)
        torch.manual_seed(0)
        out = attend(
            query, key.masked_fill(hidden, filler), value.masked_fill(hidden, filler), PADDING, None, dropout, causal
        )
        out.sum().backward()
        results.append((out, query.grad, key.grad, value.grad))
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)
        assert a.isfinite().all()


def test_dropout_drops_weights_and_keeps_their_mean() -> None:
    weights = attend(torch.zeros(1, 1, 400, 4), torch.zeros(1, 1, 300, 4), torch.eye(300)[None, None], dropout=0.25)
    kept = weights > 0
    assert abs(float(kept.float().mean()) - 0.75) < 0.005  # 4 deviations of 120,000 draws
    torch.testing.assert_close(weights[kept], torch.full((int(kept.sum()),), 1 / 300 / 0.75))


def test_what_a_compiler_sees_has_no_branch_on_data() -> None:
    class Attend(torch.nn.Module):
        def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
            return attend(query, key, value, mask)

    query, key, value = (x.detach() for x in inputs())
    program = torch.export.export(Attend(), (query, key, value, PADDING)).module()
    for mask in (PADDING, EMPTY, torch.ones_like(PADDING)):
        torch.testing.assert_close(program(query, key, value, mask), attend(query, key, value, mask))


def test_recording_ends_with_its_block() -> None:
    query, key, value = inputs()
    with record_attention() as tape:
        pass
    attend(query, key, value)
    assert tape == []
