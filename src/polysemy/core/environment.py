"""Versions and machine of a run: what decides whether it can be repeated to the byte.  No names of people or places."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("polysemy", "torch", "numpy", "numba", "tokenizers", "regex", "jieba", "safetensors", "accelerate", "scipy")
FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_int8", "asimd", "bf16", "sve")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def environment(seed: int | None = None) -> dict[str, Any]:
    """What ``environment.json`` holds: versions, the machine, threads, the seed, the commit of a source checkout."""
    return {
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "commit": _commit(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": _cpu().get("model name", platform.processor()),
        "cpu_flags": sorted(set(FLAGS) & cpu_flags()),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": _memory_gb(),
        "threads": {name: os.environ[name] for name in THREADS if name in os.environ},
        "seed": seed,
    }


def cpu_flags() -> set[str]:
    """Instruction sets as Linux names them; empty elsewhere."""
    cpu = _cpu()
    return set(cpu.get("flags", cpu.get("features", "")).split())


def _cpu() -> dict[str, str]:
    """The first block of /proc/cpuinfo, keys in lower case."""
    try:
        block = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return {}
    rows = (line.partition(":") for line in block.splitlines())
    return {key.strip().lower(): value.strip() for key, _, value in rows}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _commit() -> str | None:
    """The commit of the checkout that this file is tracked in, with ``+changes`` if the package differs from it."""
    here = Path(__file__).parents[1]
    try:
        tracked = _git(here, "ls-files", "--error-unmatch", "core/errors.py")
        head = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no", ".")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+changes" if changed else "") if tracked else None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
