"""A loss is a sum and a count: only the loop divides, once a step, by the count over all micro-batches and ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class Loss:
    """Sum of the per-item losses and the number of items; ``parts`` are (sum, count) pairs that are only reported."""

    total: Tensor  # scalar, sum over ``count`` items
    count: int  # predicted tokens, examples, ...
    parts: Mapping[str, tuple[float, int]] = field(default_factory=dict)
