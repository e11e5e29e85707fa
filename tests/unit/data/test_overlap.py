"""data/overlap.py against a plain search, its rules for short and long texts, and the figure for Igbo."""

from __future__ import annotations

import random
import textwrap

import pytest

from polysemy.data import overlap as module
from polysemy.data.corpus import Corpus, Line
from polysemy.data.overlap import Overlap, fold
from polysemy.data.readers.conll import read_conll
from tests.data import need


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Ga-asị na «ha» bụ 12!", "gaasịnahabụ12"),
        ("Straße STRASSE", "strassestrasse"),
        ("e\u0301\u0300 É̀", "é\u0300é\u0300"),
        ("İ", "i\u0307"),
        ("a_b\u200dc\u00adD", "abcd"),
        ("में के", "मेंके"),
        ("½ x² 三", "x三"),
    ],
)
def test_fold_keeps_letters_marks_and_digits(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_every_occurrence_is_found_as_by_a_plain_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_CHARACTERS", 200)  # many blocks, matches across them
    pick = random.Random(5)
    for trial in range(60):
        letters = "ab" if trial % 2 else "abcdefgh"
        text = "".join(pick.choices(letters, k=1500))
        given = ["".join(pick.choices(letters, k=pick.randint(15, 40))) for _ in range(30)]
        for _ in range(15):
            at = pick.randrange(1400)
            given.append(text[at : at + pick.randint(15, 90)])
        cuts = sorted(pick.sample(range(1, 1500), 40))
        lines = [text[a:b] for a, b in zip([0, *cuts], [*cuts, 1500], strict=True)]
        documents = [i // 8 for i in range(len(lines))]
        touched, found, at = set(), set(), 0
        for document in range(max(documents) + 1):
            members = [i for i, d in enumerate(documents) if d == document]
            whole = "".join(lines[i] for i in members)
            owner = [i for i in members for _ in lines[i]]
            for number, sentence in enumerate(given):
                start = whole.find(sentence)
                while start >= 0:
                    found.add(number)
                    touched |= set(owner[start : start + len(sentence)])
                    start = whole.find(sentence, start + 1)
        overlap = Overlap(given)
        kept = list(
            overlap.clean_lines(Line(t, str(i), d) for i, (t, d) in enumerate(zip(lines, documents, strict=True)))
        )
        assert {int(line.place) for line in kept} == set(range(len(lines))) - touched
        assert overlap.found == found
        assert overlap.removed_lines == len(touched)


def test_short_sentences_count_only_as_a_whole() -> None:
    overlap = Overlap(["Ọ bịara.", "今天天气很好。", "今天天气非常好，我们去。"])
    assert overlap.clean("Ọ bịara n'ụlọ ya n'abalị.") == (["Ọ bịara n'ụlọ ya n'abalị."], 0)
    assert overlap.clean("“Ọ BỊARA”") == ([], 1)
    assert overlap.clean("他说今天天气很好。") == (["他说今天天气很好。"], 0)
    assert overlap.clean("他说：“今天天气非常好，我们去。”") == ([], 1)  # 10 characters are enough
    assert overlap.found == {0, 2}


def test_of_a_long_line_only_the_sentences_that_are_touched_go() -> None:
    first = "The first of many sentences of this article stands here. " * 4
    middle = "It was a dark night. The rain fell in torrents on the roofs."
    last = "Nothing of the rest was ever in any test file, so it stays. " * 4
    overlap = Overlap(["a dark night; the rain fell in", "Yes."])
    kept, removed = overlap.clean(f"{first}{middle} Yes. {last}")
    assert (kept, removed) == ([first.strip(), last.strip()], 3)
    assert overlap.to_json() == {
        "given": 2,
        "found": 2,
        "removed_lines": 1,
        "broken_lines": 0,
        "removed_sentences": 3,
        "removed_characters": len(middle) - 1 + len("Yes."),
    }


def test_a_sentence_that_is_broken_over_lines_is_found_but_not_across_documents() -> None:
    lines = [Line("and then the old man said that", "1", 0), Line("nobody had been there before", "2", 0)]
    given = ["the old man said that nobody had been there"]
    assert list(Overlap(given).clean_lines(lines)) == []
    assert list(Overlap(given).clean_lines([lines[0], lines[1]._replace(document=1)])) == [
        lines[0],
        lines[1]._replace(document=1),
    ]


def test_a_long_given_text_is_found_when_all_its_sentences_are() -> None:
    one, two = (
        "This sentence about the weather is quite long enough. " * 5,
        "And here comes the other half of it all. " * 5,
    )
    overlap = Overlap([one + two])
    overlap.clean(one.strip())
    assert overlap.found == set()
    overlap.clean(two.strip())
    assert overlap.found == {0}


def igbo_sentences() -> list[str]:
    parts = [need("igbo/ner_dev.txt"), need("igbo/ner_test.txt")]
    return [" ".join(sentence.words) for path in parts for sentence in read_conll(path)]


def test_igbo_raw_news_loses_3353_of_8000_lines() -> None:
    lines = list(Corpus(need("igbo/raw_news.txt")))
    alone = Overlap(igbo_sentences())
    assert sum(not alone.clean(line.text)[0] for line in lines) == 3353
    together = Overlap(igbo_sentences())
    assert len(list(together.clean_lines(lines))) == 8000 - 3353 - 3
    assert (together.removed_lines, together.broken_lines) == (3356, 3)
    assert sum(number >= 1090 for number in together.found) == 2060  # of the 2,181 test sentences


def test_hard_wrapped_text_hides_nothing() -> None:
    lines = list(Corpus(need("igbo/raw_news.txt")))
    wrapped = [Line(text, "", 0) for text in textwrap.wrap(" ".join(line.text for line in lines), 80)]
    overlap, plain = Overlap(igbo_sentences()), Overlap(igbo_sentences())
    list(overlap.clean_lines(wrapped))
    list(plain.clean_lines(lines))
    assert overlap.found >= plain.found
