"""What is in a corpus: one pass, figures for a person before a night is spent on training."""

from __future__ import annotations

import hashlib
import unicodedata
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import regex  # type: ignore[import-untyped]

from polysemy.core.ledger import Ledger
from polysemy.data.corpus import Corpus, pair_problem
from polysemy.data.overlap import fold

LONG_LINE = 10_000  # characters
TOP_WORDS = 20
MAX_HASHES = 1 << 24  # 64-bit hashes of lines held at once; a larger corpus is sampled by hash
CHUNK = 1 << 16  # characters counted at once

# Scripts of Unicode that a report names; the rest are "other".
SCRIPTS = (
    "Latin Cyrillic Greek Armenian Georgian Hebrew Arabic Syriac Thaana Devanagari Bengali Gurmukhi Gujarati Oriya Tamil "
    "Telugu Kannada Malayalam Sinhala Thai Lao Tibetan Myanmar Khmer Ethiopic Cherokee Mongolian Hangul Hiragana "
    "Katakana Bopomofo Han Yi Nko Tifinagh Vai Bamum Adlam"
)
_SCRIPT_PATTERNS = {name: regex.compile(rf"\p{{Script={name}}}") for name in SCRIPTS.split()}
# Not variation selectors and keycap frames, which belong to signs.
_LONE_MARK = regex.compile(r"(?:^|\s)(?=\p{M})[^\ufe00-\ufe0f\u20dd-\u20e4\U000e0100-\U000e01ef]")
# What bytes 80-BF of UTF-8 look like when they were read as Latin-1 or Windows-1252.
_CONTINUATION = "\u0080-\u00bf" + bytes(range(0x80, 0xA0)).decode("cp1252", "ignore")
_MOJIBAKE = regex.compile(rf"[ÂÃÐÑ][{_CONTINUATION}]|[à-ï][{_CONTINUATION}]{{2}}")
_MARKUP = regex.compile(r"</?[a-zA-Z][a-zA-Z0-9]*(?:\s[^<>]*)?/?>|&(?:[a-z]+|#\d+|#x[0-9a-f]+);")


class WordSplitter(Protocol):
    """What is needed of ``text.words.Segmenter``."""

    def words(self, text: str) -> list[str]:
        """The words of a text."""


@dataclass
class Finding:
    """Something unusual: how often, in how many lines, and where first."""

    count: int = 0
    lines: int = 0
    place: str = ""

    def add(self, count: int, place: str) -> None:
        """``count`` times in the line at ``place``."""
        if count:
            self.count += count
            self.lines += 1
            self.place = self.place or place


@dataclass(frozen=True)
class Coverage:
    """Labelled words that occur in the corpus."""

    tokens: int
    tokens_covered: int
    types: int
    types_covered: int
    missing: list[tuple[str, int]]  # the most frequent labelled words that the corpus lacks, with their counts


@dataclass
class Inspection:
    """Figures of one corpus.  Shares are fractions."""

    files: int = 0
    size_bytes: int = 0
    encoding: str = "utf-8"
    byte_order_marks: int = 0
    num_lines: int = 0
    characters: int = 0
    longest_line: int = 0  # characters
    longest_line_place: str = ""
    documents: int = 0
    longest_document: int = 0  # lines
    words: int = 0
    distinct_words: int = 0
    hapax_share: float = 0.0  # of the distinct words, those that occur once
    top_words: list[tuple[str, int]] = field(default_factory=list)
    scripts: dict[str, float] = field(default_factory=dict)  # share of the letters, falling
    duplicate_lines: int = 0  # lines that repeat an earlier one after folding case, spaces and punctuation
    duplicate_share: float = 0.0
    findings: dict[str, Finding] = field(default_factory=dict)
    coverage: Coverage | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        """What deserves a thought before training."""
        out = [f"{FINDINGS[name]}: {_where(finding)}" for name, finding in self.findings.items()]
        if {"composed", "decomposed"} <= set(self.findings):
            out.append("the same letters are written in two normal forms; NFC, the default, makes them one")
        if self.duplicate_share >= 0.05:
            out.append(f"{self.duplicate_lines:,} lines ({self.duplicate_share:.1%}) repeat an earlier line")
        if problem := pair_problem(self.documents, self.longest_document, self.num_lines):
            out.append(problem)
        return out

    def lines(self) -> list[str]:
        """Lines for a person."""
        per_document = self.num_lines / max(self.documents, 1)
        marks = f", {self.byte_order_marks} byte-order marks taken away" if self.byte_order_marks else ""
        mean = self.characters / max(self.num_lines, 1)
        top = "  ".join(f"{word} {count:,}" for word, count in self.top_words)
        scripts = ", ".join(f"{name} {share:.1%}" for name, share in self.scripts.items()) or "no letters"
        longest = f"{self.longest_line:,} ({self.longest_line_place})"
        out = [
            f"files       {self.files:,} ({self.size_bytes / 1e6:,.1f} MB), read as {self.encoding.upper()}{marks}",
            f"lines       {self.num_lines:,}, {mean:,.0f} characters on average, the longest {longest}",
            f"documents   {self.documents:,}, {per_document:,.1f} lines on average, the longest {self.longest_document:,}",
            f"words       {self.words:,}, {self.distinct_words:,} distinct, {self.hapax_share:.1%} of these occur once",
            f"most used   {top}",
            f"scripts     {scripts}",
            f"duplicates  {self.duplicate_lines:,} lines ({self.duplicate_share:.1%}) repeat an earlier one",
        ]
        if (c := self.coverage) is not None:
            out.append(
                f"labels      {c.tokens_covered / max(c.tokens, 1):.1%} of {c.tokens:,} labelled words and "
                f"{c.types_covered / max(c.types, 1):.1%} of {c.types:,} distinct ones occur in the corpus"
            )
            if c.missing:
                out.append(f"            not: {'  '.join(f'{word} {count:,}' for word, count in c.missing)}")
        out += [f"note        {note}" for note in self.notes]
        return out + [f"look        {warning}" for warning in self.warnings]

    def to_json(self) -> dict[str, Any]:
        """All figures and the warnings."""
        return {**asdict(self), "warnings": self.warnings}


# What is looked for in each line, with its words for a person.
FINDINGS = {
    "composed": "letters with composed accents (NFC) beside decomposed ones",
    "decomposed": "letters with separate combining marks where one character exists (not NFC)",
    "lone_marks": "combining marks that stand alone, without a letter before them",
    "replacement": "replacement characters U+FFFD (text that was damaged before)",
    "mojibake": "signs of UTF-8 that was read as Latin-1 (such as \u00c3\u00a9)",
    "control": "control characters",
    "nul": "NUL characters",
    "inner_byte_order_marks": "byte-order marks U+FEFF inside lines",
    "carriage_returns": "carriage returns inside lines (line ends of an old Macintosh?)",
    "private": "private-use characters (a font of its own?)",
    "markup": "HTML tags or entities",
    "long_lines": f"lines of more than {LONG_LINE:,} characters",
    "cut_lines": "lines of more than a million characters, which are cut at white space",
}
_CONTROLS = regex.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
_RARE = regex.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\ue000-\uf8ff]")  # most lines hold none of these


def _where(finding: Finding) -> str:
    return f"{finding.count:,} in {finding.lines:,} line{'s' * (finding.lines != 1)} (first: {finding.place})"


def inspect(corpus: Corpus, segmenter: WordSplitter, labels: Sequence[Sequence[str]] | None = None) -> Inspection:
    """Read ``corpus`` once.  Memory: its distinct words, one number a line up to 16 million lines, one document.

    ``labels``: the words of labelled sentences; ``coverage`` says which of them occur in the corpus.
    Raises InputError as ``Corpus`` does.
    """
    out = Inspection(files=len(corpus.sources), size_bytes=corpus.size_bytes, encoding=corpus.encoding)
    counts: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    hashes = _LineHashes()
    findings = {name: Finding() for name in FINDINGS}
    waiting: list[str] = []
    size = in_document = 0
    document = -1
    for line in corpus:
        out.num_lines += 1
        out.characters += len(line.text)
        if len(line.text) > out.longest_line:
            out.longest_line, out.longest_line_place = len(line.text), line.place
        in_document = in_document + 1 if line.document == document else 1
        document = line.document
        out.longest_document = max(out.longest_document, in_document)
        counts.update(segmenter.words(line.text))
        hashes.add(fold(line.text))
        _look(line.text, line.place, findings)
        waiting.append(line.text)
        size += len(line.text)
        if size >= CHUNK:
            letters.update("".join(waiting))
            waiting, size = [], 0
    letters.update("".join(waiting))
    out.documents = document + 1
    _count_words(out, counts, labels)
    out.scripts = _scripts(letters)
    out.duplicate_share = hashes.duplicate_share()
    out.duplicate_lines = round(out.duplicate_share * hashes.lines)
    _from_ledger(out, findings, corpus.ledger)
    if not findings["decomposed"].count:  # composed letters are remarkable beside decomposed ones only
        findings["composed"] = Finding()
    out.findings = {name: finding for name, finding in findings.items() if finding.count}
    out.notes = [*corpus.notes, *getattr(segmenter, "notes", ())]
    return out


def _look(text: str, place: str, findings: dict[str, Finding]) -> None:
    """Count what is unusual in one line."""
    if len(text) > LONG_LINE:
        findings["long_lines"].add(1, place)
    findings["replacement"].add(text.count("\ufffd"), place)
    if not text.isprintable() and _RARE.search(text):
        findings["nul"].add(text.count("\0"), place)
        findings["inner_byte_order_marks"].add(text.count("\ufeff"), place)
        findings["carriage_returns"].add(text.count("\r"), place)
        findings["control"].add(len(_CONTROLS.findall(text)), place)
        findings["private"].add(sum("\ue000" <= character <= "\uf8ff" for character in text), place)
    if "<" in text or "&" in text:
        findings["markup"].add(len(_MARKUP.findall(text)), place)
    if text.isascii():
        return
    if not unicodedata.is_normalized("NFC", text):
        findings["decomposed"].add(max(len(text) - len(unicodedata.normalize("NFC", text)), 1), place)
    elif not unicodedata.is_normalized("NFD", text):
        findings["composed"].add(1, place)
    findings["lone_marks"].add(len(_LONE_MARK.findall(text)), place)
    findings["mojibake"].add(len(_MOJIBAKE.findall(text)), place)


def _count_words(out: Inspection, counts: Counter[str], labels: Sequence[Sequence[str]] | None) -> None:
    """Figures of the words, and what they cover of the labelled ones."""
    out.words, out.distinct_words = counts.total(), len(counts)
    out.hapax_share = sum(count == 1 for count in counts.values()) / max(len(counts), 1)
    out.top_words = _top(counts)
    if labels is None:
        return
    labelled = Counter(unicodedata.normalize("NFC", word) for sentence in labels for word in sentence)
    missing = Counter({word: count for word, count in labelled.items() if word not in counts})
    out.coverage = Coverage(
        tokens=labelled.total(),
        tokens_covered=labelled.total() - missing.total(),
        types=len(labelled),
        types_covered=len(labelled) - len(missing),
        missing=_top(missing),
    )


def _top(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:TOP_WORDS]


def _scripts(letters: Counter[str]) -> dict[str, float]:
    """Share of each script among the letters, falling."""
    found: Counter[str] = Counter()
    for letter, count in letters.items():
        if letter.isalpha():
            found[next((name for name, p in _SCRIPT_PATTERNS.items() if p.match(letter)), "other")] += count
    return {name: count / found.total() for name, count in found.most_common()}


def _from_ledger(out: Inspection, findings: dict[str, Finding], ledger: Ledger) -> None:
    """What only the reader of the lines knows."""
    out.byte_order_marks = ledger.count("repaired", "byte-order mark taken away")
    entry = ledger.entries.get(("repaired", "very long line, cut at white space"))
    if entry is not None:
        findings["cut_lines"].add(entry.count, next(iter(entry.places), ""))


class _LineHashes:
    """Share of lines that were there before, by 64-bit hashes; sampled by hash when there are too many to hold."""

    def __init__(self) -> None:
        self.lines = 0
        self.hashes = array("Q")
        self.mask = 0  # hashes with other bits than 0 under it are not held

    def add(self, folded: str) -> None:
        """One more line; a line that folds to nothing is no duplicate of another."""
        if not folded:
            return
        self.lines += 1
        digest = hashlib.blake2b(folded.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        if number & self.mask:
            return
        self.hashes.append(number)
        if len(self.hashes) >= MAX_HASHES:
            self.mask = self.mask << 1 | 1
            held = np.frombuffer(self.hashes, dtype=np.uint64)
            self.hashes = array("Q", held[held & np.uint64(self.mask) == 0].tobytes())

    def duplicate_share(self) -> float:
        """Of the lines held, those that repeat another."""
        held = np.frombuffer(self.hashes, dtype=np.uint64) if self.hashes else np.zeros(0, dtype=np.uint64)
        return 1 - len(np.unique(held)) / len(held) if len(held) else 0.0
