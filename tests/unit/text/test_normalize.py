from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polysemy.core.errors import InputError
from polysemy.text.normalize import UNSEEN, Normalizer, cleaned, has_unseen, normalize
from tests.unit.text.strategies import texts

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
forms = st.sampled_from(FORMS)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(texts, forms)
def test_equals_the_standard_normal_form_cluster_by_cluster(text: str, form: str) -> None:
    assert normalize(text, form, clean=False).text == unicodedata.normalize(form, text)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(texts, forms, st.booleans(), st.booleans(), st.booleans())
def test_offsets_are_in_order_and_inside(text: str, form: str, clean: bool, lower: bool, strip: bool) -> None:
    found = normalize(text, form, clean=clean, lowercase=lower, strip_accents=strip)
    assert len(found.offsets) == len(found.text)
    assert all(0 <= start < end <= len(text) for start, end in found.offsets)
    for one, two in pairwise(found.offsets):
        assert one[0] <= two[0]
        assert one[1] <= two[1]
    if not (lower or strip):
        for character, (start, end) in zip(found.text, found.offsets, strict=True):
            assert character in unicodedata.normalize(form, text[start:end])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(texts)
def test_every_character_is_covered_or_counted_as_removed(text: str) -> None:
    found = normalize(text)
    covered = {i for start, end in found.offsets for i in range(start, end)}
    missed = [character for i, character in enumerate(text) if i not in covered]
    assert all(UNSEEN.match(character) for character in missed)
    assert found.removed == len(UNSEEN.findall(text))
    assert cleaned(text) == found.text
    assert has_unseen(text) == (found.removed > 0)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(texts)
def test_lower_case_deletes_nothing(text: str) -> None:
    assert normalize(text, lowercase=True, clean=False).text == unicodedata.normalize("NFC", text.lower())


@pytest.mark.parametrize(
    ("text", "form", "expected", "offsets"),
    [
        ("e\u0301a", "NFC", "éa", [(0, 2), (2, 3)]),
        ("éa", "NFD", "e\u0301a", [(0, 1), (0, 1), (1, 2)]),
        ("東\u30ff", "NFKC", "東コト", [(0, 1), (1, 2), (1, 2)]),
        ("\u1112\u1161\u11ab", "NFC", "한", [(0, 3)]),
        ("ﬁx", "NFKC", "fix", [(0, 1), (0, 1), (1, 2)]),
        ("e\u0301\u0323", "NFC", "ẹ\u0301", [(0, 3), (0, 3)]),  # marks change places, so both share the run
    ],
)
def test_spans_of_changed_characters(text: str, form: str, expected: str, offsets: list[tuple[int, int]]) -> None:
    found = normalize(text, form)
    assert (found.text, found.offsets) == (expected, offsets)


def test_cleaning_removes_controls_and_counts_them() -> None:
    found = normalize("ab\x00cd\ufeff\u202ee\u00ad")  # COR-11
    assert found.text == "abcde"
    assert found.offsets == [(0, 1), (1, 2), (3, 4), (4, 5), (7, 8)]
    assert found.removed == 4
    assert normalize("ab\x00cd", clean=False).text == "ab\x00cd"
    assert normalize("a\tb\nc\x85d\u200c\u200d").text == "a\tb\nc\x85d\u200c\u200d"
    assert normalize("\ud83d x").text == " x"  # half a surrogate pair cannot be written to any file


def test_a_stripped_mark_belongs_to_the_letter_before_it() -> None:
    found = normalize("e\u0301x", strip_accents=True)
    assert (found.text, found.offsets) == ("ex", [(0, 2), (2, 3)])


def test_lower_case_of_a_letter_that_becomes_two_characters() -> None:
    found = normalize("İK", lowercase=True)
    assert (found.text, found.offsets) == ("i\u0307k", [(0, 1), (0, 1), (1, 2)])
    assert normalize("ΟΔΟΣ", lowercase=True).text == "οδος"  # the final sigma


def test_hangul_survives_stripping() -> None:
    assert normalize("한글é", strip_accents=True).text == "한글e"


def test_an_unknown_form_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="Did you mean 'NFC'"):
        normalize("a", "NFCK")  # type: ignore[arg-type]


def test_switches_survive_json() -> None:
    normalizer = Normalizer("NFKC", lowercase=True, strip_accents=True)
    assert Normalizer.from_json(normalizer.to_json()) == normalizer
    assert normalizer("ﬁÉ").text == "fie"
    assert normalizer.folds
    assert not Normalizer().folds
