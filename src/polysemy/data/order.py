"""In which order examples are seen: pure functions of (seed, epoch), in memory that does not grow with the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from polysemy.core.seeds import numpy_generator

Ints = NDArray[np.int64]
ROUNDS = 6
MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, as in splitmix64


def shuffled(index: Ints, size: int, seed: int) -> Ints:
    """Where a pseudo-random permutation of ``range(size)`` sends each of ``index``.

    A Feistel network over the next power of four, walked until it lands below ``size`` (Black and Rogaway 2002):
    any part of the order is computed by itself, and nothing is held.
    """
    half = np.uint64(max((max(size - 1, 1).bit_length() + 1) // 2, 1))
    low = np.uint64((1 << int(half)) - 1)
    keys = numpy_generator(seed, "shuffled").integers(0, 2**63, ROUNDS).astype(np.uint64)

    def once(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = x >> half, x & low
        for key in keys:
            mixed = (right + key) * MIX
            mixed = (mixed ^ (mixed >> np.uint64(29))) * MIX
            left, right = right, left ^ ((mixed >> np.uint64(32)) & low)
        return (left << half) | right

    out = once(np.asarray(index).astype(np.uint64))
    while (outside := out >= size).any():
        out[outside] = once(out[outside])
    return out.astype(np.int64)


def batches_by_length(
    lengths: Sequence[int] | Ints, batch_tokens: int, seed: int, epoch: int, *, max_rows: int | None = None
) -> list[Ints]:
    """Every index of ``lengths`` once, in shuffled batches of similar length.

    A batch takes about ``batch_tokens`` tokens, padding counted, and at most ``max_rows`` rows; a longer example has a
    batch to itself.  The number of batches and of rows in each are the same in every epoch, so that a schedule can be
    laid over them; which examples stand together changes (lengths are compared with up to a tenth of noise).
    """
    exact = np.asarray(lengths, dtype=np.int64)
    if not exact.size:
        return []
    bounds, first = [0], 0
    ordered = np.sort(exact, kind="stable").tolist()
    for i, length in enumerate(ordered):
        if i > first and ((i - first + 1) * length > batch_tokens or i - first == max_rows):
            bounds.append(i)
            first = i
    bounds.append(len(ordered))
    generator = numpy_generator(seed, "batches", epoch)
    noisy = exact * generator.uniform(0.95, 1.05, exact.size) + generator.uniform(0.0, 0.5, exact.size)
    rows = np.argsort(noisy, kind="stable").astype(np.int64)
    batches = [rows[low:high] for low, high in pairwise(bounds)]
    return [batches[i] for i in generator.permutation(len(batches))]
