"""Word-vector files: every format both ways, gensim as the independent reader, and files that are broken."""

from __future__ import annotations

import gzip
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from polysemy.core.errors import InputError
from polysemy.interop import vector_text
from polysemy.interop.fasttext_files import FastTextSubwords
from polysemy.interop.word_vectors import FORMATS, WordVectors, read_vectors, write_vectors
from tests.data import need

ODD_WORDS = [
    "the",
    "\u00a0",
    "1.5",
    "-3",
    "a\u2028b",
    "naïve",
    "東京",
    "😀",
    "a\tb",
    "c\x0bd",
    "nan",
    "\u200b",
    '"',
    "'",
]


def table(words: list[str] = ODD_WORDS, dim: int = 7) -> WordVectors:
    matrix = np.random.default_rng(0).standard_normal((len(words), dim)) * 10.0 ** np.arange(-3, dim - 3)
    return WordVectors(words, matrix.astype(np.float32))


def file(folder: Path, content: bytes) -> Path:
    path = folder / "vectors"
    path.write_bytes(content)
    return path


def binary(words: dict[bytes, list[float]], end: bytes = b"", count: int | None = None, order: str = "<") -> bytes:
    dim = len(next(iter(words.values())))
    rows = [word + b" " + np.array(v, order + "f4").tobytes() + end for word, v in words.items()]
    return b"%d %d\n" % (len(words) if count is None else count, dim) + b"".join(rows)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("suffix", [".txt", ".gz"])
@pytest.mark.parametrize("dim", [1, 2, 7])
def test_what_is_written_reads_back_equal(tmp_path, format, suffix, dim):
    path = tmp_path / f"vectors{suffix}"
    vectors = table(dim=dim)
    write_vectors(path, vectors, format)
    again = read_vectors(path.with_suffix(".npy") if format == "npy" else path)
    assert again.words == vectors.words
    np.testing.assert_array_equal(again.matrix, vectors.matrix)
    assert again.matrix.dtype == np.float32
    assert again.ledger.count("kept", "vectors") == len(vectors.words)


def test_gzipped_files_have_the_same_bytes_every_time(tmp_path):
    for name in ("a.gz", "b.gz"):
        write_vectors(tmp_path / name, table())
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize("format", ["word2vec-text", "word2vec-binary", "glove", "fasttext-bin"])
def test_gensim_reads_what_is_written(tmp_path, format):
    gensim = pytest.importorskip("gensim")
    path = tmp_path / "vectors.bin"
    vectors = table(["the", "\u00a0", "1.5", "naïve", "東京", "😀"])
    write_vectors(path, vectors, format)
    if format == "fasttext-bin":
        theirs = gensim.models.fasttext.load_facebook_vectors(path)
    else:
        theirs = gensim.models.KeyedVectors.load_word2vec_format(
            path, binary=format == "word2vec-binary", no_header=format == "glove"
        )
    assert theirs.index_to_key == vectors.words
    np.testing.assert_array_equal(theirs.vectors, vectors.matrix)


@pytest.mark.parametrize("is_binary", [False, True])
def test_gensims_own_files_are_read(tmp_path, is_binary):
    gensim = pytest.importorskip("gensim")
    vectors = table(["the", "of", "naïve", "東京"])
    theirs = gensim.models.KeyedVectors(vectors.matrix.shape[1])
    theirs.add_vectors(vectors.words, vectors.matrix)
    theirs.save_word2vec_format(tmp_path / "v", binary=is_binary)
    again = read_vectors(tmp_path / "v")
    assert again.words == vectors.words
    np.testing.assert_array_equal(again.matrix, vectors.matrix)


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [1.0, -2.0, 0.5], [2.6e-9, 7.0, 1e-7]])
def test_binary_files_with_both_row_endings(tmp_path, end, values):
    path = file(tmp_path, binary({b"a": values, b"bc": values[::-1]}, end))
    vectors = read_vectors(path)
    assert vectors.words == ["a", "bc"]
    np.testing.assert_array_equal(vectors.matrix, np.array([values, values[::-1]], np.float32))


def test_binary_rows_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("polysemy.interop.word2vec_binary.BLOCK_BYTES", 64)
    vectors = table([f"word{row}" for row in range(50)])
    write_vectors(tmp_path / "v", vectors, "word2vec-binary")
    again = read_vectors(tmp_path / "v")
    assert again.words == vectors.words
    np.testing.assert_array_equal(again.matrix, vectors.matrix)


def test_text_rows_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("polysemy.interop.vector_text.BLOCK_BYTES", 100)
    vectors = table([f"word {row}x" if row % 3 else f"word{row}" for row in range(50)])
    write_vectors(tmp_path / "v", vectors, "glove")
    again = read_vectors(tmp_path / "v")
    assert again.words == vectors.words
    np.testing.assert_array_equal(again.matrix, vectors.matrix)
    (tmp_path / "v").write_text((tmp_path / "v").read_text("utf-8") + "last 1 2\n", "utf-8")
    with pytest.raises(InputError, match=r"v:51: word 'last': expected 7 numbers, found 2"):
        read_vectors(tmp_path / "v")


def test_the_wrong_byte_order_is_noticed(tmp_path):
    words = {b"w%d" % row: list(np.random.default_rng(row).normal(size=20)) for row in range(20)}
    path = file(tmp_path, binary(words, order=">"))
    with pytest.raises(InputError, match="big-endian"):
        read_vectors(path)
    np.testing.assert_allclose(read_vectors(path, byte_order="big")["w3"], words[b"w3"], rtol=1e-6)
    with pytest.raises(InputError, match="little-endian"):
        read_vectors(file(tmp_path, binary(words)), byte_order="big")


@pytest.mark.parametrize(
    ("content", "message", "kept"),
    [
        (b"3 2\na 1 2\nb 3 4\n", "header says 3 vectors, the file has 2", ["a", "b"]),
        (b"1 2\na 1 2\nb 3 4\n", "header says 1 vectors, the file has 2", ["a", "b"]),
        (b"a 1 2\nb 3 nan\nc 5 6\n", r":2: the vector of 'b' has a number that is not finite", ["a", "c"]),
        (b"a 1 2\nb 3 1e60\n", "not finite", ["a"]),
        (b"a 1 2\nb 3 4\n 5 6\n", r":3: a row without a word", ["a", "b"]),
        (b"a 1 2\nb x 4\n", r":2: word 'b x': expected 2 numbers, found 1", ["a"]),
        (b"a 1 2\nb 0x1 1_0\n", r":2: word 'b 0x1 1_0': expected 2 numbers, found 0", ["a"]),
        (b"a 1 2\nb 3 4\nb\xff 3 4\n", r":3: the word of row 3, bytes 62 FF", None),
        (binary({b"a": [1, 2], b"b": [3, 4]}, count=3), "ends in row 3", ["a", "b"]),
        (binary({b"a": [1, 2], b"b": [3, 4]}, count=1), "more bytes follow", ["a"]),
        (binary({b"a": [1, 2], b"b": [3, np.inf]}), "row 2: the vector of 'b'", ["a"]),
        (binary({b"a": [1, 2], b"b": [3, 4]})[:-3], "ends in row 2", ["a"]),
        (binary({b"a": [1, 2], b"": [3, 4]}), "row 2: a row without a word", ["a"]),
    ],
)
def test_broken_rows_stop_the_reading_or_are_repaired_and_counted(tmp_path, content, message, kept):
    path = file(tmp_path, content)
    with pytest.raises(InputError, match=message):
        read_vectors(path)
    if kept is not None:
        vectors = read_vectors(path, repair=True)
        assert vectors.words == kept
        assert vectors.ledger.count("dropped") + vectors.ledger.count("repaired") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"BZh91AY", "bzip2"),
        (b"<!DOCTYPE html>\n<html>\n", "no word vectors"),
        (b"just some words\nand more\n", "no word vectors"),
        (b"0 5\n", "no word vectors"),
        (b"5 0\nabc\n", "header says 0 numbers a vector"),
        (b"3 4\n", "header says 3 vectors, the file has 0"),
        (struct.pack("<2i", 793712314, 99) + bytes(200), "version 99"),
        (struct.pack("<2i", 793712314, 12) + bytes(20), "ends in the middle"),
    ],
)
def test_files_that_hold_no_vectors_say_so(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_vectors(file(tmp_path, content))
    if content:
        with pytest.raises(InputError, match=message):
            read_vectors(file(tmp_path, gzip.compress(content)))


def test_absent_files_and_folders_are_named(tmp_path):
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(InputError, match="cannot read"):
            read_vectors(path)


def test_marks_endings_and_empty_lines(tmp_path):
    vectors = read_vectors(file(tmp_path, b"\xef\xbb\xbf2 2\r\na 1 2 \r\n\r\nb 3 4\r\n"))
    assert vectors.words == ["a", "b"]
    assert vectors.matrix.tolist() == [[1, 2], [3, 4]]
    assert vectors.ledger.count("repaired") == vectors.ledger.count("ignored") == 1


def test_the_first_word_may_be_a_number_and_the_header_may_be_missing(tmp_path):
    vectors = read_vectors(file(tmp_path, b"2 0.5\n3 0.25\n"))
    assert (vectors.words, vectors.matrix.tolist()) == (["2", "3"], [[0.5], [0.25]])
    vectors = read_vectors(file(tmp_path, b"12 7\n13 8\n"))  # no header: it would promise seven numbers
    assert (vectors.words, vectors.matrix.tolist()) == (["12", "13"], [[7], [8]])


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("word", ["", "a\nb", " a", "a ", "a b", "route 66", "nul\0"])
def test_a_word_is_written_so_that_it_reads_back_or_is_refused(tmp_path, format, word):
    vectors = table(["one", word, "two"])
    path = tmp_path / "v.npy"
    try:
        write_vectors(path, vectors, format)
    except InputError as error:
        assert "row 2" in str(error)
        assert not path.exists()
    else:
        assert read_vectors(path).words == vectors.words


def test_npy_beside_words_may_stay_on_disk(tmp_path):
    write_vectors(tmp_path / "v.npy", table(), "npy")
    mapped = read_vectors(tmp_path / "v.npy", mmap=True)
    assert isinstance(mapped.matrix, np.memmap)
    assert mapped.words == ODD_WORDS
    (tmp_path / "v.words").write_text("one\n")
    with pytest.raises(InputError, match="14 vectors and 1 words"):
        read_vectors(tmp_path / "v.npy")
    (tmp_path / "v.words").unlink()
    with pytest.raises(InputError, match=r"v\.words"):
        read_vectors(tmp_path / "v.npy")
    np.save(tmp_path / "o.npy", np.array([object()]), allow_pickle=True)
    (tmp_path / "o.words").write_text("one\n")
    with pytest.raises(InputError, match="npy"):
        read_vectors(tmp_path / "o.npy")


def test_ngrams_make_vectors_for_unseen_words_and_survive_writing(tmp_path):
    buckets = np.random.default_rng(1).standard_normal((50, 4)).astype(np.float32)
    vectors = WordVectors(["naïve", "кот"], table(["a", "b"], 4).matrix, subwords=FastTextSubwords(buckets, 3, 5))
    write_vectors(tmp_path / "v.bin", vectors, "fasttext-bin")
    again = read_vectors(tmp_path / "v.bin")
    np.testing.assert_allclose(again.matrix, vectors.matrix, atol=3e-6)
    unseen, known = again.lookup(["котик", "naïvety", ""])
    assert known.tolist() == [True, True, False]
    gensim = pytest.importorskip("gensim")
    theirs = gensim.models.fasttext.load_facebook_vectors(tmp_path / "v.bin")
    np.testing.assert_allclose(theirs.vectors, again.matrix, atol=1e-6)
    np.testing.assert_allclose([theirs["котик"], theirs["naïvety"]], unseen[:2], atol=1e-6)


@pytest.mark.parametrize("name", ["lee_fasttext", "crime-and-punishment", "toy-model"])
def test_fasttext_models_give_the_vectors_that_fasttext_printed(name):
    model = read_vectors(need(f"gensim_testdata/{name}.bin"))
    printed = read_vectors(need(f"gensim_testdata/{name}.vec"))
    assert model.words == printed.words
    np.testing.assert_allclose(model.matrix, printed.matrix, rtol=6e-5, atol=1e-6)  # five digits were printed


def independent(data: bytes) -> dict[bytes, list[float]] | None:
    """A slow reader of text files that follows the documented rule and nothing else; None where it must refuse."""
    lines = [line.rstrip(b" \r") for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    dim, out, count = 3, {}, 0
    for line in lines[1:]:
        if not line:
            continue
        fields = re.split(rb" +", line)
        numbers = fields[-dim:]
        rest = line
        for number in reversed(numbers):
            rest = rest.removesuffix(number).rstrip(b" ")
        if len(fields) <= dim or not rest or not all(vector_text.NUMBER.fullmatch(n) for n in numbers):
            return None
        values = [float(n) for n in numbers]
        with np.errstate(over="ignore"):
            if not np.isfinite(np.array(values, np.float32)).all():
                return None
        count += 1
        out.setdefault(rest, values)
    return out if count == 20 else None


def test_mutated_files_give_a_message_or_exactly_their_numbers(tmp_path):
    generator = np.random.default_rng(0)
    rows = [b"w%d %.3f %.4g %d" % (row, *generator.normal(size=2), row) for row in range(20)]
    whole = b"20 3\n" + b"\n".join(rows) + b"\n"
    readable = 0
    for _ in range(600):
        data = bytearray(whole)
        for _ in range(generator.integers(1, 4)):
            place = int(generator.integers(5, len(data)))  # the header is left alone
            kind = generator.integers(0, 4)
            if kind == 0:
                data[place] = generator.integers(0, 256)
            elif kind == 1:
                del data[place : place + generator.integers(1, 9)]
            elif kind == 2:
                data[place:place] = bytes(generator.choice(list(b' \n.-e0\r\t"1'), 2).tolist())
            else:
                data[place:place] = data[max(place - 20, 5) : place]
        path = file(tmp_path, bytes(data))
        try:
            found = read_vectors(path, errors="replace")
        except InputError:
            continue
        expected = independent(bytes(data))
        assert expected is not None, bytes(data)
        assert [word.decode("utf-8", "backslashreplace") for word in expected] == found.words, bytes(data)
        np.testing.assert_allclose(found.matrix, np.array(list(expected.values()), np.float32), rtol=1e-6)
        readable += 1
    assert readable > 50


def test_mutated_binary_files_never_crash(tmp_path):
    generator = np.random.default_rng(0)
    vectors = table(["the", "of", "naïve"])
    for format in ("word2vec-binary", "fasttext-bin"):
        write_vectors(tmp_path / "whole", vectors, format)
        whole = (tmp_path / "whole").read_bytes()
        for _ in range(200):
            data = bytearray(whole)
            for _ in range(generator.integers(1, 4)):
                data[int(generator.integers(0, len(data)))] = generator.integers(0, 256)
            cut = int(generator.integers(1, len(data) + 1)) if generator.random() < 0.3 else len(data)
            try:
                found = read_vectors(file(tmp_path, bytes(data[:cut])), errors="replace")
            except InputError:
                continue
            assert np.isfinite(found.matrix).all()
            assert len(found.words) == len(set(found.words)) == len(found.matrix)
