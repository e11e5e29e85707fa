"""Words by script: where they begin and end in raw text.

Alphabets follow the word rules of Unicode (UAX 29): letters, marks, joiners and digits hold together, an apostrophe
between letters stays inside its word, digits keep the points, commas, colons, slashes and hyphens between them.  As
people who label text mostly do, a hyphen between letters is a word of its own (Igbo ``na-agba``: three words),
``U.S.`` and ``w.d.g.`` keep their points, ``...`` and ``--`` are one mark each; every other mark is a word of its own.
Chinese is cut by jieba or by character.  Scripts without spaces for which no segmenter is here (Japanese, Thai, Lao,
Khmer, Burmese, Tai) are cut into what a reader sees as one character (grapheme clusters), and ``Segmenter.notes`` says
so.  A zero-width space (U+200B) separates words like any space.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Literal

import regex  # type: ignore[import-untyped]

from polysemy.core.errors import InputError, nearest
from polysemy.text.normalize import cleaned, normalize
from polysemy.text.tokens import Span

Unit = Literal["word", "char"]
KINDS = ("auto", "whitespace")
UNITS = ("word", "char")

_KANA = r"\p{Hiragana}\p{Katakana}\p{WB=Katakana}"
_UNSPACED = rf"\p{{Han}}{_KANA}\p{{LB=SA}}"  # LB=SA: Thai, Lao, Khmer, Burmese, Tai scripts, with their marks
_SPACE = r"\s\x1c-\x1f\u200b"  # Python's white space, and the zero-width space


def _rules(inside: str, letter: str) -> str:
    """The pattern of words (``U.S.`` and ``P.C`` among them) and marks.  ``inside``: what words are made of;
    ``letter``: their letters."""
    between = "|".join(
        (
            rf"['’‘`´＇·‧](?={inside})",
            r"[.,:/\-٫٬](?=\d)(?<=\d.)",  # 3.14, 10,000, 10:30, 9/7/1992, 6-3
            r"\.(?=\p{Ll})(?<=[\p{L}\p{M}].)",  # www.example.org; "end.Begin" is a space forgotten
            r'["״](?=\p{Hebrew})(?<=\p{Hebrew}.)',
        )
    )
    return "|".join(
        (
            rf"{inside}++(?:(?= )|(?<=(?<!{inside}){letter})(?:\.{letter})+(?!{inside})\.?|(?:(?:{between}){inside}++)*+)",
            r"\.{2,}+|-{2,}+|—{2,}+|…{2,}+",
            rf"(?![{_SPACE}])\X",
        )
    )


# Group 1 is the word.  The space before it is matched with it, and a word before a space is tried for nothing longer:
# this is what makes the pattern twice as fast.
_SPACED_TEXT = regex.compile(r" ?+(" + _rules(r"[[\w\p{M}\p{Cf}]--[\u200b]]", r"\p{L}") + ")", regex.V1)
_MIXED_TEXT = regex.compile(
    r"(?P<han>\p{Han}[\p{Han}\p{M}]*+)|"
    rf"(?P<cluster>(?=[{_UNSPACED}])\X)|"
    + _rules(rf"[[\w\p{{M}}\p{{Cf}}]--[\u200b{_UNSPACED}]]", rf"[\p{{L}}--[{_UNSPACED}]]"),
    regex.V1,
)
# The same words on ASCII text, twice as fast; tested equal.
_ASCII_TEXT = re.compile(
    r"[A-Za-z](?:\.[A-Za-z])+(?!\w)\.?|"
    r"\w+(?:(?:['`](?=\w)|[.,:/\-](?=[0-9])(?<=[0-9].)|\.(?=[a-z])(?<=[A-Za-z].))\w+)*|"
    r"\.{2,}|-{2,}|[^\s\x1c-\x1f]",
    re.ASCII,
)
_WHITESPACE = regex.compile(rf"[^{_SPACE}]++", regex.V1)
_MAY_BE_UNSPACED = re.compile("[\u0e00-\u1dff\u2e80-\ud7ff\uf900-\U0010ffff]")  # a quick look before the exact one
_NEEDS_SCRIPT = regex.compile(rf"[{_UNSPACED}]", regex.V1)
_UNSPACED_OR_MARK = regex.compile(
    rf"[{_UNSPACED}\u3001-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]", regex.V1
)
_HAN = regex.compile(r"\p{Han}", regex.V1)
_KANA_CHARACTER = regex.compile(rf"[{_KANA}]", regex.V1)
_MARKS = regex.compile(r"\p{M}++", regex.V1)
_CLUSTER = regex.compile(r"\X")
_CLUSTERED = {
    "Japanese": _KANA_CHARACTER,
    "Thai": regex.compile(r"\p{Thai}"),
    "Lao": regex.compile(r"\p{Lao}"),
    "Khmer": regex.compile(r"\p{Khmer}"),
    "Burmese": regex.compile(r"\p{Myanmar}"),
}
_JAPANESE_SHARE = 0.1  # of Han and kana together; a lone kana in a Chinese text is decoration
_CLOSING = r"""["'”’»›)\]}」』）】》]"""
# A mark of a script without spaces ends a sentence where it stands; any other needs white space after it and, if it is
# a point, no small letter next and no initial or common title before.
_END = regex.compile(
    rf"[。！？｡]+{_CLOSING}*|"
    rf"[!?؟।॥።։။]+{_CLOSING}*(?=\s|$)|"
    rf"(?<!\b(?:\p{{Lu}}|Mr|Mrs|Ms|Dr|St|Prof|Rev|Hon|Gen|vs|etc|No))[.…]+[!?]*{_CLOSING}*(?=\s+[^\s\p{{Ll}}]|\s*$)|"
    r"[\r\n]+",
    regex.V1,
)
_PADDING_WORD = regex.compile(r"[<\[(]\s*(?:pad|padding|blank|null|none)\s*[>\])]", regex.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Words:
    """Words of one text.  ``moved`` holds, for words whose characters are not those of the source one by one (they
    were cleaned or composed), the source span of each of their characters."""

    source: str  # raw text; words given by the user, joined by single spaces
    words: list[str]  # cleaned, NFC
    spans: list[Span]  # of ``source``
    moved: dict[int, list[Span]] = field(default_factory=dict)
    blank: frozenset[int] = frozenset()  # words given by the user in which there is nothing to see: they have no piece


class Segmenter:
    """Cuts text into words.

    ``kind``: "auto" (by script) or "whitespace" (text that was cut already).  ``unit``: "word" cuts Chinese by jieba,
    "char" by character; words of alphabets stay whole with both.  Words come out cleaned and in NFC; spans are those
    of the raw text.
    """

    def __init__(self, kind: str = "auto", unit: str = "word") -> None:
        if kind not in KINDS:
            raise InputError(f"unknown segmenter {kind!r}", do=nearest(kind, KINDS))
        if unit not in UNITS:
            raise InputError(f"unknown unit {unit!r}", do=nearest(unit, UNITS))
        self.kind, self.unit = kind, unit
        self.jieba = ""  # its version, once a text needed it
        self._clustered: set[str] = set()

    @property
    def notes(self) -> list[str]:
        """What a person should know about how the texts met so far were cut; for ``tokenizer.json`` and the screen."""
        notes = [f"Chinese is cut into words by jieba {self.jieba}"] if self.jieba else []
        if self._clustered:
            names = ", ".join(sorted(self._clustered))
            notes.append(f"{names}: no word segmenter, every grapheme cluster (visible character) is a word")
        return notes

    def words(self, text: str) -> list[str]:
        """The words of ``text``, cleaned and in NFC."""
        return self._cut(cleaned(text))

    def spans(self, text: str) -> list[Span]:
        """Where the words of ``text`` stand: [start, end) in its characters.  ``words`` gives as many."""
        return self.split(text).spans

    def split(self, text: str | Sequence[str]) -> Words:
        """Words with their places.  A sequence holds words that the user cut: they stay as they are, cleaned and in
        NFC, the empty ones too, and the source is they joined by single spaces."""
        if not isinstance(text, str):
            return _given(text)
        clean = cleaned(text)
        words = self._cut(clean)
        spans = _places(clean, words)
        if clean == text:
            return Words(text, words, spans)
        offsets = normalize(text).offsets
        places = [(offsets[start][0], offsets[end - 1][1]) for start, end in spans]
        return Words(text, words, places, {i: offsets[start:end] for i, (start, end) in enumerate(spans)})

    def parts(self, word: str) -> list[Span]:
        """Words inside a clean word that somebody else cut: ``9pm.`` holds two; a run of Han characters is one.

        What this segmenter cut by itself is one part.
        """
        if self.kind == "whitespace" or not _has_unspaced(word):
            return _places(word, self._cut(word))
        return [match.span() for match in _MIXED_TEXT.finditer(word)]

    def _cut(self, text: str) -> list[str]:
        """The words of clean text; between them stand only spaces."""
        pattern: Any = _SPACED_TEXT
        if self.kind == "whitespace":
            pattern = _WHITESPACE
        elif text.isascii():
            pattern = _ASCII_TEXT
        elif _has_unspaced(text):
            return self._cut_mixed(text)
        words: list[str] = pattern.findall(text)
        return words

    def _cut_mixed(self, text: str) -> list[str]:
        japanese = self._note_scripts(text)
        words: list[str] = []
        for match in _MIXED_TEXT.finditer(text):
            if match.lastgroup != "han":
                words.append(match.group())
            elif japanese or self.unit == "char":
                words += _CLUSTER.findall(match.group())
            else:
                words += self._chinese(match.group())
        return words

    def _note_scripts(self, text: str) -> bool:
        """Remember the scripts met; whether the text is Japanese, whose Han characters are no business of jieba."""
        for name, pattern in _CLUSTERED.items():
            if name not in self._clustered and name != "Japanese" and pattern.search(text):
                self._clustered.add(name)
        kana = len(_KANA_CHARACTER.findall(text))
        japanese = kana > 0 and kana >= _JAPANESE_SHARE * (kana + len(_HAN.findall(text)))
        if japanese:
            self._clustered.add("Japanese")
        return japanese

    def _chinese(self, run: str) -> list[str]:
        cutter, self.jieba = _jieba()
        words: list[str] = []
        for word in cutter.cut(run):
            if words and _MARKS.fullmatch(word):
                words[-1] += word  # a variation selector belongs to the character before it
            else:
                words.append(word)
        return words

    def to_json(self) -> dict[str, Any]:
        """Kind, unit and the versions that the words depend on."""
        made_by = {"regex": version("regex"), "unicode": unicodedata.unidata_version}
        if self.jieba:
            made_by["jieba"] = self.jieba
        return {"kind": self.kind, "unit": self.unit, "versions": made_by, "clusters": sorted(self._clustered)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Segmenter:
        """Raises InputError where the file's words were cut by jieba and jieba is absent."""
        segmenter = cls(data["kind"], data["unit"])
        segmenter._clustered.update(data["clusters"])
        if "jieba" in data["versions"]:
            _, segmenter.jieba = _jieba()
        return segmenter

    def changed_versions(self, data: Mapping[str, Any]) -> list[str]:
        """One line for each version that differs between the saved ``data`` and here: words may differ too."""
        here = self.to_json()["versions"]
        return [
            f"words were cut by {name} {was}, here is {here.get(name, 'none')}"
            for name, was in data["versions"].items()
            if here.get(name) != was
        ]


def sentences(text: str) -> list[Span]:
    """Spans of the sentences of ``text`` without the white space around them; none is empty.

    Sources: the terminators of UAX 29, without its tables.  ``J. Smith`` and ``Dr. Okafor`` stay whole; an
    abbreviation that ends in a small letter before a capital (``Ltd. The``) is taken for an end.
    """
    spans: list[Span] = []
    start = 0
    for end in [match.end() for match in _END.finditer(text)] + [len(text)]:
        piece = text[start:end]
        if stripped := piece.strip():
            first = start + len(piece) - len(piece.lstrip())
            spans.append((first, first + len(stripped)))
        start = end
    return spans


def looks_like_padding(words: Sequence[str]) -> bool:
    """Whether a word such as ``<pad>`` or ``[PAD]`` stands in the text: it would be embedded as text (ELM-04)."""
    return any(word and word[0] in "<[(" and _PADDING_WORD.fullmatch(word) for word in words)


def _has_unspaced(text: str) -> bool:
    return _MAY_BE_UNSPACED.search(text) is not None and _NEEDS_SCRIPT.search(text) is not None


def is_unspaced(character: str) -> bool:
    """Whether ``character`` belongs to a script without spaces between words, East Asian punctuation included."""
    return character > "\u0e00" and _UNSPACED_OR_MARK.match(character) is not None


def join_words(words: Sequence[str]) -> str:
    """Words with single spaces between them, without a space where both neighbours need none."""
    parts: list[str] = []
    for word in words:
        if parts and word and not (is_unspaced(parts[-1][-1]) and is_unspaced(word[0])):
            parts.append(" ")
        if word:
            parts.append(word)
    return "".join(parts)


def _places(text: str, words: Sequence[str]) -> list[Span]:
    """Spans of words in text that holds nothing but spaces beside them: the next occurrence of a word is the word."""
    spans: list[Span] = []
    find, end = text.find, 0
    for word in words:
        start = find(word, end)
        end = start + len(word)
        spans.append((start, end))
    return spans


def _given(given: Sequence[str]) -> Words:
    words: list[str] = []
    spans: list[Span] = []
    moved: dict[int, list[Span]] = {}
    start = 0
    for index, raw in enumerate(given):
        end = start + len(raw)
        word = cleaned(raw)
        if word != raw:
            moved[index] = [(start + a, start + b) for a, b in normalize(raw).offsets]
        words.append(word)
        spans.append((start, end))
        start = end + 1
    blank = frozenset(index for index, word in enumerate(words) if not _WHITESPACE.search(word))
    return Words(" ".join(given), words, spans, moved, blank)


@lru_cache(maxsize=1)
def _jieba() -> tuple[Any, str]:
    """jieba's cutter on its own dictionary, and its version; not the global one, to which others may add words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # jieba 0.42 writes regular expressions that Python 3.12 warns of
            import jieba  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError(
            "this text is Chinese, and cutting Chinese into words needs jieba",
            do="Install it with: pip install 'polysemy[zh]'; or read Chinese by character (--unit char).",
        ) from error
    cutter = jieba.Tokenizer()
    cutter.FREQ, cutter.total = cutter.gen_pfdict(cutter.get_dict_file())  # initialize() would read a file from /tmp
    cutter.initialized = True
    return cutter, version("jieba")
