"""Real data for tests: read where it lies, skipped with its name where it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("POLYSEMY_DATA", Path(__file__).parents[2] / "shared" / "data"))


def need(name: str) -> Path:
    """The path of a file or folder of the real data, or a skip that names it."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"real data absent: {name} (set POLYSEMY_DATA)")
    return path
