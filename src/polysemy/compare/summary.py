"""From finished trials to the rows of ``results.json``: scores with intervals, tests, costs, disagreements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, cast

from polysemy.compare.results import (
    AgainstBest,
    Cost,
    Curve,
    Disagreement,
    LabelPoint,
    OneHead,
    Score,
    Stage,
    SystemResult,
)
from polysemy.core.statistics import RESAMPLES, Estimate, ItemScores, Standing, rank

LONG_TEXT = 320  # characters; longer texts are cut
COMFORTABLE = 90  # columns of an item that is easy to read
SHOWN = 10
MEASURES = ("disk_mb", "pretrain_seconds", "finetune_seconds", "latency_ms", "words_per_second")


@dataclass(frozen=True)
class Row:
    """One line of the table: all seeds of one system, in the same order in every list."""

    system: str
    scores: Sequence[ItemScores]
    costs: Sequence[Mapping[str, Any]]
    control: bool = False
    deterministic: bool = False  # no luck: one trial is all there is
    elsewhere: bool = False
    mode: str = ""
    head: str = ""
    settings: str = ""
    under_trained_in: Sequence[Stage] = ()
    curves: Sequence[Curve] = ()
    runs: Sequence[str] = field(default_factory=tuple)


def stand(rows: Sequence[Row], *, resamples: int = RESAMPLES, level: float = 0.95) -> Standing:
    """Estimates and tests of all rows on the same items."""
    trials = {row.system: row.scores for row in rows}
    fixed = [row.system for row in rows if row.deterministic]
    return rank(trials, deterministic=fixed, resamples=resamples, level=level)


def system_results(rows: Sequence[Row], standing: Standing, task: str, metric: str) -> list[SystemResult]:
    """The rows of the table, best first."""
    found = [
        SystemResult(
            system=row.system,
            task=task,
            metric=metric,
            test=score_of(standing.estimates[row.system]),
            under_trained=bool(row.under_trained_in),
            cost=typical_cost(row.costs),
            under_trained_in=list(row.under_trained_in),
            control=row.control,
            elsewhere=row.elsewhere,
            mode=row.mode,
            head=row.head,
            settings=row.settings,
            tied=row.system in standing.tied,
            against_best=against_best(standing, row.system),
            curves=list(row.curves),
            runs=list(row.runs),
        )
        for row in rows
    ]
    return sorted(found, key=lambda row: -row["test"]["mean"])


def one_head(
    head: str, trials: Mapping[str, Sequence[ItemScores]], *, resamples: int = RESAMPLES, level: float = 0.95
) -> OneHead:
    """The second table: representations under the same head, tested among themselves."""
    standing = rank(trials, resamples=resamples, level=level)
    order = sorted(trials, key=lambda name: -standing.estimates[name].mean)
    return OneHead(
        head=head,
        systems=[
            {
                "system": name,
                "test": score_of(standing.estimates[name]),
                "tied": name in standing.tied,
                "against_best": against_best(standing, name),
            }
            for name in order
        ],
    )


def label_points(
    trials: Mapping[tuple[str, int], Sequence[ItemScores]], *, resamples: int = RESAMPLES
) -> list[LabelPoint]:
    """The score by the number of labelled items; keys are (system, labels)."""
    standing = rank({f"{system}/{labels}": rows for (system, labels), rows in trials.items()}, resamples=resamples)
    return [
        LabelPoint(system=system, labels=labels, test=score_of(standing.estimates[f"{system}/{labels}"]))
        for system, labels in trials
    ]


def score_of(estimate: Estimate) -> Score:
    return Score(
        mean=estimate.mean,
        interval=[estimate.low, estimate.high],
        per_seed=list(estimate.per_seed),
        seeds_known=estimate.seeds_known,
    )


def against_best(standing: Standing, system: str) -> AgainstBest | None:
    if system == standing.best:
        return None
    pair = standing.against_best(system)
    return AgainstBest(
        difference=pair.difference, interval=[pair.low, pair.high], p=pair.p, p_holm=standing.p_holm[system]
    )


def typical_cost(costs: Sequence[Mapping[str, Any]]) -> Cost:
    """Medians over seeds; the largest peak of memory, because that is what must be there."""
    typical: dict[str, Any] = {"parameters": max(int(cost["parameters"]) for cost in costs)}
    for key in MEASURES:
        values = [cost[key] for cost in costs]
        typical[key] = None if None in values else float(median(values))
    typical["peak_memory_mb"] = max(float(cost["peak_memory_mb"]) for cost in costs)
    return cast(Cost, typical)


def disagreements(
    items: Sequence[str] | Sequence[Sequence[str]],
    gold: Sequence[Any],
    predicted: Mapping[str, Sequence[Any]],
    places: Sequence[str],
    *,
    shown: int = SHOWN,
) -> list[Disagreement]:
    """Items that the systems (one seed of each) read differently, as unlike one another as possible.

    A pattern is which systems are right.  Patterns take turns, the most frequent first, and within one the items of
    easy length come first; an item that all get wrong in the same way says nothing about the systems and is left out.
    """
    systems = list(predicted)
    by_pattern: dict[tuple[bool, ...], list[int]] = {}
    patterns: Counter[tuple[bool, ...]] = Counter()
    for index, label in enumerate(gold):
        answers = [predicted[system][index] for system in systems]
        pattern = tuple(answer == label for answer in answers)
        patterns[pattern] += 1
        if any(answer != answers[0] for answer in answers[1:]):
            by_pattern.setdefault(pattern, []).append(index)
    queues = [
        sorted(rows, key=lambda i: _unlike_reading(items[i])) for _, rows in sorted(by_pattern.items(), key=_frequency)
    ]
    chosen = [queue[turn] for turn in range(shown) for queue in queues if turn < len(queue)][:shown]
    out = []
    for index in chosen:
        pattern = tuple(predicted[system][index] == gold[index] for system in systems)
        item = items[index]
        row = Disagreement(
            gold=gold[index],
            predicted={system: predicted[system][index] for system in systems},
            same_pattern=patterns[pattern],
            place=places[index],
        )
        if isinstance(item, str):
            row["text"] = item if len(item) <= LONG_TEXT else item[:LONG_TEXT].rstrip() + " …"
        else:
            row["words"] = list(item)
        out.append(row)
    return out


def _frequency(entry: tuple[tuple[bool, ...], list[int]]) -> tuple[int, tuple[bool, ...]]:
    return -len(entry[1]), entry[0]


def _unlike_reading(item: str | Sequence[str]) -> int:
    """How far an item is from one comfortable line; Chinese characters are two columns wide."""
    text = item if isinstance(item, str) else " ".join(item)
    return abs(sum(1 + (character >= "\u2e80") for character in text) - COMFORTABLE)
