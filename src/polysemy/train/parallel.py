"""Several processes under torchrun.  With one, this does nothing.  accelerate stands behind this file alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from polysemy.core.errors import InputError


class Group:
    """The processes that train one model.  Each holds all weights and takes its share of every batch."""

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | None = None) -> None:
        self.rank, self.size, self.device = rank, size, device

    def gather(self, value: Any) -> list[Any]:
        """The ``value`` of every process, by rank."""
        if self.size == 1:
            return [value]
        from accelerate.utils import gather_object

        return list(gather_object([value]))

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        return any(self.gather(flag))

    def barrier(self) -> None:
        """Wait for the others."""
        if self.size > 1:
            from accelerate.utils import wait_for_everyone

            wait_for_everyone()

    @contextmanager
    def first(self) -> Iterator[None]:
        """The first process runs the block, then the others."""
        if self.rank:
            self.barrier()
        try:
            yield
        finally:
            if not self.rank:
                self.barrier()

    def sum_gradients(self, parameters: list[nn.Parameter]) -> None:
        """Replace every gradient by its sum over the processes, in one message.

        A parameter that no process used keeps no gradient, so that it is not decayed either.
        """
        if self.size == 1:
            return
        from accelerate.utils import reduce

        used = [p.grad is not None for p in parameters]
        somewhere = [any(column) for column in zip(*self.gather(used), strict=True)]
        shared = [p for p, needed in zip(parameters, somewhere, strict=True) if needed]
        flat = torch.cat([_dense(p).flatten() for p in shared])
        total: Tensor = reduce(flat, reduction="sum")
        at = 0
        for p in shared:
            summed = total[at : at + p.numel()].view_as(p)
            at += p.numel()
            p.grad = summed.to_sparse(1) if p.grad is not None and p.grad.is_sparse else summed


def _dense(parameter: nn.Parameter) -> Tensor:
    if parameter.grad is None:
        return torch.zeros_like(parameter)
    return parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad


def start_group() -> Group:
    """The group that torchrun started this process in; alone, a group of one.

    InputError when there are several processes and the extra ``distributed`` is absent.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Group()
    try:
        from accelerate import PartialState
    except ImportError:
        raise InputError(
            "several processes need accelerate", do="Install it with: pip install 'polysemy[distributed]'"
        ) from None
    state = PartialState() if torch.cuda.is_available() else PartialState(cpu=True, backend="gloo")
    return Group(state.process_index, state.num_processes, state.device)
