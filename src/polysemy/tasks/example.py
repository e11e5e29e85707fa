"""One labelled text, whatever file it came from, and which columns of the file are meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Example:
    """A text (or words that the file already separates) and what is to be predicted of it."""

    text: str | tuple[str, ...]
    label: Any  # str for a text, tuple[str, ...] for its words
    place: str  # "file:line"
    document: str | None = None
    second: str | None = None  # of tasks over pairs


@dataclass(frozen=True)
class Columns:
    """Which columns of a labelled file are read; None leaves the choice to the reader, which states it."""

    text: tuple[str, ...] | None = None  # of a table; several are joined by a line break
    label: str | None = None  # of a table, or of CoNLL-U ("upos")
    token: int = 0  # of CoNLL columns, from 0; -1 is the last
    tag: int = -1
    encoding: str = "utf-8"
