"""The report's figures as plain plotly specifications; the page adds fonts and colours for light and dark.

A figure is ``{"data": traces, "layout": layout, "place_labels": bool}``.  Text from the user is HTML-escaped, because
plotly reads markup in names and labels.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from html import escape as escape_html
from typing import Any, TypeAlias

from polysemy.compare.results import Curve, Results, SystemResult
from polysemy.compare.verdict import MEASURES, UNPRETRAINED, Prefer, display, duration, metric_name, number
from polysemy.core.messages import Lang, say

Figure: TypeAlias = dict[str, Any]
PALETTE = ("#3f74d9", "#d7642c", "#15937c", "#a94fb5", "#b8860b", "#cf4257", "#5f9e2f", "#2f9fc4", "#8666d6", "#9a6a4f")
GREYS = ("#7a828c", "#9aa1a9", "#666d76", "#b0b5bb")
NAME_LENGTH = 30
CURVE_POINTS = 200  # a curve keeps at most this many points
LEAST = {"latency": 1e-3, "size": 1e-3, "training": 1e-2}  # a logarithmic axis has no zero


def draw(results: Results, lang: Lang) -> dict[str, Figure]:
    """All figures by name: ``cost-latency`` ..., ``dev``, ``labels``, ``loss-0`` ..."""
    found: dict[str, Figure | None] = {
        f"cost-{measure}": figure for measure, figure in quality_cost(results, lang).items()
    }
    found |= {"dev": dev_curves(results, lang), "labels": label_curve(results, lang)}
    found |= {f"loss-{index}": figure for index, figure in enumerate(loss_curves(results, lang).values())}
    return {name: figure for name, figure in found.items() if figure is not None}


def palette(results: Results) -> dict[str, str]:
    """A colour a row: controls are grey, a system without its pretraining shares the colour of the system."""
    colours: dict[str, str] = {}
    systems = [row["system"] for row in results["systems"] if not row["control"] and not _bare(row)]
    for index, system in enumerate(systems):
        colours[system] = PALETTE[index % len(PALETTE)]
        colours[system + UNPRETRAINED] = PALETTE[index % len(PALETTE)]
    for index, row in enumerate(row for row in results["systems"] if row["control"]):
        colours[row["system"]] = GREYS[index % len(GREYS)]
    return {row["system"]: colours.get(row["system"], PALETTE[-1]) for row in results["systems"]}


def far_below(results: Results) -> list[str]:
    """Controls so far below the rest that showing them would flatten what matters."""
    rows = results["systems"]
    shown = [row["test"]["mean"] for row in rows if not row["control"]] or [row["test"]["mean"] for row in rows]
    floor = min(shown) - max(0.02, max(shown) - min(shown))
    return [row["system"] for row in rows if row["control"] and row["test"]["mean"] < floor]


def quality_cost(results: Results, lang: Lang) -> dict[Prefer, Figure]:
    """Score against each cost, one figure a measure, with the frontier that no system beats on both."""
    hidden, colours = far_below(results), palette(results)
    rows = [row for row in results["systems"] if row["system"] not in hidden]
    return {measure: _scatter(results, rows, colours, measure, lang) for measure in MEASURES}


def dev_curves(results: Results, lang: Lang) -> Figure | None:
    """The dev score of every seed by fine-tuning time."""
    colours = palette(results)
    traces = []
    for row in results["systems"]:
        curves = [curve for curve in row["curves"] if curve["stage"] == "finetune" and curve["quantity"] != "loss"]
        for index, curve in enumerate(curves):
            traces.append(_line(row["system"], curve, colours[row["system"]], lang, legend=index == 0))
    axis = say("compare.report.axis_dev", lang, metric=metric_name(results["metric"], lang))
    return _time_figure(traces, axis, lang, legend=True) if traces else None


def loss_curves(results: Results, lang: Lang) -> dict[str, Figure]:
    """The pretraining loss by time, one small figure a system: their losses measure different things."""
    colours, figures = palette(results), {}
    for row in results["systems"]:
        curves = [curve for curve in row["curves"] if curve["stage"] == "pretrain" and curve["quantity"] == "loss"]
        traces = [_line(row["system"], curve, colours[row["system"]], lang, legend=False) for curve in curves]
        if traces:
            figure = _time_figure(traces, say("compare.report.loss", lang), lang, legend=False)
            figure["layout"]["title"] = {"text": _name(row["system"], lang), "x": 0.02, "xanchor": "left"}
            figure["layout"]["margin"]["t"] = 34
            figures[row["system"]] = figure
    return figures


def label_curve(results: Results, lang: Lang) -> Figure | None:
    """The score by the number of labelled items, with interval bars."""
    points = results["label_curve"]
    if not points:
        return None
    colours, traces = palette(results), []
    for system in dict.fromkeys(point["system"] for point in points):
        own = sorted((point for point in points if point["system"] == system), key=lambda point: point["labels"])
        means = [point["test"]["mean"] for point in own]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": _name(system, lang),
                "x": [point["labels"] for point in own],
                "y": means,
                "error_y": _whiskers(
                    [point["test"]["interval"] for point in own], means, colours.get(system, GREYS[0])
                ),
                "line": {"color": colours.get(system, GREYS[0]), "width": 2},
                "marker": {"size": 8},
                "hovertemplate": "%{x:,} · %{y:.3f}<extra>" + _name(system, lang) + "</extra>",
            }
        )
    ticks = sorted({point["labels"] for point in points})
    layout = _layout(metric_name(results["metric"], lang))
    layout["xaxis"] = {
        "type": "log",
        "title": {"text": say("compare.report.axis_labels", lang)},
        "tickvals": ticks,
        "ticktext": [f"{tick:,}" for tick in ticks],
    }
    return {"data": traces, "layout": layout | {"showlegend": True}, "place_labels": False}


def _scatter(
    results: Results, rows: list[SystemResult], colours: dict[str, str], measure: Prefer, lang: Lang
) -> Figure:
    costs = {row["system"]: max(LEAST[measure], MEASURES[measure](row["cost"])) for row in rows}
    frontier: list[SystemResult] = []
    for row in sorted(rows, key=lambda row: (costs[row["system"]], -row["test"]["mean"])):
        if not frontier or row["test"]["mean"] > frontier[-1]["test"]["mean"]:
            frontier.append(row)
    traces: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [costs[row["system"]] for row in frontier],
            "y": [row["test"]["mean"] for row in frontier],
            "line": {"dash": "dot", "width": 1.5, "color": "#8b93a0"},
            "hoverinfo": "skip",
        }
    ]
    for row in rows:
        cost, mean, colour = costs[row["system"]], row["test"]["mean"], colours[row["system"]]
        shown = duration(cost, lang) if measure == "training" else number(cost)
        name = _name(row["system"], lang)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "x": [cost],
                "y": [mean],
                "text": [f"<b>{name}</b>" if row["system"] == results["recommended"] else name],
                "textposition": "top center",
                "textfont": {"color": colour},
                "cliponaxis": False,
                "error_y": _whiskers([row["test"]["interval"]], [mean], colour),
                "marker": {
                    "size": 13 if row["system"] == results["recommended"] else 10,
                    "color": colour,
                    "symbol": "diamond" if row["control"] else "circle-open" if _bare(row) else "circle",
                    "line": {"width": 2, "color": colour},
                },
                "hovertemplate": f"<b>{name}</b><br>%{{y:.3f}} · {escape(shown)}<extra></extra>",
            }
        )
    layout = _layout(metric_name(results["metric"], lang))
    layout["xaxis"] = {
        "type": "log",
        "title": {"text": say(f"compare.report.axis_{measure}", lang)},
        **_ticks(costs.values()),
    }
    return {"data": traces, "layout": layout | {"showlegend": False}, "place_labels": True}


def _ticks(values: Collection[float]) -> dict[str, Any]:
    """Ticks of a logarithmic axis: decades, with 2 and 5 between them where there are few."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if high - low <= 2 else (1,)
    ticks = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    return {"tickvals": ticks, "ticktext": [number(tick) for tick in ticks]}


def _time_figure(traces: list[Figure], axis: str, lang: Lang, *, legend: bool) -> Figure:
    layout = _layout(axis) | {"showlegend": legend}
    layout["xaxis"] = {"title": {"text": say("compare.report.axis_seconds", lang)}, "rangemode": "tozero"}
    return {"data": traces, "layout": layout, "place_labels": False}


def _line(system: str, curve: Curve, colour: str, lang: Lang, *, legend: bool) -> Figure:
    step = max(1, -(-len(curve["values"]) // CURVE_POINTS))
    name = _name(system, lang)
    seed = say("compare.report.seed", lang, seed=curve["seed"])
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "showlegend": legend,
        "x": curve["seconds"][::step],
        "y": curve["values"][::step],
        "line": {"color": colour, "width": 1.8, "dash": "dot" if system.endswith(UNPRETRAINED) else "solid"},
        "opacity": 0.85,
        "hovertemplate": f"%{{x:.0f}} s · %{{y:.3f}}<extra>{name}, {escape(seed)}</extra>",
    }


def _layout(y_title: str) -> dict[str, Any]:
    return {"yaxis": {"title": {"text": escape(y_title)}}, "margin": {"l": 62, "r": 18, "t": 14, "b": 52}}


def _whiskers(intervals: list[list[float]], means: list[float], colour: str) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - mean for (_, high), mean in zip(intervals, means, strict=True)],
        "arrayminus": [mean - low for (low, _), mean in zip(intervals, means, strict=True)],
        "color": colour,
        "thickness": 1.3,
        "width": 4,
    }


def _name(system: str, lang: Lang) -> str:
    """A name that fits beside a point: the last part of a path, cut at ``NAME_LENGTH``."""
    name = display(system, lang)
    name = name.rstrip("/").rpartition("/")[2] if "/" in name else name
    return escape(name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1] + "…")


def escape(text: str) -> str:
    """Plotly reads tags and character entities, but not those of quotes."""
    return escape_html(text, quote=False)


def _bare(row: SystemResult) -> bool:
    return row["system"].endswith(UNPRETRAINED)
