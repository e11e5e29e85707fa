"""Bytes on disk -> lines of text: compression by first bytes, strict decoding, lines only at line feeds."""

from __future__ import annotations

import codecs
import gzip
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger

BLOCK_BYTES = 1 << 20
LINE_LIMIT = 1 << 20  # characters: longer lines of a corpus are cut at white space, so that memory stays bounded
CELL_LIMIT = 1 << 26  # characters: a longer line of a labelled file is a mistake
SAMPLE_ITEMS, SAMPLE_CHARACTERS = 2000, 1 << 21  # of the beginning of a file, from which its format is judged

# First bytes of files that hold no text, with the name that a person knows them by.
MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a zip archive"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"\x7fELF", "a program"),
    (b"\x89HDF", "an HDF5 file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"BZh", "compressed with bzip2"),
    (b"\xfd7zXZ", "compressed with xz"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"PAR1", "a Parquet table (its name must end in .parquet)"),
)
WIDE_MARKS: tuple[tuple[bytes, str], ...] = (  # byte-order marks, the longer first
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


def check_encoding(encoding: str) -> str:
    """The codec's own name of ``encoding``; InputError when there is no such text encoding."""
    try:
        "".encode(encoding)  # also refuses codecs that are no text encodings, such as "hex"
        return codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise InputError(
            f"unknown encoding {encoding!r}", do="Known are for example utf-8, utf-16, latin-1, cp1252, gb18030, big5."
        ) from error


def blocks(path: Path) -> Iterator[bytes]:
    """The content in blocks of about 1 MB, with gzip and zstandard undone (recognised by their first bytes).

    Raises InputError when the file cannot be opened or its compression is broken or cut off.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            file.seek(0)
            if magic[:2] == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=file) as unpacked:
                    while block := unpacked.read(BLOCK_BYTES):
                        yield block
            elif magic == b"\x28\xb5\x2f\xfd":
                yield from _zstandard(path, iter(lambda: file.read(BLOCK_BYTES // 16), b""))
            else:
                while block := file.read(BLOCK_BYTES):
                    yield block
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"the gzip compression is broken ({error})", where=str(path), do="Copy or download the file again."
        ) from error
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", where=str(path)) from error


def _zstandard(path: Path, packed: Iterator[bytes]) -> Iterator[bytes]:
    """Undo zstandard, frame after frame; unlike the library's own stream reader it notices a file that is cut off."""
    import zstandard

    unpack = zstandard.ZstdDecompressor().decompressobj()
    fresh = True
    try:
        for block in packed:
            while block:
                if unpack.eof:
                    unpack, fresh = zstandard.ZstdDecompressor().decompressobj(), True
                if data := unpack.decompress(block):
                    yield data
                fresh = False
                block = unpack.unused_data if unpack.eof else b""
    except zstandard.ZstdError as error:
        raise InputError(f"the zstandard compression is broken ({error})", where=str(path)) from error
    if not fresh and not unpack.eof:
        raise InputError("the zstandard compression is cut off", where=str(path), do="Copy or download the file again.")


def first_bytes(path: Path) -> bytes:
    """The first block of the content; empty for an empty file."""
    return next(blocks(path), b"")


def binary_kind(head: bytes, encoding: str = "utf-8") -> str | None:
    """What a file that holds no text seems to be, judged by its first block; None for text.

    Wide encodings without being named count as no text: they are never guessed in silence.
    """
    if encoding.startswith(("utf-16", "utf-32")):
        return None
    for mark, name in WIDE_MARKS:
        if head.startswith(mark):
            return f"encoded in {name.upper()}"
    for magic, name in MAGIC:
        if head.startswith(magic):
            return name
    if head[257:262] == b"ustar":
        return "a tar archive"
    sample = head[:65536]
    nulls = sample.count(0)
    if nulls >= 8 and 5 * nulls > 2 * len(sample):
        return "encoded in UTF-16 without a byte-order mark"
    controls = sum(sample.count(byte) for byte in (*range(9), *range(14, 27), *range(28, 32)))
    return "a binary file" if controls >= 8 and 50 * controls > len(sample) else None


T = TypeVar("T")


def beginning(items: Iterable[T], size: Callable[[T], int]) -> list[T]:
    """The first lines or rows, as many as a sample holds; ``size`` gives the characters of one."""
    out: list[T] = []
    characters = 0
    for item in items:
        out.append(item)
        characters += size(item)
        if len(out) >= SAMPLE_ITEMS or characters >= SAMPLE_CHARACTERS:
            break
    return out


def check_text(path: Path, encoding: str) -> None:
    """InputError with what the file is and what to do when ``path`` holds no text in ``encoding``."""
    kind = binary_kind(first_bytes(path), encoding)
    if kind is None:
        return
    if kind.startswith("encoded in "):
        name = "utf-32" if "32" in kind else "utf-16" if "without" not in kind else "utf-16-le"
        raise InputError(
            f"the file is {kind}, not in {encoding.upper()}",
            where=f"{path}:1",
            do=f"Name it with --encoding {name}, or save the file as UTF-8.",
        )
    raise InputError(
        f"not text but {kind}", where=str(path), do="Give plain text, .gz, .zst, JSONL, a table or a labelled file."
    )


def read_lines(
    path: Path, *, encoding: str = "utf-8", cut: bool = False, ledger: Ledger | None = None
) -> Iterator[tuple[int, str]]:
    r"""Lines with their numbers from 1, without the ``\n`` and one ``\r`` before it.

    Only ``\n`` ends a line, never U+2028, U+0085 or a form feed.  A byte-order mark at the beginning of a line (files
    that were joined have them inside) is taken away and counted; NUL is kept and counted.  With ``cut``, a line of more
    than ``LINE_LIMIT`` characters comes in pieces of the same number, cut at white space, and is counted as repaired;
    without it, one of more than ``CELL_LIMIT`` is refused.  Nothing is dropped.

    Raises InputError at file:line, with the byte's offset, for bytes that are not ``encoding``.
    """
    encoding = check_encoding(encoding)
    check_text(path, encoding)
    ledger = Ledger() if ledger is None else ledger
    name = str(path)
    rest, number = "", 1
    for text in _decoded(path, encoding):
        lines = (rest + text).split("\n")
        rest = lines.pop()
        for line in lines:
            line = line.removesuffix("\r")
            if "\0" in line or line.startswith("\ufeff") or len(line) > LINE_LIMIT:
                yield from _unusual(line, name, number, cut, ledger)
            else:
                yield number, line
            number += 1
        while cut and len(rest) > LINE_LIMIT:
            piece, rest = _first_piece(rest, f"{name}:{number}", ledger)
            yield number, piece
        if len(rest) > CELL_LIMIT:
            raise InputError(f"a line of more than {CELL_LIMIT:,} characters", where=f"{name}:{number}")
    if rest:
        yield from _unusual(rest.removesuffix("\r"), name, number, cut, ledger)


def _unusual(line: str, name: str, number: int, cut: bool, ledger: Ledger) -> Iterator[tuple[int, str]]:
    """A line cleaned of a byte-order mark, its NULs counted, cut when it is very long."""
    place = f"{name}:{number}"
    if line.startswith("\ufeff"):
        ledger.add("repaired", "byte-order mark taken away", place=place)
        line = line[1:]
    if "\0" in line:
        ledger.add("kept", "NUL inside a line", line.count("\0"), place=place)
    while cut and len(line) > LINE_LIMIT:
        piece, line = _first_piece(line, place, ledger)
        yield number, piece
    yield number, line


def _first_piece(line: str, place: str, ledger: Ledger) -> tuple[str, str]:
    """The first piece and the rest of a line of more than ``LINE_LIMIT`` characters: cut at white space, else after a
    sentence's end, else before any character that stands alone."""
    ledger.add("repaired", "very long line, cut at white space", place=place)
    for position in range(LINE_LIMIT, LINE_LIMIT // 2, -1):
        if line[position].isspace():
            return line[:position], line[position + 1 :]
    position = max(line.rfind(mark, LINE_LIMIT // 2, LINE_LIMIT) for mark in "。！？!?;；，,") + 1
    if not position:
        position = LINE_LIMIT
        while position > 1 and unicodedata.category(line[position])[0] in "MC":  # never before a mark or a joiner
            position -= 1
    return line[:position], line[position:]


def _decoded(path: Path, encoding: str) -> Iterator[str]:
    """The text of each block.  A byte that does not decode is reported with its line and its offset in the content."""
    decoder = codecs.getincrementaldecoder(encoding)()
    offset, line = 0, 1
    stream = blocks(path)
    while True:
        block = next(stream, b"")
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block, not block)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].decode(encoding, "ignore").count("\n")
            position = offset - pending + error.start
            raise InputError(
                f"not valid {encoding.upper()} at byte {position:,} (0x{error.object[error.start]:02x}: {error.reason})",
                where=f"{path}:{line}",
                do="If the file is in another encoding, name it, for example --encoding latin-1 or gb18030.",
            ) from error
        yield text
        if not block:
            return
        offset += len(block)
        line += text.count("\n")
