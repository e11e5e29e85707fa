"""CoNLL columns: a word and its tags on each line, a blank line between sentences, -DOCSTART- between documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.data.readers.lines import read_lines

DOCUMENT_MARK = "-DOCSTART-"
_ASCII_SPACE = re.compile(r"[ \t]+")  # no other white space separates: a token may hold U+2009 or U+00A0
_SPAN_TAG = re.compile(r"O|[BIESMLU](?:-\S+)?")
_PLAIN_TAG = re.compile(r"[A-Z][A-Z0-9$:_-]*|[^\w\s]+")  # tags of parts of speech

Row = tuple[int, list[str]]


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words with one tag each."""

    words: list[str]
    tags: list[str]
    place: str  # "file:line" of the first word
    document: str | None  # None where the file marks no documents


def read_conll(
    path: Path | str,
    *,
    token_column: int = 0,
    tag_column: int = -1,
    encoding: str = "utf-8",
    ledger: Ledger | None = None,
) -> list[Sentence]:
    """The sentences of a file of columns, tags as written (see ``data.schemes`` for their scheme).

    Columns are separated by tabs when every row has one, else by runs of ASCII spaces and tabs; other white space
    belongs to the token.  A line that is empty or holds only white space ends a sentence; -DOCSTART- begins a document.
    A line that begins with ``#`` at the head of a sentence and has another number of columns is a comment (counted).
    Raises InputError at file:line for a row with fewer or more columns than the first, and for a file without words.
    """
    path = Path(path)
    ledger = Ledger() if ledger is None else ledger
    sentences = list(_sentences(path, (token_column, tag_column), encoding, ledger))
    if not sentences:
        raise InputError(
            "no sentences", where=str(path), do="Give lines of 'word tag' with a blank line between sentences."
        )
    ledger.add("read", "sentences", len(sentences))
    ledger.add("read", "labelled words", sum(len(sentence.words) for sentence in sentences))
    return sentences


def _sentences(path: Path, columns: tuple[int, int], encoding: str, ledger: Ledger) -> Iterator[Sentence]:
    lines = list(_rows(path, encoding))
    width = _width(lines, columns, path)
    rows: list[Row] = []
    documents = 0
    for number, cells in lines:
        if not cells or cells[0] == DOCUMENT_MARK:
            if rows:
                yield _sentence(path, rows, columns, documents)
                rows = []
            documents += bool(cells)
        elif len(cells) == width:
            rows.append((number, cells))
        elif cells[0].startswith("#") and not rows:
            ledger.add("ignored", "comment lines", place=f"{path}:{number}")
        else:
            raise InputError(
                f"the row has {len(cells)} column{'s' * (len(cells) != 1)}, the first row has {width}",
                where=f"{path}:{number}",
                do="Give every word the same number of columns, and separate sentences by a blank line.",
            )
    if rows:
        yield _sentence(path, rows, columns, documents)


def _rows(path: Path, encoding: str) -> Iterator[Row]:
    """The cells of each line; none for a line that separates sentences."""
    lines = list(read_lines(path, encoding=encoding))
    tabs = all("\t" in line for _, line in lines if line.strip() and not line.startswith((DOCUMENT_MARK, "#")))
    for number, line in lines:
        if not line.strip():
            yield number, []
        elif tabs and not line.startswith(DOCUMENT_MARK):
            cells = [cell.strip(" ") for cell in line.rstrip(" \t").split("\t")]
            if "" in cells:
                raise InputError(f"column {cells.index('') + 1} is empty", where=f"{path}:{number}")
            yield number, cells
        else:
            yield number, _ASCII_SPACE.split(line.strip(" \t"))


def _width(lines: Sequence[Row], columns: Sequence[int], path: Path) -> int:
    """Number of columns of the first row that is no comment and no document mark; 0 without rows."""
    data = [row for row in lines if row[1] and row[1][0] != DOCUMENT_MARK]
    number, cells = next((row for row in data if not row[1][0].startswith("#")), data[0] if data else (0, []))
    width = len(cells)
    if width == 1:
        raise InputError(
            "the row has 1 column: a word without a tag", where=f"{path}:{number}", do="Write 'word tag' on each line."
        )
    for column in columns:
        if width and not -width <= column < width:
            raise InputError(f"no column {column}: the rows have {width}, counted from 0", where=f"{path}:{number}")
    return width


def _sentence(path: Path, rows: Sequence[Row], columns: tuple[int, int], documents: int) -> Sentence:
    token, tag = columns
    return Sentence(
        words=[cells[token] for _, cells in rows],
        tags=[cells[tag] for _, cells in rows],
        place=f"{path}:{rows[0][0]}",
        document=str(documents) if documents else None,
    )


def looks_like_conll(lines: Sequence[str]) -> bool:
    """True when the first lines of a file are rows of columns with tags and not running text.

    All rows have the same number of columns, two or more, and the last column holds tags: those of spans (O, B-PER), or
    at least 20 rows of few capitalised ones (NOUN), two of them letters: short sentences that happen to have equally
    many words all end in a mark.
    """
    rows = [_ASCII_SPACE.split(line.strip(" \t")) for line in lines if line.strip()]
    rows = [cells for cells in rows if cells[0] != DOCUMENT_MARK]
    widths = {len(cells) for cells in rows}
    if len(widths) != 1 or widths == {1}:
        return False
    tags = [cells[-1] for cells in rows]
    if all(_SPAN_TAG.fullmatch(tag) for tag in tags):
        return True
    named = {tag for tag in tags if tag[0].isalpha()}
    if len(named) < 2:
        return False
    return len(tags) >= 20 and 5 * len(set(tags)) <= len(tags) and all(_PLAIN_TAG.fullmatch(tag) for tag in tags)
