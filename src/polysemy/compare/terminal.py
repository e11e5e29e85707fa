"""The verdict and the table as lines for a terminal; Chinese characters count as two columns."""

from __future__ import annotations

from unicodedata import combining, east_asian_width

from polysemy.compare.page import rows
from polysemy.compare.results import Results
from polysemy.compare.verdict import metric_name
from polysemy.core.messages import Lang, say

NAME_WIDTH = 34
COSTS = (1, 2, 3, 5)  # disk, pretraining, fine-tuning, latency


def terminal_lines(results: Results, lang: Lang = "en") -> list[str]:
    """The verdict, what to keep in mind, and one line a system: ``→`` recommended, ``=`` tied with the best."""
    verdict = results["verdict"][lang]
    views = rows(results, lang)
    headings = [name for name, _ in views[0]["costs"]]
    columns = ("column.system", "", "column.interval", "column.p")
    table = [["", *(say(f"compare.{key}", lang) if key else metric_name(results["metric"], lang) for key in columns)]]
    table[0] += [headings[i] for i in COSTS] + [""]
    for view in views:
        kinds = dict(view["marks"])
        sign = "→" if view["recommended"] else "=" if "tied" in kinds or "best" in kinds else ""
        rest = ", ".join(text for kind, text in view["marks"] if kind not in ("recommended", "tied"))
        costs = [view["costs"][i][1] for i in COSTS]
        table.append([sign, _cut(view["name"]), view["mean"], view["interval"], view["p"], *costs, rest])
    widths = [max(_width(line[i]) for line in table) for i in range(len(table[0]))]
    left = {0, 1, len(widths) - 1}
    lines = [
        "  ".join(
            _pad(cell, width, i in left) for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]
    legend = f"→ {say('compare.mark.recommended', lang)}   = {say('compare.mark.tied', lang)}"
    notes = [f"· {note}" for note in verdict["notes"]]
    return [verdict["sentence"], verdict["why"], *notes, "", *lines, legend]


def _cut(name: str) -> str:
    """A long name keeps its end, which tells paths apart."""
    return name if len(name) <= NAME_WIDTH else "…" + name[-(NAME_WIDTH - 1) :]


def _pad(text: str, width: int, left: bool) -> str:
    space = " " * (width - _width(text))
    return text + space if left else space + text


def _width(text: str) -> int:
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
