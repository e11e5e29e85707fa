"""Tasks over any system, one file each: how the data reads, what stands on top, how it is scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from polysemy.core.errors import InputError, nearest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from polysemy.core.ledger import Ledger
    from polysemy.data.batch import Batch
    from polysemy.objectives.loss import Loss
    from polysemy.tasks.example import Columns, Example
    from polysemy.tasks.heads import HeadConfig


class Task(Protocol):
    """What the recipes ask of a task.  ``read`` the training file first, then ``fit``; both may raise InputError."""

    name: str
    per_word: bool  # a label for each word, or one for each text
    labels: list[str]

    @property
    def metric(self) -> str:
        """The main score, higher is better; one of the names that ``score`` returns."""

    @property
    def mode(self) -> str:
        """How predictions are scored, in words."""

    def read(self, path: Path, ledger: Ledger) -> list[Example]:
        """The labelled examples of a file."""

    def fit(self, examples: Sequence[Example]) -> None:
        """Take the label set from the training examples."""

    def targets(self, examples: Sequence[Example], ledger: Ledger) -> list[NDArray[np.int64]]:
        """Label numbers of each example; -1 for a label that training does not know."""

    def head(self, dim: int, num_layers: int, config: HeadConfig) -> nn.Module:
        """(layers (b, L, w, dim), batch) -> output"""

    def loss(self, output: Any, batch: Batch) -> Loss:
        """A sum and a count."""

    def predict(self, output: Any, batch: Batch) -> list[Any]:
        """One prediction a sequence (labels of words) or a text."""

    def outer(self, prediction: Any) -> Any:
        """A prediction as it is scored and written."""

    def score(self, gold: Sequence[Any], predicted: Sequence[Any]) -> dict[str, Any]:
        """All scores, the main one among them, and the mode."""

    def to_json(self) -> dict[str, Any]:
        """``task.json``: labels, scheme, columns, unit."""


TASKS: dict[str, str] = {
    "tagging": "polysemy.tasks.tagging:Tagging",
    "classification": "polysemy.tasks.classification:Classification",
}


def find_task(name: str) -> Any:
    """The class of a task, or an error that offers the nearest name."""
    if name not in TASKS:
        raise InputError(f"unknown task {name!r}", do=nearest(name, TASKS))
    module, _, attribute = TASKS[name].partition(":")
    return getattr(import_module(module), attribute)


def load_task(data: Mapping[str, Any], columns: Columns | None = None) -> Task:
    """The task that ``to_json`` described."""
    task: Task = find_task(data["task"]).from_json(data, columns)
    return task
