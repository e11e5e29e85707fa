"""Lines -> records of cells: the CSV grammar, with exact line numbers and nothing lost after a NUL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from polysemy.core.errors import InputError

CELL_LINES = 100_000  # a quoted cell with more line breaks was never closed

Line = tuple[int, str]


def split_records(
    lines: Iterable[Line], delimiter: str, *, quoted: bool, where: str, seen: list[str] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Records with the number of the line on which each begins; blank lines between records are passed over.

    ``quoted``: a cell that begins with ``"`` ends at the next single ``"``, may hold delimiters and line breaks, and
    writes ``"`` as ``""`` (RFC 4180).  Values of such cells are appended to ``seen``.  Without it, quotes are letters
    like others.  Raises InputError at file:line for a quote that is never closed or closed before the cell's end.
    """
    stream = iter(lines)
    for number, line in stream:
        if not line.strip(" \r"):
            continue
        if not quoted or '"' not in line:
            yield number, line.split(delimiter)
        else:
            yield number, _quoted_record(number, line, stream, delimiter, where, seen)


def _quoted_record(
    number: int, line: str, more: Iterator[Line], delimiter: str, where: str, seen: list[str] | None
) -> list[str]:
    """One record that may go on over the following lines."""
    cells: list[str] = []
    position = 0
    while True:
        if line.startswith('"', position):
            value, line, position = _quoted_cell(line, position + 1, more, f"{where}:{number}")
            if seen is not None:
                seen.append(value)
            if position < len(line) and not line.startswith(delimiter, position):
                raise InputError(
                    f"text after the closing quote of cell {len(cells) + 1}",
                    where=f"{where}:{number}",
                    do='Inside a quoted cell, " is written "".',
                )
        else:
            end = line.find(delimiter, position)
            end = len(line) if end < 0 else end
            value, position = line[position:end], end
        cells.append(value)
        if position >= len(line):
            return cells
        position += len(delimiter)


def _quoted_cell(line: str, position: int, more: Iterator[Line], place: str) -> tuple[str, str, int]:
    """The value, the line on which it ends, and the position after its closing quote."""
    parts: list[str] = []
    taken = 0
    while True:
        end = line.find('"', position)
        if end < 0:
            parts += [line[position:], "\n"]
            _, following = next(more, (0, None))
            taken += 1
            if following is None or taken > CELL_LINES:
                raise InputError(
                    "a quoted cell that begins in this row is never closed",
                    where=place,
                    do='Close it with ", or write "" for a quote inside it.',
                )
            line, position = following, 0
            continue
        parts.append(line[position:end])
        if not line.startswith('"', end + 1):
            return "".join(parts), line, end + 1
        parts.append('"')
        position = end + 2
