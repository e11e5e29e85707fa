"""Tables: TSV, CSV, JSONL, Parquet, and files of ``label text`` lines.  Every row comes with its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.data.readers.columns import find_label, find_text, looks_like_header, resolve
from polysemy.data.readers.lines import beginning, read_lines
from polysemy.data.readers.records import split_records

QUOTE_ROWS = 20_000  # rows that decide whether quotes in a TSV enclose cells or are letters
PACKED = (".gz", ".zst")
Format = Literal["delimited", "labelled", "jsonl", "parquet"]


@dataclass(frozen=True)
class Layout:
    """How a table is written."""

    format: Format
    names: tuple[str, ...]  # of the columns; "1", "2", ... where the file does not name them
    header: bool = False  # the first row names the columns
    delimiter: str = "\t"
    quoted: bool = False


def suffix(path: Path) -> str:
    """The last suffix in lower case, ``.gz`` and ``.zst`` left out."""
    parts = [part.lower() for part in path.suffixes if part.lower() not in PACKED]
    return parts[-1] if parts else ""


def table_layout(path: Path, encoding: str = "utf-8") -> Layout:
    """How ``path`` is written, by its suffix and its first rows.

    Raises InputError for a file without rows and for one that is no table.
    """
    kind = suffix(path)
    if kind == ".parquet":
        return Layout("parquet", tuple(_parquet(path).schema_arrow.names))
    numbered = beginning(read_lines(path, encoding=encoding), lambda line: len(line[1]))
    sample = [line for _, line in numbered if line.strip()]
    if not sample:
        raise InputError("the table is empty", where=str(path))
    if kind in (".jsonl", ".ndjson") or (sample[0].startswith("{") and kind not in (".csv", ".tsv", ".tab")):
        records = beginning(_json_rows(path, encoding), _row_size)
        return Layout("jsonl", tuple(dict.fromkeys(name for _, record in records for name in record)))
    if kind not in (".csv", ".tsv", ".tab") and not tabs_agree(sample):
        if labelled_lines(sample):
            return Layout("labelled", ("label", "text"))
        raise InputError(
            "no table: lines have neither equal numbers of tabs nor a label in front",
            where=str(path),
            do="Give TSV, CSV, JSONL, Parquet or lines of 'label text'.",
        )
    delimiter = _delimiter(path, encoding) if kind == ".csv" else "\t"
    quoted = kind == ".csv" or _quotes_enclose(path, encoding, delimiter)
    lines = read_lines(path, encoding=encoding)
    first, *rest = [cells for _, cells in beginning(_records(lines, delimiter, quoted, path), _cells_size)]
    header = looks_like_header(first, rest)
    names = tuple(cell.strip() for cell in first) if header else tuple(str(i + 1) for i in range(len(first)))
    return Layout("delimited", names, header, delimiter, quoted)


def tabs_agree(lines: Sequence[str]) -> bool:
    """True when every line has the same number of tabs, at least one, and there are two lines or more."""
    return len(lines) >= 2 and len({line.count("\t") for line in lines}) == 1 and "\t" in lines[0]


def labelled_lines(lines: Sequence[str], *, sure: bool = False) -> bool:
    """True when every line begins with one of a few labels, then a space and a text.

    ``sure`` (for raw text, which may begin its lines alike by chance) asks for labels that are numbers or begin with
    ``__label__``.
    """
    pairs = [line.lstrip(" \t").partition(" ") for line in lines]
    if (
        len(lines) < 2
        or not all(space for _, space, _ in pairs)
        or 2 * sum(bool(t.strip()) for *_, t in pairs) < len(lines)
    ):
        return False
    labels = {label for label, _, _ in pairs}  # one alone in the first rows of a file that is sorted by label
    if sure and not all(re.fullmatch(r"\d{1,2}|__label__\S+", label) for label in labels):
        return False
    return (len(labels) >= 2 or len(lines) >= 20) and len(labels) <= 100 and 2 * len(labels) <= max(4, len(lines))


def read_table(
    path: Path | str, *, columns: Sequence[str] | None = None, encoding: str = "utf-8", ledger: Ledger | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows as ``(file:line, {column: cell})``; ``columns`` (names, or numbers from 1) leaves the others out.

    Cells are strings as written, NUL and line breaks included; numbers of JSONL and Parquet are written as strings and
    an absent value is "".  Raises InputError at file:line for a row with another number of cells than the first, a
    quote that is not closed, broken JSON or a record without an asked column, and for an unknown column.
    """
    path = Path(path)
    ledger = Ledger() if ledger is None else ledger
    layout = table_layout(path, encoding)
    chosen = None if columns is None else [resolve(name, layout.names, str(path)) for name in columns]
    count = 0
    for count, (place, row) in enumerate(_rows(path, encoding, layout), 1):
        if chosen is None:
            yield place, row
        elif missing := [name for name in chosen if name not in row]:
            raise InputError(f"the record has no field {missing[0]!r}", where=place)
        else:
            yield place, {name: row[name] for name in chosen}
    ledger.add("read", "rows of tables", count)


def find_columns(
    path: Path | str, *, text: Sequence[str] | None = None, label: str | None = None, encoding: str = "utf-8"
) -> tuple[list[str], str | None]:
    """Text columns and label column of a labelled table: those given, else by name, else by content.

    The label is None when the table has none (a test file to predict).  Raises InputError for an unknown column, with
    the nearest name, and for a table in which no column holds text.
    """
    path = Path(path)
    layout = table_layout(path, encoding)
    rows = [row for _, row in beginning(_rows(path, encoding, layout), _row_size)]
    given = None if label is None else resolve(label, layout.names, str(path))
    others = [name for name in layout.names if name != given]
    texts = [resolve(name, layout.names, str(path)) for name in text or ()]
    if not texts and (found := find_text(others, rows)) is not None:
        texts = [found]
    if not texts:
        raise InputError(
            f"no column of text among {', '.join(layout.names)}", where=str(path), do="Name it (columns.text)."
        )
    return texts, given if given is not None else find_label(layout.names, rows, texts)


def _rows(path: Path, encoding: str, layout: Layout) -> Iterator[tuple[str, dict[str, str]]]:
    """All rows of a table whose layout is known."""
    if layout.format == "parquet":
        yield from _parquet_rows(path)
    elif layout.format == "jsonl":
        yield from _json_rows(path, encoding)
    elif layout.format == "labelled":
        yield from _labelled_rows(path, encoding)
    else:
        lines = read_lines(path, encoding=encoding)
        names, width = layout.names, len(layout.names)
        for number, cells in islice(_records(lines, layout.delimiter, layout.quoted, path), int(layout.header), None):
            if len(cells) != width:
                raise InputError(
                    f"the row has {len(cells)} cell{'s' * (len(cells) != 1)}, the first row has {width}",
                    where=f"{path}:{number}",
                    do="Give every row the same number of cells; put cells that contain the delimiter in quotes.",
                )
            yield f"{path}:{number}", dict(zip(names, cells, strict=True))


def _records(
    lines: Iterator[tuple[int, str]], delimiter: str, quoted: bool, path: Path, seen: list[str] | None = None
) -> Iterator[tuple[int, list[str]]]:
    return split_records(lines, delimiter, quoted=quoted, where=str(path), seen=seen)


def _row_size(row: tuple[str, dict[str, str]]) -> int:
    return sum(map(len, row[1].values()))


def _cells_size(record: tuple[int, list[str]]) -> int:
    return sum(map(len, record[1]))


def sample_rows(path: Path, encoding: str = "utf-8") -> list[dict[str, str]]:
    """The first rows of a table, from which its columns are judged."""
    return [row for _, row in beginning(read_table(path, encoding=encoding), _row_size)]


def _labelled_rows(path: Path, encoding: str) -> Iterator[tuple[str, dict[str, str]]]:
    for number, line in read_lines(path, encoding=encoding):
        if not line.strip():
            continue
        label, space, text = line.lstrip(" \t").partition(" ")
        if not space:  # "label " is an example of an empty text, as an empty cell is
            raise InputError("a label without a text", where=f"{path}:{number}", do="Write 'label text' on each line.")
        yield f"{path}:{number}", {"label": label.removeprefix("__label__"), "text": text}


def _json_rows(path: Path, encoding: str) -> Iterator[tuple[str, dict[str, str]]]:
    for number, line in read_lines(path, encoding=encoding):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(
                f"broken JSON ({error})", where=f"{path}:{number}", do="Write one object a line."
            ) from error
        if not isinstance(record, dict):
            raise InputError("the JSON is no object", where=f"{path}:{number}", do='Write {"text": ...} on each line.')
        yield f"{path}:{number}", {str(name): _cell(value) for name, value in record.items()}


def _parquet(path: Path) -> Any:
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"cannot read the Parquet table ({error})", where=str(path)) from error


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    number = 0
    for batch in _parquet(path).iter_batches(batch_size=1024):
        for record in batch.to_pylist():
            number += 1
            yield f"{path}:{number}", {name: _cell(value) for name, value in record.items()}


def _cell(value: Any) -> str:
    """A value of JSON or Parquet as the string that stands for it in a text table."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _delimiter(path: Path, encoding: str) -> str:
    """The delimiter of a CSV file: the one that gives all first rows the same number of cells, at least two."""
    best, best_width = ",", 1
    for delimiter in (",", ";", "\t", "|"):
        rows = _records(read_lines(path, encoding=encoding), delimiter, True, path)
        try:
            widths = {len(cells) for _, cells in beginning(rows, _cells_size)}
        except InputError:
            continue
        if len(widths) == 1 and (width := widths.pop()) > best_width:
            best, best_width = delimiter, width
    return best


def _quotes_enclose(path: Path, encoding: str, delimiter: str) -> bool:
    """Whether quotes in a TSV enclose cells: all rows fit that grammar, and every enclosed cell has a reason for it.

    Writers that quote do so for a delimiter, a quote or a line break inside, or for every cell.  Elsewhere (the GLUE
    files) a sentence in quotation marks simply begins and ends with them.
    """
    seen: list[str] = []
    enclosed = reasons = cells = 0
    widths: set[int] = set()
    records = _records(read_lines(path, encoding=encoding), delimiter, True, path, seen)
    try:
        for _, row in islice(records, QUOTE_ROWS):
            cells += len(row)
            widths.add(len(row))
            enclosed += len(seen)
            reasons += sum(delimiter in value or '"' in value or "\n" in value for value in seen)
            seen.clear()
    except InputError:
        return False
    return len(widths) == 1 and enclosed > 0 and (reasons == enclosed or cells == enclosed)
