"""Corpus sentences that contain a dev or test sentence: found, taken out of pretraining, counted."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import regex  # type: ignore[import-untyped]

from polysemy.data.corpus import LONG_CELL, Line
from polysemy.text.words import is_unspaced, sentences

MIN_WEIGHT = 15  # letters of a folded sentence from which on it counts as contained anywhere
BLOCK_CHARACTERS = 1 << 16  # folded characters that are searched at once

_NOT_KEPT = regex.compile(r"[^\p{L}\p{M}\p{Nd}]+")
_ASCII_NOT_KEPT = bytes(code for code in range(128) if not chr(code).isalnum())


def fold(text: str) -> str:
    """NFC, case folding, and of that the letters, marks and digits alone (DESIGN 5, Overlap)."""
    if text.isascii():
        return text.lower().encode().translate(None, _ASCII_NOT_KEPT).decode()
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    removed: str = _NOT_KEPT.sub("", folded)
    return removed


@lru_cache(maxsize=1 << 16)
def _weight(character: str) -> int:
    return 2 if is_unspaced(character) or "\uac00" <= character <= "\ud7a3" else 1


def weight(folded: str) -> int:
    """Letters of a folded text; one of a script that writes a word in one or two (Chinese, Korean, Thai) counts twice."""
    return len(folded) if folded.isascii() else sum(map(_weight, folded))


class _Index:
    """Folded sentences of at least ``2 * size - 1`` characters, found wherever they stand in a folded text.

    Of ``size`` neighbouring places in the text at least one, and in a sentence so long one with ``size`` characters
    inside it, is a multiple of ``size``: looking at those alone finds every occurrence.
    """

    def __init__(self, size: int) -> None:
        self.size, self.least = size, 2 * size - 1
        self.offsets: dict[str, set[int]] = {}  # part of a sentence -> where in sentences it stands, below ``size``
        self.by_head: dict[str, list[str]] = {}  # first ``least`` characters -> sentences

    def add(self, folded: str) -> None:
        """Know one more sentence."""
        for offset in range(self.size):
            self.offsets.setdefault(folded[offset : offset + self.size], set()).add(offset)
        self.by_head.setdefault(folded[: self.least], []).append(folded)

    def find(self, text: str) -> Iterator[tuple[int, str]]:
        """(place, sentence) of every occurrence."""
        size, offsets = self.size, self.offsets
        for hit in [p for p in range(0, len(text) - size + 1, size) if text[p : p + size] in offsets]:
            for offset in offsets[text[hit : hit + size]]:
                start = hit - offset
                for sentence in self.by_head.get(text[start : start + self.least], ()) if start >= 0 else ():
                    if text.startswith(sentence, start):
                        yield start, sentence


@dataclass(slots=True)
class _Pending:
    """A corpus line on its way through the search."""

    line: Line
    folded: str
    hits: list[tuple[int, int]] = field(default_factory=list)  # of ``folded``
    whole: bool = False  # a match lies inside this line alone


class Overlap:
    """The given sentences (dev and test), looked for in a corpus.

    A sentence is *contained* where its folded form stands in the folded corpus text, also across the ends of lines of
    one document.  A folded form of fewer than 15 letters (8 Chinese characters) would be contained by chance nearly
    everywhere; it counts only where it is a whole line or sentence of the corpus.  A given text of more than 400
    characters is looked for sentence by sentence, and is found when all its sentences are.

    A corpus line of up to 400 characters that touches a match goes as a whole; of a longer one the sentences that
    touch it.  On Igbo NER (dev and test) 3,353 of the 8,000 lines of ``raw_news.txt`` contain a sentence, and 3 more
    hold parts of sentences that are broken over two lines.
    """

    def __init__(self, given: Iterable[str]) -> None:
        self.found: set[int] = set()
        self.removed_lines = 0  # corpus lines of which something was taken out
        self.broken_lines = 0  # those of them that hold only a part of each sentence that they touch
        self.removed_sentences = 0
        self.removed_characters = 0
        self._owners: dict[str, list[int]] = {}
        self._missing: list[set[str]] = []  # folded sentences of each given text that were not found yet
        self._short: set[str] = set()
        self._wide, self._narrow = _Index(8), _Index(4)
        self._longest = 0
        for number, text in enumerate(given):
            parts = [text] if len(text) <= LONG_CELL else [text[start:end] for start, end in sentences(text)]
            folded = {part for part in map(fold, parts) if part}
            self._missing.append(folded)
            for part in folded:
                self._owners.setdefault(part, []).append(number)
        for part in self._owners:
            if weight(part) < MIN_WEIGHT:
                self._short.add(part)
                continue
            (self._wide if len(part) >= self._wide.least else self._narrow).add(part)
            self._longest = max(self._longest, len(part))

    @property
    def total(self) -> int:
        """Number of given texts."""
        return len(self._missing)

    def clean(self, text: str) -> tuple[list[str], int]:
        """What is left of one corpus line, as runs of whole sentences, and the number of sentences taken out."""
        before = self.removed_sentences
        kept = [line.text for line in self.clean_lines([Line(text, "", 0)])]
        return kept, self.removed_sentences - before

    def clean_lines(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The corpus without the sentences that contain a given one; order, places and documents stay."""
        waiting: list[_Pending] = []
        size = 0
        for line in lines:
            folded = fold(line.text)
            waiting.append(_Pending(line, folded))
            size += len(folded)
            if size - self._longest >= BLOCK_CHARACTERS:
                self._search(waiting)
                done = self._settled(waiting)
                for pending in waiting[:done]:
                    yield from self._remains(pending)
                waiting = waiting[done:]
                size = sum(len(pending.folded) for pending in waiting)
        self._search(waiting)
        for pending in waiting:
            yield from self._remains(pending)

    def _settled(self, waiting: list[_Pending]) -> int:
        """How many of the first lines cannot be part of a match that ends in lines still to come."""
        tail, count = 0, len(waiting)
        while count and tail < self._longest - 1 and waiting[count - 1].line.document == waiting[-1].line.document:
            count -= 1
            tail += len(waiting[count].folded)
        return count

    def _search(self, waiting: list[_Pending]) -> None:
        """Mark in each line the places that belong to a given sentence."""
        parts: list[str] = []
        starts: list[int] = []
        at, document = 0, None
        for pending in waiting:
            if document not in (None, pending.line.document):
                parts.append("\n")  # no match across documents: folded text holds no line feed
                at += 1
            document = pending.line.document
            starts.append(at)
            parts.append(pending.folded)
            at += len(pending.folded)
            if pending.folded in self._short:
                self._mark(pending, (0, len(pending.folded)), pending.folded)
        text = "".join(parts)
        for index in (self._wide, self._narrow):
            if not index.by_head:
                continue
            for start, sentence in index.find(text):
                end = start + len(sentence)
                first = bisect_right(starts, start) - 1
                for i in range(first, len(waiting)):
                    if starts[i] >= end:
                        break
                    self._mark(waiting[i], (max(start - starts[i], 0), end - starts[i]), sentence)

    def _mark(self, pending: _Pending, span: tuple[int, int], sentence: str) -> None:
        pending.whole = pending.whole or (span[1] - span[0] == len(sentence) and span[1] <= len(pending.folded))
        span = (span[0], min(span[1], len(pending.folded)))
        if span[0] < span[1] and span not in pending.hits:
            pending.hits.append(span)
        for owner in self._owners[sentence]:
            self._missing[owner].discard(sentence)
            if not self._missing[owner]:
                self.found.add(owner)

    def _remains(self, pending: _Pending) -> Iterator[Line]:
        """The line, or the runs of its sentences that are kept."""
        line = pending.line
        long = len(line.text) > LONG_CELL
        if not pending.hits and not (long and self._short):
            yield line
            return
        places = sentences(line.text) if long else [(0, len(line.text))]
        kept: list[tuple[int, int]] = []  # runs of neighbouring sentences
        at = removed = 0
        fresh = True
        for start, end in places:
            folded = fold(line.text[start:end]) if long else pending.folded
            stop = at + len(folded)
            if folded in self._short:
                self._mark(pending, (at, stop), folded)
            touched = stop > at and any(first < stop and last > at for first, last in pending.hits)
            if touched:
                removed += 1
                self.removed_characters += end - start
            elif fresh:
                kept.append((start, end))
            else:
                kept[-1] = (kept[-1][0], end)
            fresh, at = touched, stop
        if not removed:
            yield line
            return
        self.removed_lines += 1
        self.broken_lines += not pending.whole
        self.removed_sentences += removed
        for start, end in kept:
            yield line._replace(text=line.text[start:end])

    def to_json(self) -> dict[str, int]:
        """Counts for the report: what was given, found, and taken out of the corpus so far."""
        return {
            "given": self.total,
            "found": len(self.found),
            "removed_lines": self.removed_lines,
            "broken_lines": self.broken_lines,
            "removed_sentences": self.removed_sentences,
            "removed_characters": self.removed_characters,
        }
