"""CoNLL-U (universaldependencies.org/format.html): ten columns, comments, word ranges and empty nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from polysemy.core.errors import InputError, nearest
from polysemy.core.ledger import Ledger
from polysemy.data.readers.conll import Sentence
from polysemy.data.readers.lines import read_lines

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


def read_conllu(
    path: Path | str, column: str = "upos", *, encoding: str = "utf-8", ledger: Ledger | None = None
) -> list[Sentence]:
    """Syntactic words (FORM) with the tags of ``column``; documents begin at ``# newdoc``.

    Ranges of surface words (``1-2``) and empty nodes (``5.1``) are left out and counted: the words of a range follow it.
    Raises InputError at file:line for a row without ten columns or with an id out of order, for an unknown column, and
    for a file whose ``column`` is empty ("_") throughout.
    """
    path = Path(path)
    ledger = Ledger() if ledger is None else ledger
    if column not in COLUMNS:
        raise InputError(f"no column {column!r} in CoNLL-U", where=str(path), do=nearest(column, COLUMNS))
    sentences = list(_sentences(path, COLUMNS.index(column), encoding, ledger))
    if not sentences:
        raise InputError("no sentences", where=str(path))
    if all(tag == "_" for sentence in sentences for tag in sentence.tags):
        raise InputError(f"column {column!r} is empty (_) throughout", where=str(path), do="Choose another column.")
    ledger.add("read", "sentences", len(sentences))
    ledger.add("read", "labelled words", sum(len(sentence.words) for sentence in sentences))
    return sentences


def _sentences(path: Path, column: int, encoding: str, ledger: Ledger) -> Iterator[Sentence]:
    words: list[str] = []
    tags: list[str] = []
    place = ""
    documents = 0
    for number, line in read_lines(path, encoding=encoding):
        if not line.strip():
            if words:
                yield Sentence(words, tags, place, str(documents) if documents else None)
            words, tags = [], []
            continue
        if line.startswith("#"):
            documents += line.removeprefix("#").split()[:1] == ["newdoc"]
            continue
        cells = line.split("\t")
        here = f"{path}:{number}"
        if len(cells) != len(COLUMNS):
            raise InputError(
                f"the row has {len(cells)} columns, CoNLL-U has {len(COLUMNS)} separated by tabs", where=here
            )
        if "-" in cells[0] or "." in cells[0]:
            kind = "ranges of surface words" if "-" in cells[0] else "empty nodes"
            ledger.add("ignored", f"CoNLL-U {kind}", place=here)
            continue
        if cells[0] != str(len(words) + 1):
            raise InputError(f"the id is {cells[0]!r}, expected {len(words) + 1}", where=here)
        place = place if words else here
        words.append(cells[1])
        tags.append(cells[column])
    if words:
        yield Sentence(words, tags, place, str(documents) if documents else None)


def looks_like_conllu(lines: list[str]) -> bool:
    """True when rows have ten tab-separated columns of which the first is an id."""
    rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
    return bool(rows) and all(len(row) == len(COLUMNS) and row[0][:1].isdigit() for row in rows)
