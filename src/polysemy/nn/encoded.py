"""What every system of the lineage returns, so that heads, probes and distillation fit them all."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Encoded:
    """Vectors of a batch, layer by layer (word2vec has one layer, ELMo three, BERT num_layers + 1)."""

    layers: tuple[Tensor, ...]  # each (batch, length, dim); layers[0] is the input embedding
    mask: Tensor | None  # (batch, length) bool, True where a token is; None when nothing is padded

    @property
    def last(self) -> Tensor:
        """(batch, length, dim) of the topmost layer"""
        return self.layers[-1]
