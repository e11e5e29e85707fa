from __future__ import annotations

import pytest

from polysemy.text.characters import (
    CHARACTERS,
    SENTENCE_BEGIN,
    SENTENCE_END,
    byte_length,
    character_ids,
    characters_cut,
)


def test_a_word_is_its_bytes_between_two_marks() -> None:
    assert character_ids("ab", 6) == [259, 98, 99, 260, 261, 261]
    assert character_ids("日", 6) == [259, 0xE7, 0x98, 0xA6, 260, 261]  # ELM-18: bytes E6 97 A5, each plus one


def test_rows_fit_the_table_of_262() -> None:
    row = character_ids("ọ" * 100)
    assert len(row) == 50
    assert row[-1] == 260
    assert max(row) < CHARACTERS == 262
    assert min(row) > 0
    assert character_ids("x" * 48)[-2:] == [ord("x") + 1, 260]


def test_sentence_marks_as_released() -> None:
    """258, 256, 259 and 258, 257, 259 padded with 260, all plus one."""
    assert SENTENCE_BEGIN == [259, 257, 260] + [261] * 47
    assert SENTENCE_END == [259, 258, 260] + [261] * 47


def test_lengths_and_cuts() -> None:
    assert (byte_length("abc"), byte_length("ọ"), byte_length("")) == (3, 3, 0)
    assert characters_cut("abc", 5) == 0
    assert characters_cut("abcd", 5) == 1
    assert characters_cut("aọ", 5) == 1  # one of the three bytes does not fit
    with pytest.raises(ValueError, match="at least 3"):
        character_ids("a", 2)
