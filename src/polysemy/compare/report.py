"""``report.html``: one self-contained page made from ``results.json`` (its shape: ``compare.results``).

The page asks nothing of the network: styles, figures and plotly.js are inside, once.  Everything that came from the
user is HTML-escaped, by jinja2 in the page, by ``figures`` in the pictures, and by ``_script_json`` in the data block.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from polysemy.compare import figures
from polysemy.compare.page import page
from polysemy.compare.results import Results
from polysemy.core.files import write_atomic
from polysemy.core.messages import Lang, say


def write_report(results: Results, out: Path, lang: Lang = "en") -> Path:
    """Write ``report.html`` into the folder ``out``, or to ``out`` itself where it ends in .html; returns its path."""
    path = out if out.suffix == ".html" else out / "report.html"
    write_atomic(path, render(results, lang))
    return path


def render(results: Results, lang: Lang = "en") -> str:
    """The page as text, about 5 MB, nearly all of it plotly.js."""
    from jinja2 import Environment, StrictUndefined
    from plotly.offline import get_plotlyjs

    folder = files("polysemy.compare")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(folder.joinpath("report.html.jinja").read_text(encoding="utf-8"))
    drawn = figures.draw(results, lang)
    return template.render(
        lang=lang,
        say=lambda key, **values: say(f"compare.{key}", lang, **values),
        page=page(results, lang),
        drawn=list(drawn),
        specifications=_script_json(drawn),
        style=folder.joinpath("report.css").read_text(encoding="utf-8"),
        script=folder.joinpath("report.js").read_text(encoding="utf-8"),
        plotly=get_plotlyjs(),
    )


def _script_json(data: Any) -> str:
    """JSON that may stand inside a script element: no character of it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
