"""BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin et al. 2019, arXiv:1810.04805).

New: an encoder that looks both ways at every layer, because it learns by filling gaps instead of going on with a text
(section 3.1); it is fine-tuned whole, with one small layer on top (section 3.2).

Differs from the paper: the vectors of masked positions are zero before the first norm, so that nothing of a padding
symbol, not even NaN, is ever seen.  In pretraining the top layer is computed where the loss looks (``states_at``) and
nowhere else, which changes no number.

Use when: there are megabytes of text or more, labelled sentences to fine-tune the whole encoder on, or a published
    checkpoint of the language.
Instead: ELMo on little text and for spelling that varies; word2vec where latency decides.
Cost: one pass over all positions at once, attention growing with the square of the length; ``flops_per_token``, and
    three times that in training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polysemy.nn.dropout import Dropout
from polysemy.nn.encoded import Encoded
from polysemy.nn.init import init_bert
from polysemy.nn.transformer import Attention, FeedForward, TransformerLayer


@dataclass(frozen=True)
class BERTConfig:
    vocab_size: int = 30522
    dim: int = 768  # H in the paper
    num_layers: int = 12  # L
    num_heads: int = 12  # A
    ffn_dim: int = 3072  # 4H
    max_length: int = 512  # pieces, [CLS] and [SEP] included
    num_segments: int = 2
    dropout: float = 0.1
    eps: float = 1e-12


def _size(num_layers: int, dim: int, num_heads: int, max_length: int) -> dict[str, Any]:
    return {
        "num_layers": num_layers, "dim": dim, "num_heads": num_heads, "ffn_dim": 4 * dim, "max_length": max_length,
    }  # fmt: skip


# The lower three are those of Turc et al. 2019 (arXiv:1908.08962); the upper two the paper's.
SIZES: dict[str, dict[str, Any]] = {
    "tiny": _size(2, 128, 2, 128),
    "mini": _size(4, 256, 4, 128),
    "small": _size(4, 512, 8, 128),
    "medium": _size(8, 512, 8, 128),
    "base": _size(12, 768, 12, 512),
    "large": _size(24, 1024, 16, 512),
}


class BERTEmbeddings(nn.Module):
    """Token + position + segment embeddings, normalised (fig. 2)."""

    def __init__(self, c: BERTConfig) -> None:
        super().__init__()
        self.token = nn.Embedding(c.vocab_size, c.dim)
        self.position = nn.Embedding(c.max_length, c.dim)
        self.segment = nn.Embedding(c.num_segments, c.dim)
        self.norm, self.dropout = nn.LayerNorm(c.dim, c.eps), Dropout(c.dropout)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """(batch, length) ids, segments and mask -> (batch, length, dim)"""
        length, limit = ids.size(1), self.position.num_embeddings
        if length > limit:
            raise ValueError(f"{length} pieces are more than max_length {limit}")
        segment = self.segment.weight[0] if segments is None else self.segment(segments)
        x = self.token(ids) + self.position.weight[:length] + segment
        if mask is not None:
            x = x.masked_fill(~mask[..., None], 0.0)
        output: Tensor = self.dropout(self.norm(x))
        return output


class MaskedLMHead(nn.Module):
    """Section 3.1, task 1: a transform before the token embedding serves as output matrix."""

    def __init__(self, c: BERTConfig) -> None:
        super().__init__()
        self.transform, self.norm = nn.Linear(c.dim, c.dim), nn.LayerNorm(c.dim, c.eps)
        self.bias = nn.Parameter(torch.zeros(c.vocab_size))

    def forward(self, states: Tensor, output: Tensor) -> Tensor:
        """(..., dim) states, (vocab, dim) output matrix -> (..., vocab) logits"""
        return F.linear(self.norm(F.gelu(self.transform(states))), output, self.bias)


class NextSentenceHead(nn.Module):
    """Section 3.1, task 2: does the second text follow the first?  Read off the first piece."""

    def __init__(self, c: BERTConfig) -> None:
        super().__init__()
        self.pooler, self.classifier = nn.Linear(c.dim, c.dim), nn.Linear(c.dim, 2)

    def forward(self, state: Tensor) -> Tensor:
        """(b, dim) -> (b, 2) logits of 0: it follows, 1: it is from elsewhere"""
        logits: Tensor = self.classifier(torch.tanh(self.pooler(state)))
        return logits


class BERT(nn.Module):
    """A post-norm Transformer encoder over BERT's embeddings, and the two heads of its pretraining."""

    Config = BERTConfig

    def __init__(self, c: BERTConfig) -> None:
        super().__init__()
        self.config = c
        self.embed = BERTEmbeddings(c)
        self.layers = nn.ModuleList(bert_layer(c) for _ in range(c.num_layers))
        self.masked_lm_head = MaskedLMHead(c)
        self.next_sentence = NextSentenceHead(c)
        init_bert(self)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Encoded:
        """(batch, length) ``ids``, ``segments``, ``mask`` (True = token) -> num_layers + 1 layers.

        Raises ValueError for more pieces than ``max_length``.
        """
        x = self.embed(ids, segments, mask)
        keep = None if mask is None else mask[:, None, None, :]
        states = [x]
        for layer in self.layers:
            states.append(x := layer(x, keep))
        return Encoded(tuple(states), mask)

    def states_at(
        self, positions: Tensor, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """(b, m) positions -> (b, m, dim): ``forward(...).last`` at these, without the rest of the top layer."""
        x = self.embed(ids, segments, mask)
        keep = None if mask is None else mask[:, None, None, :]
        for layer in self.layers[:-1]:
            x = layer(x, keep)
        chosen = x.gather(1, positions[..., None].expand(-1, -1, x.size(-1)))
        top: Tensor = self.layers[-1](chosen, keep, x)
        return top

    def masked_lm(self, states: Tensor) -> Tensor:
        """(..., dim) states of the positions to be predicted -> (..., vocab) logits"""
        logits: Tensor = self.masked_lm_head(states, self.embed.token.weight)
        return logits


def bert_layer(c: BERTConfig) -> TransformerLayer:
    """One layer of the encoder; also that of BERT's descendants."""
    attention = Attention(c.dim, c.num_heads, dropout=c.dropout)
    return TransformerLayer(attention, FeedForward(c.dim, c.ffn_dim), c.dim, norm="post", dropout=c.dropout, eps=c.eps)


def pretraining(c: BERTConfig) -> dict[str, dict[str, Any]]:
    """Settings of the loop and the batches.  The rate falls with the width: 2e-3 for tiny (held-out loss on Igbo after
    400 steps 6.01, against 6.05 at 1e-3 and 6.14 at 5e-4), 3e-4 for base."""
    return {"train": {"lr": 0.25 / c.dim, "warmup": 0.1}, "batch": {"batch_size": 32}}


def parameters(c: BERTConfig) -> int:
    """Numbers that are trained, pretraining heads included (the output matrix is the token embedding)."""
    norm, square = 2 * c.dim, c.dim * c.dim + c.dim
    embeddings = (c.vocab_size + c.max_length + c.num_segments) * c.dim + norm
    layer = 4 * square + 2 * c.dim * c.ffn_dim + c.ffn_dim + c.dim + 2 * norm
    masked_lm, next_sentence = square + norm + c.vocab_size, square + 2 * c.dim + 2
    return embeddings + c.num_layers * layer + masked_lm + next_sentence


def flops_per_token(c: BERTConfig) -> int:
    """Operations of ``forward`` a token at ``max_length``: two for each multiplication in a matrix product.

    Embeddings, norms, activations and the pretraining heads are not counted.
    """
    maps = 4 * c.dim * c.dim + 2 * c.dim * c.ffn_dim
    attention = 2 * c.max_length * c.dim  # scores and their use
    return 2 * c.num_layers * (maps + attention)
