"""ELMo: Deep Contextualized Word Representations (Peters et al. 2018, arXiv:1802.05365).

New: a word's vector is a function of its whole sentence, read off every layer of a bidirectional language model.  The
two directions are separate LSTMs that share the character network and the softmax only (section 3.1).

Differs from the paper: candidates of the sampled softmax are drawn once a step, each word independently of the others.

Use when: labels by the thousand, text by the megabyte to the gigabyte, spelling that varies (any word is read by its
    characters), a frozen encoder that many tasks share.
Instead: word2vec where latency decides; BERT where there is text and time enough for deep bidirection.
Cost: recurrent, so a step a word; ``flops_per_token``.  Memory does not grow with the length of a text in ``embed``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polysemy.nn.characters import Activation, CharacterCNN
from polysemy.nn.dropout import Dropout
from polysemy.nn.encoded import Encoded
from polysemy.nn.output import Softmax
from polysemy.nn.recurrent import Packing, ProjectedLSTM, State

FILTERS_512 = ((1, 16), (2, 16), (3, 32), (4, 64), (5, 128), (6, 256))
FILTERS_2048 = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"hidden_size": 256, "proj_size": 64, "filters": FILTERS_512, "num_highways": 1},
    "small": {"hidden_size": 1024, "proj_size": 128, "filters": FILTERS_2048, "num_highways": 1},
    "medium": {"hidden_size": 2048, "proj_size": 256, "filters": FILTERS_2048, "num_highways": 1},
    "original": {"hidden_size": 4096, "proj_size": 512, "filters": FILTERS_2048, "num_highways": 2},
}


@dataclass(frozen=True)
class ELMoConfig:
    vocab_size: int = 50_000  # words of the softmax, 0 where there is none (released weights); any word can be read
    filters: tuple[tuple[int, int], ...] = FILTERS_2048  # (width, count)
    char_dim: int = 16
    characters: int = 262  # rows of the character table, padding included
    slots: int = 50  # characters of a word, marks included
    num_highways: int = 2
    activation: Activation = "relu"  # after the filters
    hidden_size: int = 4096
    proj_size: int = 512
    num_layers: int = 2  # L in the paper
    skip: bool = True  # residual connections between the LSTM layers
    cell_clip: float | None = 3.0
    proj_clip: float | None = 3.0
    dropout: float = 0.1

    @property
    def dim(self) -> int:
        """Of a word's vector: both directions."""
        return 2 * self.proj_size


class ELMo(nn.Module):
    """Layers are [forward; backward]; layer 0 is the word's own vector twice."""

    Config = ELMoConfig

    def __init__(self, config: ELMoConfig) -> None:
        super().__init__()
        c = self.config = config
        self.words = CharacterCNN(
            c.filters, c.proj_size, characters=c.characters, char_dim=c.char_dim,
            num_highways=c.num_highways, activation=c.activation,
        )  # fmt: skip
        self.layers = nn.ModuleList(
            ProjectedLSTM(c.proj_size, c.hidden_size, c.proj_size, cell_clip=c.cell_clip, proj_clip=c.proj_clip)
            for _ in range(c.num_layers)
        )
        self.dropout = Dropout(c.dropout)
        self.softmax = Softmax(c.vocab_size, c.proj_size) if c.vocab_size else None

    def forward(self, types: Tensor, characters: Tensor, mask: Tensor | None = None) -> Encoded:
        """``types`` (b, n) rows of ``characters`` (t, c), sentence begin and end among them; ``mask`` (b, n).

        The same text gives the same vectors, whatever came before and whatever stands beside it.
        """
        return self.encode_stateful(types, characters, mask)[0]

    def encode_stateful(
        self, types: Tensor, characters: Tensor, mask: Tensor | None = None, state: tuple[State, ...] | None = None
    ) -> tuple[Encoded, tuple[State, ...]]:
        """As ``forward``, from the state in which the batch before left each row of the batch.

        Rows that are new start from zeros; rows that are missing or empty keep their state, as in the original.
        """
        mask = torch.ones_like(types, dtype=torch.bool) if mask is None else mask
        used, rows = torch.unique(types[mask], return_inverse=True)
        return self.encode_words(
            torch.zeros_like(types).masked_scatter(mask, rows), self.words(characters[used]), mask, state
        )

    def encode_words(
        self, types: Tensor, vectors: Tensor, mask: Tensor, state: tuple[State, ...] | None = None
    ) -> tuple[Encoded, tuple[State, ...]]:
        """As ``encode_stateful``, from the ``vectors`` (t, proj_size) that ``words`` gives for each spelling: who reads
        the same words again and again keeps them."""
        packing = Packing.of(mask)
        x = F.embedding(types.flatten()[packing.rows], vectors)  # (2, r, proj_size)
        outputs, after = [x], []
        for i, layer in enumerate(self.layers):
            x = self.dropout(x)
            now, waiting = _rows(state[i], len(types)) if state else (None, None)
            y, now = layer(x, packing, now)
            x = x + y if self.config.skip and i else y
            outputs.append(x)
            after.append(_join(now, waiting))
        return Encoded(tuple(packing.unpack(output) for output in outputs), mask), tuple(after)


def _rows(state: State, size: int) -> tuple[State, State]:
    """The state of the first ``size`` rows, filled up with zeros, and that of the rows beyond."""
    now = tuple(F.pad(part[:, :size], (0, 0, 0, max(size - part.size(1), 0))) for part in state)
    return (now[0], now[1]), (state[0][:, size:], state[1][:, size:])


def _join(now: State, waiting: State | None) -> State:
    return now if waiting is None else (torch.cat([now[0], waiting[0]], 1), torch.cat([now[1], waiting[1]], 1))


def pretraining(c: ELMoConfig) -> dict[str, dict[str, Any]]:
    """Settings of the loop and the batches.  Found for tiny on Igbo: in equal time batches of 512 and 1,024 words reach
    a held-out perplexity of 60 and batches of 2,048 one of 70; in 1,500 steps a rate of 8e-3 reaches 36, 4e-3 41."""
    return {
        "train": {"lr": 8e-3 * (256 / c.hidden_size) ** 0.5, "warmup": 0.05},
        "batch": {"batch_words": 512, "max_words": 100},
    }


def parameters(c: ELMoConfig) -> int:
    """Numbers that are learned, the softmax of pretraining included."""
    total = sum(count for _, count in c.filters)
    words = c.characters * c.char_dim + sum(width * c.char_dim * count + count for width, count in c.filters)
    words += c.num_highways * (total + 1) * 2 * total + (total + 1) * c.proj_size
    layer = 2 * (2 * c.proj_size * 4 * c.hidden_size + 4 * c.hidden_size + c.hidden_size * c.proj_size)
    return words + c.num_layers * layer + c.vocab_size * (c.proj_size + 1)


def flops_per_token(c: ELMoConfig) -> int:
    """Forward pass of one token without the softmax, 2 a multiply-add, matrix products only, every token a distinct
    word that fills its character slots: what a batch costs at most, since a repeated word is computed once and a
    short one in fewer windows.  Training takes three times as much, and the softmax."""
    total = sum(count for _, count in c.filters)
    words = sum((c.slots - width + 1) * width * c.char_dim * count for width, count in c.filters)
    words += c.num_highways * total * 2 * total + total * c.proj_size
    layer = 2 * (2 * c.proj_size * 4 * c.hidden_size + c.hidden_size * c.proj_size)
    return 2 * (words + c.num_layers * layer)
