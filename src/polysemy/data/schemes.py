"""Tagging schemes: detection, exact conversion, and the spans that tags stand for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

Scheme = Literal["IOB1", "IOB2", "BIOES", "BMES", "BILOU", "none"]
Mode = Literal["strict", "lenient"]


class Span(NamedTuple):
    """Words [start, end) of one type."""

    start: int
    end: int
    type: str


# Letter of each scheme for: first of several words, middle, last of several, only word.
LETTERS: dict[str, tuple[str, str, str, str]] = {
    "IOB2": ("B", "I", "I", "B"),
    "BIOES": ("B", "I", "E", "S"),
    "BMES": ("B", "M", "E", "S"),
    "BILOU": ("B", "I", "L", "U"),
}
# What a tag's letter says of the word, in any scheme: it opens a span, it closes one.
_OPENS, _CLOSES = frozenset("BSU"), frozenset("ESLU")
_TAG = re.compile(r"O|([BIEMSLU])(?:-(.+))?")


def parse(tag: str) -> tuple[str, str]:
    """Letter and type of a tag: ``("B", "PER")``, ``("O", "")``, ``("B", "")`` for a bare ``B``."""
    return tag[:1], tag[2:]


def detect_scheme(tags: Iterable[Sequence[str]]) -> Scheme:
    """The scheme of sentences of tags; "none" when they are plain labels such as parts of speech.

    Letters decide between BIOES, BMES and BILOU.  Of B and I alone it is IOB1 when more spans begin with an I (after O,
    another type or nothing) than with a B that no word of its type precedes, which IOB1 has no use for; else IOB2.
    Ill-formed tags do not hide the scheme: ``ill_formed`` counts them.
    """
    letters: Counter[str] = Counter()
    inside_first = begin_apart = 0
    for sentence in tags:
        before = ("O", "")
        for tag in sentence:
            if not _TAG.fullmatch(tag):
                return "none"
            letter, kind = parse(tag)
            letters[letter] += 1
            alone = before[0] == "O" or before[1] != kind
            inside_first += letter == "I" and alone
            begin_apart += letter == "B" and alone
            before = (letter, kind)
    if letters["M"]:
        return "BMES"
    if letters["L"] or letters["U"]:
        return "BILOU"
    if letters["E"] or letters["S"]:
        return "BIOES"
    return "IOB1" if inside_first > begin_apart else "IOB2"


def spans(tags: Sequence[str], scheme: Scheme = "IOB2", mode: Mode = "strict") -> set[Span]:
    """Spans of one sentence.

    ``lenient`` (as conlleval): a span goes on while letters and type allow, and begins at any tag that is not O and
    does not continue one.  ``strict``: of these, the spans whose tags are exactly those that the scheme writes for
    them; the others do not count.  IOB1 has no ill-formed beginning, so that only a needless B makes it strict.
    Plain tags ("none") have no spans.
    """
    if scheme == "none":
        return set()
    found = _chunks(tags)
    if mode == "lenient":
        return set(found)
    written = _write(found, len(tags), scheme)
    return {span for span in found if list(tags[span.start : span.end]) == written[span.start : span.end]}


def _chunks(tags: Sequence[str]) -> list[Span]:
    """Spans in order, read by what letters mean in any scheme."""
    out: list[Span] = []
    start, kind = -1, ""
    closed = True
    for i, tag in enumerate(tags):
        letter, here = parse(tag)
        goes_on = start >= 0 and not closed and letter != "O" and letter not in _OPENS and here == kind
        if start >= 0 and not goes_on:
            out.append(Span(start, i, kind))
            start = -1
        if letter != "O" and start < 0:
            start, kind = i, here
        closed = letter in _CLOSES
    if start >= 0:
        out.append(Span(start, len(tags), kind))
    return out


def _write(found: Sequence[Span], length: int, scheme: Scheme) -> list[str]:
    """The tags that ``scheme`` writes for spans that do not overlap, in order."""
    out = ["O"] * length
    before = Span(-1, -1, "")
    for span in found:
        tail = f"-{span.type}" if span.type else ""
        if scheme == "IOB1":
            touches = before.end == span.start and before.type == span.type
            letters = ["B" if touches else "I", *"I" * (span.end - span.start - 1)]
        else:
            first, middle, last, only = LETTERS[scheme]
            inner = span.end - span.start - 2
            letters = [only] if inner < 0 else [first, *middle * inner, last]
        out[span.start : span.end] = [letter + tail for letter in letters]
        before = span
    return out


def convert(tags: Sequence[str], source: Scheme, target: Scheme) -> list[str]:
    """The tags of the same spans in another scheme; ill-formed runs are read leniently and written well-formed.

    Raises ValueError between plain tags and a scheme of spans.
    """
    if source == target == "none":
        return list(tags)
    if "none" in (source, target):
        raise ValueError(f"no conversion from {source} to {target}: plain tags have no spans")
    return _write(_chunks(tags), len(tags), target)


def to_iob2(tags: Sequence[str], source: Scheme) -> list[str]:
    """``convert(tags, source, "IOB2")``."""
    return convert(tags, source, "IOB2")


def ill_formed(tags: Sequence[str], scheme: Scheme) -> int:
    """Number of tags that differ from what ``scheme`` writes for the same spans; 0 for plain tags."""
    if scheme == "none":
        return 0
    return sum(a != b for a, b in zip(tags, _write(_chunks(tags), len(tags), scheme), strict=True))
