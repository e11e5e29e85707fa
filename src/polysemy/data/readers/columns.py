"""Which column of a table holds the text and which the label: by name, else by what stands in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from polysemy.core.errors import InputError, nearest

# Lower case; the earlier name wins where a table has several.
TEXT_NAMES = [
    "text",
    "sentence",
    "review",
    "content",
    "body",
    "article",
    "document",
    "tweet",
    "comment",
    "question",
    "message",
    "utterance",
    "abstract",
    "paragraph",
    "passage",
    "transcript",
    "description",
    "headline",
    "title",
    "subject",
    "sentence1",
    "premise",
    "文本",
    "内容",
    "正文",
    "评论",
    "句子",
    "标题",
]
LABEL_NAMES = [
    "label",
    "labels",
    "category",
    "class",
    "target",
    "sentiment",
    "polarity",
    "topic",
    "tag",
    "gold",
    "intent",
    "emotion",
    "rating",
    "stars",
    "quality",
    "gold_label",
    "标签",
    "类别",
    "分类",
]
OTHER_NAMES = [
    "id",
    "index",
    "idx",
    "url",
    "link",
    "date",
    "time",
    "author",
    "source",
    "language",
    "lang",
    "split",
    "name",
    "sentence2",
    "hypothesis",
    "score",
    "title1",
    "title2",
]

_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?%?")
_ADDRESS = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*://|www\.)\S+\s*", re.IGNORECASE)
# Letters of scripts that are written without spaces: Thai, Lao, Burmese, Khmer, kana, Han.
_DENSE = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[\U00020000-\U0003ffff]"
)

Row = Mapping[str, str]


def is_number(cell: str) -> bool:
    """True for a number, a percentage, or nothing."""
    return not cell.strip() or _NUMBER.fullmatch(cell.strip()) is not None


def length_in_words(cell: str) -> float:
    """About how many words a cell holds; two letters of a script without spaces count as one."""
    dense = len(_DENSE.findall(cell))
    return dense / 2 + len(_DENSE.sub(" ", cell).split())


def is_text(cells: Sequence[str]) -> bool:
    """True for running text: mostly several words in a cell, mostly letters, not addresses, not a few fixed values."""
    filled = [cell for cell in cells if cell.strip()]
    if not filled or 2 * sum(length_in_words(cell) >= 2 for cell in filled) < len(filled):
        return False
    if 10 * sum(_ADDRESS.fullmatch(cell) is not None for cell in filled) > len(filled):
        return False
    if len(filled) >= 20 and 10 * len(set(filled)) < len(filled):  # a category whose names have several words
        return False
    sample = "".join(filled)[:100_000]
    letters, digits = sum(map(str.isalpha, sample)), sum(map(str.isdigit, sample))
    return letters > 2 * digits


def text_columns(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The columns of running text, in the order of the table."""
    return [name for name in names if is_text([row.get(name, "") for row in rows])]


def named(names: Sequence[str], known: Sequence[str]) -> str | None:
    """The first column whose name, in lower case, is in ``known``; the earlier known name wins."""
    lower = {name.strip().lower(): name for name in reversed(names)}
    return next((lower[name] for name in known if name in lower), None)


def find_text(names: Sequence[str], rows: Sequence[Row]) -> str | None:
    """The text column: by name, else the column of running text with the longest cells."""
    if (name := named(names, TEXT_NAMES)) is not None:
        return name
    found = text_columns(names, rows) or [n for n in names if not all(is_number(row.get(n, "")) for row in rows)]
    return max(found, key=lambda name: sum(len(row.get(name, "")) for row in rows), default=None)


def find_label(names: Sequence[str], rows: Sequence[Row], text: Sequence[str]) -> str | None:
    """The label column: by name, else the one with the fewest values, each of them used more than once on average."""
    rest = [name for name in names if name not in text]
    if (name := named(rest, LABEL_NAMES)) is not None:
        return name
    values = {
        name: len({row.get(name, "") for row in rows}) for name in rest if name.strip().lower() not in OTHER_NAMES
    }
    repeated = [name for name in values if 2 <= values[name] <= max(2, len(rows) // 2)]
    return min(repeated, key=values.__getitem__, default=None)


def resolve(asked: str, names: Sequence[str], where: str) -> str:
    """The column that a person means by a name or by its number from 1."""
    if asked in names:
        return asked
    if (name := named(names, [asked.strip().lower()])) is not None:
        return name
    if asked.isdigit() and 1 <= int(asked) <= len(names):
        return names[int(asked) - 1]
    raise InputError(f"no column {asked!r}", where=where, do=nearest(asked, names))


def looks_like_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """True when the first row names the columns.

    Never when a cell of it is a number, empty or repeated.  Otherwise when one of its cells is a usual name, or stands
    over a column of numbers, or over a column of a few repeated values among which it does not appear.
    """
    cells = [cell.strip() for cell in first]
    if any(is_number(cell) for cell in cells) or len(set(cells)) < len(cells):
        return False
    if any(cell.lower() in (*TEXT_NAMES, *LABEL_NAMES, *OTHER_NAMES) for cell in cells):
        return True
    for i, cell in enumerate(cells):
        column = [row[i].strip() for row in rest if i < len(row)]
        if len(column) >= 2 and all(is_number(value) for value in column) and any(column):
            return True
        if len(column) >= 8 and 4 * len(set(column)) <= len(column) and cell not in column and len(cells) > 1:
            return True
    return False
