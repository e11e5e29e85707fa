"""From vectors of pieces to vectors of words, from words to a sentence, and from layers to one.

Shapes use b: batch, n: pieces, w: words, d: dim.  Masks are boolean, True where a token is.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

EPS = 1e-12  # added to the variance of a layer, as in the original


class ScalarMix(nn.Module):
    """γ Σ_k s_k h_k with s = softmax(scores) (Peters et al. 2018, eq. 1).

    ``scores`` go through the softmax; ``weights`` are the s_k themselves.  Give at most one; both None: equal scores.
    ``normalise`` brings each layer to mean 0 and variance 1 over all numbers of real tokens (section 3.2).
    """

    def __init__(
        self,
        num_layers: int,
        *,
        scores: Sequence[float] | None = None,
        weights: Sequence[float] | None = None,
        normalise: bool = False,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        given = scores if weights is None else weights
        if scores is not None and weights is not None:
            raise ValueError("scores (before the softmax) and weights (after it) exclude each other")
        if given is not None and len(given) != num_layers:
            raise ValueError(f"{len(given)} numbers for {num_layers} layers")
        start = torch.tensor([0.0] * num_layers if given is None else [float(value) for value in given])
        self.normalise = normalise
        self.scores = nn.Parameter(start, requires_grad=trainable) if weights is None else None
        self.direct = nn.Parameter(start, requires_grad=trainable) if weights is not None else None
        self.gamma = nn.Parameter(torch.ones(()), requires_grad=trainable)

    @property
    def weights(self) -> Tensor:
        """(num_layers,) the s_k"""
        if self.direct is not None:
            return self.direct
        assert self.scores is not None
        return self.scores.softmax(0)

    def forward(self, layers: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Layers (b, n, d) and their mask (b, n) -> (b, n, d)"""
        weights = self.weights
        if len(layers) != len(weights):
            raise ValueError(f"{len(layers)} layers for a mix of {len(weights)}")
        mixed = torch.zeros_like(layers[0])
        for weight, layer in zip(weights, layers, strict=True):
            mixed = mixed + weight * (normalised(layer, mask) if self.normalise else layer)
        return self.gamma * mixed


def normalised(layer: Tensor, mask: Tensor | None = None) -> Tensor:
    """(b, n, d) with the mean of all numbers of real tokens taken off and divided by their standard deviation."""
    real = layer if mask is None else layer.masked_fill(~mask[..., None], 0.0)
    count = layer.numel() if mask is None else mask.sum().clamp(min=1) * layer.size(-1)
    mean = real.sum() / count
    centred = layer - mean
    squares = centred.square() if mask is None else centred.square().masked_fill(~mask[..., None], 0.0)
    return centred / (squares.sum() / count + EPS).sqrt()


def word_states(x: Tensor, word_positions: Tensor) -> Tensor:
    """(b, n, d) and the position (b, w) of each word's first piece -> (b, w, d); zeros for a word without pieces (-1)."""
    index = word_positions.clamp(min=0)[..., None].expand(-1, -1, x.size(-1))
    return x.gather(1, index).masked_fill((word_positions < 0)[..., None], 0.0)


def mean_of_pieces(x: Tensor, words: Tensor, num_words: int) -> Tensor:
    """(b, n, d) and the word (b, n) of each piece, -1 for none -> (b, num_words, d); zeros for a word without pieces."""
    index = words.masked_fill(words < 0, num_words)  # what belongs to no word falls into a column that is cut off
    sums = x.new_zeros(len(x), num_words + 1, x.size(-1))
    sums = sums.scatter_add(1, index[..., None].expand_as(x), x.masked_fill((words < 0)[..., None], 0.0))
    counts = x.new_zeros(len(x), num_words + 1).scatter_add(1, index, torch.ones_like(x[..., 0]))
    return (sums / counts.clamp(min=1)[..., None])[:, :num_words]


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """(b, n, d) -> (b, d), mean over real tokens; zeros where there is none."""
    counts: Tensor = mask.sum(1, keepdim=True).clamp(min=1)
    return x.masked_fill(~mask[..., None], 0.0).sum(1) / counts


class AttentivePooling(nn.Module):
    """Σ_t a_t h_t with a = softmax(v · tanh(W h_t)) over real tokens (Yang et al. 2016, eqs. 5-7); an empty row is zeros."""

    def __init__(self, dim: int, attention_dim: int | None = None) -> None:
        super().__init__()
        self.project = nn.Linear(dim, attention_dim or dim)
        self.score = nn.Linear(attention_dim or dim, 1, bias=False)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(b, n, d), (b, n) -> (b, d)"""
        x = x.masked_fill(~mask[..., None], 0.0)
        scores = self.score(self.project(x).tanh()).squeeze(-1)  # (b, n)
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(~mask, 0.0)
        pooled: Tensor = (weights[..., None] * x).sum(1)
        return pooled
