"""What is said to people, in English and Chinese: a key and its values in, a sentence out.

Phrases live in ``core/lang/AREA.toml``, one file an area; a key is ``area.table.phrase`` and a phrase has both
languages: ``take = { en = "Take {system}.", zh = "建议使用 {system}。" }``.  A phrase that depends on a number has the
forms ``one`` and ``other`` and is said with ``count``.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any, Literal, get_args

from polysemy.core.errors import InputError, nearest

Lang = Literal["en", "zh"]
LANGS: tuple[Lang, ...] = get_args(Lang)


def language(name: str) -> Lang:
    """A language that a person named, or an InputError that lists the known ones."""
    for known in LANGS:
        if name == known:
            return known
    raise InputError(f"unknown language {name!r}", do=nearest(name, LANGS))


def say(key: str, lang: Lang, /, **values: object) -> str:
    """The phrase of ``key`` with ``{values}`` filled in.  An unknown key is our fault: KeyError."""
    area, _, path = key.partition(".")
    phrase = phrases(area)[path][lang]
    return phrase.format(**values) if lang == "en" else _fill_chinese(phrase, values)


def count(key: str, number: int, lang: Lang, /, **values: object) -> str:
    """The form of ``key`` for ``number``, which the phrase sees as ``{number}``."""
    return say(f"{key}.{'one' if number == 1 else 'other'}", lang, number=f"{number:,}", **values)


def _fill_chinese(phrase: str, values: dict[str, object]) -> str:
    """Fill ``{values}`` in with a space where Chinese meets letters or digits, and none between Chinese."""
    text = ""
    for literal, field, _, _ in Formatter().parse(phrase):
        for piece in (literal, str(values[field]) if field else ""):
            left, right = text.rstrip(" ")[-1:], piece.lstrip(" ")[:1]
            if left.isalnum() and right.isalnum():
                space = "" if _is_chinese(left) and _is_chinese(right) else " "
                text, piece = text.rstrip(" ") + space, piece.lstrip(" ")
            text += piece
    return text


def _is_chinese(character: str) -> bool:
    return "\u2e80" <= character <= "\u9fff"


@cache
def phrases(area: str) -> dict[str, dict[Lang, str]]:
    """All phrases of one area by the rest of their key."""
    text = files("polysemy.core").joinpath("lang").joinpath(f"{area}.toml").read_text(encoding="utf-8")
    return dict(_flatten("", tomllib.loads(text)))


def areas() -> list[str]:
    """The areas that have phrases."""
    folder = files("polysemy.core").joinpath("lang")
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def _flatten(prefix: str, table: dict[str, Any]) -> list[tuple[str, dict[Lang, str]]]:
    if set(table) == set(LANGS):
        return [(prefix, {lang: str(table[lang]) for lang in LANGS})]
    rows = ((f"{prefix}.{name}" if prefix else name, inner) for name, inner in table.items())
    return [row for name, inner in rows for row in _flatten(name, inner)]
