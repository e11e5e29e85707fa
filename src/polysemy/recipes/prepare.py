"""Raw text -> vocabulary and memory-mapped shards: what every pretraining does before its first step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from polysemy.core.errors import InputError
from polysemy.core.files import write_atomic
from polysemy.core.ledger import Ledger
from polysemy.core.reporter import Reporter, Silent
from polysemy.core.seeds import derive
from polysemy.data.corpus import Corpus
from polysemy.data.overlap import Overlap
from polysemy.data.shards import Shards, build_shards
from polysemy.text.fit import Fit, fit
from polysemy.text.tokenizer import load_tokenizer, train_tokenizer
from polysemy.text.tokens import Tokenizer, Tokens
from polysemy.text.words import Segmenter

HELD_OUT_LINES = 2000  # at most; more would only cost time
FIT_LINES = 2000


@dataclass(frozen=True)
class TextConfig:
    """How raw text becomes pieces."""

    corpus: tuple[str, ...]
    encoding: str = "utf-8"
    unit: Literal["auto", "word", "char"] = "auto"
    exclude: tuple[str, ...] = ()  # labelled files whose sentences are taken out of the text
    vocab_size: int | None = None  # None: what suits the system
    min_count: int = 2  # rarer words are unknown to systems that read whole words
    lowercase: bool = False
    strip_accents: bool = False
    held_out: float = 0.01  # fraction of the lines kept for the held-out loss
    max_unknown: float = 0.1  # unknown rate above which pretraining refuses to start
    keep_text: bool = True  # excerpts of the text in the ledger


@dataclass
class Prepared:
    """Vocabulary and shards of one text for one kind of reader."""

    tokenizer: Tokenizer
    shards: Shards
    held_out: Shards | None
    fit: Fit
    ledger: Ledger
    overlap: dict[str, int] = field(default_factory=dict)


class CleanText:
    """The corpus without the sentences of ``exclude``; restartable.  The first whole pass fills ledger and overlap."""

    def __init__(self, config: TextConfig, ledger: Ledger) -> None:
        self.config = config
        self.corpus = Corpus(list(config.corpus), encoding=config.encoding, ledger=ledger)
        self.excluded = excluded_sentences(config.exclude, config.encoding) if config.exclude else []
        self.overlap: dict[str, int] = {}
        self.lines = self.kept = 0  # of the text before and after

    def __iter__(self) -> Iterator[tuple[str, int, bool]]:
        """(text, document, held out) of each line that is kept."""
        threshold, held = int(self.config.held_out * 2**63), 0
        overlap = Overlap(self.excluded) if self.excluded else None
        lines = overlap.clean_lines(self.corpus) if overlap is not None else self.corpus
        number = -1
        for number, line in enumerate(lines):
            out = held < HELD_OUT_LINES and derive(0, "held-out", number) < threshold
            held += out
            yield line.text, line.document, out
        self.kept = number + 1
        self.lines = self.kept + (overlap.removed_lines if overlap is not None else 0)
        if overlap is not None and not self.overlap:
            self.overlap = overlap.to_json()


def excluded_sentences(paths: Sequence[str], encoding: str = "utf-8") -> list[str]:
    """Every sentence or text of labelled files, words joined as they are read."""
    return [text for path in paths for text in Corpus(path, encoding=encoding).texts()]


def prepare(
    folder: Path,
    config: TextConfig,
    kind: str,
    *,
    vocab_size: int,
    tokenizer: Tokenizer | None = None,
    reporter: Reporter | None = None,
) -> Prepared:
    """Count, train the vocabulary (unless ``tokenizer`` is given), encode.  A finished ``folder`` is opened as it is.

    Raises InputError for a text without words, or of which more than ``max_unknown`` would be unknown.
    """
    reporter = reporter or Silent()
    if (folder / "prepared.json").is_file():
        return _open(folder, kind)
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(keep_text=config.keep_text)
    text = CleanText(config, ledger)
    segmenter = Segmenter("auto", "char" if config.unit == "char" else "word")
    if tokenizer is None:
        counts = _count(text, segmenter, reporter)
        if not counts:
            raise InputError("no words in this text", where=", ".join(config.corpus), do="Name files that hold text.")
        tokenizer = train_tokenizer(
            kind, counts, segmenter=segmenter, vocab_size=vocab_size,
            min_count=config.min_count if kind in ("words", "characters") else 1,
            lowercase=config.lowercase, strip_accents=config.strip_accents,
        )  # fmt: skip
    fitted = fit(tokenizer, _first_lines(text))
    check_fit(fitted, config, tokenizer.kind, reporter)
    reporter.say("encoding the text")
    lexicon = tokenizer.kind == "characters"
    shards = build_shards(folder / "train", _encode(text, tokenizer, ledger), lexicon=lexicon)
    held = _held_out(folder / "held-out", text, tokenizer, lexicon)
    tokenizer.save(folder / "tokenizer.json")
    if removed := text.overlap.get("removed_sentences", 0):
        ledger.add("dropped", "sentences of the text that contain a sentence of the excluded files", removed)
    meta = {"ledger": ledger.to_json(), "fit": fitted.to_json(), "overlap": text.overlap, "lines": text.lines,
            "kept_lines": text.kept, "fit_words": shards.words}  # fmt: skip
    write_atomic(folder / "prepared.json", json.dumps(meta, ensure_ascii=False) + "\n")
    return Prepared(tokenizer, shards, held, fitted, ledger, text.overlap)


def _open(folder: Path, kind: str) -> Prepared:
    meta = json.loads((folder / "prepared.json").read_text("utf-8"))
    held = Shards.open(folder / "held-out") if (folder / "held-out").is_dir() else None
    return Prepared(
        load_tokenizer(folder / "tokenizer.json"),
        Shards.open(folder / "train"),
        held,
        Fit.from_json(meta["fit"]),
        Ledger.from_json(meta["ledger"]),
        meta["overlap"],
    )


def _count(text: CleanText, segmenter: Segmenter, reporter: Reporter) -> Counter[str]:
    counts: Counter[str] = Counter()
    reporter.say("counting words")
    for line, _, _ in text:
        counts.update(segmenter.words(line))
    return counts


def _held_out(folder: Path, text: CleanText, tokenizer: Tokenizer, lexicon: bool) -> Shards | None:
    """Shards of the lines kept back, or None where there are none (a text of few lines)."""
    items = [(document, tokenizer.encode(line)) for line, document, held in text if held]
    if not any(tokens.ids for _, tokens in items):
        return None
    return build_shards(folder, items, lexicon=lexicon)


def _first_lines(text: CleanText) -> Iterator[str]:
    for number, (line, _, _) in enumerate(text):
        if number >= FIT_LINES:
            return
        yield line


def _encode(text: CleanText, tokenizer: Tokenizer, ledger: Ledger) -> Iterator[tuple[int, Tokens]]:
    for line, document, held in text:
        if not held:
            tokens = tokenizer.encode(line)
            if tokens.unknown:
                ledger.add("unknown", "pieces without a symbol", tokens.unknown)
            if tokens.truncated:
                ledger.add("truncated", "words longer than the character slots", tokens.truncated)
            yield document, tokens


def check_fit(fitted: Fit, config: TextConfig, kind: str, reporter: Reporter) -> None:
    """Say how the vocabulary fits the text; refuse where too much of it is unknown.

    A reader of characters knows every word: there the unknown rate is of what it predicts, and refuses nothing.
    """
    reporter.say(
        f"vocabulary on the first {FIT_LINES:,} lines: {fitted.unknown_rate:.2%} unknown, "
        f"{fitted.pieces_per_word:.2f} pieces a word, {fitted.characters_lost:,} characters lost"
    )
    if fitted.unknown_rate > config.max_unknown and kind != "characters":
        raise InputError(
            f"{fitted.unknown_rate:.1%} of the text is unknown to the vocabulary, more than {config.max_unknown:.0%}",
            where=", ".join(config.corpus),
            do="Lower text.min_count, raise text.vocab_size, or raise text.max_unknown if that is meant.",
        )
