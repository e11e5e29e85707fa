"""One batch type for every system and task: named, optional tensors.  Padding is decided by mask, never by id."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """b: sequences, n: pieces of the longest, w: words of the longest, t: distinct words, c: character slots."""

    size: int  # number of sequences b
    ids: Tensor | None = None  # (b, n) long, vocabulary ids of pieces (words for word-level systems)
    mask: Tensor | None = None  # (b, n) bool, True where a token is
    segments: Tensor | None = None  # (b, n) long, 0 for the first text and 1 for the second
    words: Tensor | None = None  # (b, n) long, index of the word that a piece belongs to; -1 for specials and padding
    word_positions: Tensor | None = None  # (b, w) long, position of a word's first piece; -1 where a word has none
    word_mask: Tensor | None = None  # (b, w) bool, True where a word is (also one without pieces)
    known: Tensor | None = None  # (b, n) bool, False where a static system has no vector
    types: Tensor | None = None  # (b, n) long, row of ``characters`` for each word
    characters: Tensor | None = None  # (t, c) long, characters of the batch's distinct words; row 0 is padding (zeros)
    target_ids: Tensor | None = None  # (b, n) or (b, m) long, what is to be predicted; -1 where nothing is
    candidates: Tensor | None = None  # (k,) long, words that compete with the targets in a sampled softmax
    labels: Tensor | None = None  # (b,) or (b, w) long, or (b,) float; -1 where no label is
    rows: Tensor | None = None  # (b,) long, index of the example each sequence came from
    features: Tensor | None = None  # (b, layers, w, dim) word states of a frozen system, computed once

    def to(self, device: torch.device | str) -> Batch:
        """The same batch with its tensors on ``device``."""
        moved: dict[str, Any] = {
            f.name: v.to(device) for f in fields(self) if isinstance(v := getattr(self, f.name), Tensor)
        }
        return replace(self, **moved)

    def split(self, parts: int) -> list[Batch]:
        """Cut into ``parts`` runs of whole sequences (micro-batches, ranks); ``characters`` and ``candidates`` are
        shared by all.

        Fewer than ``parts`` come back when there are fewer sequences.
        """
        parts = min(parts, self.size)
        bounds = [self.size * i // parts for i in range(parts + 1)]
        out = []
        for low, high in itertools.pairwise(bounds):
            cut: dict[str, Any] = {
                f.name: v[low:high]
                for f in fields(self)
                if f.name not in ("characters", "candidates") and isinstance(v := getattr(self, f.name), Tensor)
            }
            out.append(replace(self, size=high - low, **cut))
        return out
