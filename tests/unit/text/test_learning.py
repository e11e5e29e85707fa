"""Merges and unigram pieces against slow, plain versions of the same definitions."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polysemy.text import unigram
from polysemy.text.merges import learn_merges
from polysemy.text.unigram import learn_unigram

counted = st.dictionaries(st.text("abc", min_size=1, max_size=8), st.integers(1, 5), min_size=1, max_size=12)


def plain_merges(words: dict[str, int], room: int) -> list[tuple[str, str]]:
    """Count every pair again before each merge."""
    split = {word: list(word) for word in words}
    known, merges = set("".join(words)), []
    while room > 0:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, symbols in split.items():
            for pair in pairwise(symbols):
                pairs[pair] += words[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or pairs[best] < 2:
            break
        merges.append(best)
        room -= best[0] + best[1] not in known
        known.add(best[0] + best[1])
        for word, symbols in split.items():
            merged: list[str] = []
            while symbols:
                if tuple(symbols[:2]) == best:
                    merged.append(symbols[0] + symbols[1])
                    symbols = symbols[2:]
                else:
                    merged.append(symbols.pop(0))
            split[word] = merged
    return merges


@settings(max_examples=200, deadline=None, derandomize=True)
@given(counted, st.integers(0, 12))
def test_merges_equal_the_plain_ones(words: dict[str, int], room: int) -> None:
    found = learn_merges([list(word) for word in words], list(words.values()), room, join=str.__add__)
    assert found == plain_merges(words, room)


def cuts(word: str) -> list[list[str]]:
    if not word:
        return [[]]
    return [[word[:i], *rest] for i in range(1, len(word) + 1) for rest in cuts(word[i:])]


def lattice_of(words: dict[str, int]) -> tuple[unigram._Lattice, list[str], unigram.Floats]:
    ordered = sorted(words, key=lambda word: (-words[word], word))
    return unigram._seed(ordered, np.asarray([words[word] for word in ordered], dtype=np.float64), 1000)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(counted)
def test_expected_counts_equal_the_sum_over_all_cuts(words: dict[str, int]) -> None:
    lattice, pieces, seen = lattice_of(words)
    score = unigram._log_share(seen, np.ones(len(pieces), dtype=bool))
    log = dict(zip(pieces, score.tolist(), strict=True))
    expected: Counter[str] = Counter()
    for word, count in words.items():
        weights = [
            (cut, math.exp(sum(log[piece] for piece in cut)))
            for cut in cuts(word)
            if all(piece in log for piece in cut)
        ]
        total = sum(weight for _, weight in weights)
        for cut, weight in weights:
            for piece in cut:
                expected[piece] += count * weight / total
    np.testing.assert_allclose(lattice.expect(score), [expected[piece] for piece in pieces], rtol=1e-9, atol=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(counted)
def test_the_best_other_cut(words: dict[str, int]) -> None:
    lattice, pieces, seen = lattice_of(words)
    score = unigram._log_share(seen, np.ones(len(pieces), dtype=bool))
    log = dict(zip(pieces, score.tolist(), strict=True))
    for piece, other in zip(pieces, lattice.without(score).tolist(), strict=True):
        options = [sum(log.get(part, -math.inf) for part in cut) for cut in cuts(piece) if len(cut) > 1]
        assert other == pytest.approx(max(options, default=-math.inf))


def test_unigram_pieces_are_log_probabilities_of_frequent_strings() -> None:
    words = {"the": 50, "then": 20, "this": 20, "thin": 10, "zq": 1}
    found = learn_unigram(sorted(words, key=lambda w: (-words[w], w)), sorted(words.values(), reverse=True), 12)
    pieces = dict(found)
    assert len(found) <= 12
    assert set("theniszq") <= set(pieces)
    assert "the" in pieces
    assert [score for _, score in found] == sorted(pieces.values(), reverse=True)
    assert sum(math.exp(score) for score in pieces.values()) == pytest.approx(1.0, abs=1e-3)
