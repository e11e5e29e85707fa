"""Our own scores against scikit-learn and seqeval on random predictions."""

from __future__ import annotations

import random

import pytest

from polysemy.core.metrics import (
    Agreement,
    accuracy,
    by_class,
    confusion,
    macro_f1,
    micro,
    span_agreement,
    weighted_f1,
)

CLASSES = ["north", "south", "east", "west"]


def labels(seed: int) -> tuple[list[str], list[str]]:
    rng = random.Random(seed)
    gold = [rng.choice(CLASSES[:3]) for _ in range(200)]  # west is only ever predicted
    return gold, [g if rng.random() < 0.6 else rng.choice(CLASSES) for g in gold]


@pytest.mark.parametrize("seed", range(3))
def test_class_scores_equal_those_of_scikit_learn(seed: int) -> None:
    from sklearn.metrics import accuracy_score, f1_score

    gold, predicted = labels(seed)
    rows = by_class(gold, predicted)
    assert accuracy(gold, predicted) == pytest.approx(accuracy_score(gold, predicted))
    assert micro(rows).f1 == pytest.approx(accuracy_score(gold, predicted))  # one label an item
    for name, ours in (("macro", macro_f1(rows)), ("weighted", weighted_f1(rows))):
        assert ours == pytest.approx(f1_score(gold, predicted, average=name, zero_division=0))


def test_spans_are_right_only_with_the_same_borders_and_type() -> None:
    gold = [{(0, 2, "PER"), (3, 4, "LOC")}, set(), {(0, 1, "LOC")}]
    predicted = [{(0, 2, "PER"), (3, 4, "ORG")}, {(1, 2, "PER")}, {(0, 2, "LOC")}]
    rows = span_agreement(gold, predicted)
    assert rows == {"LOC": Agreement(0, 2, 1), "ORG": Agreement(0, 0, 1), "PER": Agreement(1, 1, 2)}
    assert micro(rows) == Agreement(1, 3, 4)
    assert micro(rows).precision == 1 / 4
    assert micro(rows).recall == 1 / 3
    assert micro(rows).f1 == 2 / 7


@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_span_scores_equal_those_of_seqeval_on_ill_formed_tags(mode: str) -> None:
    from seqeval.metrics import f1_score, precision_score, recall_score
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as by_type
    from seqeval.scheme import IOB2

    from polysemy.data.schemes import spans

    rng = random.Random(7)
    tags = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    gold = [[rng.choice(tags) for _ in range(rng.randint(1, 12))] for _ in range(80)]
    said = [[t if rng.random() < 0.7 else rng.choice(tags) for t in row] for row in gold]
    rows = span_agreement(
        [spans(row, scheme="IOB2", mode=mode) for row in gold], [spans(row, scheme="IOB2", mode=mode) for row in said]
    )
    extra = {"mode": "strict", "scheme": IOB2} if mode == "strict" else {}
    assert micro(rows).f1 == pytest.approx(f1_score(gold, said, **extra))
    assert micro(rows).precision == pytest.approx(precision_score(gold, said, **extra))
    assert micro(rows).recall == pytest.approx(recall_score(gold, said, **extra))
    if mode == "lenient":
        assert [row.f1 for row in rows.values()] == pytest.approx(list(by_type(gold, said, average=None)[2]))


def test_confusion_counts_each_pair() -> None:
    assert confusion(["a", "a", "b"], ["a", "b", "b"]) == {"a": {"a": 1, "b": 1}, "b": {"b": 1}}


def test_nothing_to_score_is_zero_and_unequal_lengths_are_refused() -> None:
    assert accuracy([], []) == macro_f1({}) == weighted_f1({}) == micro({}).f1 == 0.0
    assert Agreement(0, 0, 0).precision == Agreement(0, 0, 0).recall == 0.0
    for function in (accuracy, by_class, confusion, span_agreement):
        with pytest.raises(ValueError, match="2 gold items but 1"):
            function(["a", "b"], ["a"])
