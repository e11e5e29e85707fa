"""Normal form, cleaning, lower case and accents: separate switches, each with the source span of every character.

Cleaning removes what no reader sees: control characters, halves of surrogate pairs, byte-order marks, soft hyphens and
marks of writing direction.  It keeps the joiners U+200C and U+200D, which are spelling (in Persian and Sinhala another
word results without them), and the controls that are white space, which separate words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, cast, get_args

import regex  # type: ignore[import-untyped]

from polysemy.core.errors import InputError, nearest
from polysemy.text.tokens import Span

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]

UNSEEN = regex.compile(r"[[\p{Cc}\p{Cs}\p{Bidi_Control}\u00ad\ufeff]--[\t-\r\x1c-\x1f\x85]]", regex.V1)

# What may change together with the character before it under a normal form: marks, vowels and finals of Hangul (also
# half-width and compatibility forms, for NFKC), half-width voicing marks and the vowel letters of Kirat Rai.
_FOLLOWS = r"\p{M}\u1160-\u11ff\u3130-\u318f\uff9e-\uffdc\U00016d63-\U00016d6a"
_CLUSTER = regex.compile(rf"[^\x00-\x7f][{_FOLLOWS}]*+|[\x00-\x7f][{_FOLLOWS}]++", regex.V1)


class Normalized(NamedTuple):
    text: str
    offsets: list[Span]  # for each character of ``text`` the characters of the source that it stands for
    removed: int  # characters taken out by cleaning


@dataclass(frozen=True)
class Normalizer:
    """The switches of ``normalize``, as they are saved with a tokenizer."""

    form: Form = "NFC"
    lowercase: bool = False
    strip_accents: bool = False

    def __call__(self, text: str) -> Normalized:
        return normalize(text, self.form, lowercase=self.lowercase, strip_accents=self.strip_accents)

    @property
    def folds(self) -> bool:
        """Whether anything happens beyond cleaning and NFC, which the segmenter does already."""
        return self != Normalizer()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Normalizer:
        return cls(_form(data["form"]), bool(data["lowercase"]), bool(data["strip_accents"]))


def normalize(
    text: str, form: Form = "NFC", *, clean: bool = True, lowercase: bool = False, strip_accents: bool = False
) -> Normalized:
    """Clean ``text``, put it into lower case, strip its accents (marks of category Mn), as switched on; then ``form``.

    ``offsets`` never decrease.  A character that becomes several (NFKC of U+30FF) gives its span to each of them;
    several that become one give it their union; a stripped mark belongs to the character before it.  Lower case keeps
    marks; stripping leaves the vowel signs of Indic scripts out too, so it is never on by default.
    """
    _form(form)
    offsets: list[Span] = list(zip(range(len(text)), range(1, len(text) + 1), strict=True))
    removed = 0
    if clean and has_unseen(text):
        kept = [i for i, character in enumerate(text) if not UNSEEN.match(character)]
        removed = len(text) - len(kept)
        text, offsets = "".join(text[i] for i in kept), [offsets[i] for i in kept]
    if lowercase:
        text, offsets = _lower(text, offsets)
    if strip_accents:
        return Normalized(*_by_cluster(text, offsets, lambda c: unicodedata.normalize(form, _strip(c))), removed)
    if text.isascii() or unicodedata.is_normalized(form, text):
        return Normalized(text, offsets, removed)
    return Normalized(*_by_cluster(text, offsets, lambda c: unicodedata.normalize(form, c)), removed)


def has_unseen(text: str) -> bool:
    """Whether cleaning would change ``text``."""
    return not text.isprintable() and UNSEEN.search(text) is not None


def cleaned(text: str) -> str:
    """``normalize(text).text`` without the offsets; returns ``text`` itself where nothing changes."""
    if not text.isprintable():
        text = UNSEEN.sub("", text)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _form(form: str) -> Form:
    if form not in get_args(Form):
        raise InputError(f"unknown normal form {form!r}", do=nearest(form, get_args(Form)))
    return cast(Form, form)


def _lower(text: str, offsets: list[Span]) -> tuple[str, list[Span]]:
    lower = text.lower()
    if len(lower) != len(text):  # U+0130 becomes two characters; the sigma at a word's end depends on its neighbours
        offsets = [span for character, span in zip(text, offsets, strict=True) for _ in character.lower()]
    return lower, offsets


def _strip(cluster: str) -> str:
    decomposed = unicodedata.normalize("NFD", cluster)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def _by_cluster(text: str, offsets: list[Span], change: Callable[[str], str]) -> tuple[str, list[Span]]:
    """Apply ``change`` to each run of characters that normal forms treat together; ASCII letters stay as they are."""
    parts: list[str] = []
    spans: list[Span] = []
    last = 0
    for match in _CLUSTER.finditer(text):
        old = match.group()
        new = change(old)
        if new != old:
            start, end = match.span()
            parts += (text[last:start], new)
            spans += offsets[last:start]
            spans += _align(old, new, offsets[start:end])
            last = end
    parts.append(text[last:])
    spans += offsets[last:]
    return "".join(parts), spans


def _align(old: str, new: str, spans: list[Span]) -> list[Span]:
    """Source spans of ``new``: equal characters at both ends keep theirs, the middle shares that of the old middle."""
    if not new:
        return []
    most = min(len(old), len(new))
    head = next((i for i in range(most) if old[i] != new[i]), most)
    tail = next((i for i in range(most - head) if old[-1 - i] != new[-1 - i]), most - head)
    middle_old, middle_new = len(old) - head - tail, len(new) - head - tail
    if middle_new and not middle_old:  # a character doubled: no old middle to share, so the whole run is shared
        return [(spans[0][0], spans[-1][1])] * len(new)
    aligned = spans[:head] + spans[len(old) - tail :]
    if middle_new:
        return aligned[:head] + [(spans[head][0], spans[-1 - tail][1])] * middle_new + aligned[head:]
    if middle_old and head:  # stripped: the marks belong to what stands before them
        aligned[head - 1] = (aligned[head - 1][0], spans[-1 - tail][1])
    elif middle_old:
        aligned[0] = (spans[0][0], aligned[0][1])
    return aligned
