"""Randomness is a function of (seed, purpose, step): nothing is stored, so nothing is lost when a run resumes."""

from __future__ import annotations

import hashlib

import numpy as np


def derive(seed: int, purpose: str, step: int = 0) -> int:
    """A 63-bit seed for one purpose ("order", "corrupt", "dropout", "init", ...) at one step."""
    digest = hashlib.blake2b(f"{seed}/{purpose}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def numpy_generator(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    """A fresh NumPy generator for one purpose at one step."""
    return np.random.default_rng(derive(seed, purpose, step))
