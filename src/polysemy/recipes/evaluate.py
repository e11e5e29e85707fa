"""A fine-tuned run scored on a labelled file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polysemy.core.ledger import Ledger
from polysemy.core.reporter import Reporter, Silent
from polysemy.recipes.finetuned import Finetuned, encode, scores_line
from polysemy.tasks.example import Columns


@dataclass(frozen=True)
class Evaluation:
    """Scores, and what was found on the way."""

    run: str
    data: str
    metric: str
    scores: dict[str, Any]
    predicted: list[Any]  # one a text, as scored: labels of its words (IOB2 or plain), or its label
    ledger: Ledger

    def lines(self) -> list[str]:
        """For a person: every score, and the F1 of each type or label."""
        rows = self.scores.get("by_type") or self.scores.get("by_label") or {}
        return [
            *self.ledger.lines(),
            *(f"  {name:20} f1 {row['f1']:.4f}  of {row['gold']:,}" for name, row in rows.items()),
            f"{self.metric} {self.scores[self.metric]:.4f} ({self.scores['mode']})  {scores_line(self.scores)}",
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "data": self.data,
            "metric": self.metric,
            **self.scores,
            "ledger": self.ledger.to_json(),
        }


def evaluate(
    run: Path | str, data: Path | str, *, columns: Columns | None = None, reporter: Reporter | None = None
) -> Evaluation:
    """Score the run in ``run`` on ``data``, a labelled file as for ``finetune``.

    Labels that training did not know are counted and never right.  Raises InputError for what is not such a run or file.
    """
    ledger = Ledger()
    tuned = Finetuned.load(Path(run), columns)
    examples = tuned.task.read(Path(data), ledger)
    tuned.task.targets(examples, ledger)  # counts the labels that training did not know
    items = encode(tuned.model, examples, ledger)
    (reporter or Silent()).say(f"scoring {len(examples):,} examples with {tuned.model.name}")
    predicted = tuned.predict(tuned.texts(items))
    scores = tuned.task.score([example.label for example in examples], predicted)
    return Evaluation(str(run), str(data), tuned.task.metric, scores, predicted, ledger)
