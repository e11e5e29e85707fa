"""Dropout (Srivastava et al. 2014) that costs next to nothing on a CPU.

torch draws the mask there with one Mersenne-Twister number a unit, on one thread, which takes a third of a training
step of a small BERT.  Here one hash decides four units (``bernoulli.fill``), about thirty times faster.  On other
devices it is torch's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS = 1 << 16  # a rate is rounded to a multiple of 1 / STEPS; what is kept is scaled by the rounded rate's inverse
BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}


class Dropout(nn.Module):
    """``dropout`` while the module trains."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape"""
        return dropout(x, self.rate) if self.training else x

    def extra_repr(self) -> str:
        return f"{self.rate}"


def dropout(x: Tensor, rate: float) -> Tensor:
    """Each unit becomes 0 with probability ``rate``, and is divided by ``1 - rate`` otherwise.

    The mask depends on the state of torch's global generator and on nothing else, the number of threads included.
    Raises ValueError unless 0 <= rate < 1.
    """
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"dropout {rate} is not in [0, 1)")
    if rate == 0.0:
        return x
    if x.device.type != "cpu" or x.dtype not in BITS:
        return F.dropout(x, rate)
    seed = int(torch.randint((1 << 63) - 1, ()))
    dropped: Tensor = _Dropout.apply(x, rate, seed)  # type: ignore[no-untyped-call]
    return dropped


def keep_mask(like: Tensor, rate: float, seed: int) -> Tensor:
    """Shape and type of ``like``: 0 where a unit is dropped, 1 / (1 - rate) where it is kept."""
    from polysemy.nn.bernoulli import fill

    kept = min(max(round((1.0 - rate) * STEPS), 1), STEPS)
    flat = torch.empty(-(-like.numel() // 4) * 4, dtype=like.dtype)
    value = torch.tensor(STEPS / kept, dtype=like.dtype)
    bits = BITS[like.dtype]  # numba knows no bfloat16: the pattern of 32 or 16 bits is written
    fill(flat.view(bits).numpy(), np.uint64(seed), np.uint64(kept), value.view(bits).numpy()[()])
    return flat[: like.numel()].view(like.shape)


class _Dropout(torch.autograd.Function):
    """The way back draws the mask again from its seed, which is cheaper than to keep it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float, seed: int) -> Tensor:
        ctx.rate, ctx.seed = rate, seed
        return keep_mask(x, rate, seed).mul_(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return keep_mask(grad, ctx.rate, ctx.seed).mul_(grad), None, None
