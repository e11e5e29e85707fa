"""In which numbers a model is trained.  Weights and optimizer are always fp32; only the arithmetic between is not."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from polysemy.core.environment import cpu_flags
from polysemy.core.errors import InputError

BF16_FLAGS = {"amx_bf16", "avx512_bf16", "bf16"}  # the last is ARM's
LARGEST_SCALE = 2.0**24
SMALLEST_SCALE = 2.0**-14
GROW_AFTER = 2000  # steps without overflow, as in Micikevicius et al. 2018


def choose_device(name: str) -> torch.device:
    """``auto`` is the first GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"unknown device {name!r}", do="Give auto, cpu, cuda or cuda:1.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"there is no GPU for device {name!r}", do="Give cpu or auto.")
    return device


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """``auto``: bf16 where the hardware multiplies it, fp16 on older GPUs, fp32 elsewhere."""
    if name != "auto":
        return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.get_device_capability(device) >= (8, 0) else torch.float16
    return torch.bfloat16 if device.type == "cpu" and cpu_flags() & BF16_FLAGS else torch.float32


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[object]:
    """The context in which losses are computed."""
    return nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype)


@dataclass
class LossScale:
    """fp16 gradients underflow: the loss is scaled up, by less after an overflow (Micikevicius et al. 2018)."""

    value: float = 1.0
    good: int = 0  # steps since the last change

    def up(self) -> None:
        """A step went well."""
        self.good += 1
        if self.good >= GROW_AFTER:
            self.value, self.good = min(self.value * 2, LARGEST_SCALE), 0

    def down(self) -> bool:
        """A gradient overflowed.  False when the scale cannot be the reason any more."""
        self.value, self.good = self.value / 2, 0
        return self.value >= SMALLEST_SCALE
