"""Files written whole or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polysemy.core.errors import InputError


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it over ``path`` when the block ends well, else remove it."""
    part = path.with_name(f".{path.name}.part-{os.getpid()}")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(
            f"cannot write: {error.strerror or error}", where=str(path), do="Check space and rights, then run again."
        ) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write ``data`` to ``path`` whole or not at all."""
    with atomic(path) as part:
        part.write_bytes(data.encode() if isinstance(data, str) else data)


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
