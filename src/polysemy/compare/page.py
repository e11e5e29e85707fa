"""What the report shows, as text that is ready to be shown: rows, marks, facts.  No markup here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from polysemy.compare import figures
from polysemy.compare.answers import answers
from polysemy.compare.results import Limits, OneHeadRow, Results, Score, SystemResult
from polysemy.compare.verdict import (
    budget_phrase,
    display,
    duration,
    limits_phrase,
    metric_name,
    number,
    within,
)
from polysemy.core.ledger import Ledger
from polysemy.core.messages import Lang, phrases, say

View: TypeAlias = dict[str, Any]
MINUS, DASH = "\u2212", "\u2013"
PARTS = ("train", "dev", "test")


def page(results: Results, lang: Lang) -> View:
    """The view of one report."""
    hidden = figures.far_below(results)
    shown = [
        f"{display(row['system'], lang)} {row['test']['mean']:.3f}"
        for row in results["systems"]
        if row["system"] in hidden
    ]
    return {
        "task": task_name(results["task"], lang),
        "metric": metric_name(results["metric"], lang),
        "verdict": results["verdict"][lang],
        "facts": _facts(results, lang),
        "rows": rows(results, lang),
        "one_head": _one_head(results, lang),
        "hidden": ("、" if lang == "zh" else ", ").join(shown),
        "disagreements": [answers(row, results, lang) for row in results["disagreements"]],
        "method": _method(results, lang),
        "settings": [(display(row["system"], lang), row["settings"]) for row in results["systems"] if row["settings"]],
        "ledger": Ledger.from_json(results["ledger"]).lines(),
        "command": results["command"],
        "environment": json.dumps(results["environment"], ensure_ascii=False, indent=1),
        "made": say("compare.report.made", lang, created=results["created"], version=_version(results)),
    }


def rows(results: Results, lang: Lang) -> list[View]:
    """One view a row of the table, for the page and for the terminal."""
    colours, hidden = figures.palette(results), figures.far_below(results)
    scale = _scale([row["test"] for row in results["systems"] if row["system"] not in hidden])
    return [
        {
            "system": row["system"],
            "name": display(row["system"], lang),
            "about": about(row, lang),
            "colour": colours[row["system"]],
            "marks": marks(row, results, lang),
            "recommended": row["system"] == results["recommended"],
            **_score(row["test"], scale),
            **_against(row),
            "costs": costs(row, lang),
        }
        for row in results["systems"]
    ]


def about(row: SystemResult, lang: Lang) -> str:
    """One line on what stands in the row: its mode and head, or what a control is."""
    known = phrases("compare")
    if f"about.{row['system']}" in known:
        return say(f"compare.about.{row['system']}", lang)
    return (
        say(f"compare.about.{row['mode']}", lang, head=row["head"]) if f"about.{row['mode']}" in known else row["head"]
    )


def marks(row: SystemResult, results: Results, lang: Lang) -> list[tuple[str, str]]:
    """(kind, text) of the marks beside a name."""
    kinds = [
        ("recommended", row["system"] == results["recommended"]),
        ("best", row["system"] == results["best"]),
        ("tied", row["tied"] and row["system"] != results["best"]),
        ("under_trained", row["under_trained"]),
        ("elsewhere", row["elsewhere"]),
        ("control", row["control"]),
        ("one_seed", not row["test"]["seeds_known"]),
        ("over_limit", not within(row["cost"], results["limits"])),
    ]
    return [(kind, say(f"compare.mark.{kind}", lang)) for kind, holds in kinds if holds]


def costs(row: SystemResult, lang: Lang) -> list[tuple[str, str]]:
    """(heading, text) of the measured costs."""
    cost = row["cost"]
    pretrain = cost["pretrain_seconds"]
    texts = {
        "parameters": amount(cost["parameters"]),
        "disk": f"{number(cost['disk_mb'])} MB",
        "pretrain": DASH if not pretrain else duration(pretrain, lang),
        "finetune": duration(cost["finetune_seconds"], lang),
        "memory": f"{cost['peak_memory_mb']:,.0f} MB",
        "latency": f"{number(cost['latency_ms'])} ms",
        "speed": f"{float(format(cost['words_per_second'], '.3g')):,.0f}",
    }
    return [(say(f"compare.column.{key}", lang), text) for key, text in texts.items()]


def amount(value: int) -> str:
    """1, 16 k, 2.4 M, 1.1 G."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return str(value)


def task_name(task: str, lang: Lang) -> str:
    return say(f"compare.task.{task}", lang) if f"task.{task}" in phrases("compare") else task


def _score(score: Score, scale: tuple[float, float]) -> View:
    """Texts and positions (percent of the strip) of one score."""
    low, high = score["interval"]
    left, right = _place(low, scale), _place(high, scale)
    return {
        "mean": f"{score['mean']:.3f}",
        "interval": f"{low:.3f} {DASH} {high:.3f}",
        "per_seed": [f"{value:.3f}" for value in score["per_seed"]],
        "strip": {
            "left": left,
            "width": round(right - left, 2),
            "mean": _place(score["mean"], scale),
            "dots": [_place(value, scale) for value in score["per_seed"]] if len(score["per_seed"]) > 1 else [],
            "off": score["mean"] < scale[0],
        },
    }


def _against(row: SystemResult | OneHeadRow) -> View:
    against = row["against_best"]
    if against is None:
        return {"difference": DASH, "p": ""}
    difference, p = f"{against['difference']:+.3f}".replace("-", MINUS), against["p_holm"]
    return {"difference": difference, "p": "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"}


def _scale(scores: Sequence[Score]) -> tuple[float, float]:
    """Ends of the strips: all intervals with a little air."""
    low, high = min(score["interval"][0] for score in scores), max(score["interval"][1] for score in scores)
    air = max(0.005, 0.04 * (high - low))
    return low - air, high + air


def _place(value: float, scale: tuple[float, float]) -> float:
    low, high = scale
    return round(100 * min(1.0, max(0.0, (value - low) / (high - low))), 2)


def _one_head(results: Results, lang: Lang) -> View | None:
    table = results["one_head"]
    if not table or not table["systems"]:
        return None
    colours, scale = figures.palette(results), _scale([row["test"] for row in table["systems"]])
    return {
        "head": table["head"],
        "rows": [
            {
                "name": display(row["system"], lang),
                "colour": colours.get(row["system"], figures.GREYS[0]),
                "marks": [("tied", say("compare.mark.tied", lang))] if row["tied"] and row["against_best"] else [],
                **_score(row["test"], scale),
                **_against(row),
            }
            for row in table["systems"]
        ],
    }


def _facts(results: Results, lang: Lang) -> list[tuple[str, str]]:
    """Short facts under the verdict."""
    facts = [(say("compare.report.budget", lang), budget_phrase(results["budget"], lang))]
    sizes = [
        f"{say(f'compare.report.{part}', lang)} {results['data'][part]['items']:,}"
        for part in PARTS
        if part in results["data"]
    ]
    facts.append((say("compare.report.data", lang), " · ".join(sizes)))
    if corpus := results["corpus"]:
        text = say(
            "compare.report.corpus_size", lang, sentences=f"{corpus['sentences']:,}", words=f"{corpus['words']:,}"
        )
        facts.append((say("compare.report.corpus", lang), text))
    if overlap := results["overlap"]:
        removed = {"removed": f"{overlap['removed']:,}", "of": f"{overlap['of']:,}"}
        facts.append((say("compare.report.overlap", lang), say("compare.report.overlap_fact", lang, **removed)))
    return facts


def _method(results: Results, lang: Lang) -> list[tuple[str, list[str]]]:
    """(heading, paragraphs) of how it was done."""
    plan, budget = results["plan"], budget_phrase(results["budget"], lang)
    prefer, alpha = results["prefer"], f"{1 - results['statistics']['level']:.2g}"
    limits = _limits(results["limits"], lang)
    sections = [("data", _data(results, lang))]
    if overlap := results["overlap"]:
        key = "overlap_text" if overlap["removed"] else "overlap_none"
        shown = {name: f"{value:,}" for name, value in overlap.items() if isinstance(value, int)}
        sections.append(("overlap", [say(f"compare.report.{key}", lang, **(shown if overlap["removed"] else {}))]))
    rule = {"prefer": say(f"compare.report.prefer_{prefer}", lang), "limits": limits}
    used = {
        "trials": f"{plan['trials']:,}",
        "used": duration(plan["seconds_used"], lang),
        "most": duration(plan["seconds_at_most"], lang),
        "disk": f"{plan['disk_mb']:,.0f}",
    }
    sections += [
        ("budget", [say("compare.report.budget_text", lang, budget=budget)]),
        ("statistics", [say("compare.report.statistics_text", lang, alpha=alpha)]),
        ("recommendation", [say("compare.report.recommendation_text", lang, **rule)]),
        ("trials", [say("compare.report.trials_text", lang, **used)]),
    ]
    if results["failures"]:
        failed = [
            f"{display(row['system'], lang)}, {say('compare.report.seed', lang, seed=row['seed'])}: {row['reason']}"
            for row in results["failures"]
        ]
        sections.append(("failures", failed))
    return [(say(f"compare.report.{key}", lang), texts) for key, texts in sections]


def _data(results: Results, lang: Lang) -> list[str]:
    lines = []
    for name in PARTS:
        if part := results["data"].get(name):
            size = say("compare.report.items", lang, n=f"{part['items']:,}")
            note = f" ({part['note']})" if part["note"] else ""
            lines.append(f"{say(f'compare.report.{name}', lang)}: {part['path']}, {size}{note}")
    if corpus := results["corpus"]:
        size = say(
            "compare.report.corpus_size", lang, sentences=f"{corpus['sentences']:,}", words=f"{corpus['words']:,}"
        )
        lines.append(f"{say('compare.report.corpus', lang)}: {', '.join(corpus['paths'])}: {size}")
    return lines


def _limits(limits: Limits, lang: Lang) -> str:
    return limits_phrase(limits, lang) or say("compare.report.no_limits", lang)


def _version(results: Results) -> str:
    return str(results["environment"].get("packages", {}).get("polysemy", ""))
