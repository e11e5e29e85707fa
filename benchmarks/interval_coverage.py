"""Are the intervals and tests of ``polysemy compare`` what they say?  Simulation with known truth.

Every simulated comparison draws new seeds and new test items, so the truth is the expected score over both.
Claims: 95 % intervals cover the truth in at least 93 % of comparisons; two equal systems are called different in at
most 5 %, and so is any of several equal systems.

    python benchmarks/interval_coverage.py [--comparisons 2000] [--resamples 300]

Columns of the first table: coverage of our interval, its mean width, coverage with Satterthwaite's single t quantile
on the same two variances, and with no thought for seeds at all (bootstrap of items alone).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
from scipy import optimize, special, stats

from polysemy.core.statistics import Estimate, ItemScores, rank

Metric = Literal["accuracy", "f1", "macro_f1"]
ITEM_SD = 0.8  # difficulty of an item, shared by all systems, on the probit scale
OWN_SD = 0.4  # what an item is to one system alone
SPANS, SPURIOUS = 1.3, 0.12  # gold spans and false positives a sentence
CLASSES = np.array([0.35, 0.25, 0.18, 0.12, 0.07, 0.03])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


@dataclass(frozen=True)
class World:
    """One kind of comparison: a metric, test items, and systems with their true score and the spread of their seeds."""

    metric: Metric
    items: int
    score: float
    seed_sd: tuple[float, ...]  # one a system, on the probit scale; 0 with one seed is a deterministic system
    seeds: int = 3
    gap: float = 0.0  # the first system is this much better


def expected(metric: Metric, level: float, seed_sd: float) -> float:
    """The true score of a system at ``level`` on the probit scale, averaged over seeds and items."""
    spread = np.sqrt(1 + ITEM_SD**2 + OWN_SD**2)
    shift = seed_sd * NODES
    right = special.ndtr((level + shift) / spread)
    if metric == "f1":
        spurious = SPURIOUS * np.exp(-shift + ITEM_SD**2 / 8)
        values = 2 * SPANS * right / (SPANS + SPANS * right + spurious)
    else:
        values = right + (1 - right) / len(CLASSES) if metric == "macro_f1" else right
    return float(values @ WEIGHTS / WEIGHTS.sum())


def level_for(metric: Metric, score: float, seed_sd: float) -> float:
    """The level on the probit scale whose true score is ``score``."""
    return float(optimize.brentq(lambda level: expected(metric, level, seed_sd) - score, -4, 8))


def simulate(world: World, rng: np.random.Generator) -> dict[str, list[ItemScores]]:
    """One comparison: systems x seeds on the same new items."""
    difficulty = ITEM_SD * rng.normal(size=world.items)
    gold = rng.poisson(SPANS * rng.gamma(1.5, 1 / 1.5, world.items))
    labels = rng.choice(len(CLASSES), world.items, p=CLASSES)
    out: dict[str, list[ItemScores]] = {}
    for index, seed_sd in enumerate(world.seed_sd):
        level = level_for(world.metric, world.score + (world.gap if index == 0 else 0.0), seed_sd)
        own = OWN_SD * rng.normal(size=world.items)
        rows = out.setdefault(f"system {index}", [])
        for _ in range(world.seeds if seed_sd else 1):
            shift = seed_sd * rng.normal()
            right = special.ndtr(level + shift + difficulty + own)
            if world.metric == "f1":
                true = rng.binomial(gold, right)
                spurious = rng.poisson(SPURIOUS * np.exp(-shift + difficulty / 2))
                rows.append(ItemScores("f1", np.stack([true, true + spurious, gold], axis=1).astype(float)))
            elif world.metric == "accuracy":
                hits = (rng.random(world.items) < right).astype(float)
                rows.append(ItemScores("accuracy", np.stack([hits, np.ones_like(hits)], axis=1)))
            else:
                other = rng.choice(len(CLASSES), world.items, p=CLASSES)
                guess = np.where(rng.random(world.items) < right, labels, other)
                rows.append(ItemScores.of_labels(labels.tolist(), guess.tolist(), "macro_f1"))
    return out


def naive(kind: Literal["satterthwaite", "items"], estimate: Estimate) -> tuple[float, float]:
    """The interval by simpler rules, from the same variances."""
    seeds = len(estimate.per_seed)
    seed_part, item_part = estimate.seed_variance, estimate.item_variance
    if kind == "items" or seed_part == 0:
        half = 1.96 * np.sqrt(item_part)
    else:
        total = seed_part + item_part
        df = total**2 / (seed_part**2 / (seeds - 1) + item_part**2 / (estimate.items - 1))
        half = stats.t.ppf(0.975, df) * np.sqrt(total)
    return estimate.mean - half, estimate.mean + half


def coverage(world: World, comparisons: int, resamples: int, seed: int = 0) -> dict[str, float]:
    """Shares of simulated comparisons whose interval holds the true score, and the mean width of ours."""
    rng = np.random.default_rng(seed)
    hits = {"ours": 0, "satterthwaite": 0, "items": 0}
    width = 0.0
    for index in range(comparisons):
        trials = simulate(world, rng)
        fixed = [name for name, rows in trials.items() if len(rows) == 1]
        estimate = rank(trials, deterministic=fixed, resamples=resamples, seed=index).estimates["system 0"]
        width += (estimate.high - estimate.low) / comparisons
        for kind in hits:
            low, high = (estimate.low, estimate.high) if kind == "ours" else naive(kind, estimate)
            hits[kind] += low <= world.score <= high
    return {kind: count / comparisons for kind, count in hits.items()} | {"width": width}


def called_different(world: World, comparisons: int, resamples: int, seed: int = 0) -> float:
    """Share of simulated comparisons in which any system is called different from the best."""
    rng = np.random.default_rng(seed)
    count = 0
    for index in range(comparisons):
        trials = simulate(world, rng)
        fixed = [name for name, rows in trials.items() if len(rows) == 1]
        standing = rank(trials, deterministic=fixed, resamples=resamples, seed=index)
        count += len(standing.tied) < len(trials)
    return count / comparisons


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=300)
    arguments = parser.parse_args()
    size = arguments.comparisons, arguments.resamples
    error = 1.96 * np.sqrt(0.05 * 0.95 / size[0])
    print(f"{size[0]} comparisons a row; sampling error of a share near 5 % or 95 %: ±{error:.3f}\n")
    print("metric    items seeds score seed sd | coverage  width | Satterthwaite  items alone")
    rows = list(product(("accuracy", "f1", "macro_f1"), (300, 2000), (3,), (0.85,), (0.0, 0.03, 0.1, 0.3)))
    rows += [("accuracy", 300, 3, 0.95, 0.1), ("f1", 300, 3, 0.6, 0.1), ("f1", 1000, 5, 0.85, 0.1)]
    rows += [("accuracy", 1000, 2, 0.85, 0.1)]
    for metric, items, seeds, score, seed_sd in rows:
        world = World(metric, items, score, (seed_sd or 1e-9,), seeds)
        got = coverage(world, *size)
        print(
            f"{metric:9} {items:5} {seeds:5} {score:5} {seed_sd:7} | {got['ours']:8.3f}  {got['width']:.3f} |"
            f" {got['satterthwaite']:13.3f} {got['items']:12.3f}",
            flush=True,
        )
    print("\nequal systems called different; the last column: the first is better by 0.03")
    print("metric    items seed sd of each system           | called different | power")
    spreads: tuple[tuple[float, ...], ...] = (
        (0.05, 0.05),
        (0.2, 0.2),
        (0.05, 0.3),
        (0.0, 0.0),
        (0.0, 0.2),
        (0.05,) * 5,
        (0.0, 0.0, 0.05, 0.05, 0.2, 0.2),
    )
    for metric, items in (("accuracy", 390), ("f1", 2000)):
        for spread in spreads:
            world = World(metric, items, 0.85, spread)
            wrong, power = called_different(world, *size), called_different(replace(world, gap=0.03), *size)
            print(f"{metric:9} {items:5} {spread!s:33} | {wrong:16.3f} | {power:5.3f}", flush=True)


if __name__ == "__main__":
    main()
