"""The Transformer layer and its two halves (Vaswani et al. 2017, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from polysemy.nn.attend import attend
from polysemy.nn.dropout import Dropout


class Attention(nn.Module):
    """Multi-head attention of ``x`` over ``memory`` (over itself when ``memory`` is None), section 3.2.2."""

    def __init__(self, dim: int, num_heads: int, *, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        if dim % num_heads:
            raise ValueError(f"dim {dim} is not a multiple of num_heads {num_heads}")
        self.num_heads, self.dropout, self.causal = num_heads, dropout, causal
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.output = nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None, memory: Tensor | None = None) -> Tensor:
        """(batch, length, dim) -> (batch, length, dim); ``mask`` broadcasts to (b, h, q, k)."""
        memory = x if memory is None else memory
        query, key, value = self.split(self.query(x)), self.split(self.key(memory)), self.split(self.value(memory))
        context = attend(query, key, value, mask, dropout=self.dropout if self.training else 0.0, causal=self.causal)
        output: Tensor = self.output(context.transpose(1, 2).flatten(2))
        return output

    def split(self, x: Tensor) -> Tensor:
        """(batch, length, dim) -> (batch, num_heads, length, dim / num_heads)"""
        return x.view(*x.shape[:-1], self.num_heads, x.size(-1) // self.num_heads).transpose(1, 2)


class FeedForward(nn.Module):
    """Two linear maps with a nonlinearity between (section 3.3)."""

    def __init__(self, dim: int, ffn_dim: int, activation: Callable[[Tensor], Tensor] = F.gelu) -> None:
        super().__init__()
        self.expand = nn.Linear(dim, ffn_dim)
        self.contract = nn.Linear(ffn_dim, dim)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, dim) -> (batch, length, dim)"""
        output: Tensor = self.contract(self.activation(self.expand(x)))
        return output


class TransformerLayer(nn.Module):
    """Attention, then feed-forward, each inside a residual (section 3.1, with dropout as in section 5.4).

    ``norm="post"``: x = LN(x + f(x)), as in the paper and in BERT.
    ``norm="pre"``:  x = x + f(LN(x)), as in GPT-2 and ViT.
    """

    def __init__(
        self,
        attention: nn.Module,
        feed_forward: nn.Module,
        dim: int,
        *,
        norm: Literal["pre", "post"],
        dropout: float,
        eps: float,
    ) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(dim, eps), nn.LayerNorm(dim, eps)
        self.norm, self.dropout = norm, Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None, memory: Tensor | None = None) -> Tensor:
        """(batch, length, dim) -> (batch, length, dim); ``memory`` is what attention sees, if not ``x``."""
        if self.norm == "pre":
            seen = None if memory is None else self.attention_norm(memory)
            x = x + self.dropout(self.attention(self.attention_norm(x), mask, seen))
            x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        else:
            x = self.attention_norm(x + self.dropout(self.attention(x, mask, memory)))
            x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return x
