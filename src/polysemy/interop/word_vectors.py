"""Word vectors of other tools, both ways: the format is told by the first bytes, and nothing is ever unpickled.

Read: word2vec text and binary, GloVe text, fastText ``.vec`` and ``.bin``, any of them gzipped, ``.npy`` beside a list
of words.  A malformed row stops the reading with its place; ``repair=True`` drops it and counts it instead.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, cast, get_args

import numpy as np
from numpy.typing import NDArray

from polysemy.core.errors import InputError, nearest
from polysemy.core.files import atomic
from polysemy.core.ledger import Ledger
from polysemy.interop.fasttext_files import is_new, is_old, read_bin, write_bin
from polysemy.interop.vector_rows import Rows
from polysemy.interop.vector_text import NUMBER, read_text, write_text
from polysemy.interop.word2vec_binary import looks_binary, read_binary, write_binary

Matrix = NDArray[np.float32]
Format = Literal["word2vec-text", "word2vec-binary", "glove", "fasttext-bin", "npy"]
FORMATS: tuple[str, ...] = get_args(Format)

MAGIC = (  # what a file is that holds no readable vectors: first bytes, name, what to do
    (b"PK\x03\x04", "a zip archive", "Unpack it and name a file that it holds."),
    (b"\x89HDF\r\n", "an HDF5 file", "Name a word-vector file; ELMo weights are given with their options file."),
    (b"PAR1", "a Parquet file", "Write the table as .npy and a list of words."),
    (b"BZh", "a bzip2 archive", "Unpack it first."),
    (b"\xfd7zXZ", "an xz archive", "Unpack it first."),
    (b"\x28\xb5\x2f\xfd", "a zstandard archive", "Unpack it first."),
)
PICKLE = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))


class Subwords(Protocol):
    """Vectors of character n-grams, which make vectors for words that were never seen (fastText)."""

    def vector(self, word: str) -> Matrix | None:
        """(dim,), or None for a word without n-grams."""


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors; row i of ``matrix`` (n, dim) is the vector of ``words[i]``."""

    words: list[str]
    matrix: Matrix
    ledger: Ledger = field(default_factory=Ledger)
    subwords: Subwords | None = None

    def __post_init__(self) -> None:
        if self.matrix.shape[0] != len(self.words):
            raise ValueError(f"{len(self.words)} words and {self.matrix.shape[0]} vectors")

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def __contains__(self, word: str) -> bool:
        return word in self.index

    def __getitem__(self, word: str) -> Matrix:
        """The vector of a word; KeyError for an unknown one."""
        vector: Matrix = self.matrix[self.index[word]]
        return vector

    def lookup(self, words: Sequence[str]) -> tuple[Matrix, NDArray[np.bool_]]:
        """(len(words), dim) vectors and whether each is known; an unknown word is zero.

        Where the file has character n-grams an unseen word gets the vector they make, and counts as known.
        """
        out = np.zeros((len(words), self.matrix.shape[1]), np.float32)
        known = np.zeros(len(words), np.bool_)
        for place, word in enumerate(words):
            row = self.index.get(word)
            vector = self.matrix[row] if row is not None else self.subwords.vector(word) if self.subwords else None
            if vector is not None:
                out[place], known[place] = vector, True
        return out, known


def read_vectors(
    path: str | Path,
    *,
    repair: bool = False,
    errors: Literal["strict", "replace"] = "strict",
    byte_order: Literal["little", "big"] = "little",
    mmap: bool = False,
    ledger: Ledger | None = None,
) -> WordVectors:
    """Read any of the formats; duplicates after the first are ignored and counted.

    ``repair``: drop rows that cannot be read and accept a wrong count in the header, instead of stopping.  ``errors``:
    "replace" writes bytes that are not UTF-8 as ``\\xd1``, so that different words stay different.  ``byte_order`` is
    that of binary word2vec files.  ``mmap`` leaves the numbers of an ``.npy`` file on disk.  Raises InputError.
    """
    path = Path(path)
    ledger = Ledger() if ledger is None else ledger
    with opened(path) as stream:
        kind = recognize(stream, path)
        if kind == "npy":
            return _read_npy(path, ledger, mmap=mmap)
        if kind == "fasttext-bin":
            rows, subwords = read_bin(stream, str(path))
            return finish(rows, ledger, errors=errors, repair=repair, subwords=subwords)
        if kind == "word2vec-binary":
            rows = read_binary(stream, str(path), ledger, repair=repair, byte_order=byte_order)
        else:
            rows = read_text(stream, str(path), ledger, repair=repair)
    return finish(rows, ledger, errors=errors, repair=repair)


def write_vectors(path: str | Path, vectors: WordVectors, format: Format = "word2vec-text") -> None:
    """Write whole or not at all; gzipped where the name ends in ``.gz``.  What is written reads back equal.

    ``npy`` writes ``name.npy`` and ``name.words``, one word a line.  Raises InputError for a word that the format
    cannot hold: a line break in all of them, a space in those of word2vec.
    """
    path = Path(path)
    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}", do=nearest(format, FORMATS))
    if not len(vectors.words):
        raise InputError("no vectors to write", where=str(path))
    for row, word in enumerate(vectors.words):
        if not _fits(word, format):
            raise InputError(
                f"{format} cannot hold the word {word!r} of row {row + 1}", where=str(path),
                do="Write it as npy." if _fits(word, "npy") else "Leave the word out.",
            )  # fmt: skip
    if format == "npy":
        _write_npy(path, vectors)
        return
    with atomic(path) as part, _writer(part, path) as stream:
        if format == "word2vec-binary":
            write_binary(stream, vectors.words, vectors.matrix)
        elif format == "fasttext-bin":
            write_bin(stream, vectors.words, vectors.matrix, vectors.subwords)
        else:
            write_text(stream, vectors.words, vectors.matrix, header=format == "word2vec-text")


def _fits(word: str, format: Format) -> bool:
    """Would every reader of the format find this word, and only this word?"""
    if not word or "\n" in word or word != word.strip(" \r\ufeff"):
        return False
    if format == "npy":
        return True
    if format == "fasttext-bin":
        return "\0" not in word
    if format == "glove":
        return " " not in word or NUMBER.fullmatch(word.rpartition(" ")[2].encode()) is None
    return " " not in word


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A buffered stream of the file's bytes, unzipped where it is gzip."""
    try:
        with path.open("rb") as file:
            if not file.peek(2).startswith(b"\x1f\x8b"):
                yield file
                return
            with gzip.open(file, "rb") as unzipped:
                yield cast(BinaryIO, unzipped)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"damaged gzip: {error}", where=str(path), do="Fetch the file again.") from error
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", where=str(path)) from error


def recognize(stream: BinaryIO, path: Path) -> str:
    """The format by the first bytes, which are not consumed; InputError names what is no word-vector file."""
    head: bytes = stream.peek(1 << 16)  # type: ignore[attr-defined]
    if not head:
        raise InputError("the file is empty", where=str(path))
    if head.startswith(PICKLE):
        raise InputError(
            "this is a pickle, which may run anything when it is opened", where=str(path),
            do="Save the vectors from the tool that made it (gensim: save_word2vec_format).",
        )  # fmt: skip
    for magic, name, advice in MAGIC:
        if head.startswith(magic):
            raise InputError(f"this is {name}, not word vectors", where=str(path), do=advice)
    if head.startswith(b"\x93NUMPY"):
        return "npy"

    if is_new(head) or is_old(head):
        return "fasttext-bin"

    return "word2vec-binary" if looks_binary(head) else "text"


def finish(rows: Rows, ledger: Ledger, *, errors: str, repair: bool, subwords: Subwords | None = None) -> WordVectors:
    """Decode the words, refuse numbers that are not finite, ignore repeated words."""
    matrix = rows.matrix
    keep = np.ones(len(rows.words), np.bool_)
    if not np.isfinite(matrix).all():
        for row in np.flatnonzero(~np.isfinite(matrix).all(1)).tolist():
            excerpt = rows.words[row].decode("utf-8", "backslashreplace")
            if not repair:
                raise InputError(
                    f"the vector of {excerpt!r} has a number that is not finite", where=rows.place(row),
                    do="Correct the row, or repair while reading.",
                )  # fmt: skip
            ledger.add("dropped", "vector with a number that is not finite", place=rows.place(row), excerpt=excerpt)
            keep[row] = False
    words = _decode(rows, ledger, errors)
    for row in (row for row, word in enumerate(words) if not word):
        if not repair:
            raise InputError("a row without a word", where=rows.place(row), do="Repair while reading to leave it out.")
        ledger.add("dropped", "row without a word", place=rows.place(row))
        keep[row] = False
    first: dict[str, int] = {}
    for row, word in enumerate(words):
        if keep[row] and first.setdefault(word, row) != row:
            ledger.add("ignored", "duplicate word", place=rows.place(row), excerpt=word)
            keep[row] = False
    if not keep.any():
        raise InputError("no word vectors in this file", where=rows.path)
    ledger.add("read", "vectors", len(words))
    if not keep.all():
        words, matrix = [words[row] for row in np.flatnonzero(keep)], matrix[keep]
    ledger.add("kept", "vectors", len(words))
    spaced = [row for row, word in enumerate(words) if " " in word]
    if spaced:
        ledger.add("kept", "words with spaces", len(spaced), excerpt=words[spaced[0]])
    return WordVectors(words, matrix, ledger, subwords)


def _decode(rows: Rows, ledger: Ledger, errors: str) -> list[str]:
    """Bytes -> words; bytes that are not UTF-8 stop the reading or are written out."""
    words = []
    for row, word in enumerate(rows.words):
        try:
            words.append(word.decode())
        except UnicodeDecodeError:
            if errors == "strict":
                raise InputError(
                    f"the word of row {row + 1}, bytes {word[:40].hex(' ').upper()}, is not UTF-8",
                    where=rows.place(row), do='Read with errors="replace", or convert the file to UTF-8.',
                ) from None  # fmt: skip
            words.append(word.decode("utf-8", "backslashreplace"))
            ledger.add("repaired", "bytes that are not UTF-8 written out", place=rows.place(row), excerpt=words[-1])
    return words


def _read_npy(path: Path, ledger: Ledger, *, mmap: bool) -> WordVectors:
    """``name.npy`` (n, dim) and the words of its rows, one a line, in ``name.words`` or ``name.txt``."""
    lists = [path.with_suffix(".words"), path.with_suffix(".txt")]
    listed = next((p for p in lists if p.is_file()), None)
    if listed is None:
        raise InputError("no list of words beside it", where=str(path), do=f"Put one word a line into {lists[0].name}.")
    try:
        matrix = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
        lines = listed.read_bytes().split(b"\n")
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"not a readable .npy file: {error}", where=str(path)) from error
    words = [line.removesuffix(b"\r") for line in (lines[:-1] if not lines[-1] else lines)]
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating):
        raise InputError(f"expected a matrix of floats, found {matrix.dtype} {matrix.shape}", where=str(path))
    if len(words) != len(matrix):
        raise InputError(f"{len(matrix)} vectors and {len(words)} words in {listed.name}", where=str(path))
    rows = Rows(words, matrix if matrix.dtype == np.float32 else matrix.astype(np.float32), str(listed), lines=True)
    return finish(rows, ledger, errors="strict", repair=False)


def _write_npy(path: Path, vectors: WordVectors) -> None:
    path = path.with_suffix(".npy")
    with atomic(path) as part, part.open("wb") as file:
        np.save(file, np.ascontiguousarray(vectors.matrix, np.float32))
    with atomic(path.with_suffix(".words")) as part:
        part.write_bytes("".join(word + "\n" for word in vectors.words).encode())


@contextmanager
def _writer(part: Path, path: Path) -> Iterator[BinaryIO]:
    with part.open("wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as zipped:  # no name and no time: the same bytes every time
            yield cast(BinaryIO, zipped)
