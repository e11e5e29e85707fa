"""Vectors of words from their characters (Kim et al. 2016, section 2; Peters et al. 2018, section 3.4).

Filters of several widths slide over the characters of a word, the largest response of each is kept, highways follow,
and a projection.  Run it on the distinct words of a batch and gather: it depends on nothing but the spelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from polysemy.nn.precision import product_dtype, sum_dtype

Activation = Literal["relu", "tanh"]

RESPONSES_HELD = 1 << 22  # filter responses held at once (16 MB)
WORDS_AT_ONCE = 128  # words of about one length run together


class CharacterCNN(nn.Module):
    """Rows of character ids -> vectors.  ``filters`` are (width, count) pairs; row 0 of the table is zeros."""

    def __init__(
        self,
        filters: Sequence[tuple[int, int]],
        dim: int,
        *,
        characters: int = 262,
        char_dim: int = 16,
        num_highways: int = 1,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        self.widths = tuple(width for width, _ in filters)
        self.activation = torch.relu if activation == "relu" else torch.tanh
        total = sum(count for _, count in filters)
        self.embedding = nn.Embedding(characters, char_dim, padding_idx=0)
        self.weights = nn.ParameterList(torch.empty(width * char_dim, count) for width, count in filters)
        self.bias = nn.Parameter(torch.zeros(total))
        self.highways = nn.Sequential(*(Highway(total) for _ in range(num_highways)))
        self.projection = nn.Linear(total, dim)
        self._initialise(activation)

    def forward(self, characters: Tensor) -> Tensor:
        """(t, c) long -> (t, dim).  Whatever fills the end of a row is padding; c is at least the widest filter."""
        responses = _MaxOverTime.apply if torch.is_grad_enabled() else _max_over_time
        x = responses(characters, self.widths, self.embedding.weight, *self.weights)
        # the bias and the activation, which is monotone, may wait until after the maximum
        projected: Tensor = self.projection(self.highways(self.activation(x + self.bias)))
        return projected

    @torch.no_grad()
    def _initialise(self, activation: Activation) -> None:
        """As bilm-tf draws them."""
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0)
        self.embedding.weight[0] = 0.0
        for weight in self.weights:
            if activation == "relu":
                nn.init.uniform_(weight, -0.05, 0.05)
            else:
                nn.init.normal_(weight, std=len(weight) ** -0.5)
        nn.init.normal_(self.projection.weight, std=self.projection.in_features**-0.5)
        nn.init.zeros_(self.projection.bias)


class Highway(nn.Module):
    """g ∘ relu(W_t x + b_t) + (1 − g) ∘ x with g = σ(W_g x + b_g) (Srivastava et al. 2015, eq. 3)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.both = nn.Linear(dim, 2 * dim)  # transform, then gate
        nn.init.normal_(self.both.weight, std=dim**-0.5)
        nn.init.zeros_(self.both.bias[:dim])
        nn.init.constant_(self.both.bias[dim:], -2.0)  # at first it carries its input

    def forward(self, x: Tensor) -> Tensor:
        """(t, dim) -> (t, dim)"""
        transform, gate = self.both(x).to(x.dtype).chunk(2, -1)
        return torch.lerp(x, transform.relu(), gate.sigmoid())


def _max_over_time(characters: Tensor, widths: Sequence[int], table: Tensor, *weights: Tensor) -> Tensor:
    """(t, c) -> (t, total count): the largest response of every filter, without gradients."""
    largest, _ = _respond(characters, widths, table, weights, positions=False)
    return largest


class _MaxOverTime(torch.autograd.Function):
    """A gradient flows to one window a word and filter, so the way back is a sparse sum and not a convolution."""

    @staticmethod
    def forward(ctx: Any, characters: Tensor, widths: Sequence[int], table: Tensor, *weights: Tensor) -> Tensor:
        largest, where = _respond(characters, widths, table, weights, positions=True)
        ctx.save_for_backward(characters, where, table, *weights)
        ctx.widths = widths
        return largest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        characters, where, table, *weights = ctx.saved_tensors
        grad = grad.to(sum_dtype(table))
        d_table, d_weights = torch.zeros_like(table), []
        counts = [weight.size(1) for weight in weights]
        with torch.autocast(grad.device.type, enabled=False):
            parts = torch.split(grad, counts, 1), torch.split(where, counts, 1)
            for width, weight, g, at in zip(ctx.widths, weights, *parts, strict=True):
                size, count = table.size(0), g.size(1)
                columns = torch.arange(count, device=g.device)
                by_character = g.new_zeros(width * size * count)  # gradient of table @ weight, place by place
                for place in range(width):
                    met = characters.gather(1, at + place).add_(place * size)  # (t, count) the character met there
                    by_character.scatter_add_(0, met.mul_(count).add_(columns).view(-1), g.reshape(-1))
                d_product = by_character.view(width, size, count).to(table.dtype)
                d_weights.append((table.t() @ d_product).view_as(weight))
                d_table += torch.bmm(d_product, weight.view(width, -1, count).transpose(1, 2)).sum(0)
        d_table[0] = 0.0  # the padding row stays zeros
        return None, None, d_table, *d_weights


def _respond(
    characters: Tensor, widths: Sequence[int], table: Tensor, weights: Sequence[Tensor], *, positions: bool
) -> tuple[Tensor, Tensor]:
    """The largest response (t, total count) of every filter and, on request, where its window begins.

    Words run in groups of about one length.  All windows beyond a word's end see the same padding, so the first of
    them stands for the others.
    """
    low = product_dtype(table, table)
    total = sum(weight.size(1) for weight in weights)
    largest = table.new_empty(len(characters), total)
    where = characters.new_empty(len(characters) if positions else 0, total)
    matrices = [weight.to(low) for weight in weights]
    with torch.autocast(table.device.type, enabled=False):
        for group, length in _groups(characters, max(widths), RESPONSES_HELD // max(w.size(1) for w in weights)):
            x = F.embedding(characters[group, :length], table).to(low)  # (g, length, char_dim)
            column = 0
            for width, matrix in zip(widths, matrices, strict=True):
                windows = x.unfold(1, width, 1).transpose(2, 3).flatten(2)  # (g, length - width + 1, width * char_dim)
                responses = windows @ matrix
                best = responses.amax(1)
                columns = slice(column, column + matrix.size(1))
                largest[group, columns] = best.to(table.dtype)
                if positions:
                    where[group, columns] = _first(responses, best)
                column = columns.stop
    return largest, where


def _groups(characters: Tensor, widest: int, most: int) -> Iterator[tuple[Tensor, int]]:
    """Rows of about one length, and the characters of them that matter; at most ``most`` windows a group."""
    slots = characters.size(1)
    place = torch.arange(1, slots + 1, device=characters.device)
    lengths = ((characters != characters[:, -1:]) * place).amax(1)  # without the run of one id at the end
    ordered, order = lengths.sort(stable=True)
    begin, rows = 0, len(characters)
    limits = ordered.add(widest).clamp(max=slots).tolist()
    while begin < rows:
        end = min(begin + WORDS_AT_ONCE, rows)
        while end - begin > 1 and (end - begin) * limits[end - 1] > most:
            end = (begin + end) // 2
        yield order[begin:end], limits[end - 1]
        begin = end


def _first(responses: Tensor, best: Tensor) -> Tensor:
    """(g, windows, count) and its maximum -> the first window that has it; torch's own max takes five times as long."""
    windows = responses.size(1)
    descending = torch.arange(windows, 0, -1, device=responses.device, dtype=torch.int16)[:, None]
    return windows - ((responses == best[:, None]) * descending).amax(1).long()
