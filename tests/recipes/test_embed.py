"""Files of texts become files of vectors: every line an entry, in order, for words, sentences and pieces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from polysemy.core.errors import InputError
from polysemy.recipes.embed import embed_file
from polysemy.recipes.load import Model, load, random_model, save
from polysemy.text.tokenizer import train_tokenizer
from polysemy.text.vocabulary import count_words
from polysemy.text.words import Segmenter

SIZES = {
    "word2vec": {"dim": 8},
    "elmo": {"hidden_size": 8, "proj_size": 4, "filters": [[1, 4], [2, 4]]},
    "bert": {"num_layers": 2, "dim": 16, "ffn_dim": 16, "max_length": 40},
}
KINDS = {"word2vec": "words", "elmo": "characters", "bert": "wordpiece"}
LINES = ["the bank of the river", "", "x", "unbanked zebras", "x", "a / b", "a ", "the bank " * 20, "the\0bank", "日本"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One run with random weights of each way to read text."""
    folders = {}
    segmenter = Segmenter(unit="char")
    counts = count_words(["the bank of the river a b", "x / the unbanked bank"], segmenter)
    for name, fields in SIZES.items():
        tokenizer = train_tokenizer(KINDS[name], counts, segmenter=segmenter, vocab_size=60)
        folders[name] = tmp_path_factory.mktemp(name)
        save(folders[name], name, random_model(name, tokenizer, 0, fields).system, tokenizer)
    return folders


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_bytes("".join(line + "\n" for line in LINES).encode())
    return path


def from_npz(path: Path) -> dict[str, NDArray[np.float32]]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def from_parquet(path: Path) -> dict[str, NDArray[np.float32]]:
    table = pq.read_table(path).to_pydict()
    arrays = zip(table["vectors"], table["shape"], strict=True)
    vectors = [np.asarray(flat, dtype=np.float32).reshape(shape) for flat, shape in arrays]
    return {str(line): array for line, array in zip(table["line"], vectors, strict=True)}


def from_hdf5(path: Path) -> dict[str, NDArray[np.float32]]:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path) as file:
        return {name: file[name][()] for name in file}


READERS: dict[str, Callable[[Path], dict[str, NDArray[np.float32]]]] = {
    ".npz": from_npz, ".parquet": from_parquet, ".h5": from_hdf5,
}  # fmt: skip


@pytest.mark.parametrize("suffix", READERS)
@pytest.mark.parametrize("system", SIZES)
def test_every_line_is_an_entry_in_order(system: str, suffix: str, runs: dict[str, Path], source: Path) -> None:
    output = source.with_name("vectors" + suffix)
    result = embed_file(str(runs[system]), source, output)
    entries = READERS[suffix](output)
    assert sorted(entries, key=int) == [str(i) for i in range(len(LINES))]
    expected = load(runs[system]).embed(LINES)
    for i, one in enumerate(expected):
        assert entries[str(i)].shape == one.vectors.shape
        assert entries[str(i)].dtype == np.float32
        np.testing.assert_allclose(entries[str(i)], one.vectors, atol=1e-5)
    assert (result.count, result.words) == (len(LINES), sum(len(one.words) for one in expected))
    assert result.unknown_words == sum(int((~one.known).sum()) for one in expected)
    assert result.dim == expected[0].vectors.shape[1]
    assert result.ledger.count("read", "lines") == len(LINES)
    assert result.ledger.count("kept", "NUL inside a line") == 1
    assert entries["1"].shape == (0, result.dim)
    assert np.array_equal(entries["2"], entries["4"])


def test_elm_09_lines_with_a_slash_are_found_by_number_and_by_text(runs: dict[str, Path], tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    source = tmp_path / "lines.txt"
    source.write_text("a / b\na \n", "utf-8")
    embed_file(str(runs["elmo"]), source, tmp_path / "v.h5")
    with h5py.File(tmp_path / "v.h5") as file:
        by_text = {file[name].attrs["text"]: file[name][()] for name in file}
        assert list(by_text) == ["a / b", "a "]
        assert [file["0"].shape, file["1"].shape] == [(3, 8), (1, 8)]
        assert np.array_equal(by_text["a "], file["1"][()])
    embed_file(str(runs["elmo"]), source, tmp_path / "v.parquet")
    table = pq.read_table(tmp_path / "v.parquet")
    assert table["text"].to_pylist() == ["a / b", "a "]
    assert table["line"].to_pylist() == [0, 1]
    assert table["words"].to_pylist() == [["a", "/", "b"], ["a"]]


@pytest.mark.parametrize("suffix", READERS)
def test_elm_10_repeated_lines_are_kept(suffix: str, runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("x\ny\nx\n", "utf-8")
    embed_file(str(runs["elmo"]), tmp_path / "lines.txt", tmp_path / f"v{suffix}")
    entries = READERS[suffix](tmp_path / f"v{suffix}")
    assert len(entries) == 3
    assert np.array_equal(entries["0"], entries["2"])


@pytest.mark.parametrize("layer", ["last", "mean", "all", "0", "-1"])
@pytest.mark.parametrize("unit", ["word", "sentence", "piece"])
def test_layers_and_units(layer: str, unit: str, runs: dict[str, Path], source: Path) -> None:
    output = source.with_name("v.npz")
    result = embed_file(str(runs["bert"]), source, output, layer=layer, unit=unit)  # type: ignore[arg-type]
    model = load(runs["bert"])
    which = "piece" if unit == "piece" else "word"
    found = model.embed(LINES, unit=which)  # type: ignore[arg-type]
    choose = {"last": lambda s: s[-1], "mean": lambda s: s.mean(0), "all": lambda s: s, "0": lambda s: s[0], "-1": lambda s: s[-1]}  # fmt: skip
    for i, (entry, one) in enumerate(zip(from_npz(output).values(), found, strict=True)):
        expected = choose[layer](one.layers)
        if unit == "sentence":
            known = expected[..., one.known, :]
            expected = known.mean(-2) if one.known.any() else np.zeros_like(expected.sum(-2))
        np.testing.assert_allclose(entry, expected, atol=1e-5, err_msg=LINES[i])
    assert result.unit == unit
    assert result.how in result.lines()[0]
    assert result.how == {"word": "mean of its pieces", "piece": "its state"}.get(unit, "mean of its known words")
    assert unit in result.lines()[0].replace("a line", "a sentence")


@pytest.mark.parametrize("system", SIZES)
def test_a_word_is_the_mean_of_its_pieces(system: str, runs: dict[str, Path]) -> None:
    model = load(runs[system])
    texts = [LINES[0], LINES[3], ["unbanked", "", "bank"]]
    for text, words, pieces in zip(texts, model.embed(texts), model.embed(texts, unit="piece"), strict=True):
        item = model.tokenizer.encode(text)
        assert len(pieces.words) == len(item.ids) == len(pieces.vectors)
        for word in range(len(item.words)):
            own = pieces.layers[:, [i for i, of in enumerate(item.word_of) if of == word]]
            mean = own.mean(1) if own.shape[1] else np.zeros_like(words.layers[:, word])
            np.testing.assert_allclose(words.layers[:, word], mean, atol=1e-5)
    if system == "bert":
        assert len(pieces.words) > 3
        assert "".join(p.removeprefix("##") for p in pieces.words) == "unbankedbank"
    else:
        assert pieces.words == ["unbanked", "bank"]


def test_pieces_of_a_word_beyond_the_limit_are_all_there(runs: dict[str, Path]) -> None:
    model: Model = load(runs["bert"])
    word = "bankxriver" * 20
    one = model.embed([[word]], unit="piece")[0]
    assert "".join(piece.removeprefix("##") for piece in one.words) == word
    assert len(one.words) > 38
    assert np.abs(one.vectors).sum(1).min() > 0


def test_the_same_input_gives_the_same_bytes(runs: dict[str, Path], source: Path) -> None:
    for name in ("a.npz", "b.npz"):
        embed_file(str(runs["bert"]), source, source.with_name(name), exact=True)
    assert source.with_name("a.npz").read_bytes() == source.with_name("b.npz").read_bytes()


def test_more_lines_than_a_chunk_and_none_at_all(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("".join(f"{'x ' * (i % 5)}\n" for i in range(1030)), "utf-8")
    (tmp_path / "none.txt").write_text("", "utf-8")
    for suffix, read in READERS.items():
        result = embed_file(str(runs["word2vec"]), tmp_path / "many.txt", tmp_path / f"many{suffix}")
        entries = read(tmp_path / f"many{suffix}")
        assert result.count == 1030
        assert [len(entries[str(i)]) for i in range(1030)] == [i % 5 for i in range(1030)]
        assert embed_file(str(runs["word2vec"]), tmp_path / "none.txt", tmp_path / f"none{suffix}").count == 0
        assert read(tmp_path / f"none{suffix}") == {}


@pytest.mark.parametrize(
    ("output", "settings", "message"),
    [
        ("v.npz", {"layer": "9"}, "layers 0 to 2"),
        ("v.npz", {"layer": "-4"}, "layers 0 to 2"),
        ("v.npz", {"layer": "top"}, "unknown layer 'top'"),
        ("v.npz", {"unit": "text"}, "unknown unit 'text'"),
        ("v.csv", {}, r"v\.csv: cannot write \.csv"),
        ("vectors", {}, "a file without a suffix"),
        ("v.npz", {"encoding": "latin-99"}, "unknown encoding"),
        ("absent/v.npz", {}, "cannot write"),
        ("absent/v.parquet", {}, "cannot write"),
        ("absent/v.h5", {}, "cannot write"),
    ],
)
def test_what_is_wrong_is_refused_and_the_output_untouched(
    output: str, settings: dict[str, str], message: str, runs: dict[str, Path], source: Path
) -> None:
    path = source.parent / output
    if path.parent.is_dir():
        path.write_text("as it was", "utf-8")
    with pytest.raises(InputError, match=message):
        embed_file(str(runs["bert"]), source, path, **settings)  # type: ignore[arg-type]
    if path.parent.is_dir():
        assert path.read_text("utf-8") == "as it was"
    assert not list(source.parent.glob(".*"))


@pytest.mark.parametrize("suffix", READERS)
def test_an_error_in_the_middle_leaves_the_output_untouched(suffix: str, runs: dict[str, Path], source: Path) -> None:
    source.write_bytes(b"x\n" * 600 + b"\xff\n")
    path = source.with_name("v" + suffix)
    path.write_text("as it was", "utf-8")
    with pytest.raises(InputError, match=r"lines\.txt:601"):
        embed_file(str(runs["word2vec"]), source, path)
    assert path.read_text("utf-8") == "as it was"
    assert not list(source.parent.glob(".*"))
    with pytest.raises(InputError, match="nowhere"):
        embed_file(str(runs["word2vec"]), source.with_name("nowhere.txt"), path)
