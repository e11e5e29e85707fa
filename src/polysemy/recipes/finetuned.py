"""A system with a head that has learned a task: in memory, and as a run directory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polysemy.core.config import parse
from polysemy.core.errors import InputError
from polysemy.core.files import write_atomic
from polysemy.core.ledger import Ledger
from polysemy.data.collate import windows
from polysemy.recipes.load import FORMAT, Model, load, read_weights, save
from polysemy.tasks import Task, load_task
from polysemy.tasks.example import Columns, Example
from polysemy.tasks.heads import HeadConfig, WordReader
from polysemy.tasks.model import Mode, TaskModel, Texts, predict
from polysemy.text.tokens import Tokens
from polysemy.train.checkpoint import write_tensors

SCALE_TEXTS = 500
HEAD, TASK = "head.safetensors", "task.json"


class FrozenStates:
    """States of texts under a system that stays as it is: computed once and kept if they fit ``cache_mb``, else anew
    for each batch."""

    def __init__(self, model: Model, items: Sequence[Tokens], cache_mb: float) -> None:
        self.model, self.items = model, items
        layers, dim = state_shape(model)
        megabytes = sum(len(item.words) for item in items) * layers * dim * 4 / 1e6
        self.megabytes = megabytes if megabytes <= cache_mb else 0.0
        self.kept = model.states(items) if self.megabytes or not items else None

    def __call__(self, indices: Sequence[int]) -> list[NDArray[np.float32]]:
        """(layers, words, dim) of each text asked for"""
        if self.kept is not None:
            return [self.kept[i] for i in indices]
        return self.model.states([self.items[i] for i in indices])


def state_shape(model: Model) -> tuple[int, int]:
    """(layers, dim) of the states of ``model``."""
    layers, _, dim = model.states([model.tokenizer.encode(["a"])])[0].shape
    return int(layers), int(dim)


@dataclass
class Finetuned:
    """A task, the system under it, and the head between them."""

    model: Model
    task: Task
    network: TaskModel
    head_config: HeadConfig

    @classmethod
    def build(cls, model: Model, task: Task, mode: Mode, config: HeadConfig) -> Finetuned:
        """A head with random weights, from torch's global generator, which the recipe seeds."""
        layers, dim = state_shape(model)
        head = task.head(dim, layers, config)
        return cls(model, task, TaskModel(model.system, head, model.entry.inputs, mode), config)

    @property
    def mode(self) -> Mode:
        return self.network.mode

    def texts(
        self, items: Sequence[Tokens], targets: Sequence[NDArray[np.int64]] | None = None, *, cache_mb: float = 0.0
    ) -> Texts:
        """The batches that the network reads, with frozen states beside them in mode ``features``."""
        states = FrozenStates(self.model, items, cache_mb) if self.mode == "features" else None
        return Texts(
            items, self.model.tokenizer, per_word=self.task.per_word, targets=targets,
            limit=self.model.limit, states=states,
        )  # fmt: skip

    def predict(self, texts: Texts) -> list[Any]:
        """One prediction a text, in order, as it is scored and written."""
        return [self.task.outer(prediction) for prediction in predict(self.network, self.task.predict, texts)]

    @property
    def reader(self) -> WordReader:
        """The part of the head that takes the system's layers."""
        reader = self.network.head.reader
        assert isinstance(reader, WordReader)
        return reader

    def measure_scale(self, items: Sequence[Tokens]) -> None:
        """Set the scale of the system's layers from the words of the first texts that it knows."""
        squares = [
            np.square(state).mean(-1) for state in self.model.states(items[:SCALE_TEXTS])
        ]  # (layers, words) each
        together = np.concatenate(squares, -1, dtype=np.float64)
        mean = together.sum(-1) / (together > 0).sum(-1).clip(min=1)  # a word without a vector is all zeros
        self.reader.scale.copy_(torch.from_numpy(np.where(mean > 0, mean, 1.0) ** -0.5))

    @property
    def parameters(self) -> int:
        """Numbers in the system and the head."""
        return sum(p.numel() for module in (self.network.system, self.network.head) for p in module.parameters())

    def save(self, folder: Path) -> None:
        """The system as any run holds it (so that the folder is a MODEL too), and beside it the head and the task."""
        save(folder, self.model.name, self.model.system, self.model.tokenizer)
        write_tensors(folder / HEAD, self.network.head.state_dict(), {"format": FORMAT})
        data = {**self.task.to_json(), "mode_of_system": self.mode, "head": asdict(self.head_config)}
        write_atomic(folder / TASK, json.dumps(data, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path, columns: Columns | None = None) -> Finetuned:
        """Raises InputError where ``folder`` is not a finished run of ``finetune``."""
        if not (folder / TASK).is_file():
            raise InputError(
                "no fine-tuned run here", where=str(folder), do="Name a directory that `polysemy finetune --out` has filled."
            )  # fmt: skip
        data = json.loads((folder / TASK).read_text("utf-8"))
        config = parse(HeadConfig, data["head"], str(folder / TASK))
        made = cls.build(load(folder), load_task(data, columns), data["mode_of_system"], config)
        read_weights(folder / HEAD, made.network.head)
        made.network.eval()
        return made


def encode(model: Model, examples: Sequence[Example], ledger: Ledger) -> list[Tokens]:
    """Words and pieces of each example; what is unknown, cut off or read in windows is counted."""
    out = []
    for example in examples:
        item = model.tokenizer.encode(example.text if isinstance(example.text, str) else list(example.text))
        check_words(example, item)
        note(model, item, ledger, example.place)
        out.append(item)
    return out


def check_words(example: Example, item: Tokens) -> None:
    """Labelled words and words of the model must be the same ones.  Raises InputError at the example's place."""
    if not isinstance(example.text, str) and len(example.text) != len(item.words):
        raise InputError(
            f"{len(example.text)} labelled words are {len(item.words)} for the model's tokenizer", where=example.place,
            do="Look for words that are empty or hold white space.",
        )  # fmt: skip


def note(model: Model, item: Tokens, ledger: Ledger, place: str = "") -> None:
    """Count in ``ledger`` what the model cannot see of a text as it is."""
    ledger.add("read", "words under the model", len(item.words))
    if item.unknown and model.tokenizer.kind != "characters":  # a word read by its characters is not unknown as input
        what = "words without a vector" if model.tokenizer.kind == "words" else "pieces without a symbol"
        ledger.add("unknown", what, item.unknown, place=place)
    if item.truncated:
        ledger.add("truncated", "words longer than the character slots", item.truncated, place=place)
    if (blank := len(item.words) - len(set(item.word_of))) > 0:
        ledger.add("unknown", "words without pieces (state zero)", blank, place=place)
    if model.limit is not None and len(item.ids) > model.limit:
        ledger.add("kept", f"texts longer than {model.limit} pieces, read in windows", place=place)
        cut = sum(window.tokens.truncated for window in windows(item, model.limit))
        if cut:
            ledger.add("truncated", "words of more pieces than the model's limit", cut, place=place)


def scores_line(scores: Mapping[str, Any]) -> str:
    """The numbers of one score, for a person: ``f1 0.852  precision 0.861``."""
    return "  ".join(f"{name} {value:.4f}" for name, value in scores.items() if isinstance(value, float))
