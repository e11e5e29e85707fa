"""data/inspect.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polysemy.data import inspect as module
from polysemy.data.corpus import Corpus
from polysemy.data.inspect import Inspection, inspect
from polysemy.text.words import Segmenter
from tests.data import need


def look(path: Path, text: str, labels: list[list[str]] | None = None) -> Inspection:
    path.write_bytes(text.encode("utf-8"))
    return inspect(Corpus(path), Segmenter(), labels)


def test_figures_of_a_small_text(tmp_path: Path) -> None:
    found = look(tmp_path / "a.txt", "The cat sat.\nthe CAT sat!\n\nДва слова\n", [["cat", "dog"], ["dog", "sat"]])
    assert (found.num_lines, found.documents, found.longest_document) == (3, 2, 2)
    assert (found.words, found.distinct_words) == (10, 9)
    assert found.top_words[0] == ("sat", 2)
    assert found.hapax_share == pytest.approx(8 / 9)
    assert (found.duplicate_lines, found.duplicate_share) == (1, pytest.approx(1 / 3))
    assert found.scripts == {"Latin": pytest.approx(18 / 26), "Cyrillic": pytest.approx(8 / 26)}
    assert found.coverage is not None
    assert (found.coverage.tokens, found.coverage.tokens_covered) == (4, 2)
    assert (found.coverage.types, found.coverage.types_covered) == (3, 2)
    assert found.coverage.missing == [("dog", 2)]


@pytest.mark.parametrize(
    ("line", "name", "count"),
    [
        ("an \u0301 accent alone", "lone_marks", 1),
        ("heart \u2764\ufe0f and 1\ufe0f\u20e3", "lone_marks", 0),
        ("cafe\u0301 e\u0301", "decomposed", 2),
        ("broken \ufffd\ufffd", "replacement", 2),
        ("cafÃ© and donâ€™t", "mojibake", 2),
        ("Ångström café, naïve «Élan» São", "mojibake", 0),
        ("a\x07b", "control", 1),
        ("a\x00b", "nul", 1),
        ("a\ufeffb", "inner_byte_order_marks", 1),
        ("a\rb", "carriage_returns", 1),
        ("a \ue001", "private", 1),
        ("<p class='x'>text</p> &amp; more", "markup", 3),
        ("a < b and c > d & e", "markup", 0),
        ("x " * 6000, "long_lines", 1),
    ],
)
def test_what_is_unusual_is_counted_with_its_place(tmp_path: Path, line: str, name: str, count: int) -> None:
    found = look(tmp_path / "a.txt", f"plain text\n{line}\n")
    assert (found.findings[name].count if name in found.findings else 0) == count
    assert set(found.findings) == ({name} if count else set())
    if count:
        assert found.findings[name].place == f"{tmp_path}/a.txt:2"
        assert any(module.FINDINGS[name] in line for line in found.lines())


def test_two_normal_forms_of_one_letter_are_said(tmp_path: Path) -> None:
    found = look(tmp_path / "a.txt", "café\ncafe\u0301\n")
    assert any("two normal forms" in warning for warning in found.warnings)
    assert not any("normal forms" in w for w in look(tmp_path / "b.txt", "café\ncafé au lait\n").warnings)


def test_duplicates_of_a_large_corpus_are_estimated_from_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_HASHES", 4096)
    text = "".join(f"line number {i % 15_000}\n" for i in range(20_000))
    assert look(tmp_path / "a.txt", text).duplicate_share == pytest.approx(0.25, abs=0.04)


def test_the_report_is_for_a_person_and_the_json_holds_all(tmp_path: Path) -> None:
    found = look(tmp_path / "a.txt", "one\n\ntwo\n\nthree\n", [["one", "four"]])
    assert any(line.startswith("labels      50.0% of 2 labelled words") for line in found.lines())
    data = json.loads(json.dumps(found.to_json()))
    assert data["distinct_words"] == 3
    assert data["coverage"]["types_covered"] == 1
    assert data["warnings"] == found.warnings != []


def test_igbo_news() -> None:
    found = inspect(Corpus(need("igbo/news_dev.tsv")), Segmenter())
    assert found.documents == 194
    assert found.scripts["Latin"] > 0.999
    assert found.findings["inner_byte_order_marks"].count > 10  # the BBC's articles hold them
