"""Raw text as a restartable stream of lines that never holds the corpus in memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.data.readers.columns import named, resolve, text_columns
from polysemy.data.readers.conll import read_conll
from polysemy.data.readers.conllu import read_conllu
from polysemy.data.readers.detect import Kind, detect, why_not_text
from polysemy.data.readers.lines import check_encoding, check_text, read_lines
from polysemy.data.readers.table import read_table, sample_rows, table_layout
from polysemy.text.words import join_words, sentences

LONG_CELL = 400  # characters: a longer line of a table's cell is cut into sentences
# Fields of a JSON record that hold the text, in this order.
FIELD_NAMES = ("text", "content", "body", "sentence", "article", "document")


class Line(NamedTuple):
    """One line (sentence, paragraph) of the corpus, as written."""

    text: str
    place: str  # "file:line"
    document: int  # number of its document, from 0, over the whole corpus; never decreases


@dataclass(frozen=True)
class Source:
    """One file of the corpus and how it is read."""

    path: Path
    name: str  # inside the folder that was given, else the file's own name
    kind: Kind
    columns: tuple[str, ...] = ()  # of a table


class Corpus:
    """Files and folders of raw text, read as often as wanted.

    Plain text (.gz and .zst too), JSONL with a text field, tables of which the text columns are read, and labelled
    files of columns of which the words are read.  Each file, each row of a table and each record begins a document;
    in plain text blank lines separate documents.  ``notes`` says what was chosen; ``ledger`` is filled by the first
    complete pass and not counted twice by later ones.

    Raises InputError when made: for a missing, unreadable, empty or binary file, an unknown encoding or column; and
    while read: at file:line for what does not decode, and at the end when no line held a word.
    """

    def __init__(
        self,
        paths: Sequence[str | Path] | str | Path,
        *,
        encoding: str = "utf-8",
        text_columns: Sequence[str] | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.encoding = check_encoding(encoding)
        self.ledger = Ledger() if ledger is None else ledger
        self.notes: list[str] = []
        self._counted = False
        given = [paths] if isinstance(paths, str | Path) else list(paths)
        if not given:
            raise InputError("no corpus given", do="Name files or folders of raw text with --corpus.")
        found = [item for path in given for item in self._expand(Path(path))]
        self.sources = [self._source(path, name, text_columns) for path, name in found]
        self.size_bytes = sum(source.path.stat().st_size for source in self.sources)

    def __iter__(self) -> Iterator[Line]:
        ledger = Ledger(keep_text=self.ledger.keep_text)
        document = -1
        words = False
        for source in self.sources:
            previous = -1
            for text, number, local in _read(source, self.encoding, ledger):
                document += local != previous
                previous = local
                words = words or any(map(str.isalnum, text))
                yield Line(text, f"{source.path}:{number}", document)
        if not words:
            raise InputError("the corpus holds no words", where=", ".join(str(s.path) for s in self.sources[:3]))
        if not self._counted:
            self._counted = True
            ledger.add("read", "documents", document + 1)
            self.ledger.merge(ledger)

    def texts(self) -> Iterator[str]:
        """The text of each line."""
        return (line.text for line in self)

    def fingerprint(self) -> str:
        """SHA-256 over names (not folders), sizes and content: the same data elsewhere have the same fingerprint."""
        digest = hashlib.sha256()
        for source in self.sources:
            digest.update(f"{source.name}\0{source.path.stat().st_size}\0{','.join(source.columns)}\0".encode())
            with source.path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        return digest.hexdigest()

    def _expand(self, path: Path) -> list[tuple[Path, str]]:
        """A file, or the files of a folder in sorted order; what is no text there is counted."""
        if not path.exists():
            raise InputError("no such file or folder", where=str(path), do="Check the spelling of the path.")
        if path.is_file():
            if path.stat().st_size == 0:
                raise InputError("the file is empty", where=str(path))
            return [(path, path.name)]
        out = []
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            name = file.relative_to(path).as_posix()
            reason = "empty file" if file.stat().st_size == 0 else why_not_text(file, self.encoding)
            if reason is None:
                out.append((file, name))
            else:
                self.ledger.add("ignored", f"files in folders: {reason}", place=str(file))
        if not out:
            raise InputError(
                "the folder holds no text", where=str(path), do="Expected .txt, .gz, .zst, .jsonl, tables."
            )
        return out

    def _source(self, path: Path, name: str, columns: Sequence[str] | None) -> Source:
        """How a file is read; what was chosen goes to ``notes``."""
        if not os.access(path, os.R_OK):
            raise InputError("no right to read the file", where=str(path))
        if path.suffix.lower() != ".parquet":
            check_text(path, self.encoding)
        kind = detect(path, self.encoding)
        if kind not in ("table", "jsonl"):
            if kind != "text":
                self.notes.append(f"{name}: labelled file; its words are read, its tags are left out")
            return Source(path, name, kind)
        names = table_layout(path, self.encoding).names
        rows = sample_rows(path, self.encoding)
        if columns is not None:
            chosen = [resolve(column, names, str(path)) for column in columns]
        elif kind == "jsonl":
            chosen = _text_field(names, rows)
        else:
            chosen = text_columns(names, rows)
        if not chosen:
            raise InputError(
                f"no column of running text among {', '.join(names)}",
                where=str(path),
                do="Name the columns that hold the text.",
            )
        left = [column for column in names if column not in chosen]
        note = f"{name}: text from {', '.join(chosen)}" + (f"; left out: {', '.join(left)}" if left else "")
        self.notes.append(note)
        return Source(path, name, kind, tuple(chosen))


def _text_field(names: Sequence[str], rows: Sequence[dict[str, str]]) -> list[str]:
    """The text field of JSON records: by name, else the longest on average."""
    field = named(names, FIELD_NAMES)
    if field is None:
        field = max(names, key=lambda name: sum(len(row.get(name, "")) for row in rows), default=None)
    return [] if field is None else [field]


Numbered = tuple[str, int, int]  # text, number of the line in its file, number of the document in its file


def _read(source: Source, encoding: str, ledger: Ledger) -> Iterator[Numbered]:
    """Lines with words or signs on them, counted."""
    count = 0
    for count, item in enumerate(_READERS[source.kind](source, encoding, ledger), 1):
        yield item
    ledger.add("read", "lines of text", count)


def _read_text(source: Source, encoding: str, ledger: Ledger) -> Iterator[Numbered]:
    document = blanks = 0
    blank = False
    for number, text in read_lines(source.path, encoding=encoding, cut=True, ledger=ledger):
        if not text or text.isspace():
            blank = True
            blanks += 1
            continue
        document += blank
        blank = False
        yield text, number, document
    if blanks:
        ledger.add("ignored", "blank lines (they separate documents)", blanks)


def _read_rows(source: Source, encoding: str, ledger: Ledger) -> Iterator[Numbered]:
    columns = source.columns if source.kind == "table" else None  # a JSON record may lack the field
    for document, (place, row) in enumerate(read_table(source.path, columns=columns, encoding=encoding, ledger=ledger)):
        number = int(place.rpartition(":")[2])
        cells = [row.get(column, "") for column in source.columns]
        if not any(cell.strip() for cell in cells):
            ledger.add("dropped", "rows without text", place=place)
        for cell in cells:
            for text in cell_lines(cell):
                yield text, number, document


def cell_lines(cell: str) -> Iterator[str]:
    """The lines of a table's cell; one of more than ``LONG_CELL`` characters is cut into its sentences."""
    for line in cell.split("\n"):
        line = line.removesuffix("\r")
        if len(line) <= LONG_CELL:
            if line and not line.isspace():
                yield line
            continue
        for start, end in sentences(line):
            if (sentence := line[start:end]) and not sentence.isspace():
                yield sentence


def _read_labelled(source: Source, encoding: str, ledger: Ledger) -> Iterator[Numbered]:
    read = read_conll if source.kind == "conll" else read_conllu
    documents: dict[str | None, int] = {}
    for sentence in read(source.path, encoding=encoding, ledger=ledger):
        number = int(sentence.place.rpartition(":")[2])
        yield join_words(sentence.words), number, documents.setdefault(sentence.document, len(documents))


_READERS = {
    "text": _read_text,
    "table": _read_rows,
    "jsonl": _read_rows,
    "conll": _read_labelled,
    "conllu": _read_labelled,
}


def pair_problem(documents: int, longest: int, lines: int | None = None) -> str | None:
    """Why next-sentence pairs cannot be drawn from a corpus, or None.

    ``longest``: sentences of its longest document; ``lines``: sentences in all, of which a tenth must have a next one.
    A true neighbour needs a document of two sentences, a random one needs another document (BERT, 3.1); otherwise one
    class would be missing or wrong.
    """
    found = f"{documents:,} document{'s' * (documents != 1)}, longest has {longest:,} sentence{'s' * (longest != 1)}"
    if documents < 2:
        return f"{found}: next-sentence prediction needs at least 2 documents (blank lines separate them)"
    if longest < 2:
        return f"{found}: next-sentence prediction needs documents of 2 sentences or more (no blank line between them)"
    if lines is not None and 10 * (lines - documents) < lines:
        return f"{found}: only {lines - documents:,} of {lines:,} have a next sentence (blank lines separate documents)"
    return None
