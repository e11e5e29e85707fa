"""The Python face: the verbs of the command line as functions with the same names and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polysemy.compare.run import Compared
from polysemy.compare.run import compare as run_compare
from polysemy.compare.run import settings_of as compare_settings
from polysemy.recipes.finetune import FinetuneResult
from polysemy.recipes.finetune import finetune as run_finetune
from polysemy.recipes.finetune import settings_of as finetune_settings
from polysemy.recipes.pretrain import PretrainResult
from polysemy.recipes.pretrain import pretrain as run_pretrain
from polysemy.recipes.pretrain import settings_of as pretrain_settings

PathLike = str | Path


def _paths(given: Sequence[PathLike] | PathLike) -> list[str]:
    return [str(given)] if isinstance(given, str | Path) else [str(path) for path in given]


def pretrain(
    system: str,
    *,
    corpus: Sequence[PathLike] | PathLike,
    out: PathLike,
    budget: str = "10m",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> PretrainResult:
    """Train ``system`` (``"elmo:small"``) on raw text; ``settings`` as in ``--set``, e.g. ``{"train.lr": 1e-3}``.

    Raises InputError for wrong input, Interrupted after SIGINT with the state saved.
    """
    given = {"system": system, "corpus": _paths(corpus), "budget": budget, "seed": seed}
    return run_pretrain(pretrain_settings(None, given, _sets(settings)), Path(out))


def finetune(
    model: PathLike,
    *,
    task: str,
    train: PathLike,
    out: PathLike,
    dev: PathLike | None = None,
    test: PathLike | None = None,
    settings: Mapping[str, Any] | None = None,
) -> FinetuneResult:
    """Put a MODEL under a task; ``settings`` as in ``--set``, e.g. ``{"seed": 1, "epochs": 20}``."""
    given = {
        "model": str(model),
        "task": task,
        "train": str(train),
        "dev": dev and str(dev),
        "test": test and str(test),
    }
    return run_finetune(finetune_settings(None, given, _sets(settings)), Path(out))


def compare(
    *,
    corpus: Sequence[PathLike] | PathLike,
    task: str,
    train: PathLike,
    systems: Sequence[str],
    out: PathLike,
    dev: PathLike | None = None,
    test: PathLike | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Compared:
    """Compare systems under one budget; ``settings`` as in ``--set``, e.g. ``{"budget": "2m", "seeds": 2}``."""
    given = {
        "corpus": _paths(corpus), "task": task, "train": str(train), "dev": dev and str(dev), "test": test and str(test),
        "systems": list(systems),
    }  # fmt: skip
    return run_compare(compare_settings(None, given, _sets(settings)), Path(out))


def _sets(settings: Mapping[str, Any] | None) -> list[str]:
    return [f"{name}={value}" for name, value in (settings or {}).items()]
