"""What the readers of word-vector files hand on: words as bytes, numbers, and where each row stood."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
HEADER = re.compile(rb"\s*(\d{1,12})\s+(\d{1,6})\s*?(\n|$)")  # vectors, dim


@dataclass(frozen=True)
class Rows:
    """Rows of one file, not yet decoded."""

    words: list[bytes]
    matrix: Matrix  # (n, dim)
    path: str
    lines: bool  # places are lines of a text file, else rows of a binary one
    numbers: Sequence[int] | None = None  # line or row of each word, from 1; None: the row itself

    def place(self, row: int) -> str:
        """Where a row stands, for messages."""
        number = row + 1 if self.numbers is None else self.numbers[row]
        return f"{self.path}:{number}" if self.lines else f"{self.path}: row {number}"


def joined(blocks: list[Matrix], dim: int) -> Matrix:
    """Blocks of rows as one matrix; each block is freed once it is copied."""
    out = np.empty((sum(map(len, blocks)), dim), np.float32)
    row = 0
    for block in reversed([blocks.pop() for _ in range(len(blocks))]):
        out[row : row + len(block)] = block
        row += len(block)
    return out
