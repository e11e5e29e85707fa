"""One tiny configuration a system, and what the contract has to know of it.  Adding a system adds one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from polysemy.data.batch import Batch
from polysemy.objectives.bidirectional import Bidirectional
from polysemy.objectives.masked import Masked
from polysemy.systems import find, resolve
from polysemy.text.tokens import Special

VOCAB_SIZE = 40
SPECIAL = Special(pad=0, unk=1, begin=2, end=3, mask=4)
HIDDEN_WORD = 1  # the row of ``characters`` that stands at masked positions only


@dataclass(frozen=True)
class Case:
    """What differs between systems."""

    config: dict[str, Any]
    objective: Callable[[], Any]
    poison: Callable[[nn.Module, Batch], object]  # makes, in place, whatever only masked positions read unreadable
    sees: Literal["both", "halves", "past"]  # which neighbours a position's state may depend on
    attentions: int = 0  # calls of attend() in one forward
    still: tuple[str, ...] = ()  # ends of names of parameters whose gradient is zero by nature


CASES: dict[str, Case] = {
    "bert": Case(
        config={
            "vocab_size": VOCAB_SIZE, "dim": 16, "num_layers": 3, "num_heads": 2, "ffn_dim": 24, "max_length": 12,
            "dropout": 0.1,
        },
        objective=lambda: Masked(SPECIAL, VOCAB_SIZE, rate=0.4),
        poison=lambda model, batch: model.embed.token.weight[SPECIAL.pad].fill_(float("nan")),
        sees="both",
        attentions=3,
        still=(".key.bias",),  # adds the same to every score of a query
    ),
    "elmo": Case(
        config={
            "vocab_size": VOCAB_SIZE, "filters": ((1, 8), (2, 8), (3, 16)), "char_dim": 6, "slots": 8, "num_highways": 1,
            "hidden_size": 24, "proj_size": 8, "dropout": 0.1,
        },
        objective=lambda: Bidirectional(VOCAB_SIZE, samples=12),
        poison=lambda model, batch: batch.characters[HIDDEN_WORD].fill_(10_000),  # no such character
        sees="halves",
    ),
}  # fmt: skip


def build(name: str, **fields: Any) -> nn.Module:
    """The tiny system, always with the same weights, in evaluation mode."""
    torch.manual_seed(7)
    system = resolve(find(name).model)
    model: nn.Module = system(system.Config(**{**CASES[name].config, **fields}))
    with torch.no_grad():  # as wide as a trained model's, so that nothing is too small to be seen
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=0.1)
    return model.eval()


def make_batch(lengths: list[int], seed: int = 0) -> Batch:
    """Every field that some system reads, of sequences of these lengths: ``[begin, pieces..., end]``, then padding."""
    draw = torch.Generator().manual_seed(seed)
    size, longest = len(lengths), max(lengths)
    position = torch.arange(longest).expand(size, -1)
    length = torch.tensor(lengths)[:, None]
    mask = position < length
    ids = torch.randint(5, VOCAB_SIZE, (size, longest), generator=draw)
    ids = ids.masked_fill(position == 0, 2).masked_fill(position == length - 1, 3).masked_fill(~mask, 0)
    inner = mask & (position > 0) & (position < length - 1)
    characters = torch.randint(1, 150, (VOCAB_SIZE, 8), generator=draw)
    characters[0] = 0
    return Batch(
        size=size,
        ids=ids,
        mask=mask,
        segments=(position > length // 2).long().masked_fill(~mask, 0),
        words=((position - 1) // 2).masked_fill(~inner, -1),  # two pieces a word
        types=ids.masked_fill(~mask, HIDDEN_WORD),
        characters=characters,
        target_ids=ids.masked_fill(~mask, -1),
        labels=torch.randint(0, 2, (size,), generator=draw),
    )


def row(batch: Batch, i: int) -> Batch:
    """One sequence of a batch, alone and without padding."""
    assert batch.mask is not None
    length = int(batch.mask[i].sum())
    wide = ("ids", "mask", "segments", "words", "types", "target_ids")
    cut = {name: getattr(batch, name)[i : i + 1, :length] for name in wide}
    assert batch.labels is not None
    return replace(batch, size=1, labels=batch.labels[i : i + 1], **cut)


def states(name: str, model: nn.Module, batch: Batch) -> tuple[Tensor, ...]:
    """The layers of a system for a batch."""
    return tuple(model(**{field: getattr(batch, field) for field in find(name).inputs}).layers)
