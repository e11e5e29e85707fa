"""Vector files of other tools hold the words and, bit for bit, the numbers that gensim reads in them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from polysemy.interop.word_vectors import read_vectors
from tests.data import need

GOLDEN = json.loads((Path(__file__).parent / "fixtures" / "word_vectors.json").read_text("utf-8"))["files"]


@pytest.mark.parametrize("name", GOLDEN)
def test_words_and_numbers_are_those_of_the_original(name):
    expected = GOLDEN[name]
    vectors = read_vectors(need(f"gensim_testdata/{name}"))
    assert list(vectors.matrix.shape) == expected["shape"]
    np.testing.assert_array_equal(vectors.matrix[0][:5], np.array(expected["first"], np.float32))
    assert hashlib.sha256("\n".join(vectors.words).encode()).hexdigest() == expected["words"]
    assert hashlib.sha256(vectors.matrix.astype("<f4").tobytes()).hexdigest() == expected["matrix"]
