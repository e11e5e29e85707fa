"""The bidirectional language model (Peters et al. 2018, section 3.1): the next word from the left context and the
previous word from the right one, summed over both directions."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor, nn

from polysemy.data.batch import Batch
from polysemy.nn.encoded import Encoded
from polysemy.nn.output import LogUniform, Softmax
from polysemy.objectives.loss import Loss

SAMPLES = 1024


class BidirectionalModel(Protocol):
    """A system of two directions, whose last layer is [forward; backward], and the softmax that they share."""

    training: bool
    dropout: nn.Module
    softmax: Softmax

    def __call__(self, types: Tensor, characters: Tensor, mask: Tensor) -> Encoded: ...


class Bidirectional:
    """A step's targets compete with about ``samples`` candidate words (``LogUniform``: ids by falling frequency).

    Exact where ``samples`` is 0 or not under half the vocabulary, and always in evaluation mode, so that a held-out
    loss is the log of the perplexity.
    """

    def __init__(self, vocab_size: int, samples: int = SAMPLES) -> None:
        self.sampler = LogUniform(vocab_size, samples) if 0 < samples < vocab_size / 2 else None

    def corrupt(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Nothing is hidden.  The candidates are drawn once, for all micro-batches of the step."""
        return batch if self.sampler is None else replace(batch, candidates=self.sampler.draw(generator))

    def loss(self, model: BidirectionalModel, batch: Batch) -> Loss:
        """``target_ids`` (b, n) are output words, sentence begin and end included; -1 predicts nothing."""
        targets, mask = batch.target_ids, batch.mask
        assert targets is not None
        assert mask is not None
        assert batch.types is not None
        assert batch.characters is not None
        states = model(batch.types, batch.characters, mask).last
        forward, backward = model.dropout(states).chunk(2, -1)
        both = mask[:, 1:] & mask[:, :-1]
        after, before = both & (targets[:, 1:] >= 0), both & (targets[:, :-1] >= 0)
        x = torch.cat([forward[:, :-1][after], backward[:, 1:][before]])
        y = torch.cat([targets[:, 1:][after], targets[:, :-1][before]])
        if self.sampler is None or not model.training:
            total, each = model.softmax.loss(x, y)
        else:
            total, each = model.softmax.loss(x, y, batch.candidates, self.sampler.probability)
        split = int(after.sum())
        parts = {
            "forward": (float(each[:split].sum()), split),
            "backward": (float(each[split:].sum()), len(y) - split),
        }
        return Loss(total, len(y), parts)
