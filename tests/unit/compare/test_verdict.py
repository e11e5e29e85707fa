"""The recommendation follows from tests, costs and limits; the sentence says so in both languages."""

from __future__ import annotations

import pytest

from polysemy.compare import summary, verdict
from polysemy.compare.results import Budget, Cost, Limits, Spoken
from polysemy.core.statistics import Comparison, Estimate, Standing
from tests.unit.compare.synthetic import classification, tagging

FREE = Limits(latency_ms=None, size_mb=None)
BUDGET = Budget(pretrain="5m", finetune="90s", seeds=3, share_pretraining=False)


def cost(latency: float, size: float = 10.0, pretrain: float | None = 300.0, finetune: float = 60.0) -> Cost:
    return Cost(
        parameters=1000,
        disk_mb=size,
        pretrain_seconds=pretrain,
        finetune_seconds=finetune,
        peak_memory_mb=500.0,
        latency_ms=latency,
        words_per_second=1e4,
    )


def world(
    scores: dict[str, float], costs: dict[str, Cost], tied: set[str], controls: set[str] = frozenset()
) -> tuple[list[verdict.SystemResult], Standing]:
    """Systems with these scores; pairs inside ``tied`` are not told apart, all others are."""
    estimates = {name: Estimate(m, m - 0.01, m + 0.01, (m,) * 3, 0, 0, 100, True) for name, m in scores.items()}
    names = list(scores)
    pairs = {}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            difference = scores[a] - scores[b]
            p = 0.5 if {a, b} <= tied else 0.0001
            half = abs(difference) + 0.01 if p > 0.05 else abs(difference) / 2
            pairs[a, b] = Comparison(a, b, difference, difference - half, difference + half, p)
    best = max(scores, key=lambda name: scores[name])
    standing = Standing(estimates, pairs, 0.95, best, {}, ()).among(names)
    rows = [summary.Row(name, [], [costs[name]], control=name in controls) for name in names]
    return summary.system_results(rows, standing, "tagging", "f1"), standing


def speak(
    systems: list[verdict.SystemResult],
    standing: Standing,
    prefer: verdict.Prefer = "latency",
    limits: Limits = FREE,
    lang: str = "en",
) -> tuple[str | None, Spoken]:
    decision = verdict.decide(systems, standing, prefer, limits)
    spoken = verdict.speak(decision, systems, standing, prefer=prefer, limits=limits, budget=BUDGET, lang=lang)
    return decision.recommended, spoken


def test_the_cheapest_of_the_tied_by_each_preference() -> None:
    costs = {"bert": cost(4, 18, 300), "elmo": cost(12, 40, 100), "w2v": cost(6, 8, 290), "worse": cost(0.1, 0.1, 0)}
    systems, standing = world({"bert": 0.86, "elmo": 0.855, "w2v": 0.85, "worse": 0.7}, costs, {"bert", "elmo", "w2v"})
    assert speak(systems, standing, "latency")[0] == "bert"
    assert speak(systems, standing, "size")[0] == "w2v"
    assert speak(systems, standing, "training")[0] == "elmo"


def test_costs_within_a_tenth_are_decided_by_the_score() -> None:
    costs = {"a": cost(1.05), "b": cost(1.0)}
    systems, standing = world({"a": 0.86, "b": 0.855}, costs, {"a", "b"})
    assert speak(systems, standing)[0] == "a"
    systems, standing = world({"a": 0.86, "b": 0.855}, costs | {"a": cost(1.2)}, {"a", "b"})
    assert speak(systems, standing)[0] == "b"


def test_limits_come_before_the_best() -> None:
    """The best is too slow; of those within the limit the second is better than the third beyond chance."""
    costs = {"best": cost(9), "second": cost(3), "third": cost(1)}
    systems, standing = world({"best": 0.9, "second": 0.85, "third": 0.8}, costs, set())
    name, spoken = speak(systems, standing, limits=Limits(latency_ms=5.0, size_mb=None))
    assert name == "second"
    assert "Over the limit of 5 ms: best, the best of all (0.900)." in spoken["why"]
    name, spoken = speak(systems, standing, limits=Limits(latency_ms=0.5, size_mb=None))
    assert name is None
    assert spoken["sentence"] == "No system is within 0.5 ms."
    assert spoken["why"].startswith("The nearest is third (1 ms")


def test_a_control_is_enough() -> None:
    costs = {"bert": cost(4), "tfidf": cost(0.3, pretrain=0.0)}
    systems, standing = world({"bert": 0.86, "tfidf": 0.858}, costs, {"bert", "tfidf"}, controls={"tfidf"})
    name, spoken = speak(systems, standing)
    assert name == "tfidf"
    assert spoken["sentence"] == (
        "TF-IDF + linear is enough here: F1 0.858 (0.848 to 0.868), against systems with 5 min of pretraining, "
        "up to 90 s of fine-tuning, 3 seeds."
    ).replace("90 s", "1 min 30 s")
    assert "就够了" in speak(systems, standing, lang="zh")[1]["sentence"]


def test_the_verdict_names_its_budget_and_what_is_under_trained() -> None:
    for results in (tagging(items=300), classification()):
        for lang, words in (("en", ("Under-trained", "5 min")), ("zh", ("训练不足", "5 分钟"))):
            spoken = results["verdict"][lang]
            assert words[1] in spoken["sentence"]
            note = next(note for note in spoken["notes"] if note.startswith(words[0]))
            assert "bert:tiny" in note


@pytest.mark.parametrize(("scores", "tied", "said"), [
    ({"bert": 0.86, "bert without pretraining": 0.7}, set(), "Pretraining paid: +0.160 for bert"),
    ({"bert without pretraining": 0.86, "bert": 0.7}, set(), "Pretraining harmed bert: -0.160"),
    ({"bert": 0.86, "bert without pretraining": 0.855}, {"bert", "bert without pretraining"}, "within chance: +0.005"),
])  # fmt: skip
def test_what_pretraining_gave_is_said(scores: dict[str, float], tied: set[str], said: str) -> None:
    systems, standing = world(scores, dict.fromkeys(scores, cost(4)), tied)
    assert any(said in note for note in speak(systems, standing)[1]["notes"])


def test_numbers_people_read() -> None:
    assert [verdict.number(x) for x in (0, 0.00519, 0.27, 1.594, 38.12, 1240.4)] == [
        "0", "0.0052", "0.27", "1.59", "38.1", "1,240",
    ]  # fmt: skip
    assert [verdict.duration(x, "en") for x in (0.31, 42.4, 303, 7800)] == ["0.31 s", "42 s", "5 min 3 s", "2 h 10 min"]
    assert verdict.budget_name("50Mtok", "en") == "50,000,000 words"
    assert verdict.budget_name("2h", "zh") == "2 小时"
    assert verdict.names(["a", "tfidf", "none"], "en") == "a, TF-IDF + linear and Random vectors"
