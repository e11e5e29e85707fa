"""The masked language model and next-sentence prediction (Devlin et al. 2019, section 3.1 and appendix A.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from polysemy.data.batch import Batch
from polysemy.objectives.loss import Loss
from polysemy.text.tokens import Special

REPLACED, RANDOM = 0.8, 0.1  # of the chosen pieces: the mask symbol, any piece; the rest stay as they are


class MaskedModel(Protocol):
    """What the objective asks of a system."""

    def states_at(
        self, positions: Tensor, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """(b, m) positions -> (b, m, dim) top states"""

    def masked_lm(self, states: Tensor) -> Tensor:
        """(..., dim) -> (..., vocab) logits"""

    def next_sentence(self, state: Tensor) -> Tensor:
        """(b, dim) of the first piece -> (b, 2) logits"""


class Masked:
    """Hide ``rate`` of each sequence's pieces and predict them; judge pairs of texts where the batch has labels.

    Special symbols, the unknown symbol among them, are never chosen.  ``whole_words`` hides ``rate`` of the words, all
    pieces of a word or none, whatever the tokenizer, because the batch says which word a piece belongs to.
    ``pair_weight``: one pair's loss counts as much as this many pieces; 15 % of 128 makes the two means of the paper
    weigh the same, and a constant keeps accumulation exact.
    """

    def __init__(
        self,
        special: Special,
        vocab_size: int,
        rate: float = 0.15,
        whole_words: bool = False,
        pair_weight: float = 20.0,
    ) -> None:
        if special.mask is None:
            raise ValueError("the vocabulary has no mask symbol")
        if not 0.0 < rate <= 1.0:
            raise ValueError(f"masking rate {rate} is not in (0, 1]")
        self.mask_id, self.rate, self.whole_words, self.pair_weight = special.mask, rate, whole_words, pair_weight
        ids = torch.arange(vocab_size)
        specials = (special.pad, special.unk, special.begin, special.end, special.mask)
        self.ordinary = torch.ones(vocab_size, dtype=torch.bool)  # by id, True where it may be chosen
        self.ordinary[[i for i in specials if i is not None]] = False
        self.pieces = ids[self.ordinary]  # what a random piece is drawn from

    def corrupt(self, batch: Batch, generator: torch.Generator) -> Batch:
        """``ids`` with gaps and ``target_ids`` (b, n): the piece that was at a chosen position, -1 elsewhere.

        At least one piece is chosen where a sequence has an ordinary one.  All draws come from ``generator`` (CPU).
        Raises ValueError where whole words are asked for and ``words`` is absent.
        """
        if batch.ids is None:
            raise ValueError("masking needs ids")
        ids = batch.ids
        maskable = self.ordinary[ids]
        if batch.mask is not None:
            maskable &= batch.mask
        order, fate = torch.rand(2, *ids.shape, generator=generator)
        chosen = self._choose(batch, maskable, order)
        drawn = self.pieces[torch.randint(len(self.pieces), ids.shape, generator=generator)]
        hidden = ids.masked_fill(chosen & (fate < REPLACED), self.mask_id)
        hidden = torch.where(chosen & (fate >= REPLACED) & (fate < REPLACED + RANDOM), drawn, hidden)
        return replace(batch, ids=hidden, target_ids=ids.masked_fill(~chosen, -1))

    def _choose(self, batch: Batch, maskable: Tensor, order: Tensor) -> Tensor:
        """(b, n) bool: ``rate`` of the pieces, or of the words, those that come first in random ``order`` (b, n)."""
        if self.whole_words:
            order = order.gather(1, _word_numbers(batch))  # one draw a word
        order, index = order.masked_fill(~maskable, 2.0).sort(dim=1, stable=True)
        rank = F.pad((order[:, 1:] != order[:, :-1]).cumsum(1), (1, 0))  # of its word, or of itself
        number = rank.masked_fill(order == 2.0, -1).amax(1, keepdim=True) + 1
        budget = (number * self.rate + 0.5).floor().clamp(min=1)
        chosen = (rank < budget) & (order < 2.0)
        return torch.zeros_like(maskable).scatter(1, index, chosen)

    def loss(self, model: MaskedModel, batch: Batch) -> Loss:
        """Sum of cross-entropies over the chosen pieces, and their number; zero and 0 where there are none.

        Parts: ``masked`` and, where ``labels`` (b,) are, ``next_sentence``.  Raises ValueError for a batch that was not
        corrupted, or that holds the mask symbol where nothing is to be predicted.
        """
        if batch.ids is None or batch.target_ids is None:
            raise ValueError("the batch has no target_ids: corrupt it first")
        if bool(((batch.ids == self.mask_id) & (batch.target_ids < 0)).any()):
            raise ValueError(
                "a mask symbol stands where nothing is to be predicted: the model would learn to ignore it"
            )
        chosen = batch.target_ids >= 0
        counts = chosen.sum(1)
        positions = chosen.int().argsort(dim=1, descending=True, stable=True)[:, : int(counts.max())]
        real = torch.arange(positions.size(1), device=positions.device) < counts[:, None]
        asked = positions
        if batch.labels is not None:
            asked = torch.cat([torch.zeros_like(batch.target_ids[:, :1]), positions], 1)
        states = model.states_at(asked, batch.ids, batch.segments, batch.mask)
        logits = model.masked_lm(states[:, asked.size(1) - positions.size(1) :][real])
        targets = batch.target_ids.gather(1, positions)[real]
        total = F.cross_entropy(logits.float(), targets, reduction="sum")
        count = len(targets)
        parts = {"masked": (float(total.detach()), count)}
        if batch.labels is not None:
            judged = model.next_sentence(states[:, 0]).float()
            pairs = F.cross_entropy(judged, batch.labels, ignore_index=-1, reduction="sum")
            parts["next_sentence"] = (float(pairs.detach()), int((batch.labels >= 0).sum()))
            total = total + self.pair_weight * pairs
        return Loss(total, count, parts)


def _word_numbers(batch: Batch) -> Tensor:
    """(b, n) long: 0, 1, ... along each sequence, the same for neighbouring pieces of one word."""
    if batch.words is None:
        raise ValueError("whole words are masked by the batch's words, which are absent")
    begins = batch.words[:, 1:] != batch.words[:, :-1]
    return F.pad(begins.cumsum(1), (1, 0))
