"""Cases NER-01, NER-06, NER-09: what reading labelled words must get right."""

from __future__ import annotations

from pathlib import Path

import pytest

from polysemy.core.errors import InputError
from polysemy.data.readers.conll import read_conll
from polysemy.data.schemes import Span, convert, spans


def test_ner_01_iob1_to_bioes_neither_splits_nor_merges_neighbours() -> None:
    tags = ["I-LOC", "B-LOC", "I-LOC"]  # Old / Port Quay
    assert convert(tags, "IOB1", "BIOES") == ["S-LOC", "B-LOC", "E-LOC"]
    assert spans(tags, "IOB1") == {Span(0, 1, "LOC"), Span(1, 3, "LOC")}


def test_ner_06_lines_of_spaces_separate_and_document_marks_are_no_words(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("-DOCSTART- O\n\na O\n   \nb O\n")
    sentences = read_conll(path)
    assert [sentence.words for sentence in sentences] == [["a"], ["b"]]
    assert {sentence.document for sentence in sentences} == {"1"}


@pytest.mark.parametrize("space", ["\u2009", "\u00a0", "\u3000", "\u200b"])
def test_ner_09_only_ascii_space_and_tab_separate(tmp_path: Path, space: str) -> None:
    path = tmp_path / "a.conll"
    path.write_text(f"alpha{space}beta O\n{space} O\ngamma O\n", encoding="utf-8")
    (sentence,) = read_conll(path)
    assert sentence.words == [f"alpha{space}beta", space, "gamma"]  # as many words as rows
    path.write_text(f"alpha beta O\nx O\n{space}\nc O\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:  # a word that an ASCII space cuts in two is a mismatch at its line
        read_conll(path)
    assert caught.value.where == f"{path}:2"
