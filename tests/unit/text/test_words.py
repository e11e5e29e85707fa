from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polysemy.core.errors import InputError
from polysemy.text import words as module
from polysemy.text.normalize import UNSEEN
from polysemy.text.words import Segmenter, join_words, looks_like_padding, sentences
from tests.data import need
from tests.unit.text.strategies import texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n'oge n’ime dapụtàrà", ["n'oge", "n’ime", "dapụtàrà"]),
        ("na-agba nso-nso", ["na", "-", "agba", "nso", "-", "nso"]),
        ("'Anambra' ‘Federal’", ["'", "Anambra", "'", "‘", "Federal", "’"]),
        ("w.d.g. U.S. P.C e.g., x", ["w.d.g.", "U.S.", "P.C", "e.g.", ",", "x"]),
        ("end.Begin www.x.org", ["end", ".", "Begin", "www.x.org"]),
        ("10,000.5 9/7/1992 10:30 6-3 $5 50%", ["10,000.5", "9/7/1992", "10:30", "6-3", "$", "5", "50", "%"]),
        ("COVID-19 G20", ["COVID", "-", "19", "G20"]),
        ("wait... -- ?!", ["wait", "...", "--", "?", "!"]),
        ("你——好……", ["你", "——", "好", "……"]),
        ("kinyang'anyiro", ["kinyang'anyiro"]),
        ("o‘zbek l·l", ["o‘zbek", "l·l"]),
        ('צה"ל', ['צה"ל']),
        ("में के हैं।", ["में", "के", "हैं", "।"]),
        ("👩\u200d👩\u200d👧 🇳🇬 1️⃣", ["👩\u200d👩\u200d👧", "🇳🇬", "1️⃣"]),
        ("a\u200bb", ["a", "b"]),
        ("o \u0323gwu", ["o", "\u0323gwu"]),
        ("e\u0301", ["é"]),
        ("ab\x00cd \ufeffx", ["abcd", "x"]),
        ("", []),
        (" \n\t\u3000", []),
    ],
)
def test_words_of_alphabets(text: str, expected: list[str]) -> None:
    assert Segmenter(unit="char").words(text) == expected


def test_spans_lead_back_through_cleaning_and_composition() -> None:
    assert Segmenter().spans("ab\x00cd \ufeffx e\u0301.") == [(0, 5), (7, 8), (9, 11), (11, 12)]


def test_chinese_by_word_and_by_character() -> None:
    text = "我在北京大学用iPhone 15上网。"
    segmenter = Segmenter()
    assert segmenter.words(text) == ["我", "在", "北京大学", "用", "iPhone", "15", "上网", "。"]
    assert segmenter.jieba
    assert any("jieba" in note for note in segmenter.notes)
    by_character = Segmenter(unit="char")
    assert by_character.words(text)[:4] == ["我", "在", "北", "京"]
    assert "iPhone" in by_character.words(text)
    assert by_character.notes == []


def test_a_variation_selector_stays_with_its_character() -> None:
    assert Segmenter().words("\u8fbb\U000e0100国")[0].startswith("\u8fbb\U000e0100")
    assert Segmenter(unit="char").words("\u8fbb\U000e0100国") == ["\u8fbb\U000e0100", "国"]


@pytest.mark.parametrize(
    ("text", "script"),
    [("สวัสดี", "Thai"), ("ສະບາຍ", "Lao"), ("ខ្មែរ", "Khmer"), ("မြန်မာ", "Burmese"), ("私は東京", "Japanese")],
)
def test_scripts_without_a_segmenter_are_cut_into_clusters_and_it_is_said(text: str, script: str) -> None:
    segmenter = Segmenter()
    assert segmenter.words(text) == regex.findall(r"\X", text)
    assert len(segmenter.words(text)) > 1
    assert any(script in note and "grapheme" in note for note in segmenter.notes)
    assert segmenter.jieba == ""


def test_a_lone_kana_does_not_make_a_chinese_text_japanese() -> None:
    segmenter = Segmenter()
    assert "北京大学" in segmenter.words("我在北京大学看见鲜の每日鲜奶和苹果")
    assert segmenter.jieba


def test_absent_jieba_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    module._jieba.cache_clear()
    try:
        with pytest.raises(InputError, match=r"polysemy\[zh\]"):
            Segmenter().words("北京")
        assert Segmenter().words("Ndị uweojii") == ["Ndị", "uweojii"]
        assert Segmenter(unit="char").words("北京") == ["北", "京"]
        saved = {"kind": "auto", "unit": "word", "versions": {"jieba": "0.42.1"}, "clusters": []}
        with pytest.raises(InputError, match=r"polysemy\[zh\]"):
            Segmenter.from_json(saved)
    finally:
        module._jieba.cache_clear()


def test_segmenters_survive_json_with_their_versions() -> None:
    segmenter = Segmenter()
    segmenter.words("北京 สวัสดี")
    data = segmenter.to_json()
    assert {"regex", "unicode", "jieba"} == set(data["versions"])
    loaded = Segmenter.from_json(data)
    assert loaded.to_json() == data
    assert loaded.notes == segmenter.notes
    assert loaded.changed_versions(data) == []
    other = {**data, "versions": {**data["versions"], "jieba": "0.1"}}
    assert loaded.changed_versions(other) == [f"words were cut by jieba 0.1, here is {segmenter.jieba}"]


def test_unknown_settings_offer_the_known_ones() -> None:
    with pytest.raises(InputError, match="whitespace"):
        Segmenter("whitespaces")
    with pytest.raises(InputError, match="char"):
        Segmenter(unit="chars")


def test_text_that_was_cut_already() -> None:
    segmenter = Segmenter("whitespace")
    assert segmenter.words("na-agba , don't\u00a0x\u200by 中国人") == ["na-agba", ",", "don't", "x", "y", "中国人"]
    assert segmenter.spans("a  b.") == [(0, 1), (3, 5)]


def test_words_given_by_the_user_stay_as_they_are() -> None:
    found = Segmenter().split(["9/7/1992.", "", " ", "e\u0301", "alpha\u2009beta"])
    assert found.source == "9/7/1992.    e\u0301 alpha\u2009beta"
    assert found.words == ["9/7/1992.", "", " ", "é", "alpha\u2009beta"]  # NER-09: one row is one word
    assert found.spans == [(0, 9), (10, 10), (11, 12), (13, 15), (16, 26)]
    assert found.blank == {1, 2}
    assert found.moved == {3: [(13, 15)]}


@settings(max_examples=500, deadline=None, derandomize=True)
@given(texts, st.sampled_from(["word", "char"]))
def test_every_visible_character_is_in_a_word(text: str, unit: str) -> None:
    segmenter = Segmenter(unit=unit)
    spans = segmenter.spans(text)
    covered = {i for start, end in spans for i in range(start, end)}
    missed = [c for i, c in enumerate(text) if i not in covered and not c.isspace() and c != "\u200b"]
    assert all(UNSEEN.match(character) for character in missed)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(one[1] <= two[0] for one, two in pairwise(spans))
    assert len(segmenter.words(text)) == len(spans)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(st.characters(max_codepoint=127), max_size=60))
@example("U.S.A.a.bc.d 1.2.a--b...'x'y`z-1-2")
def test_the_fast_pattern_gives_the_same_words(text: str) -> None:
    assert Segmenter().words(text) == module._SPACED_TEXT.findall(module.cleaned(text))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(texts)
def test_a_word_alone_is_one_part(text: str) -> None:
    segmenter = Segmenter(unit="char")
    for word in segmenter.words(text):
        assert segmenter.parts(word) == [(0, len(word))]


def test_parts_of_words_that_others_cut() -> None:
    segmenter = Segmenter()
    assert segmenter.parts("9pm.") == [(0, 3), (3, 4)]
    assert segmenter.parts("北京大学A") == [(0, 4), (4, 5)]
    assert segmenter.jieba == ""


def test_sentences() -> None:
    text = 'Dr. Okafor kwuru. J. Smith went (yes.) He said "no." And... then? Ya.\n新闻。好！”是\n\nend'
    found = [text[start:end] for start, end in sentences(text)]
    assert found == [
        "Dr. Okafor kwuru.", "J. Smith went (yes.)", 'He said "no."', "And... then?", "Ya.", "新闻。", "好！”", "是", "end",
    ]  # fmt: skip
    assert sentences(" \n ") == []
    assert sentences("3.5 kg. yes") == [(0, 11)]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(texts)
def test_sentences_lose_only_white_space(text: str) -> None:
    spans = sentences(text)
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())
    assert all(a < b for a, b in spans)


def test_padding_words_are_noticed() -> None:  # ELM-04
    assert looks_like_padding(["hi", "<pad>"])
    assert looks_like_padding(["[PAD]"])
    assert not looks_like_padding(["hi", "pad", "<3", "(", "[1]", ""])


def test_joining_words() -> None:
    assert join_words(["我", "们", "love", "北京", "。", "x"]) == "我们 love 北京。 x"
    assert join_words([]) == ""


@pytest.mark.parametrize(("language", "least"), [("igbo", 0.9999), ("swahili", 0.9999)])
def test_labelled_words_are_not_cut_further(language: str, least: float) -> None:
    """Gold tokens joined by spaces come back: the labels' words are those of the corpus (both cut at hyphens)."""
    segmenter = Segmenter()
    same = total = 0
    for line in Path(need(f"{language}/ner_train.txt")).read_text(encoding="utf-8").split("\n"):
        token = line.split(" ")[0]
        if token and token != '""""':
            total += 1
            same += segmenter.words(token) == [module.cleaned(token)]
    assert total > 100_000
    assert same / total >= least


def test_speed_does_not_collapse_on_awkward_lines() -> None:
    start = time.perf_counter()
    for text in (
        "a." * 50_000,
        "'" * 100_000,
        "1-" * 50_000,
        "a'" * 50_000,
        "\u0301" * 50_000,
        "́é" * 50_000,
        "中" * 5_000,
    ):
        Segmenter(unit="char").split(text)
    assert time.perf_counter() - start < 10
