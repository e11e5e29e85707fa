"""A small masked model with what makes trajectories differ when something is wrong: dropout, masks, unequal lengths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from polysemy.core.run import Run
from polysemy.core.seeds import numpy_generator
from polysemy.data.batch import Batch
from polysemy.objectives.loss import Loss
from polysemy.train.loop import GradientUpdate, TrainSettings, train

VOCABULARY, DIM = 40, 16
MASK = 1


class Toy(nn.Module):
    """(b, n) ids -> (b, n, vocabulary), output tied to input."""

    def __init__(self, dropout: float = 0.1, *, sparse: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, DIM, sparse=sparse)
        self.mix = nn.GRU(DIM, DIM, batch_first=True)
        self.norm, self.dropout = nn.LayerNorm(DIM), nn.Dropout(dropout)
        self.out = nn.Linear(DIM, VOCABULARY)
        if not sparse:
            self.out.weight = self.embed.weight

    def forward(self, ids):
        return self.out(self.dropout(self.norm(self.mix(self.dropout(self.embed(ids)))[0])))


class Masked:
    """Predicts a fifth of the positions, drawn from the generator."""

    def corrupt(self, batch, generator):
        chosen = (torch.rand(batch.ids.shape, generator=generator) < 0.2) & batch.mask
        target = torch.where(chosen, batch.ids, -1)
        return replace(batch, ids=torch.where(chosen, MASK, batch.ids), target_ids=target)

    def loss(self, model, batch):
        where = batch.target_ids >= 0
        if not where.any():
            return Loss(torch.zeros(()), 0)
        total = F.cross_entropy(model(batch.ids)[where].float(), batch.target_ids[where], reduction="sum")
        count = int(where.sum())
        return Loss(total, count, {"masked": (float(total.detach()), count)})


class Lines:
    """Sequences of random lengths with a pattern that can be learnt; a pure function of (seed, step)."""

    steps_per_epoch, fills_batch = 10, True

    def __init__(self, size=8, seed=0):
        self.size, self.seed = size, seed

    def batch(self, step):
        draw = numpy_generator(self.seed, "toy", step % self.steps_per_epoch)
        lengths = draw.integers(2, 12, self.size)
        ids = (draw.integers(2, VOCABULARY, (self.size, 1)) + np.arange(lengths.max())) % (VOCABULARY - 2) + 2
        mask = np.arange(lengths.max())[None, :] < lengths[:, None]
        return Batch(size=self.size, ids=torch.from_numpy(np.where(mask, ids, 0)), mask=torch.from_numpy(mask))

    def words(self, step):
        return int(self.batch(step).mask.sum())


def toy(dropout=0.1, *, sparse=False):
    """The same weights each time."""
    torch.manual_seed(5)
    return Toy(dropout, sparse=sparse)


def settings(**changes):
    """Short, fp32, steep enough to move every weight."""
    return TrainSettings(**{"steps": 12, "lr": 0.01, "precision": "fp32", "log_every": 3, **changes})


def trained(path: Path, *, dropout=0.1, loader=None, evaluate=None, sparse=False, **changes):
    """(weights, result) of a whole run in ``path``."""
    model, s = toy(dropout, sparse=sparse), settings(**changes)
    with Run.open(path, {"seed": s.seed}) as run:
        result = train(GradientUpdate(model, Masked(), s), loader or Lines(), s, run, evaluate=evaluate)
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}, result


def same(one, other):
    """Bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def distance(one, other):
    """The largest difference of any weight."""
    return max(float((one[name] - other[name]).abs().max()) for name in one)
