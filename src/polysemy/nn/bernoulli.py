"""A numba kernel of its own file, so that numba is imported when something first trains and not before."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

GAMMA, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@numba.njit(nogil=True)
def fill(out: Any, seed: Any, kept: Any, value: Any) -> None:
    """``out[i] = value`` with probability ``kept`` / 2^16, else 0; the size of ``out`` is a multiple of four.

    SplitMix64 (Steele, Lea and Flood 2014): its number i is a hash of ``seed + i GAMMA``, so that nothing is carried
    from one to the next and the loop is vectorised; each number decides four units with 16 bits each.
    """
    nothing = out.dtype.type(0)
    for i in range(out.size // 4):
        z = seed + np.uint64(i) * GAMMA
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        z = z ^ (z >> np.uint64(31))
        for j in range(4):
            out[4 * i + j] = value if ((z >> np.uint64(16 * j)) & np.uint64(0xFFFF)) < kept else nothing
