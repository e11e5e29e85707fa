"""Which system to take, and why, in one sentence: the cheapest of those that cannot be told from the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from polysemy.compare.results import Budget, Cost, Limits, Spoken, SystemResult
from polysemy.core import budget as core_budget
from polysemy.core.messages import Lang, count, say
from polysemy.core.statistics import Standing

Prefer: TypeAlias = Literal["latency", "size", "training"]
SAME_COST = 1.1  # costs within 10 % are the same: measured times vary by as much from run to run
WIDE_GAP = 0.01  # a difference that people care about although the test cannot see it
UNPRETRAINED = " without pretraining"  # how rows of a system with random weights end (compare.plan)
MEASURES: dict[Prefer, Callable[[Cost], float]] = {
    "latency": lambda cost: cost["latency_ms"],
    "size": lambda cost: cost["disk_mb"],
    "training": lambda cost: (cost["pretrain_seconds"] or 0.0) + cost["finetune_seconds"],
}


@dataclass(frozen=True)
class Decision:
    """The recommendation with what it follows from.  ``recommended`` is None when no system is under the limits."""

    recommended: str | None
    best: str  # of all systems
    best_allowed: str | None  # of those under the limits
    tied_allowed: tuple[str, ...]  # cannot be told from ``best_allowed``
    over_limit: tuple[str, ...]


def decide(systems: Sequence[SystemResult], standing: Standing, prefer: Prefer, limits: Limits) -> Decision:
    """The cheapest of the systems tied with the best of those under the limits.

    Equal costs (within 10 %) are decided by the score.
    """
    costs = {row["system"]: row["cost"] for row in systems}
    allowed = [name for name, cost in costs.items() if within(cost, limits)]
    over = tuple(name for name in costs if name not in allowed)
    if not allowed:
        return Decision(None, standing.best, None, (), over)
    among = standing.among(allowed)
    cheapest = min(MEASURES[prefer](costs[name]) for name in among.tied)
    equal = [name for name in among.tied if MEASURES[prefer](costs[name]) <= cheapest * SAME_COST]
    recommended = max(equal, key=lambda name: among.estimates[name].mean)
    return Decision(recommended, standing.best, among.best, among.tied, over)


def speak(
    decision: Decision,
    systems: Sequence[SystemResult],
    standing: Standing,
    *,
    prefer: Prefer,
    limits: Limits,
    budget: Budget,
    lang: Lang,
) -> Spoken:
    """The verdict in one language: one sentence, why, and what to keep in mind."""
    rows = {row["system"]: row for row in systems}
    metric = metric_name(systems[0]["metric"], lang)
    notes = _notes(decision, rows, standing, budget, lang)
    if decision.recommended is None:
        nearest = min(
            rows, key=lambda name: MEASURES["size" if limits["latency_ms"] is None else "latency"](rows[name]["cost"])
        )
        cost = cost_phrase(rows[nearest]["cost"], lang)
        return Spoken(
            sentence=say("compare.verdict.none_allowed", lang, limits=limits_phrase(limits, lang)),
            why=say("compare.why.none_allowed", lang, system=display(nearest, lang), cost=cost),
            notes=notes,
        )
    chosen = rows[decision.recommended]
    key = "enough" if chosen["control"] else "take"
    sentence = say(
        f"compare.verdict.{key}",
        lang,
        system=display(decision.recommended, lang),
        metric=metric,
        score=score_phrase(chosen, lang),
        budget=budget_phrase(budget, lang),
    )
    return Spoken(sentence=sentence, why=_why(decision, rows, standing, prefer, limits, lang), notes=notes)


def _why(
    decision: Decision, rows: dict[str, SystemResult], standing: Standing, prefer: Prefer, limits: Limits, lang: Lang
) -> str:
    assert decision.recommended is not None
    assert decision.best_allowed is not None
    cost = say(
        f"compare.cheapest.{prefer}", lang, cost=_measure_phrase(rows[decision.recommended]["cost"], prefer, lang)
    )
    best = decision.best_allowed
    values = {"best": display(best, lang), "score": f"{rows[best]['test']['mean']:.3f}", "cost": cost}
    if len(decision.tied_allowed) == 1:
        why = say("compare.why.alone", lang, **values) if len(rows) > 1 else say("compare.why.only", lang)
    elif decision.recommended == best:
        others = names([name for name in decision.tied_allowed if name != best], lang)
        why = say("compare.why.best_and_cheapest", lang, others=others, **values)
    else:
        why = say("compare.why.tied", lang, **values)
    if decision.best in decision.over_limit:
        top = display(decision.best, lang)
        score = f"{standing.estimates[decision.best].mean:.3f}"
        why += say("compare.why.over_limit", lang, best=top, score=score, limits=limits_phrase(limits, lang))
    return why


def _notes(
    decision: Decision, rows: dict[str, SystemResult], standing: Standing, budget: Budget, lang: Lang
) -> list[str]:
    notes = []
    hungry = [name for name, row in rows.items() if row["under_trained"]]
    if hungry:
        notes.append(
            say(
                "compare.note.under_trained",
                lang,
                systems=names(hungry, lang),
                pretrain=budget_name(budget["pretrain"], lang),
            )
        )
    if decision.recommended and decision.best_allowed and decision.recommended != decision.best_allowed:
        gap = rows[decision.best_allowed]["test"]["mean"] - rows[decision.recommended]["test"]["mean"]
        if gap >= WIDE_GAP:
            notes.append(
                say("compare.note.wide_gap", lang, gap=f"{gap:.3f}", best=display(decision.best_allowed, lang))
            )
    notes += [note for name in rows if (note := _pretraining_note(name, rows, standing, lang))]
    if "none" in rows and "none" in standing.tied and decision.recommended != "none":
        notes.append(say("compare.note.random_enough", lang))
    foreign = [name for name, row in rows.items() if row["elsewhere"]]
    if foreign:
        notes.append(say("compare.note.elsewhere", lang, systems=names(foreign, lang)))
    if budget["seeds"] == 1:
        notes.append(say("compare.note.one_seed", lang))
    elif budget["share_pretraining"]:
        notes.append(say("compare.note.shared", lang))
    return notes


def _pretraining_note(name: str, rows: dict[str, SystemResult], standing: Standing, lang: Lang) -> str | None:
    """What pretraining did for a system that also ran with random weights."""
    bare = name + UNPRETRAINED
    if bare not in rows:
        return None
    pair = standing.pairs.get((name, bare))
    low, high, gain = (pair.low, pair.high, pair.difference) if pair else _turned(standing, bare, name)
    key = "paid" if low > 0 else "harmed" if high < 0 else "unclear"
    values = {"gain": f"{gain:+.3f}", "low": f"{low:+.3f}", "high": f"{high:+.3f}"}
    return say(f"compare.note.pretraining_{key}", lang, system=display(name, lang), **values)


def _turned(standing: Standing, first: str, second: str) -> tuple[float, float, float]:
    pair = standing.pairs[first, second]
    return -pair.high, -pair.low, -pair.difference


def display(system: str, lang: Lang) -> str:
    """How a row is called in sentences and tables."""
    if system in ("majority", "tfidf", "context", "none"):
        return say(f"compare.name.{system}", lang)
    if system.endswith(UNPRETRAINED):
        return say("compare.name.without_pretraining", lang, system=system.removesuffix(UNPRETRAINED))
    return system


def names(systems: Sequence[str], lang: Lang) -> str:
    """ "a, b and c" """
    shown = [display(system, lang) for system in systems]
    if len(shown) < 2:
        return "".join(shown)
    comma, last = (", ", " and ") if lang == "en" else ("、", " 和 ")
    return comma.join(shown[:-1]) + last + shown[-1]


def metric_name(metric: str, lang: Lang) -> str:
    """The metric as people write it; an unknown one as it is."""
    return say(f"compare.metric.{metric}", lang) if metric in ("f1", "accuracy", "macro_f1", "weighted_f1") else metric


def score_phrase(row: SystemResult, lang: Lang) -> str:
    low, high = row["test"]["interval"]
    return say("compare.score", lang, mean=f"{row['test']['mean']:.3f}", low=f"{low:.3f}", high=f"{high:.3f}")


def budget_phrase(budget: Budget, lang: Lang) -> str:
    seeds = count("compare.seeds", budget["seeds"], lang)
    pretrain, finetune = (budget_name(text, lang) for text in (budget["pretrain"], budget["finetune"]))
    return say("compare.budget", lang, pretrain=pretrain, finetune=finetune, seeds=seeds)


def budget_name(text: str, lang: Lang) -> str:
    """ "5m" as "5 min", "50Mtok" as "50,000,000 words"."""
    parsed = core_budget.Budget.parse(text)
    if parsed.words is not None:
        return say("compare.unit.words", lang, n=f"{parsed.words:,}")
    seconds = parsed.seconds or 0.0
    for unit, size in (("whole_hours", 3600), ("whole_minutes", 60)):
        if seconds % size == 0:
            return say(f"compare.unit.{unit}", lang, n=f"{seconds / size:.0f}")
    return duration(seconds, lang)


def limits_phrase(limits: Limits, lang: Lang) -> str:
    parts = [f"{limits['latency_ms']:g} ms"] if limits["latency_ms"] is not None else []
    parts += [f"{limits['size_mb']:g} MB"] if limits["size_mb"] is not None else []
    return (" and " if lang == "en" else "和").join(parts)


def cost_phrase(cost: Cost, lang: Lang) -> str:
    return ("; " if lang == "en" else "；").join((f"{number(cost['latency_ms'])} ms", f"{number(cost['disk_mb'])} MB"))


def _measure_phrase(cost: Cost, prefer: Prefer, lang: Lang) -> str:
    value = MEASURES[prefer](cost)
    return {"latency": f"{number(value)} ms", "size": f"{number(value)} MB", "training": duration(value, lang)}[prefer]


def number(value: float) -> str:
    """Three digits that matter: 0.0052, 1.24, 38.1, 1,240."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2g}" if abs(value) < 1 else f"{value:.3g}"


def duration(seconds: float, lang: Lang) -> str:
    """0.3 s, 42 s, 5 min 3 s, 2 h 10 min."""
    if seconds < 90:
        return say("compare.unit.seconds", lang, n=number(seconds) if seconds < 10 else f"{seconds:.0f}")
    if seconds < 5400:
        return say("compare.unit.minutes", lang, n=f"{seconds // 60:.0f}", rest=f"{seconds % 60:.0f}")
    return say("compare.unit.hours", lang, n=f"{seconds // 3600:.0f}", rest=f"{seconds % 3600 // 60:.0f}")


def within(cost: Cost, limits: Limits) -> bool:
    """Whether a system is under the user's limits."""
    fast = limits["latency_ms"] is None or cost["latency_ms"] <= limits["latency_ms"]
    return fast and (limits["size_mb"] is None or cost["disk_mb"] <= limits["size_mb"])
