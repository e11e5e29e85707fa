"""What was read, kept, dropped, truncated, unknown, repaired, loaded or left random: counts with the first few places."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

Kind = Literal["read", "kept", "dropped", "truncated", "unknown", "repaired", "loaded", "renamed", "ignored", "random"]
KINDS: tuple[str, ...] = get_args(Kind)
PLACES_KEPT = 5


@dataclass
class Entry:
    count: int = 0
    places: list[str] = field(default_factory=list)  # "file:line" or "file:line: excerpt"


class Ledger:
    """Counts by (kind, reason).  ``keep_text=False`` leaves excerpts of the user's text out (clinical text)."""

    def __init__(self, *, keep_text: bool = True) -> None:
        self.keep_text = keep_text
        self.entries: dict[tuple[str, str], Entry] = {}

    def add(self, kind: Kind, reason: str, count: int = 1, *, place: str = "", excerpt: str = "") -> None:
        """Count ``count`` of ``reason`` under ``kind``; the first few places are remembered."""
        entry = self.entries.setdefault((kind, reason), Entry())
        entry.count += count
        if len(entry.places) < PLACES_KEPT and (place or (excerpt and self.keep_text)):
            entry.places.append(": ".join(part for part in (place, excerpt[:80] if self.keep_text else "") if part))

    def count(self, kind: Kind, reason: str | None = None) -> int:
        """The count of one reason, or of a whole kind."""
        return sum(e.count for (k, r), e in self.entries.items() if k == kind and reason in (None, r))

    def merge(self, other: Ledger) -> None:
        """Add the counts of ``other``."""
        for (kind, reason), entry in other.entries.items():
            mine = self.entries.setdefault((kind, reason), Entry())
            mine.count += entry.count
            mine.places = (mine.places + entry.places)[:PLACES_KEPT]

    def to_json(self) -> dict[str, Any]:
        """``{kind: {reason: {"count": n, "first": [places]}}}`` in the fixed order of ``KINDS``."""
        out: dict[str, Any] = {}
        for kind in KINDS:
            rows = {r: {"count": e.count, "first": e.places} for (k, r), e in self.entries.items() if k == kind}
            if rows:
                out[kind] = rows
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ledger:
        ledger = cls()
        for kind, rows in data.items():
            for reason, row in rows.items():
                ledger.entries[kind, reason] = Entry(row["count"], list(row["first"]))
        return ledger

    def write(self, path: Path) -> None:
        from polysemy.core.files import write_atomic

        write_atomic(path, json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n")

    def lines(self) -> list[str]:
        """One line a reason, for the terminal."""
        return [
            f"{kind:9} {e.count:>10,}  {reason}" + (f"  (first: {e.places[0]})" if e.places else "")
            for kind in KINDS
            for (k, reason), e in self.entries.items()
            if k == kind
        ]
