"""data/schemes.py: every conversion exact, spans equal to seqeval's."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import pytest

from polysemy.data.schemes import Scheme, Span, convert, detect_scheme, ill_formed, spans

SCHEMES: tuple[Scheme, ...] = ("IOB1", "IOB2", "BIOES", "BMES", "BILOU")


def random_spans(pick: random.Random, length: int) -> set[Span]:
    found, at = set(), 0
    while at < length:
        size = min(pick.randint(1, 4), length - at)
        if pick.random() < 0.6:
            found.add(Span(at, at + size, pick.choice(("PER", "LOC"))))
        at += size
    return found


@pytest.mark.parametrize(("source", "target"), list(product(SCHEMES, SCHEMES)))
def test_conversion_keeps_every_span_and_comes_back(source: Scheme, target: Scheme) -> None:
    pick = random.Random(f"{source}{target}")
    for _ in range(200):
        length = pick.randint(0, 12)
        tags = ["O"] * length
        gold = random_spans(pick, length)
        for span in sorted(gold):  # IOB2 by hand, as the start
            tags[span.start : span.end] = [f"{'BI'[i > 0]}-{span.type}" for i in range(span.end - span.start)]
        tags = convert(tags, "IOB2", source)
        assert spans(tags, source) == spans(tags, source, "lenient") == gold
        other = convert(tags, source, target)
        assert spans(other, target) == gold
        assert convert(other, target, source) == tags
        assert ill_formed(other, target) == 0


@pytest.mark.parametrize(("tags", "iob1"), [(["B-X", "B-X", "I-X"], ["I-X", "B-X", "I-X"]), (["B", "B"], ["I", "B"])])
def test_iob1_writes_b_between_neighbours_of_one_type_only(tags: list[str], iob1: list[str]) -> None:
    assert convert(tags, "IOB2", "IOB1") == iob1
    assert convert(["B-X", "B-Y"], "IOB2", "IOB1") == ["I-X", "I-Y"]


def random_tags(pick: random.Random, letters: str) -> list[str]:
    return [
        "O" if (letter := pick.choice(letters + "O")) == "O" else f"{letter}-{pick.choice('XY')}"
        for _ in range(pick.randint(1, 9))
    ]


@pytest.mark.parametrize(
    ("scheme", "name", "letters"), [("IOB2", "IOB2", "BI"), ("BIOES", "IOBES", "BIES"), ("BILOU", "BILOU", "BILU")]
)
def test_strict_spans_of_any_tags_are_those_of_seqeval(scheme: Scheme, name: str, letters: str) -> None:
    import seqeval.scheme

    pick = random.Random(3)
    for _ in range(2000):
        tags = random_tags(pick, letters)
        entities = seqeval.scheme.Entities([tags], getattr(seqeval.scheme, name)).entities[0]
        assert spans(tags, scheme) == {Span(e.start, e.end, e.tag) for e in entities}, tags


@pytest.mark.parametrize(("scheme", "letters"), [("IOB2", "BI"), ("BIOES", "BIES"), ("IOB1", "BI")])
def test_lenient_spans_of_any_tags_are_those_of_conlleval(scheme: Scheme, letters: str) -> None:
    from seqeval.metrics.sequence_labeling import get_entities

    pick = random.Random(4)
    for _ in range(2000):
        tags = random_tags(pick, letters)
        expected = {Span(start, end + 1, kind) for kind, start, end in get_entities(tags)}
        assert spans(tags, scheme, "lenient") == expected, tags


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ([["O", "I-X", "I-X"], ["I-X", "B-X"]], "IOB1"),
        ([["B-X", "I-X", "O"], ["B-Y"]], "IOB2"),
        ([["B-X", "B-X"], ["O", "I-X"]], "IOB2"),  # one slip does not make it IOB1
        ([["B-X", "E-X"], ["S-X", "O"]], "BIOES"),
        ([["B-X", "M-X", "E-X"]], "BMES"),
        ([["B", "M", "E"], ["S"]], "BMES"),
        ([["B-X", "L-X", "U-X"]], "BILOU"),
        ([["NOUN", "O"], ["VERB"]], "none"),
        ([["B-X", "-LRB-"]], "none"),
        ([["O", "O"]], "IOB2"),
    ],
)
def test_detection(tags: Sequence[Sequence[str]], scheme: str) -> None:
    assert detect_scheme(tags) == scheme


def test_types_with_hyphens_stay_whole() -> None:
    assert spans(["B-work-of-art", "I-work-of-art"]) == {Span(0, 2, "work-of-art")}


def test_plain_tags_have_no_spans_and_no_conversion() -> None:
    assert spans(["NOUN", "B-X"], "none") == set()
    assert convert(["NOUN"], "none", "none") == ["NOUN"]
    assert ill_formed(["I-X"], "none") == 0
    with pytest.raises(ValueError, match="no conversion"):
        convert(["NOUN"], "none", "IOB2")
