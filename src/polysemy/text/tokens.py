"""One text cut into words and pieces, with the source characters that each covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Span = tuple[int, int]  # [start, end) in characters (code points) of the source


@dataclass(frozen=True, slots=True)
class Tokens:
    """Words are the common currency: every piece knows its word, every word and piece its source characters."""

    source: str  # the raw text; for words given by the user, the words joined by single spaces
    words: list[str]  # one a word, normalised (NFC)
    word_spans: list[Span]  # of ``source``
    ids: list[int]  # vocabulary ids of the pieces, without specials
    word_of: list[int]  # for each piece the index of its word; never decreases
    spans: list[Span]  # for each piece the characters of ``source`` that it covers
    unknown: int = 0  # pieces that are the unknown symbol
    truncated: int = 0  # words of which characters were cut off (more than the character slots)


@dataclass(frozen=True)
class Special:
    """Ids of the special symbols; None where a vocabulary has none.  They travel with the vocabulary."""

    pad: int | None = None
    unk: int | None = None
    begin: int | None = None  # [CLS], <s>, sentence begin
    end: int | None = None  # [SEP], </s>, sentence end
    mask: int | None = None


class Tokenizer(Protocol):
    """What every tokenizer offers, whatever its kind."""

    kind: str  # "words", "characters", "wordpiece", "bpe", "unigram", "huggingface"
    special: Special

    @property
    def vocab_size(self) -> int:
        """Number of ids, specials included."""

    @property
    def vocabulary(self) -> list[str]:
        """The symbol of each id."""

    def encode(self, text: str | Sequence[str]) -> Tokens:
        """Raw text, or words that the user split."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of piece ids, specials left out."""

    def save(self, path: Path) -> None:
        """Write ``tokenizer.json``: vocabulary, normaliser, segmenter, their versions."""
