"""The errors that a person sees.  Everything else that escapes is our fault and exits with 1."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

NAMES_SHOWN = 20


class InputError(Exception):
    """The user's input is wrong: what, where, what to do.  The command line prints it and exits with 2."""

    def __init__(self, what: str, *, where: str | None = None, do: str | None = None) -> None:
        self.what, self.where, self.do = what, where, do
        message = f"{where}: {what}" if where else what
        super().__init__(f"{message}. {do}" if do else message)


class Diverged(InputError):
    """Training produced a loss or gradient that is not finite; the last finite weights are kept."""

    def __init__(self, step: int, lr: float, kept: str) -> None:
        self.step, self.lr = step, lr
        super().__init__(
            f"training diverged at step {step} with learning rate {lr:g}",
            do=f"The last finite weights are in {kept}. Try a rate ten times smaller.",
        )


class Interrupted(Exception):
    """SIGINT or SIGTERM arrived and the state was saved; the same command resumes.  Exits with 130."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that offers the known name closest to ``name``, or lists the first known ones."""
    known = list(known)
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    more = f" and {len(known) - NAMES_SHOWN:,} more" if len(known) > NAMES_SHOWN else ""
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(known[:NAMES_SHOWN])}{more}."
