"""Scaled dot-product attention (Vaswani et al. 2017, eq. 1), the one place where it is computed.

Shapes use b: batch, h: num_heads, q: query length, k: key length, d: dim of a head.
Masks are boolean and True means "may attend".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor

from polysemy.nn.dropout import dropout as drop

_tape: ContextVar[list[Tensor] | None] = ContextVar("attention_tape", default=None)


@contextmanager
def record_attention() -> Iterator[list[Tensor]]:
    """Within this block every attention also appends its (b, h, q, k) weights, before dropout, to the yielded list."""
    tape: list[Tensor] = []
    token = _tape.set(tape)
    try:
        yield tape
    finally:
        _tape.reset(token)


def attend(
    query: Tensor,  # (b, h, q, d)
    key: Tensor,  # (b, h, k, d)
    value: Tensor,  # (b, h, k, d)
    mask: Tensor | None = None,  # broadcasts to (b, h, q, k) and has four axes; True = may attend
    bias: Tensor | None = None,  # broadcasts to (b, h, q, k); added to the scores
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:  # (b, h, q, d)
    """A query that may attend to nothing gets zeros, whatever the backend (they disagree: 0 or NaN).

    A key that no query may attend to leaves no trace in result or gradients, even where it is NaN.
    """
    empty = None
    if mask is not None and _usual(mask.all()):
        mask = None
    if mask is not None and not _usual((key.detach().sum() + value.detach().sum()).isfinite()):
        hidden = ~mask.any(-2, keepdim=True).transpose(-2, -1)  # (b, h or 1, k, 1): keys that nobody sees
        key, value = key.masked_fill(hidden, 0.0), value.masked_fill(hidden, 0.0)
    if causal and not (mask is None and bias is None):  # the fused kernel takes one or the other
        mask, causal = lower_triangle(query, key) & (True if mask is None else mask), False
    if mask is not None:
        empty = ~mask.any(-1, keepdim=True)  # (b, h or 1, q or 1, 1)
        if _usual(~empty.any()):
            empty = None
        else:
            mask = mask | empty
    tape = _tape.get()
    if tape is None and not (dropout and query.device.type == "cpu"):
        both = mask if bias is None else bias if mask is None else bias.masked_fill(~mask, float("-inf"))
        context = F.scaled_dot_product_attention(query, key, value, both, dropout, causal)
    else:  # no fused kernel gives its weights, and none on a CPU drops any: torch would fall back to float32
        if causal:
            mask = lower_triangle(query, key)
        weights = _weights(query, key, mask, bias)
        if tape is not None:
            tape.append(weights.detach() if empty is None else weights.detach().masked_fill(empty, 0.0))
        context = drop(weights, dropout) @ value
    return context if empty is None else context.masked_fill(empty, 0.0)


def lower_triangle(query: Tensor, key: Tensor) -> Tensor:
    """(1, 1, q, k) bool, True where the key does not come after the query"""
    return torch.ones(1, 1, query.size(-2), key.size(-2), dtype=torch.bool, device=query.device).tril()


def _weights(query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """(b, h, q, k), each row summing to 1"""
    scores = (query / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    if mask is not None:  # added in place: one pass forwards and none backwards, where filling takes two
        scores += torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device).masked_fill_(~mask, float("-inf"))
    return scores.softmax(-1)


def _usual(condition: Tensor) -> bool:
    """Whether a step of safety can be left out: read where that is free, on a CPU in eager mode; False elsewhere."""
    return condition.device.type == "cpu" and not torch.compiler.is_compiling() and bool(condition)
