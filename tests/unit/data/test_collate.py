"""Windows own each word once; a batch's words, positions and characters point at the right pieces."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polysemy.data.collate import collate, cut_words, windows
from polysemy.text.characters import character_ids
from polysemy.text.tokens import Special, Tokens
from polysemy.text.vocabulary import CharacterTokenizer, WordTokenizer
from polysemy.text.words import Segmenter


def tokens(pieces: list[int]) -> Tokens:
    """A text whose word i has ``pieces[i]`` pieces; ids count up from 10."""
    word_of = [w for w, n in enumerate(pieces) for _ in range(n)]
    words = [f"w{i}" for i in range(len(pieces))]
    ids = list(range(10, 10 + len(word_of)))
    return Tokens(" ".join(words), words, [(0, 0)] * len(words), ids, word_of, [(0, 0)] * len(ids))


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(4, 12))
def test_each_word_has_one_owner_and_no_window_is_too_long(pieces: list[int], limit: int) -> None:
    cut = windows(tokens(pieces), limit)
    owned = [i for window in cut for i in range(*window.own)]
    assert owned == list(range(len(pieces)))
    for window in cut:
        assert len(window.tokens.ids) <= limit
        assert window.start <= window.own[0]
        assert window.own[1] <= window.start + len(window.tokens.words)


def test_a_word_in_the_middle_is_owned_where_it_has_context_on_both_sides() -> None:
    cut = windows(tokens([1] * 100), 20)
    for before, after in itertools.pairwise(cut):
        edge = before.own[1]
        assert edge - after.start >= 4
        assert before.start + len(before.tokens.words) - edge >= 4


def test_a_word_longer_than_the_limit_keeps_its_first_pieces_and_is_counted() -> None:
    cut = windows(tokens([1, 9, 1]), 4)
    assert sum(w.tokens.truncated for w in cut if w.own[0] <= 1 < w.own[1]) == 1
    assert cut_words(tokens([1, 9, 1]), 1, 2, 4).ids == [11, 12, 13, 14]


class Pieces:
    """A tokenizer of subwords, as far as collate asks."""

    kind = "wordpiece"
    special = Special(pad=0, unk=1, begin=2, end=3, mask=4)


def test_specials_words_and_positions() -> None:
    batch = collate([tokens([2, 0, 1]), tokens([1])], Pieces())  # type: ignore[arg-type]
    assert batch.ids is not None
    assert batch.ids.tolist() == [[2, 10, 11, 12, 3], [2, 10, 3, 0, 0]]
    assert batch.mask is not None
    assert batch.mask.sum(1).tolist() == [5, 3]
    assert batch.words is not None
    assert batch.words[0].tolist() == [-1, 0, 0, 2, -1]
    assert batch.word_positions is not None
    assert batch.word_positions.tolist() == [[1, -1, 3], [1, -1, -1]]
    assert batch.word_mask is not None
    assert batch.word_mask.tolist() == [[True] * 3, [True, False, False]]


def test_second_texts_follow_in_segment_one() -> None:
    batch = collate([tokens([1])], Pieces(), second=[tokens([1, 1])])  # type: ignore[arg-type]
    assert batch.ids is not None
    assert batch.ids.tolist() == [[2, 10, 3, 10, 11, 3]]
    assert batch.segments is not None
    assert batch.segments.tolist() == [[0, 0, 0, 1, 1, 1]]
    assert batch.words is not None
    assert batch.words.tolist() == [[-1, 0, -1, 1, 2, -1]]


def test_characters_are_those_of_the_words() -> None:
    tokenizer = CharacterTokenizer(["the", "bank"], Segmenter())
    batch = collate([tokenizer.encode("the bank the"), tokenizer.encode("")], tokenizer)
    assert batch.types is not None
    assert batch.characters is not None
    rows = batch.characters[batch.types[0]]
    assert rows[1].tolist() == list(character_ids("the"))
    assert rows[1].tolist() == rows[3].tolist()
    assert len(batch.characters) == 5  # padding, begin, end, two distinct words
    assert int(batch.characters[0].abs().sum()) == 0


@pytest.mark.parametrize("slots", [3, 12, 50, 60])
def test_sentence_marks_are_padded_as_words_are(slots: int) -> None:
    tokenizer = CharacterTokenizer(["the"], Segmenter(), slots=slots)
    batch = collate([tokenizer.encode("a")], tokenizer)
    assert batch.types is not None
    assert batch.characters is not None
    rows = batch.characters[batch.types[0]].tolist()
    filler = [261] * (slots - 3)
    assert rows == [[259, 257, 260, *filler], list(character_ids("a", slots)), [259, 258, 260, *filler]]


def test_unknown_words_of_a_static_system_are_marked() -> None:
    tokenizer = WordTokenizer(["bank"], Segmenter())
    batch = collate([tokenizer.encode("bank zzz")], tokenizer)
    assert batch.known is not None
    assert batch.known.tolist() == [[True, False]]


@pytest.mark.parametrize("sizes", [[], [0], [0, 3]])
def test_empty_texts_have_rows(sizes: list[int]) -> None:
    batch = collate([tokens([1] * n) for n in sizes], Pieces())  # type: ignore[arg-type]
    assert batch.size == len(sizes)
    assert batch.word_mask is not None
    assert np.array_equal(batch.word_mask.sum(1).numpy(), np.array(sizes, dtype=int))
