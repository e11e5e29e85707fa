"""A tokenizer and a system that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from polysemy.nn.encoded import Encoded
from polysemy.text.tokens import Special, Tokens

SIZE = 2  # characters of a piece


class ToyTokenizer:
    """Pieces of two characters; id = 3 + a hash of the piece; words of underscores have no pieces."""

    kind = "wordpiece"
    special = Special(unk=0, begin=1, end=2)
    vocab_size = 103
    vocabulary: ClassVar[list[str]] = []

    def encode(self, text: str | Sequence[str]) -> Tokens:
        words = text.split() if isinstance(text, str) else list(text)
        ids, word_of = [], []
        for w, word in enumerate(words):
            for start in range(0, 0 if set(word) == {"_"} else len(word), SIZE):
                ids.append(3 + sum(map(ord, word[start : start + SIZE])) % 100)
                word_of.append(w)
        return Tokens(" ".join(words), words, [(0, 0)] * len(words), ids, word_of, [(0, 0)] * len(ids))

    def decode(self, ids: Sequence[int]) -> str:
        return ""

    def save(self, path: Path) -> None: ...


class ToySystem(nn.Module):
    """Two layers: the embedding, and its double."""

    def __init__(self, dim: int = 6, vocab_size: int = ToyTokenizer.vocab_size) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, dim)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Encoded:
        x = self.table(ids)
        return Encoded((x, torch.mul(x, 2)), mask)
