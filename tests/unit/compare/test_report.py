"""The page is whole, safe and in two languages; the terminal gets the same table."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from polysemy.compare import answers, figures
from polysemy.compare.report import render, write_report
from polysemy.compare.results import Results
from polysemy.compare.terminal import terminal_lines
from polysemy.core.messages import LANGS, Lang
from tests.unit.compare.synthetic import classification, tagging

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>&lt;b&gt;\u2028"


@pytest.fixture(scope="module")
def results() -> Results:
    return tagging(items=300)


def specifications(html: str) -> dict[str, figures.Figure]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html, re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize("lang", LANGS)
def test_the_page_is_self_contained_and_begins_with_the_verdict(results: Results, lang: Lang, tmp_path: Path) -> None:
    path = write_report(results, tmp_path, lang)
    html = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 6e6
    body = html[html.index("<body>") : html.index('<script type="application/json"')]
    assert body.index(results["verdict"][lang]["sentence"]) < body.index("<table")
    assert not re.search(r'(?:src|href)\s*=\s*["\']?(?:https?:)?//', body)
    for row in results["systems"]:
        assert f"<b>{row['test']['mean']:.3f}</b>" in body
    assert "3,353" in body
    assert "polysemy compare --corpus" in body
    assert set(specifications(html)) >= {"cost-latency", "cost-size", "cost-training", "dev", "labels", "loss-0"}


def test_figures_are_what_plotly_accepts(results: Results) -> None:
    import plotly.graph_objects as go

    for lang in LANGS:
        for figure in figures.draw(results, lang).values():
            go.Figure(data=figure["data"], layout=figure["layout"])


def test_nothing_of_the_user_is_markup() -> None:
    results = classification(hostile=HOSTILE)
    html = render(results)
    calm = render(classification())
    assert html.count("<script") == calm.count("<script")
    assert html.count("</script") == calm.count("</script")
    assert html.count("<img") == calm.count("<img")
    assert "\u2028" not in html[html.index('id="figures"') : html.index("plotly.js")]
    labels = [text for trace in specifications(html)["cost-latency"]["data"] for text in trace.get("text", [])]
    assert labels
    assert not any(re.search(r"<(?!/?b>)", label) for label in labels)


def test_controls_far_below_do_not_flatten_the_picture(results: Results) -> None:
    assert figures.far_below(results) == ["majority"]
    traces = figures.quality_cost(results, "en")["latency"]["data"]
    assert not any("Majority" in str(trace.get("text")) for trace in traces)
    assert "Below the picture: Majority" in render(results)


def test_the_frontier_joins_what_nothing_beats(results: Results) -> None:
    frontier = figures.quality_cost(results, "en")["latency"]["data"][0]
    assert frontier["x"] == sorted(frontier["x"])
    assert frontier["y"] == sorted(frontier["y"])
    for row in results["systems"]:
        x, y = row["cost"]["latency_ms"], row["test"]["mean"]
        assert (
            any(a <= x and b >= y for a, b in zip(frontier["x"], frontier["y"], strict=True))
            or row["system"] == "majority"
        )


def test_long_curves_are_thinned_and_zero_costs_have_a_place(results: Results) -> None:
    row = next(row for row in results["systems"] if row["curves"])
    curve = row["curves"][0] | {"seconds": list(range(5000)), "values": [0.5] * 5000}
    longer = results | {"systems": [row | {"curves": [curve | {"stage": "finetune", "quantity": "f1"}]}]}
    figure = figures.dev_curves(longer, "en")  # type: ignore[arg-type]
    assert figure
    assert len(figure["data"][0]["x"]) <= figures.CURVE_POINTS
    free = row | {"cost": row["cost"] | {"latency_ms": 0.0}}
    assert figures.quality_cost(results | {"systems": [free]}, "en")["latency"]["data"][1]["x"] == [0.001]  # type: ignore[arg-type]


def test_an_answer_beside_gold(results: Results) -> None:
    words = ["Obi", "Eze", "si", "Awka", "在", "南京", "。"]
    gold = ["B-PER", "I-PER", "O", "B-LOC", "O", "B-LOC", "O"]
    said = ["B-PER", "I-PER", "O", "B-PER", "O", "O", "O"]
    row = {
        "words": words,
        "gold": gold,
        "predicted": {"a": said, "b": gold, "c": said},
        "same_pattern": 1,
        "place": "f:1",
    }
    view = answers.answers(row, results, "en")  # type: ignore[arg-type]
    assert view["pieces"] == [("Obi Eze", "PER"), ("si", ""), ("Awka", "LOC"), ("在", ""), ("南京", "LOC"), ("。", "")]
    right, wrong = view["groups"]
    assert right["right"]
    assert [name for name, _ in wrong["systems"]] == ["a", "c"]
    assert wrong["chips"] == [
        ("Obi Eze", "PER", "right"), ("Awka", "LOC", "missed"), ("Awka", "PER", "extra"), ("南京", "LOC", "missed"),
    ]  # fmt: skip
    plain = {"words": ["a", "b"], "gold": ["N", "V"], "predicted": {"x": ["N", "N"]}, "same_pattern": 1, "place": ""}
    assert answers.answers(plain, results, "en")["groups"][0]["chips"] == [("b", "N", "extra")]  # type: ignore[arg-type]
    assert answers.join(["国足", "今晚", "3", "球"]) == "国足今晚 3 球"


def test_parts_that_are_absent_leave_no_trace(results: Results) -> None:
    bare = results | {
        "one_head": None, "label_curve": [], "disagreements": [], "corpus": None, "overlap": None, "failures": [],
        "ledger": {}, "systems": [row | {"curves": []} for row in results["systems"]],
    }  # fmt: skip
    html = render(bare)  # type: ignore[arg-type]
    for heading in ("One head for all", "How many labels", "Learning curves", "disagree", "Ledger"):
        assert heading not in html[html.index("<body>") : html.index('id="figures"')]


def test_terminal_table_is_straight_in_both_languages(results: Results) -> None:
    for lang in LANGS:
        lines = terminal_lines(results, lang)
        assert lines[0] == results["verdict"][lang]["sentence"]
        table = lines[lines.index("") + 1 : -1]
        assert len(table) == len(results["systems"]) + 1
        assert sum(line.startswith("→") for line in table) == 1
        wide = [line.replace(" – ", "-") for line in table[1:]]
        columns = {
            sum(2 if c >= "\u2e80" else 1 for c in line[: line.index("-")]) for line in wide if "–" not in line[:40]
        }
        assert len(columns) == 1


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 500])  # 500 is the narrowest window of headless Chromium
def test_the_page_in_a_browser(results: Results, width: int, tmp_path: Path) -> None:
    """All shown figures are drawn, nothing runs over the edge, no error."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("no chromium")
    measure = (
        "<script>setTimeout(() => { const d = document.documentElement, b = document.body.dataset;"
        " b.wide = d.scrollWidth - d.clientWidth;"
        " b.missing = document.querySelectorAll('.figure:not([hidden])').length"
        " - document.querySelectorAll('.figure:not([hidden]) .main-svg:first-child').length; }, 2000)</script>"
    )
    catch = "<script>window.onerror = (m) => document.body.dataset.error = m;</script>"
    page = tmp_path / "page.html"
    html = render(results, "zh").replace("<body>", "<body>" + catch)
    head, _, tail = html.rpartition("</body>")
    page.write_text(head + measure + "</body>" + tail, encoding="utf-8")
    dump = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},2000", "--virtual-time-budget=6000",
         "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    body = re.search(r"<body[^>]*>", dump)
    assert body
    assert 'data-wide="0"' in body[0]
    assert 'data-missing="0"' in body[0]
    assert "data-error" not in body[0]
