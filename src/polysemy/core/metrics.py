"""Scores of predictions, from plain lists.  Fractions between 0 and 1; a score without items is 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

Span = tuple[int, int, str]  # [start, end) in words, type


@dataclass(frozen=True)
class Agreement:
    """How many were right of how many there were (``gold``) and how many were said (``predicted``)."""

    correct: int
    gold: int
    predicted: int

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.correct / (self.gold + self.predicted) if self.gold + self.predicted else 0.0

    def to_json(self) -> dict[str, float]:
        return {"f1": self.f1, "precision": self.precision, "recall": self.recall,
                "gold": self.gold, "predicted": self.predicted}  # fmt: skip


def accuracy(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> float:
    """Fraction of equal items."""
    _same_length(gold, predicted)
    return sum(g == p for g, p in zip(gold, predicted, strict=True)) / len(gold) if gold else 0.0


def by_class(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, Agreement]:
    """One row for each class that is gold or predicted, in the order of their names."""
    _same_length(gold, predicted)
    golds, said = Counter(gold), Counter(predicted)
    right = Counter(g for g, p in zip(gold, predicted, strict=True) if g == p)
    return {name: Agreement(right[name], golds[name], said[name]) for name in sorted(golds | said)}


def macro_f1(rows: dict[str, Agreement]) -> float:
    """Mean of the classes' F1, each class counting the same."""
    return sum(row.f1 for row in rows.values()) / len(rows) if rows else 0.0


def weighted_f1(rows: dict[str, Agreement]) -> float:
    """Mean of the classes' F1, weighted by their gold counts."""
    total = sum(row.gold for row in rows.values())
    return sum(row.f1 * row.gold for row in rows.values()) / total if total else 0.0


def micro(rows: dict[str, Agreement]) -> Agreement:
    """All classes or types together: the sums of their counts."""
    values = list(rows.values())
    return Agreement(sum(r.correct for r in values), sum(r.gold for r in values), sum(r.predicted for r in values))


def confusion(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, dict[str, int]]:
    """``{gold: {predicted: count}}`` of the pairs that occur, by name."""
    _same_length(gold, predicted)
    counts = Counter(zip(gold, predicted, strict=True))
    out: dict[str, dict[str, int]] = {}
    for (g, p), count in sorted(counts.items()):
        out.setdefault(g, {})[p] = count
    return out


def span_agreement(gold: Sequence[AbstractSet[Span]], predicted: Sequence[AbstractSet[Span]]) -> dict[str, Agreement]:
    """Exact matches of (start, end, type), one row a type, in the order of their names.

    One set of spans a sentence; how tags become spans, strictly or leniently, is the caller's choice
    (``polysemy.data.schemes.spans``).
    """
    _same_length(gold, predicted)
    golds: Counter[str] = Counter()
    said: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for g, p in zip(gold, predicted, strict=True):
        golds.update(kind for _, _, kind in g)
        said.update(kind for _, _, kind in p)
        right.update(kind for _, _, kind in g & p)
    return {kind: Agreement(right[kind], golds[kind], said[kind]) for kind in sorted(golds | said)}


def _same_length(gold: Sequence[object], predicted: Sequence[object]) -> None:
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold items but {len(predicted)} predictions")
