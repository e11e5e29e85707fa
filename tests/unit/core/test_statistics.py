"""Intervals and tests against known truth, reference implementations and the metrics themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import f1_score

from benchmarks.interval_coverage import World, called_different, coverage, expected, level_for, simulate
from polysemy.core import metrics
from polysemy.core.statistics import ItemScores, estimate, holm, rank

WORDS = ("per", "org", "loc")


def spans(rng: np.random.Generator, items: int) -> list[set[tuple[int, int, str]]]:
    return [
        {(int(a), int(a) + 1, WORDS[rng.integers(3)]) for a in rng.integers(8, size=rng.integers(4))}
        for _ in range(items)
    ]


def test_the_metric_of_items_is_the_metric_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    gold, predicted = ([WORDS[i] for i in rng.integers(3, size=60)] for _ in range(2))
    rows = metrics.by_class(gold, predicted)
    assert ItemScores.of_labels(gold, predicted).score() == pytest.approx(metrics.accuracy(gold, predicted))
    assert ItemScores.of_labels(gold, predicted, "macro_f1").score() == pytest.approx(metrics.macro_f1(rows))
    assert ItemScores.of_labels(gold, predicted, "weighted_f1").score() == pytest.approx(metrics.weighted_f1(rows))
    gold_spans, predicted_spans = spans(rng, 60), spans(rng, 60)
    expected_f1 = metrics.micro(metrics.span_agreement(gold_spans, predicted_spans)).f1
    assert ItemScores.of_spans(gold_spans, predicted_spans).score() == pytest.approx(expected_f1)
    tags = ItemScores.of_tags([["A", "B"], ["A"]], [["A", "A"], ["A"]])
    assert tags.score() == pytest.approx(2 / 3)


def test_weights_repeat_items() -> None:
    rng = np.random.default_rng(1)
    gold, predicted = ([WORDS[i] for i in rng.integers(3, size=30)] for _ in range(2))
    drawn = rng.integers(30, size=(5, 30))
    weights = np.stack([np.bincount(row, minlength=30) for row in drawn]).astype(float)
    got = ItemScores.of_labels(gold, predicted, "macro_f1").metric(weights)
    for row, value in zip(drawn, got, strict=True):
        chosen = [gold[i] for i in row], [predicted[i] for i in row]
        assert value == pytest.approx(f1_score(*chosen, average="macro", zero_division=0))


def test_sentences_of_one_document_move_together() -> None:
    hits = np.repeat([1.0, 0.0], 50)
    scores = ItemScores("accuracy", np.stack([hits, np.ones(100)], axis=1))
    grouped = scores.grouped([i // 10 for i in range(100)])
    assert grouped.counts.shape == (10, 2)
    assert grouped.score() == scores.score()
    assert (
        estimate([grouped], deterministic=True).item_variance > 5 * estimate([scores], deterministic=True).item_variance
    )


def test_item_part_is_the_textbook_variance() -> None:
    hits = np.repeat([1.0, 0.0], [800, 200])
    one = estimate(
        [ItemScores("accuracy", np.stack([hits, np.ones(1000)], axis=1))], deterministic=True, resamples=8000
    )
    assert one.item_variance == pytest.approx(0.8 * 0.2 / 1000, rel=0.06)
    assert one.seed_variance == 0
    assert one.high - one.low == pytest.approx(2 * 1.96 * np.sqrt(0.8 * 0.2 / 1000), rel=0.05)


def test_luck_of_items_under_single_seeds_is_counted_once() -> None:
    """Seeds that are right on unrelated items share no item luck: all of it shows in the variance of their scores."""
    rng = np.random.default_rng(3)
    hits = rng.random((3, 2000)) < 0.8
    unrelated = [ItemScores("accuracy", np.stack([row, np.ones(2000)], axis=1)) for row in hits.astype(float)]
    same = [unrelated[0]] * 3
    assert estimate(unrelated).item_variance < 0.15 * estimate(same).item_variance


def test_one_seed_of_a_lucky_system_says_so() -> None:
    scores = ItemScores.of_labels(["a", "b"] * 50, ["a", "a"] * 50)
    assert not estimate([scores]).seeds_known
    assert estimate([scores], deterministic=True).seeds_known
    assert estimate([scores, scores]).seeds_known


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_same_predictions_are_tied_and_much_worse_ones_are_not() -> None:
    rng = np.random.default_rng(4)
    gold = rng.integers(4, size=500).tolist()

    def guess(right: float) -> list[int]:
        return [int(g) if rng.random() < right else int(rng.integers(4)) for g in gold]

    good, bad = [[ItemScores.of_labels(gold, guess(right)) for _ in range(3)] for right in (0.9, 0.5)]
    standing = rank({"bad": bad, "good": good, "twin": good})
    assert standing.best == "good"
    assert standing.tied == ("good", "twin")
    assert standing.pairs["good", "twin"].p == 1
    against = standing.against_best("bad")
    assert against.difference < 0
    assert against.high < 0
    assert standing.p_holm["bad"] < 0.01
    assert standing.among(["bad", "twin"]).best == "twin"
    assert standing.among(["bad"]).tied == ("bad",)


def test_the_test_and_the_interval_of_the_difference_agree() -> None:
    rng = np.random.default_rng(5)
    for seed in range(20):
        pair = next(iter(rank(simulate(World("f1", 200, 0.8, (0.1, 0.1), gap=0.02), rng), seed=seed).pairs.values()))
        assert (pair.p < 0.05) == (not pair.low <= 0 <= pair.high)


def test_the_same_seed_gives_the_same_numbers() -> None:
    trials = simulate(World("f1", 200, 0.8, (0.1, 0.1)), np.random.default_rng(6))
    assert rank(trials, seed=1).pairs == rank(trials, seed=1).pairs


def test_unequal_items_are_refused() -> None:
    one, two = ItemScores.of_labels(["a"], ["a"]), ItemScores.of_labels(["a", "b"], ["a", "b"])
    with pytest.raises(ValueError, match="same items"):
        rank({"x": [one], "y": [two]})
    with pytest.raises(ValueError, match="1 items against 2"):
        ItemScores.of_labels(["a"], ["a", "b"])


def test_nobody_right_and_everybody_right() -> None:
    wrong, right = ItemScores.of_labels(["a"] * 50, ["b"] * 50), ItemScores.of_labels(["a"] * 50, ["a"] * 50)
    standing = rank({"wrong": [wrong] * 3, "right": [right] * 3})
    assert standing.tied == ("right",)
    assert standing.estimates["wrong"].mean == 0
    assert standing.estimates["right"].high == 1
    assert ItemScores.of_spans([set()] * 9, [set()] * 9).score() == 0


def test_the_simulation_knows_its_truth() -> None:
    for metric in ("accuracy", "f1", "macro_f1"):
        level = level_for(metric, 0.8, 0.3)
        assert expected(metric, level, 0.3) == pytest.approx(0.8)
        rng = np.random.default_rng(7)
        trials = [simulate(World(metric, 3000, 0.8, (0.3,), seeds=5), rng)["system 0"] for _ in range(60)]
        scores = np.array([[trial.score() for trial in rows] for rows in trials])
        assert scores.mean() == pytest.approx(0.8, abs=4 * scores.mean(1).std() / np.sqrt(60))


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
@pytest.mark.parametrize(("items", "seed_sd"), [(300, 0.05), (1000, 0.2)])
def test_intervals_cover_the_truth(metric: str, items: int, seed_sd: float) -> None:
    """The claim is 93 %; 300 comparisons can miss a true 95 % by 3 %, and the full table is the benchmark's."""
    got = coverage(World(metric, items, 0.85, (seed_sd,)), comparisons=300, resamples=200)
    assert got["ours"] >= 0.93
    assert got["ours"] > got["items"]


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
@pytest.mark.parametrize("seed_sd", [(0.1, 0.1), (0.0, 0.0, 0.1, 0.1)])
def test_equal_systems_are_rarely_called_different(metric: str, seed_sd: tuple[float, ...]) -> None:
    world = World(metric, 400, 0.85, seed_sd)
    assert called_different(world, comparisons=300, resamples=200) <= 0.06
    assert called_different(replace(world, gap=0.1), comparisons=40, resamples=200) > 0.6
