"""Word-vector cases: what broke other readers and trainers."""

from __future__ import annotations

import gzip
import hashlib
import os
import pickle
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from polysemy.core.errors import InputError
from polysemy.interop.word_vectors import WordVectors, read_vectors
from polysemy.systems.word2vec import Word2Vec, Word2VecConfig


def file(folder: Path, content: str | bytes) -> Path:
    path = folder / "vectors"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(vectors: WordVectors) -> dict[str, list[float]]:
    return {word: [round(float(x), 6) for x in row] for word, row in zip(vectors.words, vectors.matrix, strict=True)}


def test_vec_01_glove_text_has_no_header(tmp_path):
    assert rows(read_vectors(file(tmp_path, "the 0.1 0.2\nof 0.3 0.4\n"))) == {"the": [0.1, 0.2], "of": [0.3, 0.4]}


def test_vec_02_a_non_breaking_space_is_a_word(tmp_path):
    vectors = read_vectors(file(tmp_path, "2 2\n\u00a0 0.1 0.2\nof 0.3 0.4\n"))
    assert vectors.words == ["\u00a0", "of"]
    assert vectors.matrix.shape == (2, 2)


def test_vec_04_words_of_several_tokens(tmp_path):
    vectors = read_vectors(file(tmp_path, "of 0.3 0.4\nat user@example.com 0.1 0.2\n"))
    assert rows(vectors) == {"of": [0.3, 0.4], "at user@example.com": [0.1, 0.2]}
    assert vectors.ledger.count("kept", "words with spaces") == 1


def test_vec_05_two_spaces_before_a_number(tmp_path):
    assert rows(read_vectors(file(tmp_path, "1 2\nlook  0.5 -0.1\n"))) == {"look": [0.5, -0.1]}


def test_vec_07_repeated_words_are_ignored_and_counted(tmp_path):
    path = file(tmp_path, "a 1 0\nb 0 1\na 9 9\n")
    vectors = read_vectors(path)
    assert rows(vectors) == {"a": [1, 0], "b": [0, 1]}
    entry = vectors.ledger.entries["ignored", "duplicate word"]
    assert (entry.count, entry.places) == (1, [f"{path}:3: a"])


def test_vec_08_a_word_of_any_length_is_one_word():
    long = "x" * 3000
    words, model = train([[long, "x", "y", "x", "y"]])
    assert words.count(long) == 1
    assert model.vectors.shape[0] == len(words) == 4  # with the unknown word


def test_vec_10_words_cut_in_the_middle_of_a_letter(tmp_path):
    numbers = np.array([1.0, 2.0], "<f4").tobytes()
    path = file(tmp_path, b"2 2\n" + b"\xd0\xb9\xd1 " + numbers + b"\n" + b"\xd0\xb9 " + numbers + b"\n")
    with pytest.raises(InputError, match=r"row 1.*D0 B9 D1"):
        read_vectors(path)
    vectors = read_vectors(path, errors="replace")
    assert vectors.words == ["й\\xd1", "й"]
    assert vectors.ledger.count("repaired") == 1


class Trap:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("packed", [False, True])
def test_vec_11_other_kinds_of_file_are_named_and_nothing_is_unpickled(tmp_path, packed):
    pack = gzip.compress if packed else bytes
    path = file(tmp_path, pack(pickle.dumps(Trap(tmp_path / "mark"), protocol=4)))
    with pytest.raises(InputError, match="pickle"):
        read_vectors(path)
    assert not (tmp_path / "mark").exists()
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.writestr("glove.txt", "a 1 2\n")
    with pytest.raises(InputError, match="zip"):
        read_vectors(file(tmp_path, pack((tmp_path / "archive").read_bytes())))
    assert read_vectors(file(tmp_path, gzip.compress(b"a 1 2\nb 3 4\n"))).words == ["a", "b"]
    with pytest.raises(InputError, match="gzip"):
        read_vectors(file(tmp_path, gzip.compress(b"a 1 2\n" * 1000)[:40]))


def test_vec_13_a_row_with_a_missing_number_is_named(tmp_path):
    path = file(tmp_path, "2 3\na 1 2 3\nb 1 2\n")
    with pytest.raises(InputError, match=r"vectors:3: word 'b': expected 3 numbers, found 2"):
        read_vectors(path)
    repaired = read_vectors(path, repair=True)
    assert rows(repaired) == {"a": [1, 2, 3]}
    assert repaired.ledger.count("dropped") == 1


def test_vec_14_an_unknown_word_has_a_zero_vector_and_is_not_known(tmp_path):
    vectors = read_vectors(file(tmp_path, "a 1 0\nb 0 1\n"))
    found, known = vectors.lookup(["zzz", "b"])
    assert found.tolist() == [[0, 0], [0, 1]]
    assert known.tolist() == [False, True]
    with pytest.raises(KeyError):
        vectors["zzz"]
    _, model = train([["a", "b", "a", "b"]])
    assert not model(torch.tensor([[0, 1]])).last[0, 0].any()


TINY = [["the", "cat", "sat"], ["the", "dog", "ran"], ["a", "cat", "ran"], ["a", "dog", "sat"]]


def train(sentences: list[list[str]], seed: int = 1, **settings) -> tuple[list[str], Word2Vec]:
    """A vocabulary by falling count and five epochs."""
    counts = Counter(word for sentence in sentences for word in sentence)
    words = ["<unk>", *sorted(counts, key=lambda word: (-counts[word], word))]
    index = {word: row for row, word in enumerate(words)}
    ids = np.array([index[word] for sentence in sentences for word in sentence], np.int32)
    offsets = np.cumsum([0, *map(len, sentences)]).astype(np.int64)
    torch.manual_seed(seed)
    model = Word2Vec(Word2VecConfig(vocab_size=len(words), dim=8, subsample=0.0, **settings))
    model.prepare(np.array([counts[word] for word in words]))
    for epoch in range(5):
        model.fit_block((ids, offsets), epoch / 5, seed * 100 + epoch)
    return words, model


def digest() -> str:
    words, model = train(TINY)
    return hashlib.sha256(" ".join(words).encode() + model.vectors.detach().numpy().tobytes()).hexdigest()


def test_vec_16_the_same_seed_gives_the_same_bytes_in_another_process():
    code = "from tests.cases.test_vec import digest; print(digest())"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": hash_seed}, check=True, text=True,
            capture_output=True, cwd=Path(__file__).parents[2],
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }  # fmt: skip
    assert found == {digest()}


class Listening:
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)


def test_vec_16_several_workers_say_that_runs_differ():
    reporter = Listening()
    for workers in (1, 2):
        model = Word2Vec(Word2VecConfig(vocab_size=3, workers=workers))
        model.prepare(np.array([0, 5, 3]), reporter)
    assert len(reporter.said) == 1
    assert "2 workers" in reporter.said[0]
    assert "differ" in reporter.said[0]


def test_cor_08_a_line_of_ten_thousand_words_is_trained_whole():
    words, counts = ["<unk>", "a", "z"], np.array([0, 10_000, 1])
    torch.manual_seed(0)
    model = Word2Vec(Word2VecConfig(vocab_size=len(words), dim=8, subsample=0.0))
    model.prepare(counts)
    before = model.vectors.detach().clone()
    ids = np.array([1] * 10_000 + [2], np.int32)
    # twice: output vectors begin at zero, and only then is there a slope for the vectors of words
    losses = [model.fit_block((ids, np.array([0, 10_001])), 0.0, seed) for seed in (1, 2)]
    assert [loss.parts["kept"] for loss in losses] == [(10_001.0, 10_001)] * 2
    assert not torch.equal(model.vectors[2], before[2])
