"""A head over a system, and the texts that it reads as batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from polysemy.data.batch import Batch
from polysemy.data.collate import collate, windows
from polysemy.nn.encoded import Encoded
from polysemy.nn.pool import word_states
from polysemy.objectives.loss import Loss
from polysemy.tasks import Task
from polysemy.text.tokens import Tokenizer, Tokens

Mode = Literal["features", "finetune"]
States = Callable[[Sequence[int]], Sequence[NDArray[np.float32]]]  # indices of texts -> (layers, words, dim) of each


class TaskModel(nn.Module):
    """A system and a head.

    ``features``: the system stays as it is; it is no submodule, so that nothing trains it and no checkpoint repeats
    it.  Its states come with the batch (``Batch.features``), else they are computed on the spot.
    ``finetune``: the system is trained with the head.
    """

    def __init__(self, system: nn.Module, head: nn.Module, inputs: Sequence[str], mode: Mode) -> None:
        super().__init__()
        self.head, self.inputs, self.mode = head, tuple(inputs), mode
        self.tuned = system if mode == "finetune" else None
        self._frozen = (system,)  # in a tuple torch does not see it

    @property
    def system(self) -> nn.Module:
        return self._frozen[0]

    def forward(self, batch: Batch) -> Any:
        """What the head says of the words or texts of ``batch``."""
        return self.head(self.states(batch), batch)

    def states(self, batch: Batch) -> Tensor:
        """(b, layers, w, dim): the state of each word's first piece, zeros for a word without pieces."""
        if batch.features is not None:
            return batch.features
        fields = {name: getattr(batch, name) for name in self.inputs}
        if self.tuned is not None:
            return first_pieces(self.tuned(**fields), batch)
        self.system.eval()
        with torch.no_grad():
            return first_pieces(self.system(**fields), batch)


def first_pieces(encoded: Encoded, batch: Batch) -> Tensor:
    """(b, layers, w, dim) of each word's first piece, zeros for a word without pieces and for padding"""
    assert batch.word_positions is not None
    return torch.stack([word_states(layer, batch.word_positions) for layer in encoded.layers], 1)


@dataclass(frozen=True)
class Supervised:
    """A task as an objective of the loop: nothing is hidden, the loss is the task's."""

    task: Task

    def corrupt(self, batch: Batch, generator: Generator) -> Batch:
        return batch

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        return self.task.loss(model(batch), batch)


class Texts:
    """Texts as a task's batches.

    With ``states`` (a frozen system) a text is one sequence, however long.  Without, a text of more pieces than
    ``limit`` becomes several windows that overlap, and each word belongs to one of them.
    """

    def __init__(
        self,
        items: Sequence[Tokens],
        tokenizer: Tokenizer,
        *,
        per_word: bool,
        targets: Sequence[NDArray[np.int64]] | None = None,
        limit: int | None = None,
        states: States | None = None,
    ) -> None:
        self.items, self.tokenizer, self.per_word = items, tokenizer, per_word
        self.targets, self.states = targets, states
        self.windows = [windows(item, None if states else limit) for item in items]
        self.lengths = [
            max(len(item.words), 1) if states else sum(len(w.tokens.ids) + 2 for w in cut)
            for item, cut in zip(items, self.windows, strict=True)
        ]

    @property
    def windowed(self) -> int:
        """Texts that are longer than the limit."""
        return sum(len(cut) > 1 for cut in self.windows)

    @property
    def truncated(self) -> int:
        """Words of which pieces were cut off, because one word alone is longer than the limit."""
        return sum(w.tokens.truncated for cut in self.windows if len(cut) > 1 for w in cut)

    def batch(self, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
        """All windows of the texts, text after text; ``rows`` numbers the texts within the batch."""
        cut = [(row, int(i), window) for row, i in enumerate(indices) for window in self.windows[int(i)]]
        batch = collate([window.tokens for _, _, window in cut], self.tokenizer)
        assert batch.word_mask is not None
        rows = torch.tensor([row for row, _, _ in cut], dtype=torch.long)
        own = torch.zeros_like(batch.word_mask)
        for k, (_, _, window) in enumerate(cut):
            own[k, window.own[0] - window.start : window.own[1] - window.start] = True
        assert batch.word_positions is not None
        positions = batch.word_positions  # a tagger looks at the neighbours of its words, a text counts each word once
        batch = replace(
            batch, rows=rows, word_positions=positions if self.per_word else positions.masked_fill(~own, -1)
        )
        if self.states is not None:
            batch = replace(batch, features=self._features([i for _, i, _ in cut], own.size(1)))
        return batch if self.targets is None else replace(batch, labels=self._labels(cut, own))

    def _features(self, indices: Sequence[int], width: int) -> Tensor:
        """(b, layers, w, dim), zeros in padding"""
        assert self.states is not None
        states = self.states(indices)
        layers, _, dim = states[0].shape
        out = np.zeros((len(states), layers, width, dim), dtype=np.float32)
        for k, state in enumerate(states):
            out[k, :, : state.shape[1]] = state
        return torch.from_numpy(out)

    def _labels(self, cut: Sequence[tuple[int, int, Any]], own: Tensor) -> Tensor:
        """(b, w) labels of the words that a window owns, or (b,) labels of the texts."""
        assert self.targets is not None
        if not self.per_word:
            return torch.tensor([int(self.targets[i][0]) for _, i, _ in cut], dtype=torch.long)
        labels = np.full(tuple(own.shape), -1, dtype=np.int64)
        for k, (_, i, window) in enumerate(cut):
            low, high = window.own
            labels[k, low - window.start : high - window.start] = self.targets[i][low:high]
        return torch.from_numpy(labels)

    def stitch(self, indices: Sequence[int], predictions: Sequence[Any]) -> list[Any]:
        """One prediction a text from one a sequence: the labels that each window has for its own words."""
        if not self.per_word:
            return list(predictions)
        out = []
        answers = iter(predictions)
        for i in indices:
            labels: list[str] = []
            for window in self.windows[i]:
                low, high = window.own
                labels += next(answers)[low - window.start : high - window.start]
            out.append(labels)
        return out


@torch.inference_mode()
def predict(
    model: TaskModel, answer: Callable[[Any, Batch], list[Any]], texts: Texts, *, batch_tokens: int = 8192
) -> list[Any]:
    """What ``answer`` (of the model's output and the batch) says of each text, in order; texts of similar length go
    through together."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    device = next(model.head.parameters()).device
    out: list[Any] = [None] * len(texts.items)
    for plan in by_length(texts.lengths, batch_tokens):
        batch = texts.batch(plan).to(device)
        for i, prediction in zip(plan, texts.stitch(plan, answer(model(batch), batch)), strict=True):
            out[i] = prediction
    for module, mode in modes:
        module.training = mode
    return out


def by_length(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices in batches of at most ``batch_tokens`` with padding (at least one text each), shortest first."""
    out: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if out and (len(out[-1]) + 1) * lengths[i] <= batch_tokens:
            out[-1].append(i)
        else:
            out.append([i])
    return out
