"""Tokens of several texts -> one padded Batch, and long texts -> windows in which each word has one owner."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from polysemy.data.batch import Batch
from polysemy.text.characters import SENTENCE_BEGIN, SENTENCE_END, character_ids
from polysemy.text.tokens import Tokenizer, Tokens

DEFAULT_SLOTS = 50  # characters of a word beside static vectors, as in ELMo


@dataclass(frozen=True, slots=True)
class Window:
    """A run of whole words of a longer text.  ``own`` words take their vectors and labels from this window only."""

    tokens: Tokens
    start: int  # index in the whole text of the window's first word
    own: tuple[int, int]  # [first, last) in the whole text


def windows(tokens: Tokens, limit: int | None) -> list[Window]:
    """Cut a text of more than ``limit`` pieces (specials not counted) into windows that overlap by about a half.

    Each word belongs to the window in which it stands furthest from a cut edge.  A single word of more than ``limit``
    pieces keeps its first ``limit`` pieces; ``Tokens.truncated`` counts it.
    """
    num_words = len(tokens.words)
    if limit is None or len(tokens.ids) <= limit:
        return [Window(tokens, 0, (0, num_words))]
    pieces = np.bincount(np.asarray(tokens.word_of), minlength=num_words).clip(max=limit)
    ends = np.cumsum(pieces)  # pieces up to and with each word
    begins = ends - pieces
    spans: list[tuple[int, int]] = []
    first = 0
    while True:
        last = int(np.searchsorted(ends, begins[first] + limit, side="right"))
        spans.append((first, max(last, first + 1)))
        if last >= num_words:
            break
        first = max(int(np.searchsorted(begins, begins[first] + limit // 2, side="right")) - 1, first + 1)
    bounds = [0]
    for (_, stop), (start, _) in itertools.pairwise(spans):
        bounds.append(int((max(start, bounds[-1]) + stop) // 2) if start < stop else stop)
    bounds.append(num_words)
    return [
        Window(cut_words(tokens, start, stop, limit), start, (low, high))
        for (start, stop), low, high in zip(spans, bounds, bounds[1:], strict=False)
    ]


def cut_words(tokens: Tokens, start: int, stop: int, limit: int | None = None) -> Tokens:
    """The words [start, stop) as Tokens of their own, with at most ``limit`` pieces a word."""
    word_of = np.asarray(tokens.word_of, dtype=np.int64)
    low, high = np.searchsorted(word_of, [start, stop])
    keep = list(range(int(low), int(high)))
    truncated = 0
    if limit is not None:
        counts = np.bincount(word_of[low:high] - start, minlength=stop - start)
        if counts.size and counts.max() > limit:
            truncated = int((counts > limit).sum())
            position = np.arange(low, high) - np.searchsorted(word_of, word_of[low:high])
            keep = [int(low) + i for i in np.flatnonzero(position < limit).tolist()]
    return Tokens(
        source=tokens.source,
        words=tokens.words[start:stop],
        word_spans=tokens.word_spans[start:stop],
        ids=[tokens.ids[i] for i in keep],
        word_of=[tokens.word_of[i] - start for i in keep],
        spans=[tokens.spans[i] for i in keep],
        truncated=truncated,
    )


def collate(items: Sequence[Tokens], tokenizer: Tokenizer, *, second: Sequence[Tokens] | None = None) -> Batch:
    """Pad ``items`` (and their second texts) to one Batch, with the begin and end symbols that the tokenizer has.

    Shapes as in ``Batch``; word fields count the words of the first text, then those of the second.
    """
    rows = [
        _row(first, None if second is None else second[i], tokenizer.special.begin, tokenizer.special.end)
        for i, first in enumerate(items)
    ]
    length = max((len(ids) for ids, _, _ in rows), default=0)
    counts = [len(item.words) + (len(second[i].words) if second else 0) for i, item in enumerate(items)]
    size, width = len(rows), max(counts, default=0)
    ids = np.zeros((size, length), dtype=np.int64)
    words = np.full((size, length), -1, dtype=np.int64)
    segments = np.zeros((size, length), dtype=np.int64)
    mask = np.zeros((size, length), dtype=bool)
    word_positions = np.full((size, width), -1, dtype=np.int64)
    word_mask = np.arange(width)[None, :] < np.asarray(counts, dtype=np.int64)[:, None]
    for i, (row_ids, row_words, boundary) in enumerate(rows):
        n = len(row_ids)
        ids[i, :n], words[i, :n], mask[i, :n] = row_ids, row_words, True
        segments[i, boundary:n] = 1
        of = np.asarray(row_words, dtype=np.int64)
        first_pieces = np.flatnonzero((of >= 0) & (np.concatenate(([-2], of[:-1])) != of)) if n else of
        word_positions[i, of[first_pieces]] = first_pieces
    types = characters = known = None
    if tokenizer.kind in ("words", "characters"):
        texts = [item.words + (second[i].words if second else []) for i, item in enumerate(items)]
        types, characters = _characters(texts, words, mask, getattr(tokenizer, "slots", DEFAULT_SLOTS))
    if tokenizer.kind == "words":
        known = torch.from_numpy(mask & (ids != tokenizer.special.unk))
    return Batch(
        size=size,
        ids=torch.from_numpy(ids),
        mask=torch.from_numpy(mask),
        segments=torch.from_numpy(segments),
        words=torch.from_numpy(words),
        word_positions=torch.from_numpy(word_positions),
        word_mask=torch.from_numpy(word_mask),
        known=known,
        types=types,
        characters=characters,
    )


def _row(first: Tokens, second: Tokens | None, begin: int | None, end: int | None) -> tuple[list[int], list[int], int]:
    """Ids, the word of each, and where the second text begins."""
    ids, words = list(first.ids), list(first.word_of)
    if begin is not None:
        ids, words = [begin, *ids], [-1, *words]
    if end is not None:
        ids, words = [*ids, end], [*words, -1]
    boundary = len(ids)
    if second is not None:
        ids += second.ids
        words += [w + len(first.words) for w in second.word_of]
        if end is not None:
            ids, words = [*ids, end], [*words, -1]
    return ids, words, boundary


@lru_cache(maxsize=1 << 17)
def _character_row(word: str, slots: int) -> tuple[int, ...]:
    return tuple(character_ids(word, slots))


def _mark_row(row: Sequence[int], slots: int) -> list[int]:
    """A sentence mark in any number of slots (at least its own 3); it ends in padding as every word does."""
    return [*row, *[row[-1]] * (slots - len(row))][:slots]


def _characters(
    texts: Sequence[Sequence[str]], words: NDArray[np.int64], mask: NDArray[np.bool_], slots: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of characters of the distinct words (row 0 padding, 1 sentence begin, 2 sentence end) and their use."""
    rows: dict[str, int] = {}
    types = np.zeros(words.shape, dtype=np.int64)
    for i, text in enumerate(texts):
        of_word = np.asarray([rows.setdefault(word, len(rows) + 3) for word in text] or [0], dtype=np.int64)
        types[i] = np.where(words[i] >= 0, of_word[words[i].clip(min=0)], 0)
        special = np.flatnonzero(mask[i] & (words[i] < 0))
        if special.size:  # begin stands first; whatever else has no word is an end
            types[i, special[0]], types[i, special[1:]] = 1, 2
    table = np.zeros((len(rows) + 3, slots), dtype=np.int64)
    table[1], table[2] = _mark_row(SENTENCE_BEGIN, slots), _mark_row(SENTENCE_END, slots)
    for word, row in rows.items():
        table[row] = _character_row(word, slots)
    return torch.from_numpy(types), torch.from_numpy(table)
