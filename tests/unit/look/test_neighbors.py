"""Neighbours, analogies and similarity on tables small enough to be counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from polysemy.core.errors import InputError
from polysemy.look.neighbors import analogies, neighbors, read_pairs, read_questions, similarity

WORDS = ["king", "man", "woman", "queen", "apple", "zero"]
MATRIX = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 1], [-1, -1, -1], [0, 0, 0]], np.float32)


def test_neighbors_are_ordered_by_cosine_and_leave_the_word_out():
    found = neighbors(WORDS, MATRIX, "king", k=3)
    assert [word for word, _ in found] == ["man", "queen", "woman"]
    np.testing.assert_allclose([score for _, score in found], [1 / math.sqrt(2), 0.5, 0.0], atol=1e-6)
    assert [word for word, _ in neighbors(WORDS, MATRIX, "king", k=2, exclude=["man"])] == ["queen", "woman"]


def test_neighbors_of_a_vector_leave_nothing_out():
    assert neighbors(WORDS, MATRIX, np.array([2.0, 2.0, 0.0]), k=1)[0] == ("king", pytest.approx(1.0))
    assert len(neighbors(WORDS, MATRIX, MATRIX[0], k=100)) == len(WORDS)


def test_neighbors_of_a_large_table_are_those_of_a_full_sort():
    generator = np.random.default_rng(0)
    matrix = np.round(generator.standard_normal((5000, 3)), 1).astype(np.float32)  # with ties
    words = [str(row) for row in range(5000)]
    query = np.array([1.0, 0.5, 0.2], np.float32)
    whole = neighbors(words, matrix, query, k=5000)
    assert [word for word, _ in neighbors(words, matrix, query, k=20)] == [word for word, _ in whole[:20]]


def test_an_unknown_word_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="queen"):
        neighbors(WORDS, MATRIX, "quen")


@pytest.mark.parametrize("method", ["3cosadd", "3cosmul"])
def test_analogies_by_section_with_coverage(method):
    questions = {
        "royal": [
            ("man", "king", "woman", "queen"),
            ("Man", "King", "Woman", "Queen"),
            ("man", "king", "woman", "prince"),
        ],
        "empty": [("a", "b", "c", "d")],
    }
    royal, empty, total = analogies(WORDS, MATRIX, questions, method)
    assert (royal.correct, royal.asked, royal.total) == (2, 2, 3)
    assert royal.coverage == pytest.approx(2 / 3)
    assert (empty.asked, math.isnan(empty.accuracy)) == (0, True)
    assert (total.name, total.correct, total.asked, total.total) == ("total", 2, 2, 4)
    assert analogies(WORDS, MATRIX, questions, method, fold=False)[0].asked == 1
    assert analogies(WORDS, MATRIX, questions, method, limit=3)[-1].asked == 0


def test_without_exclusion_a_word_of_the_question_may_win():
    matrix = np.array([[1, 0.0], [1, 0.1], [0, 1], [0.4, 1]], np.float32)
    questions = {"q": [("a", "b", "c", "d")]}
    assert analogies(list("abcd"), matrix, questions)[0].correct == 1
    assert analogies(list("abcd"), matrix, questions, exclude=False)[0].correct == 0  # c itself is nearest


def test_similarity_is_the_rank_correlation_of_known_pairs():
    pairs = [("king", "man", 9.0), ("King", "queen", 5.0), ("king", "woman", 2.0), ("king", "unheard", 1.0)]
    found = similarity(WORDS, MATRIX, pairs)
    assert found.spearman == pytest.approx(1.0)
    assert (found.used, found.total, found.coverage) == (3, 4, 0.75)
    assert math.isnan(similarity(WORDS, MATRIX, pairs[:2]).spearman)


def test_the_interval_of_similarity_covers_the_truth():
    generator = np.random.default_rng(0)
    truth = 6 / math.pi * math.asin(0.6 / 2)  # Spearman of a normal with correlation 0.6
    words = [str(row) for row in range(201)]
    covered = 0
    for _ in range(300):
        ratings = generator.standard_normal(200)
        noisy = 0.6 * ratings + 0.8 * generator.standard_normal(200)
        angle = (math.pi / 2) * (1 - 1 / (1 + np.exp(-noisy)))  # a falling function: cosine to word 0 rises with noisy
        matrix = np.concatenate([[[1.0, 0.0]], np.stack([np.cos(angle), np.sin(angle)], 1)])
        found = similarity(words, matrix, [("0", str(row + 1), ratings[row]) for row in range(200)])
        covered += found.interval[0] <= truth <= found.interval[1]
    assert 0.92 <= covered / 300 <= 0.98


def test_files_of_questions_and_pairs(tmp_path):
    path = tmp_path / "sets.txt"
    path.write_text("\ufeff: capital\nAthens Greece Oslo Norway\n\n: family\nhe she his her\n", "utf-8")
    assert read_questions(path) == {
        "capital": [("Athens", "Greece", "Oslo", "Norway")], "family": [("he", "she", "his", "her")],
    }  # fmt: skip
    path.write_text("# a remark\nold\tnew\t1.5\textra\ntiger cat 7.35\n", "utf-8")
    assert read_pairs(path) == [("old", "new", 1.5), ("tiger", "cat", 7.35)]
    path.write_text("a b c\n", "utf-8")
    with pytest.raises(InputError, match=r"sets\.txt:1"):
        read_questions(path)
    with pytest.raises(InputError, match=r"sets\.txt:1"):
        read_pairs(path)
