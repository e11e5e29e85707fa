"""Which number format a hand-written operation multiplies in, under autocast or not."""

from __future__ import annotations

import torch
from torch import Tensor


def product_dtype(x: Tensor, weight: Tensor) -> torch.dtype:
    """The format of matrix products of ``x`` and ``weight``: that of autocast where it is on, else the weight's."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype


def sum_dtype(weight: Tensor) -> torch.dtype:
    """The format of everything else: the weight's, but never less than fp32."""
    return torch.promote_types(weight.dtype, torch.float32)
