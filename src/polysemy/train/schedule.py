"""Learning rates over a run of known length, as factors of the peak."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["linear", "cosine", "constant", "inverse_sqrt"]


def factor(schedule: Schedule, step: int, total: int, warmup: int) -> float:
    """The factor of update ``step`` (from 0) of ``total``; the first ``warmup`` rise to 1, and none is 0.

    ``linear`` (Devlin et al. 2019) and ``cosine`` (Loshchilov and Hutter 2017) fall towards 0, which would be reached
    one update after the last; ``inverse_sqrt`` is Vaswani et al. 2017, eq. 3.
    """
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "constant":
        return 1.0
    if schedule == "inverse_sqrt":
        return math.sqrt(max(warmup, 1) / (step + 1))
    left = max(total - step, 1) / max(total - warmup, 1)
    return left if schedule == "linear" else (1 - math.cos(math.pi * left)) / 2
