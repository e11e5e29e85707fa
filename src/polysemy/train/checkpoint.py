"""What resumes a run: one file of tensors with its state in the header.  Written whole or not at all; no pickle."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from polysemy.core.files import atomic

KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """``state``: whatever JSON holds."""

    path: Path
    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write a safetensors file whose bytes depend on its content alone.

    Tensors that share memory are stored once, under the first name; ``read_tensors`` gives all names back, and other
    readers find them in the header as ``tied``: {name: stored name}.  InputError where the disk is full.
    """
    seen: dict[tuple[Any, ...], str] = {}
    stored: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for name, tensor in tensors.items():
        key = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and key in seen:
            tied[name] = seen[key]
        else:
            seen[key] = name
            whole = tensor.detach().to("cpu").contiguous()
            # the library refuses views of a memory that is larger
            stored[name] = whole if whole.untyped_storage().nbytes() == whole.nbytes else whole.clone()
    # one key, because the library writes several in the order of a hash
    metadata = {"polysemy": json.dumps({**header, "tied": tied}, ensure_ascii=False)}
    with atomic(path) as part:
        try:
            save_file(stored, part, metadata)
        except SafetensorError as error:  # the library hides the number of the error in its text
            number = re.search(r"os error (\d+)", str(error))
            if not number:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors, header) of ``write_tensors``; tied names hold the same tensor."""
    with safe_open(str(path), "pt") as file:
        header = json.loads((file.metadata() or {}).get("polysemy", "{}"))
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    tied = header.pop("tied", {})
    return {**tensors, **{name: tensors[stored] for name, stored in tied.items()}}, header


def save_checkpoint(folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Write the checkpoint of a step, then let go of all but the last two; at an InputError none is let go."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in folder.glob(".*.part-*"):  # of a process that was killed
        part.unlink()
    path = folder / f"step-{step:09d}.safetensors"
    write_tensors(path, tensors, {"step": step, "state": state})
    for old in sorted(folder.glob("step-*.safetensors"))[:-KEPT]:
        old.unlink()
    return path


def latest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that can be read."""
    for path in sorted(folder.glob("step-*.safetensors"), reverse=True):
        try:
            tensors, header = read_tensors(path)
        except SafetensorError:
            continue
        return Checkpoint(path, header["step"], tensors, header["state"])
    return None


def all_finite(tensors: Mapping[str, Tensor]) -> bool:
    """Whether no number among them is infinite or NaN."""
    return all(bool(torch.isfinite(t).all()) for t in tensors.values() if t.is_floating_point())
