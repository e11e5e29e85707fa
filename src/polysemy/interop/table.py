"""Names of a file's tensors as a reversible table of rows (theirs, ours); ``{i}`` stands for a number such as a layer's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

Row = tuple[str, str]


def rename(names: Iterable[str], rows: Sequence[Row]) -> dict[str, str | None]:
    """Our name for each of theirs, None where no row covers it."""
    patterns = [(re.compile(re.escape(theirs).replace(r"\{i\}", r"(\d+)")), ours) for theirs, ours in rows]
    found: dict[str, str | None] = {}
    for name in names:
        matches = ((pattern.fullmatch(name), target) for pattern, target in patterns)
        found[name] = next((t.replace("{i}", m[1]) if m.groups() else t for m, t in matches if m), None)
    return found


def inverse(rows: Sequence[Row]) -> list[Row]:
    """The table that leads back."""
    return [(ours, theirs) for theirs, ours in rows]
