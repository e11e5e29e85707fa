"""One disagreement as the report shows it: the item, then each different answer with the systems that gave it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from polysemy.compare.figures import palette
from polysemy.compare.results import Disagreement, Results
from polysemy.compare.verdict import display
from polysemy.core.messages import Lang, say
from polysemy.data.schemes import spans

Chip: TypeAlias = tuple[str, str, str]  # text, label, "right" | "extra" | "missed" | "gold"
Piece: TypeAlias = tuple[str, str]  # text of the item, its label where gold has one
NO_SPACE_SCRIPTS = (("\u3040", "\u30ff"), ("\u3400", "\u9fff"), ("\uf900", "\ufaff"), ("\uff00", "\uffef"))


def answers(row: Disagreement, results: Results, lang: Lang) -> dict[str, Any]:
    """The view of one item: ``pieces`` to show as its text (gold spans marked), ``gold`` chips, ``groups``."""
    words = row.get("words")
    groups: dict[str, list[str]] = {}
    for system, answer in row["predicted"].items():
        groups.setdefault(repr(answer), []).append(system)
    colours = palette(results)
    views: list[dict[str, Any]] = []
    for systems in groups.values():
        answer = row["predicted"][systems[0]]
        views.append(
            {
                "systems": [(display(system, lang), colours.get(system, "#888")) for system in systems],
                "right": answer == row["gold"],
                "chips": _chips(words, row["gold"], answer),
            }
        )
    views.sort(key=lambda view: (not view["right"], -len(view["systems"])))
    return {
        "pieces": _pieces(words, row["gold"]) if words else [(row.get("text", ""), "")],
        "gold": _gold(words, row["gold"]),
        "groups": views,
        "place": " · ".join(part for part in (row["place"], _alike(row["same_pattern"], lang)) if part),
    }


def _alike(items: int, lang: Lang) -> str:
    return say("compare.report.alike", lang, n=f"{items - 1:,}") if items > 1 else ""


def join(words: Sequence[str]) -> str:
    """Words as running text: no spaces between Chinese characters."""
    text = ""
    for word in words:
        text += word if not text or (_unspaced(text[-1]) and _unspaced(word[:1])) else f" {word}"
    return text


def _unspaced(character: str) -> bool:
    return any(first <= character <= last for first, last in NO_SPACE_SCRIPTS)


def _gold(words: Sequence[str] | None, gold: Any) -> list[Chip]:
    if words is None:
        return [("", str(gold), "gold")]
    return []  # stands in the text


def _chips(words: Sequence[str] | None, gold: Any, answer: Any) -> list[Chip]:
    """What the answer says, and what of gold it misses."""
    if words is None:
        return [("", str(answer), "right" if answer == gold else "extra")]
    if _is_spans(gold) or _is_spans(answer):
        wanted, found = _spans(gold), _spans(answer)
        marked = [(span, "right" if span in wanted else "extra") for span in found]
        marked += [(span, "missed") for span in wanted if span not in found]
        return [(join(words[a:b]), kind, mark) for (a, b, kind), mark in sorted(marked)]
    pairs = zip(words, gold, answer, strict=True)
    return [(word, tag, "extra") for word, right, tag in pairs if tag != right]


def _pieces(words: Sequence[str], gold: Any) -> list[Piece]:
    """The sentence cut at its gold spans; plain tags leave it whole."""
    pieces: list[Piece] = []
    end = 0
    for start, stop, kind in _spans(gold) if _is_spans(gold) else []:
        pieces += [(join(words[end:start]), ""), (join(words[start:stop]), kind)]
        end = stop
    return [piece for piece in [*pieces, (join(words[end:]), "")] if piece[0]]


def _is_spans(tags: Any) -> bool:
    return any(tag.startswith(("B-", "I-")) for tag in tags)


def _spans(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    return sorted((a, b, kind) for a, b, kind in spans(tags, "IOB2"))
