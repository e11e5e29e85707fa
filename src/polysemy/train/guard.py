"""What stands around the loop: signals that let a step end, and kernels that give the same bytes each time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch


class Stop:
    """Set when SIGINT or SIGTERM has arrived."""

    def __init__(self) -> None:
        self.wanted = False


@contextmanager
def signals_end_the_step() -> Iterator[Stop]:
    """Within this block the first SIGINT or SIGTERM only sets the yielded ``Stop``; the next one acts as before.

    Outside the main thread Python takes no signals, and nothing is changed.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        stop.wanted = True
        restore()

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.getsignal(number)
        signal.signal(number, note)
    try:
        yield stop
    finally:
        restore()


@contextmanager
def deterministic() -> Iterator[None]:
    """Within this block torch takes kernels whose sums have a fixed order, where it has them; it warns where not.

    On CPU this is the scattered sum behind ``x[rows]``, which several threads would otherwise add in any order.
    """
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    fill = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    memory.fill_uninitialized_memory = False  # a guard against reading it, at a cost every step
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        memory.fill_uninitialized_memory = fill
