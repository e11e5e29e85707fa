"""Rows, costs and disagreements from trials."""

from __future__ import annotations

import json

import pytest

from polysemy.compare import summary
from polysemy.compare.results import Results
from polysemy.core.statistics import ItemScores
from tests.unit.compare.synthetic import tagging


def trial(right: int, items: int = 200) -> ItemScores:
    return ItemScores.of_labels(["a"] * items, ["a"] * right + ["b"] * (items - right))


COST = {"parameters": 10, "disk_mb": 1.0, "pretrain_seconds": 5.0, "finetune_seconds": 2.0, "peak_memory_mb": 100.0,
        "latency_ms": 3.0, "words_per_second": 1000.0}  # fmt: skip


def test_rows_are_ordered_and_costs_are_typical() -> None:
    rows = [
        summary.Row(
            "low",
            [trial(100), trial(101), trial(99)],
            [COST | {"latency_ms": x, "peak_memory_mb": 100 * x} for x in (1, 9, 2)],
        ),
        summary.Row("high", [trial(180)], [COST | {"pretrain_seconds": None}], deterministic=True, elsewhere=True),
    ]
    high, low = summary.system_results(rows, summary.stand(rows), "classification", "accuracy")
    assert (high["system"], low["system"]) == ("high", "low")
    assert high["against_best"] is None
    assert low["against_best"]["difference"] == pytest.approx(-0.4)
    assert high["tied"]
    assert not low["tied"]
    assert low["cost"]["latency_ms"] == 2
    assert low["cost"]["peak_memory_mb"] == 900
    assert high["cost"]["pretrain_seconds"] is None
    assert low["test"]["per_seed"] == [0.5, 0.505, 0.495]


def test_the_table_is_plain_json_with_the_promised_keys() -> None:
    results: Results = json.loads(json.dumps(tagging(items=200), allow_nan=False))
    assert {"systems", "tied_with_best", "recommended", "why", "overlap", "environment"} <= set(results)
    row = results["systems"][0]
    assert {"system", "task", "metric", "test", "under_trained", "cost"} <= set(row)
    assert set(row["cost"]) == set(COST)
    assert {"mean", "interval", "per_seed"} <= set(row["test"])
    assert set(results["tied_with_best"]) == {row["system"] for row in results["systems"] if row["tied"]}


def test_one_head_and_labels() -> None:
    trials = {"a": [trial(150), trial(152)], "b": [trial(90), trial(95)]}
    table = summary.one_head("BiLSTM", trials)
    assert [row["system"] for row in table["systems"]] == ["a", "b"]
    points = summary.label_points({("a", 10): trials["b"], ("a", 100): trials["a"]})
    assert [(p["labels"], round(p["test"]["mean"], 4)) for p in points] == [(10, 0.4625), (100, 0.755)]


def test_disagreements_show_each_kind_once_before_any_twice() -> None:
    items = [f"text number {i} of a comfortable length for a person who reads the report" for i in range(8)]
    gold = ["x"] * 8
    predicted = {"one": list("xxxyyyyx"), "two": list("xyyxxzyx")}
    places = [f"f:{i}" for i in range(8)]
    rows = summary.disagreements(items, gold, predicted, places, shown=4)
    patterns = [tuple(row["predicted"][system] == "x" for system in ("one", "two")) for row in rows]
    assert sorted(patterns[:3]) == [(False, False), (False, True), (True, False)]
    assert all(row["predicted"]["one"] != row["predicted"]["two"] for row in rows)
    both_wrong = next(row for row, pattern in zip(rows, patterns, strict=True) if pattern == (False, False))
    assert both_wrong["place"] == "f:5"
    assert both_wrong["same_pattern"] == 2
    assert summary.disagreements(items, gold, {"one": gold, "two": gold}, places) == []


def test_long_texts_are_cut() -> None:
    (row,) = summary.disagreements(["word " * 500], ["x"], {"one": ["x"], "two": ["y"]}, ["f:1"])
    assert row["text"].endswith(" …")
    assert len(row["text"]) <= summary.LONG_TEXT + 2
