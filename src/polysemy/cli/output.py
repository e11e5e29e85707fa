"""What commands print: progress and messages on standard error, the result on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from polysemy.core.reporter import Reporter, Silent

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def fail(message: str, code: int) -> int:
    """One message for a person; the exit code is passed through."""
    print(f"polysemy: {message}", file=sys.stderr)
    return code


def result(lines: Iterable[str], data: Any, as_json: bool) -> None:
    """The result: lines for a person or one JSON object, and nothing else, on standard output."""
    if as_json:
        print(json.dumps(data, ensure_ascii=False, allow_nan=False, default=str))
    else:
        for line in lines:
            print(line)


def reporter(as_json: bool) -> Reporter:
    """A bar with time left on a terminal, plain lines elsewhere; with --json nothing."""
    return Silent() if as_json else Terminal()


class Terminal:
    """Reports on standard error; in a file or pipe a line every few seconds instead of a bar."""

    LINE_SECONDS = 15.0

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._title, self._unit, self._total, self._began, self._printed = "", "", 0.0, 0.0, 0.0

    def say(self, message: str) -> None:
        if self._bar is not None:
            self._bar.console.print(message, markup=False, highlight=False)
        else:
            print(message, file=sys.stderr, flush=True)

    def start(self, title: str, total: float, unit: str) -> None:
        import time

        self.stop()
        self._title, self._unit, self._total = title, unit, total
        self._began = self._printed = time.monotonic()
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[figures]}"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
            console=Console(stderr=True),
        )  # fmt: skip
        self._bar.start()
        self._task = self._bar.add_task(title, total=total, figures="")

    def advance(self, done: float, figures: str = "") -> None:
        import time

        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, figures=figures)
            return
        now = time.monotonic()
        if now - self._printed >= self.LINE_SECONDS and done > 0:
            self._printed = now
            left = (now - self._began) * (self._total - done) / done
            print(
                f"{self._title}: {done:,.0f} of {self._total:,.0f} {self._unit}  {figures}  {left:,.0f} s left",
                file=sys.stderr,
                flush=True,
            )

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None
