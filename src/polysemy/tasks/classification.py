"""A label for each text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.core.metrics import accuracy, by_class, confusion, macro_f1, weighted_f1
from polysemy.data.batch import Batch
from polysemy.data.readers.columns import text_columns
from polysemy.data.readers.table import find_columns, read_table, sample_rows
from polysemy.objectives.loss import Loss
from polysemy.tasks.example import Columns, Example
from polysemy.tasks.heads import ClassificationHead, HeadConfig

NOT_LABELS = ("", "nan", "none", "null", "n/a", "na")  # how an absent label is written, in lower case
NUMBER_LIMIT = 100  # more different labels that are fractions are a quantity and not classes


class Classification:
    """Tables of texts and labels.  The main score is accuracy; macro and weighted F1 stand beside it."""

    name = "classification"
    per_word = False
    metric = "accuracy"
    mode = "accuracy of one label a text"

    def __init__(self, columns: Columns | None = None) -> None:
        self.columns = columns or Columns()
        self.found: tuple[tuple[str, ...], str] | None = None  # text columns and label column of the file read first
        self.labels: list[str] = []

    def read(self, path: Path, ledger: Ledger) -> list[Example]:
        """Rows of a table.  Columns that the user does not name are found in the file that is read first.

        Raises InputError at file:line for a row without a label or a text.
        """
        texts, label = self._columns(path)
        encoding = self.columns.encoding
        wanted = list(dict.fromkeys([*texts, label]))
        out = []
        for place, row in read_table(path, columns=wanted, encoding=encoding, ledger=ledger):
            if row[label].strip().lower() in NOT_LABELS:
                raise InputError(
                    f"no label (column {label!r} holds {row[label]!r})", where=place, do="Give the row a label, or take it out."
                )  # fmt: skip
            text = "\n".join(cell for name in texts if (cell := row[name].strip()))
            if not text:
                raise InputError(
                    f"no text (columns {', '.join(texts)} are empty)", where=place, do="Give the row a text, or take it out."
                )  # fmt: skip
            out.append(Example(text, row[label].strip(), place))
        ledger.add("read", f"texts (columns {' + '.join(texts)}; label {label})", len(out))
        return out

    def _columns(self, path: Path) -> tuple[tuple[str, ...], str]:
        """Text and label columns: those named, else the label by its name and all columns of running text."""
        if self.found is None:
            columns = self.columns
            texts, label = find_columns(path, text=columns.text, label=columns.label, encoding=columns.encoding)
            if label is None:
                raise InputError(
                    "no column of labels", where=str(path), do="Name it (columns.label), or give a file with labels."
                )
            if columns.text is None:
                rows = sample_rows(path, columns.encoding)
                running = text_columns([name for name in rows[0] if name != label], rows)
                texts = [name for name in rows[0] if name in running or name in texts]
            self.found = tuple(texts), label
        return self.found

    def fit(self, examples: Sequence[Example]) -> None:
        """Take the labels of the training examples.  Raises InputError when there is only one, or when they are quantities."""
        counts = Counter(example.label for example in examples)
        where = examples[0].place if examples else None
        if len(counts) < 2:
            found = f"only one label ({next(iter(counts))!r})" if counts else "no labels"
            raise InputError(
                f"the training file has {found}", where=where,
                do="Check which column holds the labels, and give examples of at least two.",
            )  # fmt: skip
        if len(counts) > NUMBER_LIMIT and _are_quantities(counts):
            raise InputError(
                f"the labels are {len(counts):,} different numbers, a quantity and not classes", where=where,
                do="Name the label column (columns.label).",
            )  # fmt: skip
        self.labels = sorted(counts)

    def targets(self, examples: Sequence[Example], ledger: Ledger) -> list[NDArray[np.int64]]:
        """(1,) label number of each text; -1 for a label that training does not know (counted)."""
        number = {label: i for i, label in enumerate(self.labels)}
        for example in examples:
            if example.label not in number:
                ledger.add("unknown", "labels absent from train", place=example.place, excerpt=example.label)
        return [np.array([number.get(example.label, -1)], dtype=np.int64) for example in examples]

    def head(self, dim: int, num_layers: int, config: HeadConfig) -> nn.Module:
        return ClassificationHead(dim, num_layers, len(self.labels), config)

    def loss(self, output: Tensor, batch: Batch) -> Loss:
        """Cross-entropy, summed over texts."""
        assert batch.labels is not None
        labels = batch.labels if batch.rows is None else batch.labels[first_of_each(batch.rows)]
        labelled = labels >= 0
        total = F.cross_entropy(output[labelled], labels[labelled], reduction="sum")
        return Loss(total, int(labelled.sum()))

    def predict(self, output: Tensor, batch: Batch) -> list[str]:
        """The most probable label of each text."""
        return [self.labels[i] for i in output.argmax(-1).tolist()]

    def outer(self, prediction: str) -> str:
        return prediction

    def score(self, gold: Sequence[str], predicted: Sequence[str]) -> dict[str, Any]:
        """One label a text."""
        rows = by_class(gold, predicted)
        return {
            "accuracy": accuracy(gold, predicted),
            "macro_f1": macro_f1(rows),
            "weighted_f1": weighted_f1(rows),
            "by_label": {label: row.to_json() for label, row in rows.items()},
            "confusion": confusion(gold, predicted),
            "mode": self.mode,
            "texts": len(gold),
        }

    def to_json(self) -> dict[str, Any]:
        texts, label = self.found or ((), "")
        return {"task": self.name, "labels": self.labels, "text_columns": list(texts), "label_column": label,
                "unit": "text", "metric": self.metric, "mode": self.mode}  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any], columns: Columns | None = None) -> Classification:
        task = cls(columns)
        task.labels, task.found = list(data["labels"]), (tuple(data["text_columns"]), data["label_column"])
        return task


def first_of_each(rows: Tensor) -> Tensor:
    """(b,) bool: the first sequence of each example; ``rows`` never decreases."""
    return torch.cat([rows.new_ones(min(len(rows), 1), dtype=torch.bool), rows[1:] != rows[:-1]])


def _are_quantities(labels: Iterable[str]) -> bool:
    """Whether all are numbers and some have a fraction; many whole numbers may well be names of classes."""
    try:
        return not all(float(label).is_integer() for label in labels)
    except ValueError:
        return False
