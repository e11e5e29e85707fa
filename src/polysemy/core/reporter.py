"""What long work tells a person while it runs.  The command line draws it with rich; Python callers get silence."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    """Lines and one progress bar at a time."""

    def say(self, message: str) -> None:
        """A finished line for a person."""

    def start(self, title: str, total: float, unit: str) -> None:
        """Begin a bar that ends at ``total`` ``unit`` (words, lines, trials)."""

    def advance(self, done: float, figures: str = "") -> None:
        """Set the bar to ``done`` out of the total; ``figures`` such as ``loss 4.21  12,300 words/s``."""

    def stop(self) -> None:
        """End the bar."""


class Silent:
    """Says nothing."""

    def say(self, message: str) -> None: ...

    def start(self, title: str, total: float, unit: str) -> None: ...

    def advance(self, done: float, figures: str = "") -> None: ...

    def stop(self) -> None: ...
