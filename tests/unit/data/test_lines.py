"""readers/lines.py: compression, encodings, line ends, bounded pieces."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
import zstandard

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.data.readers import lines as module
from polysemy.data.readers.lines import check_encoding, read_lines


def lines(path: Path, data: bytes, **options: object) -> list[tuple[int, str]]:
    path.write_bytes(data)
    return list(read_lines(path, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb", ["a", "b"]),
        (b"a\r\r\nb\r", ["a\r", "b"]),  # one \r alone belongs to the line's end
        (b"\n\na", ["", "", "a"]),
        (b"a\rb\n", ["a\rb"]),
        (b"", []),
    ],
)
def test_lines_end_at_line_feeds_only(tmp_path: Path, data: bytes, expected: list[str]) -> None:
    assert lines(tmp_path / "a.txt", data) == list(enumerate(expected, 1))


def test_compression_is_recognised_by_content_and_frames_are_joined(tmp_path: Path) -> None:
    text = "één\ntwee\n".encode() * 100_000
    half = len(text) // 2 + 1  # inside a letter
    for name, data in {
        "a.gz": gzip.compress(text[:half]) + gzip.compress(text[half:]),
        "a.zst": zstandard.compress(text[:half]) + zstandard.compress(text[half:]),
        "plain.gz": text,
    }.items():
        assert [line for _, line in lines(tmp_path / name, data)] == ["één", "twee"] * 100_000


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_broken_compression_is_an_input_error(tmp_path: Path, compress: object, damage: str) -> None:
    packed = bytearray(compress("".join(f"line {i * i}\n" for i in range(5000)).encode()))  # type: ignore[operator]
    if damage == "cut":
        packed = packed[: len(packed) * 2 // 3]
    else:
        packed[len(packed) // 2 : len(packed) // 2 + 8] = b"\xff" * 8
    with pytest.raises(InputError, match=r"broken|cut off|not valid"):
        lines(tmp_path / "a.gz", bytes(packed))


def test_bad_utf8_is_reported_with_line_and_byte_also_far_into_the_file(tmp_path: Path) -> None:
    good = "größe\n".encode() * 400_000  # more than two blocks
    with pytest.raises(InputError) as caught:
        lines(tmp_path / "a.txt", good + b"ab\xe9cd\n")
    assert caught.value.where == f"{tmp_path}/a.txt:400001"
    assert f"byte {len(good) + 2:,} (0xe9" in caught.value.what
    assert "--encoding" in str(caught.value.do)


def test_a_letter_that_is_cut_off_at_the_end_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.txt:1: not valid UTF-8 at byte 2 \(0xc3: unexpected end of data\)"):
        lines(tmp_path / "a.txt", b"ab\xc3")


def test_a_letter_may_lie_across_blocks(tmp_path: Path) -> None:
    text = "x" + "é" * module.BLOCK_BYTES
    assert "".join(line for _, line in lines(tmp_path / "a.txt", text.encode(), cut=True)) == text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1", "gb18030", "utf-8-sig", "utf-32"])
def test_named_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    text = "first\nsecond é\n" if encoding == "latin-1" else "first\nsecond 中文\n"
    assert [
        line for _, line in lines(tmp_path / "a.txt", text.encode(encoding), encoding=encoding)
    ] == text.splitlines()


@pytest.mark.parametrize("name", ["utf-9", "hex", "rot13", ""])
def test_unknown_encodings_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="unknown encoding"):
        check_encoding(name)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ("north wind\n".encode("utf-16"), "UTF-16"),
        ("north wind\n".encode("utf-16-be"), "UTF-16 without"),
        ("north wind\n".encode("utf-32"), "UTF-32"),
        (b"PK\x03\x04rest", "zip"),
        (b"%PDF-1.4", "PDF"),
        (b"\x80\x04\x95", "pickle"),
        (bytes(range(256)) * 10, "binary"),
    ],
)
def test_what_is_no_text_is_named(tmp_path: Path, data: bytes, what: str) -> None:
    with pytest.raises(InputError, match=what):
        lines(tmp_path / "a.txt", data)


def test_a_tar_inside_gzip_is_named(tmp_path: Path) -> None:
    import tarfile

    (tmp_path / "a.txt").write_text("text")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "a.txt")
    with pytest.raises(InputError, match="tar archive"):
        list(read_lines(tmp_path / "a.tar.gz"))


def test_byte_order_marks_inside_joined_files_are_taken_away_and_counted(tmp_path: Path) -> None:
    ledger = Ledger()
    assert lines(tmp_path / "a.txt", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ledger=ledger) == [(1, "a"), (2, "b")]
    assert ledger.count("repaired") == 2


def test_very_long_lines_come_in_pieces_and_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_LIMIT", 1000)
    ledger = Ledger()
    words = [f"word{i}" for i in range(5000)]
    dense = "水" * 2500 + "。" + "木" * 700
    marks = "a" + "\u0301" * 400 + "e\u0301" * 1500  # no white space, marks that must not be torn off
    data = f"{' '.join(words)}\n{dense}\nshort\n{marks}".encode()
    got = lines(tmp_path / "a.txt", data, cut=True, ledger=ledger)
    by_line: dict[int, list[str]] = {}
    for number, piece in got:
        assert len(piece) <= 1000
        by_line.setdefault(number, []).append(piece)
    assert [word for piece in by_line[1] for word in piece.split()] == words
    assert "".join(by_line[2]) == dense
    assert by_line[3] == ["short"]
    assert "".join(by_line[4]) == marks
    assert all(piece[0] != "\u0301" for piece in by_line[4])
    assert ledger.count("repaired") == sum(len(pieces) - 1 for pieces in by_line.values())


def test_a_line_longer_than_a_cell_may_be_is_refused_in_labelled_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CELL_LIMIT", 1000)
    with pytest.raises(InputError, match=re.escape("a.txt:2")):
        lines(tmp_path / "a.txt", b"a\n" + b"x" * 2000)
