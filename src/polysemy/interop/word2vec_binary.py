"""Binary files of word2vec: a header "n dim", then for each word its bytes, a space and ``dim`` float32.

The original tool ends each row with a line break, gensim does not; both are read, the original's is written.
"""

from __future__ import annotations

from typing import BinaryIO, Literal

import numpy as np

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.interop.vector_rows import HEADER, Matrix, Rows, joined

BLOCK_BYTES = 16 << 20
MAX_WORD = 1 << 16  # bytes; a longer "word" means that this is no such file
TEXT = frozenset(b"0123456789+-.eEnaifNAIFtyTY")  # of numbers
CHECKED = 100  # rows whose numbers tell the byte order


def looks_binary(head: bytes) -> bool:
    """After a header: control characters by the dozen, or a first row that does not end in a number?"""
    header = HEADER.match(head)
    if header is None or header.end() == len(head):
        return False
    sample = head[header.end() : header.end() + 4096]
    control = sum(byte < 32 and byte not in b"\t\n\r" for byte in sample)
    fields = sample.partition(b"\n")[0].split()
    return control > len(sample) / 100 or len(fields) < 2 or any(byte not in TEXT for byte in fields[-1])


def read_binary(
    stream: BinaryIO, path: str, ledger: Ledger, *, repair: bool, byte_order: Literal["little", "big"]
) -> Rows:
    """Rows of a binary file.  Raises InputError where the header's count and the bytes disagree."""
    header = HEADER.match(line := stream.readline(100))
    if header is None:
        raise InputError(f"no header of two numbers: {line[:40]!r}", where=f"{path}:1")
    declared, dim = int(header[1]), int(header[2])
    if dim == 0:
        raise InputError("the header says 0 numbers a vector", where=f"{path}:1")
    words: list[bytes] = []
    blocks: list[Matrix] = []
    kind = np.dtype("<f4" if byte_order == "little" else ">f4")
    rest = b""
    while len(words) < declared:
        block = stream.read(max(BLOCK_BYTES, 4 * dim))
        rest += block
        found, vectors, used = _rows(rest, declared - len(words), 4 * dim)
        words += found
        blocks.append(np.frombuffer(vectors, kind).reshape(-1, dim).astype(np.float32))
        if len(words) == len(found):
            _check_order(blocks[0][:CHECKED], path, byte_order)
        rest = rest[used:]
        if not block:
            break
        if rest.find(b" ", 0, MAX_WORD) < 0 and len(rest) > MAX_WORD:
            raise InputError(f"no word ends within {MAX_WORD} bytes", where=f"{path}: row {len(words) + 1}")
    left = rest + stream.read(BLOCK_BYTES)
    if len(words) < declared or left.strip(b"\n"):
        what = (
            f"the header says {declared} vectors of {dim} numbers, the file ends in row {len(words) + 1}"
            if len(words) < declared
            else f"the header says {declared} vectors, and more bytes follow them"
        )
        if not repair:
            raise InputError(what, where=path, do="Fetch the file again if it was cut off, or repair while reading.")
        ledger.add("repaired", what, place=path)
    return Rows(words, joined(blocks, dim), path, lines=False)


def write_binary(stream: BinaryIO, words: list[str], matrix: Matrix) -> None:
    """Little-endian, a line break after each row, as the original tool writes it."""
    stream.write(b"%d %d\n" % matrix.shape)
    rows = zip(words, np.ascontiguousarray(matrix, "<f4"), strict=True)
    stream.writelines(word.encode() + b" " + row.tobytes() + b"\n" for word, row in rows)


def _rows(data: bytes, count: int, size: int) -> tuple[list[bytes], bytes, int]:
    """Up to ``count`` whole rows at the beginning of ``data``: words, their numbers' bytes, bytes used."""
    words: list[bytes] = []
    vectors: list[bytes] = []
    place = 0
    while len(words) < count:
        space = data.find(b" ", place)
        end = space + 1 + size
        if space < 0 or end > len(data):
            break
        words.append(data[place:space].lstrip(b"\n"))
        vectors.append(data[space + 1 : end])
        place = end
    return words, b"".join(vectors), place


def _check_order(sample: Matrix, path: str, byte_order: str) -> None:
    """Numbers that make sense only when their bytes are turned round stop the reading."""
    if len(sample) and _absurd(sample) > 0.5 and _absurd(sample.byteswap()) < 0.1:
        other = "big" if byte_order == "little" else "little"
        raise InputError(f"the numbers look {other}-endian", where=path, do=f'Read with byte_order="{other}".')


def _absurd(numbers: Matrix) -> float:
    """Part of the numbers that no training makes: not finite, huge, or next to nothing without being zero."""
    with np.errstate(invalid="ignore"):
        size = np.abs(numbers)
        odd = ~np.isfinite(numbers) | (size > 1e6) | ((size < 1e-12) & (size > 0))
    return float(odd.mean())
