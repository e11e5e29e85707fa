# mypy: ignore-errors
"""Character n-grams of words, hashed into buckets as fastText does (Bojanowski et al. 2017, arXiv:1607.04606)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polysemy.nn.static import compiled


def ngrams(words: Sequence[bytes], buckets: int, shortest: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """The bucket of each n-gram of ``shortest`` to ``longest`` characters, word after word, and (n,) where each word's end.

    Words are UTF-8; ``<`` and ``>`` are put around them and count as characters.
    """
    marked = [b"<" + word + b">" for word in words]
    offsets = np.concatenate([[0], np.cumsum([len(word) for word in marked])]).astype(np.int64)
    return _rows(np.frombuffer(bytearray(b"".join(marked)), np.uint8), offsets, buckets, shortest, longest)


@compiled
def _rows(data, offsets, buckets, shortest, longest):
    """Bucket of each n-gram of each word, and where each word's n-grams end.

    FNV-1a over the bytes, each taken as a signed number, as the original does (dictionary.cc, ``hash``); an n-gram is
    whole UTF-8 characters, and neither ``<`` nor ``>`` alone.
    """
    rows = np.empty(len(data) * max(longest - shortest + 1, 0), np.int64)  # at most
    ends, count = np.empty(len(offsets) - 1, np.int64), 0
    for word in range(len(offsets) - 1):
        low, high = offsets[word], offsets[word + 1]
        for start in range(low, high):
            if data[start] & 0xC0 == 0x80:
                continue
            value, place, characters = np.uint32(2166136261), start, 0
            while place < high and characters < longest:
                value = (value ^ np.uint32(np.int8(data[place]))) * np.uint32(16777619)
                place += 1
                while place < high and data[place] & 0xC0 == 0x80:
                    value = (value ^ np.uint32(np.int8(data[place]))) * np.uint32(16777619)
                    place += 1
                characters += 1
                if characters >= shortest and not (characters == 1 and (start == low or place == high)):
                    rows[count] = np.uint32(value) % np.uint32(buckets)
                    count += 1
        ends[word] = count
    return rows[:count], ends


@compiled
def add_rows(total, table, rows, ends):
    """total[word] += the sum of table[rows of the word]."""
    place = 0
    for word in range(len(ends)):
        while place < ends[word]:
            total[word] += table[rows[place]]
            place += 1
