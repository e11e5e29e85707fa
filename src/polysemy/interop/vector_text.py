"""Word vectors as text: word2vec and fastText ``.vec`` with a header of two numbers, GloVe without.

A row is the word, then ``dim`` numbers, all between U+0020; only ``\\n`` ends a line.  The last ``dim`` fields are the
numbers and what stands before them is the word, so that a word may hold spaces; empty fields are nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.interop.vector_rows import HEADER, Matrix, Rows, joined

BLOCK_BYTES = 4 << 20
PROBED = 100  # rows of which the dimension is told where there is no header
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
BOM = b"\xef\xbb\xbf"


def read_text(stream: BinaryIO, path: str, ledger: Ledger, *, repair: bool) -> Rows:
    """Rows of a text file; InputError with file and line for a row that does not hold ``dim`` numbers."""
    blocks = _blocks(stream)
    lines = next(blocks, [])
    if lines and lines[0].startswith(BOM):
        lines[0] = lines[0].removeprefix(BOM)
        ledger.add("repaired", "byte-order mark removed", place=f"{path}:1")
    declared = _header(lines)
    number = 1
    if declared is not None:
        lines, number = lines[1:], 2
    dim = declared[1] if declared else _dimension(lines, path)
    words: list[bytes] = []
    numbers: list[int] = []
    matrices: list[Matrix] = []
    reader = _Reader(path, dim, ledger, repair)
    while True:
        block_words, block_numbers, matrix = reader.block(lines, number)
        words += block_words
        numbers += block_numbers
        matrices.append(matrix)
        number += len(lines)
        if (following := next(blocks, None)) is None:
            break
        lines = following
    if declared and declared[0] != len(words) + reader.dropped:
        if not repair:
            raise InputError(
                f"the header says {declared[0]} vectors, the file has {len(words)}", where=f"{path}:1",
                do="Fetch the file again if it was cut off, correct the header, or repair while reading.",
            )  # fmt: skip
        ledger.add("repaired", f"header says {declared[0]} vectors", place=f"{path}:1")
    return Rows(words, joined(matrices, dim), path, lines=True, numbers=numbers)


def write_text(stream: BinaryIO, words: list[str], matrix: Matrix, *, header: bool) -> None:
    """Nine significant digits, which give back the same float32; a lone number keeps its point, so that no row of a
    table of one dimension looks like a header."""
    if header:
        stream.write(b"%d %d\n" % matrix.shape)
    row_format = " %.9g" * matrix.shape[1] + "\n" if matrix.shape[1] > 1 else " %#.9g\n"
    rows = zip(words, matrix, strict=True)
    stream.writelines((word + row_format % tuple(row.tolist())).encode() for word, row in rows)


class _Reader:
    """Blocks of lines -> words, their lines, numbers.  Regular rows are read together, odd ones one by one."""

    def __init__(self, path: str, dim: int, ledger: Ledger, repair: bool) -> None:
        self.path, self.dim, self.ledger, self.repair = path, dim, ledger, repair
        self.dropped = 0

    def block(self, lines: list[bytes], first: int) -> tuple[list[bytes], list[int], Matrix]:
        """Rows of consecutive lines, the first of which is line ``first`` of the file."""
        words: list[bytes] = []
        regular: list[bytes] = []
        numbers: list[int] = []
        odd: list[int] = []
        spaces = self.dim - 1
        for number, line in enumerate(lines, first):
            word, _, rest = line.rstrip(b" \r").partition(b" ")
            if word and rest.count(b" ") == spaces:
                words.append(word)
                regular.append(rest)
                numbers.append(number)
            else:
                odd.append(number)
        matrix = _parse(regular, self.dim) if regular else np.empty((0, self.dim), np.float32)
        if matrix is None:
            words, numbers, matrix, odd = (
                [],
                [],
                np.empty((0, self.dim), np.float32),
                [*range(first, first + len(lines))],
            )
        if not odd:
            return words, numbers, matrix
        return self._merge(words, numbers, matrix, [(n, *self.row(lines[n - first], n)) for n in odd])

    def _merge(
        self, words: list[bytes], numbers: list[int], matrix: Matrix, odd: list[tuple[int, bytes, list[float]]]
    ) -> tuple[list[bytes], list[int], Matrix]:
        """Put the rows that were read one by one where they belong; those without numbers are dropped."""
        odd = [row for row in odd if row[2]]
        all_numbers = np.array(numbers + [number for number, _, _ in odd], np.int64)
        with np.errstate(over="ignore"):  # too large for float32: infinite, and refused as such
            values = np.array([values for _, _, values in odd]).reshape(-1, self.dim).astype(np.float32)
        order = np.argsort(all_numbers)
        words = words + [word for _, word, _ in odd]
        return [words[i] for i in order], all_numbers[order].tolist(), np.concatenate([matrix, values])[order]

    def row(self, line: bytes, number: int) -> tuple[bytes, list[float]]:
        """Word and numbers of one line; no numbers where the line is dropped."""
        line = line.rstrip(b" \r")
        if not line:
            self.ledger.add("ignored", "empty line", place=f"{self.path}:{number}")
            return b"", []
        fields = line.split(b" ")
        values: list[float] = []
        while len(fields) > 1 and len(values) < self.dim and (not fields[-1] or NUMBER.fullmatch(fields[-1])):
            if field := fields.pop():
                values.append(float(field))
        word = b" ".join(fields).rstrip(b" ")
        if len(values) == self.dim and word:
            return word, values[::-1]
        shown = word.decode("utf-8", "backslashreplace")[:40]
        what = f"word {shown!r}: expected {self.dim} numbers, found {len(values)}" if word else "a row without a word"
        if not self.repair:
            raise InputError(what, where=f"{self.path}:{number}", do="Correct the row, or repair while reading.")
        self.ledger.add(
            "dropped", "row with too few numbers or without a word", place=f"{self.path}:{number}", excerpt=what
        )
        self.dropped += 1
        return b"", []


def _blocks(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Whole lines, a few megabytes at a time."""
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        cut = block.rfind(b"\n")
        if cut < 0:
            rest += block
            continue
        yield (rest + block[:cut]).split(b"\n")
        rest = block[cut + 1 :]
    if rest:
        yield [rest]


def _header(lines: list[bytes]) -> tuple[int, int] | None:
    """(vectors, dim) where the first line is two whole numbers and the rows are no table of one number a word."""
    header = HEADER.fullmatch(lines[0]) if lines else None
    if header is None or int(header[2]) == 0:
        return None
    single = len(lines) > 1 and all(len(line.split()) == 2 for line in lines[1:PROBED] if line.strip())
    return None if single and int(header[2]) != 1 else (int(header[1]), int(header[2]))


def _dimension(lines: list[bytes], path: str) -> int:
    """How many numbers most of the first rows end in; the first field is always the word."""
    counts: Counter[int] = Counter()
    for line in lines[:PROBED]:
        fields = [field for field in line.rstrip(b"\r").split(b" ") if field]
        numbers = 0
        while numbers < len(fields) - 1 and NUMBER.fullmatch(fields[-1 - numbers]):
            numbers += 1
        counts[numbers] += 1
    dim = counts.most_common(1)[0][0] if counts else 0
    if dim == 0:
        raise InputError(
            "no word vectors: the rows do not end in numbers", where=f"{path}:1",
            do="Name a file of word2vec, GloVe or fastText.",
        )  # fmt: skip
    return dim


def _parse(rows: list[bytes], dim: int) -> Matrix | None:
    """(rows, dim), or None where any row is not ``dim`` plain numbers between single spaces."""
    from pyarrow import ArrowInvalid, BufferReader, csv, float32  # type: ignore[import-untyped]

    data = b"\n".join(rows)
    if not data.isascii() or b"\r" in data or b"\t" in data:  # which this parser takes for more than characters
        return None
    names = [str(column) for column in range(dim)]
    try:
        table = csv.read_csv(
            BufferReader(data),
            csv.ReadOptions(column_names=names, block_size=max(len(data), 1) + 1),
            csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False, ignore_empty_lines=False),
            csv.ConvertOptions(column_types=dict.fromkeys(names, float32()), null_values=[], check_utf8=False),
        )
    except ArrowInvalid:
        return None
    if table.num_rows != len(rows):
        return None
    matrix = np.empty((len(rows), dim), np.float32)
    for column, values in enumerate(table.columns):
        matrix[:, column] = values.to_numpy()
    return matrix
