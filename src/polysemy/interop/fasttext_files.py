"""fastText ``.bin`` files (version 12, 11 and the one without a number before them; Bojanowski et al. 2017, arXiv:1607.04606): vectors, and those of character n-grams.

In order: magic, version, 12 settings, the dictionary, the input matrix (words, then n-gram buckets), the output matrix.
The vector of a word is the mean of its own row and the rows of its n-grams; a word that was never seen has its n-grams.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from polysemy.core.errors import InputError
from polysemy.interop.vector_rows import Matrix, Rows

MAGIC, VERSION = 793712314, 12
SETTINGS = [
    "dim",
    "ws",
    "epoch",
    "minCount",
    "neg",
    "wordNgrams",
    "loss",
    "model",
    "bucket",
    "minn",
    "maxn",
    "lrUpdateRate",
]
SKIP_GRAM, SUPERVISED, NEGATIVE_SAMPLING = 2, 3, 2  # numbers of fastText's models and losses
END_OF_LINE = b"</s>"
SAFE_BYTES = 1 << 27  # memory is taken in steps of this, so that a broken size cannot take all of it


@dataclass(frozen=True)
class FastTextSubwords:
    """Rows of the n-gram buckets and which n-grams count."""

    buckets: Matrix  # (buckets, dim)
    shortest: int  # characters of an n-gram, < and > that mark the word's ends included
    longest: int

    def vector(self, word: str) -> Matrix | None:
        """(dim,) mean of the rows of the word's n-grams, or None where it has none."""
        total, count = _ngram_sums([word.encode()], self)
        return total[0] / count[0] if count[0] else None


def is_new(head: bytes) -> bool:
    """Does the file begin with the magic number of versions 11 and 12?"""
    return head.startswith(struct.pack("<i", MAGIC))


def is_old(head: bytes) -> bool:
    """Do the first numbers make sense as settings of the version that had no magic number?"""
    if len(head) < struct.calcsize("<12i"):
        return False
    settings = dict(zip(SETTINGS, struct.unpack_from("<12i", head), strict=True))
    limits = {"dim": 10_000, "ws": 1000, "epoch": 100_000, "wordNgrams": 100, "loss": 3, "model": 3}
    return all(0 < settings[name] <= limit for name, limit in limits.items())


def read_bin(stream: BinaryIO, path: str) -> tuple[Rows, FastTextSubwords | None]:
    """Words and their vectors as fastText prints them, and the n-grams where the model has them."""
    read = _Reader(stream, path)
    old = not is_new(stream.peek(8))  # type: ignore[attr-defined]
    version = 0 if old else read.numbers("<2i")[1]
    settings = dict(zip(SETTINGS, read.numbers("<12i"), strict=True))
    read.numbers("<d")  # the threshold of thinning
    if version not in (0, 11, VERSION):
        raise InputError(f"fastText version {version}, not 11 or {VERSION}", where=path)
    if version == 11 and settings["model"] == SUPERVISED:
        settings["maxn"] = 0  # supervised models of that version have no character n-grams
    size, word_count, _, _ = read.numbers("<3iq")
    if not old and read.numbers("<q")[0] >= 0:
        raise InputError("a pruned fastText model", where=path, do="Name the model from before quantisation.")
    if not 0 < word_count <= size:
        raise InputError(f"a dictionary of {word_count} words among {size} entries", where=path)
    entries = [read.entry() for _ in range(size)]
    words = [word for word, kind in entries if kind == 0]
    if len(words) != word_count:
        raise InputError(f"the dictionary holds {len(words)} words instead of {word_count}", where=path)
    if not old and read.numbers("<?")[0]:
        raise InputError("a quantised fastText model", where=path, do="Name the model from before quantisation (.bin).")
    table = read.matrix()
    dim, buckets = settings["dim"], len(table) - word_count
    if table.shape[1] != dim or buckets < 0:
        raise InputError(f"{word_count} words of dimension {dim}, but a matrix of {table.shape}", where=path)
    if settings["maxn"] <= 0 or buckets == 0:
        return Rows(words, table[:word_count], path, lines=False), None
    subwords = FastTextSubwords(table[word_count:], settings["minn"], settings["maxn"])
    total, count = _ngram_sums(words, subwords)
    if not old:
        total, count = _spare_line_end(words, total, count)
    return Rows(words, (table[:word_count] + total) / (1 + count)[:, None], path, lines=False), subwords


def write_bin(stream: BinaryIO, words: list[str], matrix: Matrix, subwords: object | None) -> None:
    """A skip-gram model of version 12 with an empty output matrix; fastText and gensim give back the same vectors.

    With n-grams a word's own row is what makes the mean come out: equal to about 1e-6 of the largest number.
    """
    grams = subwords if isinstance(subwords, FastTextSubwords) else None
    buckets = grams.buckets if grams else np.empty((0, matrix.shape[1]), np.float32)
    values = {
        "dim": matrix.shape[1], "ws": 5, "epoch": 5, "minCount": 1, "neg": 5, "wordNgrams": 1, "loss": NEGATIVE_SAMPLING,
        "model": SKIP_GRAM, "bucket": len(buckets), "minn": grams.shortest if grams else 0,
        "maxn": grams.longest if grams else 0, "lrUpdateRate": 100,
    }  # fmt: skip
    stream.write(struct.pack("<14i", MAGIC, VERSION, *(values[name] for name in SETTINGS)) + struct.pack("<d", 1e-4))
    stream.write(struct.pack("<3i2q", len(words), len(words), 0, len(words), -1))
    stream.writelines(word.encode() + b"\0" + struct.pack("<qb", 1, 0) for word in words)
    rows = matrix
    if grams:
        encoded = [word.encode() for word in words]
        total, count = _spare_line_end(encoded, *_ngram_sums(encoded, grams))
        rows = (matrix.astype(np.float64) * (1 + count)[:, None] - total).astype(np.float32)
    for table in (np.concatenate([rows, buckets]), np.zeros((len(words), matrix.shape[1]), np.float32)):
        stream.write(struct.pack("<?2q", False, *table.shape))  # not quantised, rows, columns
        stream.write(np.ascontiguousarray(table, "<f4").tobytes())


class _Reader:
    """Little-endian numbers from a stream; InputError where the file ends too soon."""

    def __init__(self, stream: BinaryIO, path: str) -> None:
        self.stream, self.path = stream, path

    def take(self, count: int) -> bytes:
        data = self.stream.read(count)
        if len(data) < count:
            raise InputError("the file ends in the middle", where=self.path, do="Fetch the file again.")
        return data

    def numbers(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def entry(self) -> tuple[bytes, int]:
        """A word, its kind (0 word, 1 label); its count is passed over."""
        word = bytearray()
        while (byte := self.take(1)) != b"\0":
            word += byte
        return bytes(word), self.numbers("<qb")[1]

    def matrix(self) -> Matrix:
        rows, columns = self.numbers("<2q")
        if rows <= 0 or columns <= 0:
            raise InputError(f"a matrix of {rows} x {columns} numbers", where=self.path)
        blocks, left = [], 4 * rows * columns
        while left > 0:
            blocks.append(np.frombuffer(self.take(min(left, SAFE_BYTES)), "<f4"))
            left -= blocks[-1].nbytes
        return np.concatenate(blocks).astype(np.float32, copy=False).reshape(rows, columns)


def _ngram_sums(words: list[bytes], grams: FastTextSubwords) -> tuple[Matrix, NDArray[np.float32]]:
    """(n, dim) sum of the rows of each word's n-grams, and (n,) how many there are."""
    from polysemy.nn.ngrams import add_rows, ngrams

    rows, ends = ngrams(words, len(grams.buckets), grams.shortest, grams.longest)
    total = np.zeros((len(words), grams.buckets.shape[1]), np.float32)
    add_rows(total, np.ascontiguousarray(grams.buckets), rows, ends)
    return total, np.diff(ends, prepend=0).astype(np.float32)


def _spare_line_end(
    words: list[bytes], total: Matrix, count: NDArray[np.float32]
) -> tuple[Matrix, NDArray[np.float32]]:
    """fastText takes no n-grams of the end of a line since the version with a magic number."""
    for row in (row for row, word in enumerate(words) if word == END_OF_LINE):
        total[row], count[row] = 0.0, 0.0
    return total, count
