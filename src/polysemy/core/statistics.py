"""How sure a score is, and which systems cannot be told apart.

A trial (one system, one seed) is kept as counts by test item, because every metric used here is a function of the
*sums* of such counts; a bootstrap over items is then one matrix product.  The score of a system is the mean over its
seeds, and two kinds of luck blur it:

* seeds: the variance of the scores by seed, divided by the number of seeds.  These scores were taken on the same
  items, so this part also holds the luck of single items under single seeds;
* items: what the seeds share.  Resampled scores of two *different* seeds vary together only through the choice of
  items, so their covariance is this part, counted once.

The two parts rest on very different numbers of observations (2 degrees of freedom for three seeds, hundreds for
items), so each gets its own t quantile and half-widths add in quadrature (Howe, JASA 69, 1974, 789-794; Zou and
Donner, Statistics in Medicine 27, 2008, 1693-1702).  Satterthwaite's single t quantile covers 91 to 94 % for three
seeds where this covers 94 % and more: ``benchmarks/interval_coverage.py`` measures both.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]
Metric = Literal["accuracy", "f1", "macro_f1", "weighted_f1"]
RESAMPLES = 2000
WEIGHTS_AT_ONCE = 4_000_000  # entries of the weights matrix held at a time (32 MB)


@dataclass(frozen=True, eq=False)
class ItemScores:
    """Sufficient statistics of one trial by test item.

    ``counts`` is (items, columns): ``accuracy`` has columns correct, total; ``f1`` has true positives, predicted,
    gold; ``macro_f1`` and ``weighted_f1`` have those three blocks with one column a class in each.
    """

    name: Metric
    counts: Array

    @classmethod
    def of_labels(
        cls,
        gold: Sequence[Hashable],
        predicted: Sequence[Hashable],
        name: Literal["accuracy", "macro_f1", "weighted_f1"] = "accuracy",
    ) -> ItemScores:
        """One label an item."""
        _same_length(gold, predicted)
        hits = np.array([g == p for g, p in zip(gold, predicted, strict=True)], float)
        if name == "accuracy":
            return cls(name, np.stack([hits, np.ones_like(hits)], axis=1))
        column = {label: index for index, label in enumerate(sorted({*gold, *predicted}, key=str))}
        is_gold, is_predicted = (
            np.eye(len(column))[[column[label] for label in labels]] for labels in (gold, predicted)
        )
        return cls(name, np.concatenate([is_gold * is_predicted, is_predicted, is_gold], axis=1))

    @classmethod
    def of_tags(cls, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> ItemScores:
        """Accuracy of tags; an item is a sentence, because the words of a sentence are not independent."""
        _same_length(gold, predicted)
        pairs = zip(gold, predicted, strict=True)
        rows = [(sum(a == b for a, b in zip(g, p, strict=True)), len(g)) for g, p in pairs]
        return cls("accuracy", np.array(rows, float).reshape(-1, 2))

    @classmethod
    def of_spans(cls, gold: Sequence[AbstractSet[Hashable]], predicted: Sequence[AbstractSet[Hashable]]) -> ItemScores:
        """F1 of spans; an item is a sentence with its sets of spans, such as (start, end, type)."""
        _same_length(gold, predicted)
        rows = [(len(g & p), len(p), len(g)) for g, p in zip(gold, predicted, strict=True)]
        return cls("f1", np.array(rows, float).reshape(-1, 3))

    def metric(self, weights: Array | None = None) -> Array:
        """The metric for each row of ``weights`` (resamples, items) -> (resamples,); ``None`` counts every item once
        and gives shape (1,).  0/0 is 0, as in the metrics themselves."""
        sums = self.counts.sum(0, keepdims=True) if weights is None else weights @ self.counts
        if self.name == "accuracy":
            return _ratio(sums[:, 0], sums[:, 1])
        classes = sums.shape[1] // 3
        true, predicted, gold = sums[:, :classes], sums[:, classes : 2 * classes], sums[:, 2 * classes :]
        scores = _ratio(2 * true, predicted + gold)
        if self.name == "weighted_f1":
            return _ratio((scores * gold).sum(1), gold.sum(1))
        present = (predicted + gold > 0).sum(1)  # a class that neither side has is no class, as in scikit-learn
        return scores[:, 0] if self.name == "f1" else _ratio(scores.sum(1), present.astype(float))

    def score(self) -> float:
        """The metric over all items."""
        return float(self.metric()[0])

    def grouped(self, groups: Sequence[Hashable]) -> ItemScores:
        """The same counts with one item a group (a document), for tests whose sentences hang together."""
        _same_length(groups, self.counts)
        row = {group: index for index, group in enumerate(dict.fromkeys(groups))}
        counts = np.zeros((len(row), self.counts.shape[1]))
        np.add.at(counts, [row[group] for group in groups], self.counts)
        return ItemScores(self.name, counts)


@dataclass(frozen=True)
class Estimate:
    """The mean of a system's seeds with its interval.  ``seeds_known`` is False where one seed of a system that has
    luck was run: the interval then covers the choice of items only."""

    mean: float
    low: float
    high: float
    per_seed: tuple[float, ...]
    seed_variance: float  # of the mean
    item_variance: float  # of the mean
    items: int
    seeds_known: bool


@dataclass(frozen=True)
class Comparison:
    """``first`` minus ``second``, on the same items.  ``p`` is two-sided and not yet corrected."""

    first: str
    second: str
    difference: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Standing:
    """Where every system stands: its estimate, all pairs, the best mean, and the set that cannot be told from it."""

    estimates: dict[str, Estimate]
    pairs: dict[tuple[str, str], Comparison]  # in the order of ``estimates``
    level: float
    best: str
    p_holm: dict[str, float]  # of each other system against the best
    tied: tuple[str, ...]  # with the best, which is among them

    def among(self, names: Collection[str]) -> Standing:
        """The standing of some of the systems (those under the user's limits)."""
        estimates = {name: estimate for name, estimate in self.estimates.items() if name in names}
        pairs = {key: pair for key, pair in self.pairs.items() if key[0] in names and key[1] in names}
        return _stand(estimates, pairs, self.level)

    def against_best(self, name: str) -> Comparison:
        """``name`` minus the best, as a comparison."""
        if (pair := self.pairs.get((name, self.best))) is not None:
            return pair
        pair = self.pairs[self.best, name]
        return Comparison(name, self.best, -pair.difference, -pair.high, -pair.low, pair.p)


def rank(
    trials: Mapping[str, Sequence[ItemScores]],
    *,
    deterministic: Collection[str] = (),
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Standing:
    """Estimates, paired tests of all pairs and the set tied with the best.

    Args:
        trials: by system, one ``ItemScores`` a seed; all on the same items in the same order.
        deterministic: systems without luck (counting, a convex fit): one trial is all there is.

    A system leaves the tied set when its difference from the best is significant after Holm's correction over the
    comparisons with the best.  The best was picked by the same scores, which alone would call one of five equal
    systems worse in 9 % of comparisons; where seeds have luck, the two quantiles bring it to 5 % and below (simulated).
    """
    if not trials or any(not rows for rows in trials.values()):
        raise ValueError("every system needs at least one trial")
    generator = np.random.default_rng(seed)
    resampled = _bootstrap([trial for rows in trials.values() for trial in rows], resamples, generator)
    items = len(next(iter(trials.values()))[0].counts)
    systems: dict[str, _System] = {}
    column = 0
    for name, rows in trials.items():
        scores = np.array([trial.score() for trial in rows])
        systems[name] = _System(scores, resampled[:, column : column + len(rows)], items, name in deterministic)
        column += len(rows)
    estimates = {name: system.estimate(level) for name, system in systems.items()}
    pairs = {(a, b): systems[a].compare(systems[b], (a, b), level) for a, b in combinations(systems, 2)}
    return _stand(estimates, pairs, level)


def estimate(
    trials: Sequence[ItemScores],
    *,
    deterministic: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """The mean over seeds of one system with its interval."""
    names = ("system",) if deterministic else ()
    return rank({"system": trials}, deterministic=names, resamples=resamples, seed=seed, level=level).estimates[
        "system"
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979), in the order given."""
    corrected = [1.0] * len(p_values)
    largest = 0.0
    for step, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - step) * p_values[index]))
        corrected[index] = largest
    return corrected


class _System:
    """Scores by seed (seeds,), the same resampled over items (resamples, seeds), and the two parts of the variance."""

    def __init__(self, scores: Array, resampled: Array, items: int, deterministic: bool) -> None:
        self.scores, self.resampled, self.items = scores, resampled, items
        self.mean = float(scores.mean())
        seeds = len(scores)
        self.seeds_known = deterministic or seeds > 1
        has_luck = not deterministic and seeds > 1
        self.luck = _Luck(
            seed_variance=float(scores.var(ddof=1)) / seeds if has_luck else 0.0,
            seed_df=max(1, seeds - 1),
            item_variance=_shared(resampled) if has_luck else float(resampled.mean(1).var(ddof=1)),
            item_df=min(items, len(resampled)) - 1,  # a bootstrap of few resamples is itself uncertain
        )

    def estimate(self, level: float) -> Estimate:
        half = self.luck.half_width(1 - level)
        return Estimate(
            mean=self.mean,
            low=max(0.0, self.mean - half),
            high=min(1.0, self.mean + half),
            per_seed=tuple(float(score) for score in self.scores),
            seed_variance=self.luck.seed_variance,
            item_variance=self.luck.item_variance,
            items=self.items,
            seeds_known=self.seeds_known,
        )

    def compare(self, other: _System, names: tuple[str, str], level: float) -> Comparison:
        """The difference on the same resampled items; what both systems find hard falls out of it."""
        a, b = self.luck, other.luck
        crossed = float(np.cov(self.resampled.mean(1), other.resampled.mean(1))[0, 1])
        luck = _Luck(
            seed_variance=a.seed_variance + b.seed_variance,
            seed_df=_welch((a.seed_variance, a.seed_df), (b.seed_variance, b.seed_df)),
            item_variance=max(0.0, a.item_variance + b.item_variance - 2 * crossed),
            item_df=a.item_df,
        )
        difference, half = self.mean - other.mean, luck.half_width(1 - level)
        p = luck.p_value(abs(difference))
        return Comparison(*names, difference, difference - half, difference + half, p)


class _Luck(NamedTuple):
    """The two parts of a variance, each with its degrees of freedom."""

    seed_variance: float
    seed_df: float
    item_variance: float
    item_df: float

    def half_width(self, alpha: float) -> float:
        """Half-widths of the two parts, each with its own t quantile, in quadrature."""
        from scipy.special import stdtrit

        square = 0.0
        for variance, df in ((self.seed_variance, self.seed_df), (self.item_variance, self.item_df)):
            if variance > 0:
                square += float(stdtrit(df, 1 - alpha / 2)) ** 2 * variance
        return float(np.sqrt(square))

    def p_value(self, difference: float) -> float:
        """The alpha at which the interval of the difference just reaches 0, by bisection on its logarithm."""
        if difference == 0 or self.seed_variance + self.item_variance <= 0:
            return 1.0 if difference == 0 else 0.0
        low, high = -12.0, 0.0  # powers of ten
        for _ in range(50):
            middle = (low + high) / 2
            if self.half_width(10**middle) > difference:
                low = middle
            else:
                high = middle
        return float(10**high)


def _stand(estimates: dict[str, Estimate], pairs: dict[tuple[str, str], Comparison], level: float) -> Standing:
    best = max(estimates, key=lambda name: estimates[name].mean)
    others = [name for name in estimates if name != best]
    raw = [pairs[(name, best) if (name, best) in pairs else (best, name)].p for name in others]
    p_holm = dict(zip(others, holm(raw), strict=True))
    tied = tuple(name for name in estimates if name == best or p_holm[name] > 1 - level)
    return Standing(estimates, pairs, level, best, p_holm, tied)


def _bootstrap(trials: Sequence[ItemScores], resamples: int, generator: np.random.Generator) -> Array:
    """(resamples, trials): the metric of every trial under the same resampled items."""
    items = len(trials[0].counts)
    for trial in trials:
        _same_length(trial.counts, trials[0].counts)
    rows = max(1, WEIGHTS_AT_ONCE // max(1, items))
    out = np.empty((resamples, len(trials)))
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        drawn = generator.integers(items, size=(count, items)) + items * np.arange(count)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=count * items).reshape(count, items).astype(float)
        for column, trial in enumerate(trials):
            out[start : start + count, column] = trial.metric(weights)
    return out


def _shared(resampled: Array) -> float:
    """Mean covariance of different columns: (total - diagonal) / (pairs); never below 0."""
    seeds = int(resampled.shape[1])
    total = float(resampled.sum(1).var(ddof=1))
    diagonal = float(resampled.var(0, ddof=1).sum())
    return max(0.0, (total - diagonal) / (seeds * (seeds - 1)))


def _welch(*parts: tuple[float, float]) -> float:
    """Degrees of freedom of a sum of variances (Welch, Biometrika 34, 1947); parts of 0 do not count."""
    parts = tuple((variance, df) for variance, df in parts if variance > 0)
    total = sum(variance for variance, _ in parts)
    return float(total**2 / sum(variance**2 / df for variance, df in parts)) if parts else 1.0


def _ratio(above: ArrayLike, below: ArrayLike) -> Array:
    above, below = np.asarray(above, float), np.asarray(below, float)
    out = np.zeros_like(below)
    np.divide(above, below, out=out, where=below > 0)
    return out


def _same_length(first: Iterable[object], second: Iterable[object]) -> None:
    sizes = len(list(first)), len(list(second))
    if sizes[0] != sizes[1]:
        raise ValueError(f"{sizes[0]} items against {sizes[1]}: scores are compared on the same items only")
