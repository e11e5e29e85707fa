"""A run is a directory: the recipe that repeats it, where it was made, what was measured, and what resumes it."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from polysemy.core.config import read_yaml, to_dict, write_yaml
from polysemy.core.environment import environment
from polysemy.core.errors import InputError
from polysemy.core.files import write_atomic

RECIPE, METRICS, RESULTS, LOCK = "recipe.yaml", "metrics.jsonl", "results.json", ".lock"
DECIDED = "decided"


class Run:
    """One run directory, held by one process at a time.  Use as a context manager, or ``close`` it.

    A run that ends in an InputError before it has a checkpoint takes its files away again, so that nothing half-written
    is left and the corrected command can use the same directory.
    """

    def __init__(self, path: Path, recipe: dict[str, Any], *, writer: bool) -> None:
        self.path, self.recipe, self.writer = path, recipe, writer
        self._lock: int | None = None
        self._metrics: FileIO | None = None
        self._made_folder = False
        self.resumed = False

    @classmethod
    def open(cls, path: Path | str, recipe: Mapping[str, Any], *, resume: bool = True, writer: bool = True) -> Run:
        """Begin a run in a new or empty directory, or resume the run that is there.

        ``recipe`` is everything that is needed to repeat the run.  Its setting ``decided`` holds what runs settle for
        themselves (see ``decide``): left empty, it agrees with what the directory has.  ``writer=False`` is for the
        other processes of a parallel run: nothing is locked or written.

        InputError: not a directory, not a run and not empty, not writable, held by another process, made with other
        settings (the difference is shown), or there already although ``resume`` is False.
        """
        run = cls(Path(path), to_dict(recipe), writer=writer)
        if not writer:
            run.recipe, run.resumed = read_yaml(run.path / RECIPE), True
            return run
        run._make_folder()
        run._take_lock()
        try:
            run._adopt(resume)
        except BaseException:
            run.close()
            if run._made_folder:
                shutil.rmtree(run.path, ignore_errors=True)
            raise
        return run

    @property
    def finished(self) -> bool:
        """Whether the results are there; they are written last."""
        return (self.path / RESULTS).exists()

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints (``train.checkpoint`` reads and writes it); it may not exist yet."""
        return self.path / "checkpoints"

    def decide(self, name: str, make: Callable[[], Any]) -> Any:
        """The value of ``decided.name`` in the recipe; made and written there by the first to ask.

        For what a run has to find out by itself, such as the steps that a time budget pays for: a run that resumes,
        or repeats ``recipe.yaml``, takes the value that is written and measures nothing.
        """
        decided = self.recipe.setdefault(DECIDED, {})
        if name not in decided:
            decided[name] = to_dict(make())
            if self.writer:
                write_yaml(self.path / RECIPE, self.recipe)
        return decided[name]

    def log(self, row: Mapping[str, Any]) -> None:
        """Append one line to ``metrics.jsonl``; a line about training has its ``step``."""
        if not self.writer:
            return
        try:
            if self._metrics is None:
                self._metrics = (self.path / METRICS).open("ab", buffering=0)
            line = (json.dumps(_finite(row), ensure_ascii=False) + "\n").encode()
            if self._metrics.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise InputError(
                f"cannot write: {error.strerror or error}",
                where=str(self.path / METRICS),
                do="Make room, then run the same command to resume.",
            ) from error

    def cut_metrics(self, step: int) -> None:
        """Drop the lines of steps after ``step``, which will be made again, and a last line that was cut off."""
        path = self.path / METRICS
        if not self.writer or not path.exists():
            return
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        write_atomic(path, "".join(line + "\n" for line in lines if json.loads(line).get("step", -1) <= step))

    def write_json(self, name: str, value: Any) -> None:
        """Write ``value`` to the file ``name`` of the run, whole or not at all; NaN and infinities become null."""
        if self.writer:
            write_atomic(self.path / name, json.dumps(_finite(value), ensure_ascii=False, indent=1) + "\n")

    def read_json(self, name: str) -> Any:
        """What ``write_json`` wrote."""
        return json.loads((self.path / name).read_text(encoding="utf-8"))

    def finish(self, results: Mapping[str, Any]) -> None:
        """Write ``results.json``, which marks the run as finished, and take the checkpoints away."""
        self.write_json(RESULTS, results)
        if self.writer:
            shutil.rmtree(self.checkpoints, ignore_errors=True)

    def close(self) -> None:
        """Let another process have the directory."""
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None
        if self._lock is not None:
            (self.path / LOCK).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, InputError) and self.writer and not self.resumed and not self.checkpoints.exists():
            self._clear()
        self.close()

    def _make_folder(self) -> None:
        place = str(self.path)
        try:
            self._made_folder = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            names = {entry.name for entry in self.path.iterdir()} - {LOCK}
        except FileExistsError:
            raise InputError("this is a file, not a directory", where=place, do="Give another output.") from None
        except OSError as error:
            raise InputError(
                f"cannot make or read the directory: {error.strerror}", where=place, do="Give a writable output."
            ) from None
        if names and RECIPE not in names:
            shown = ", ".join(sorted(names)[:3])
            raise InputError(
                f"the directory is not empty and not a run (it holds {shown})", where=place, do="Give another output."
            )

    def _take_lock(self) -> None:
        """The kernel frees the lock when its process ends, however it ends; the number inside is for the message."""
        place = self.path / LOCK
        try:
            while self._lock is None:
                handle = os.open(place, os.O_RDWR | os.O_CREAT, 0o644)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    holder = os.read(handle, 32).decode(errors="replace").strip()
                    os.close(handle)
                    raise InputError(
                        f"process {holder} is working in this run",
                        where=str(self.path),
                        do="Wait for it, or give another output.",
                    ) from None
                if place.exists() and os.fstat(handle).st_ino == place.stat().st_ino:
                    self._lock = handle
                else:  # its last holder took the file away between open and lock
                    os.close(handle)
            os.ftruncate(self._lock, 0)
            os.write(self._lock, f"{os.getpid()}\n".encode())
        except OSError as error:
            self.close()
            raise InputError(
                f"cannot write: {error.strerror}", where=str(self.path), do="Give a writable output with free space."
            ) from None

    def _adopt(self, resume: bool) -> None:
        """Compare with the recipe that is there, or write ours."""
        for part in self.path.glob(".*.part-*"):  # of a process that was killed while it wrote
            part.unlink()
        if not (self.path / RECIPE).exists():
            write_yaml(self.path / RECIPE, self.recipe)
            self.write_json("environment.json", environment(self.recipe.get("seed")))
            return
        if not resume:
            raise InputError("there is a run already", where=str(self.path), do="Give another output.")
        stored, mine = read_yaml(self.path / RECIPE), dict(self.recipe)
        if not mine.get(DECIDED):
            mine[DECIDED] = stored.get(DECIDED, {})
        changed = [
            f"{name}: {_show(old)} there, {_show(new)} now"
            for name, old, new in differences({DECIDED: {}, **stored}, mine)
        ]
        if changed:
            raise InputError(
                "the run there was made with other settings:\n  " + "\n  ".join(changed) + "\n",
                where=str(self.path),
                do="Give the same settings to resume it, or another output.",
            )
        self.recipe, self.resumed = stored, True
        self._note_environment()

    def _note_environment(self) -> None:
        """A run that resumes elsewhere may end in other bytes: say so in ``environment.json``."""
        path = self.path / "environment.json"
        now = environment(self.recipe.get("seed"))
        first = json.loads(path.read_text(encoding="utf-8")) if path.exists() else dict(now)
        resumed = first.pop("resumed", [])
        if now != (resumed[-1] if resumed else first):
            self.write_json(path.name, {**first, "resumed": [*resumed, now]})

    def _clear(self) -> None:
        if self._made_folder:
            shutil.rmtree(self.path, ignore_errors=True)
            return
        for entry in self.path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


MISSING = object()


def differences(old: Any, new: Any, name: str = "") -> list[tuple[str, Any, Any]]:
    """(dotted name, old, new) of every setting that differs; ``MISSING`` stands for an absent one."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            row
            for key in [*old, *(k for k in new if k not in old)]
            for row in differences(old.get(key, MISSING), new.get(key, MISSING), f"{name}.{key}" if name else key)
        ]
    return [] if type(old) is type(new) and old == new else [(name, old, new)]


def _show(value: Any) -> str:
    return "absent" if value is MISSING else json.dumps(value, ensure_ascii=False)


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null in their place."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, (list, tuple)) else value
