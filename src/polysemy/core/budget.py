"""How long one pretraining may take: wall time, or words of the corpus."""

from __future__ import annotations

import re
from dataclasses import dataclass

from polysemy.core.errors import InputError

SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
WORDS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
FORMS = "Write time as 90s, 10m or 2h, or words of the corpus as 200ktok or 50Mtok."


@dataclass(frozen=True)
class Budget:
    """Exactly one of the two is set."""

    seconds: float | None = None
    words: int | None = None

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.words is None):
            raise ValueError("a budget is either seconds or words")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """``"90s"``, ``"10m"``, ``"2h"``, ``"1.5h"``, ``"200ktok"``, ``"50Mtok"``; InputError unless above zero."""
        match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*(?:(s|m|min|h|d)|([kMG]?)tok)\s*", text)
        if not match:
            raise InputError(f"cannot read the budget {text!r}", do=FORMS)
        number, unit, scale = match.groups()
        budget = cls(seconds=float(number) * SECONDS[unit]) if unit else cls(words=round(float(number) * WORDS[scale]))
        if not (budget.seconds or budget.words or 0) > 0:
            raise InputError(f"the budget {text!r} is not above zero", do=FORMS)
        return budget

    def __str__(self) -> str:
        """A text that ``parse`` reads as the same budget."""
        if self.words is not None:
            return f"{self.words}tok"
        return f"{self.seconds:.15g}s"
