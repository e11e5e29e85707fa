"""A fine-tuned run on raw text: one prediction for each line, in order, in memory that does not grow with the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import torch

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.data.batch import Batch
from polysemy.data.readers.lines import read_lines
from polysemy.data.schemes import spans
from polysemy.recipes.finetuned import Finetuned, note
from polysemy.tasks.model import predict as answers
from polysemy.text.tokens import Tokens

LINES_A_CHUNK = 256


@dataclass(frozen=True)
class TagPrediction:
    """A label for every word of a line."""

    text: str
    words: list[str]
    labels: list[str]  # IOB2, or plain tags
    spans: list[dict[str, Any]]  # start and end in characters of ``text``, type, text; empty for plain tags

    def lines(self) -> list[str]:
        """``Ada/B-PER lives/O``; an empty line stays one."""
        return [" ".join(f"{word}/{label}" for word, label in zip(self.words, self.labels, strict=True))]

    def to_json(self) -> dict[str, Any]:
        return {"text": self.text, "words": self.words, "labels": self.labels, "spans": self.spans}


@dataclass(frozen=True)
class ClassPrediction:
    """The label of a line; None where the line has no word."""

    text: str
    label: str | None
    probability: float | None

    def lines(self) -> list[str]:
        """The label; an empty line stays one."""
        return [self.label or ""]

    def to_json(self) -> dict[str, Any]:
        return {"text": self.text, "label": self.label, "probability": self.probability}


Prediction = TagPrediction | ClassPrediction


def predict_lines(
    run: Path | str,
    source: Path | str | IO[str] | Iterable[str],
    *,
    encoding: str = "utf-8",
    ledger: Ledger | None = None,
) -> Iterator[Prediction]:
    """One prediction for each line of ``source`` (a file, a stream, or texts), empty ones too.

    Long lines go through in windows: every word gets a label.  ``ledger`` counts what the model could not see.
    Raises InputError where ``run`` is not a fine-tuned run or ``source`` is not text.
    """
    tuned = Finetuned.load(Path(run))
    ledger = Ledger() if ledger is None else ledger
    lines = _lines(source, encoding)
    while chunk := list(islice(lines, LINES_A_CHUNK)):
        items = [tuned.model.tokenizer.encode(text) for text in chunk]
        for item in items:
            note(tuned.model, item, ledger)
        yield from (_tags if tuned.task.per_word else _classes)(tuned, chunk, items)


def _lines(source: Path | str | IO[str] | Iterable[str], encoding: str) -> Iterator[str]:
    if isinstance(source, str | Path):
        yield from (text for _, text in read_lines(Path(source), encoding=encoding))
        return
    stream = getattr(source, "buffer", None)  # of standard input: its bytes are UTF-8 whatever the terminal says
    for number, line in enumerate(source if stream is None else stream, 1):
        if isinstance(line, bytes):
            try:
                line = line.decode(encoding)
            except UnicodeDecodeError as error:
                raise InputError(f"not valid {encoding}: {error.reason}", where=f"standard input:{number}") from error
        yield line.removesuffix("\n").removesuffix("\r")


def _tags(tuned: Finetuned, chunk: Sequence[str], items: Sequence[Tokens]) -> Iterator[Prediction]:
    has_spans = tuned.task.metric == "f1"
    for text, item, labels in zip(chunk, items, tuned.predict(tuned.texts(items)), strict=True):
        found = []
        for span in sorted(spans(labels)) if has_spans else []:
            start, end = item.word_spans[span.start][0], item.word_spans[span.end - 1][1]
            found.append({"start": start, "end": end, "type": span.type, "text": text[start:end]})
        yield TagPrediction(text, item.words, labels, found)


def _classes(tuned: Finetuned, chunk: Sequence[str], items: Sequence[Tokens]) -> Iterator[Prediction]:
    def best(output: torch.Tensor, _: Batch) -> list[tuple[str, float]]:
        top = output.softmax(-1).max(-1)
        return [(tuned.task.labels[i], p) for i, p in zip(top.indices.tolist(), top.values.tolist(), strict=True)]

    for text, item, (label, p) in zip(chunk, items, answers(tuned.network, best, tuned.texts(items)), strict=True):
        yield ClassPrediction(text, label, round(p, 6)) if item.words else ClassPrediction(text, None, None)
