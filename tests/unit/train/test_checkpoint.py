"""Checkpoints: whole or not at all, tied tensors once, the same bytes for the same content."""

from __future__ import annotations

import errno
import resource

import pytest
import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from polysemy.core.errors import InputError
from polysemy.train import checkpoint
from polysemy.train.checkpoint import latest_checkpoint, read_tensors, save_checkpoint, write_tensors


def test_tensors_and_header_come_back_and_the_bytes_depend_on_nothing_else(tmp_path):
    tensors = {"b": torch.randn(3, 2), "a": torch.arange(4), "step": torch.tensor(3.0), "none": torch.zeros(0, 4),
               "half": torch.randn(4).bfloat16(), "view": torch.randn(4, 6)[1:3, ::2].t()}  # fmt: skip
    header = {"step": 3, "state": {"rate": 0.1 + 0.2, "text": "ụ", "none": None}}
    for name in ("one", "two"):
        write_tensors(tmp_path / name, tensors, header)
    back, found = read_tensors(tmp_path / "one")
    assert found == header
    assert back.keys() == tensors.keys()
    assert all(torch.equal(back[k], tensors[k]) and back[k].dtype == tensors[k].dtype for k in tensors)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_tied_tensors_are_stored_once_and_named_for_other_readers(tmp_path):
    model = nn.ModuleDict({"embed": nn.Embedding(50, 8), "head": nn.Linear(8, 50, bias=False)})
    model["head"].weight = model["embed"].weight
    write_tensors(tmp_path / "a", model.state_dict(), {})
    with safe_open(str(tmp_path / "a"), "pt") as file:
        assert list(file.keys()) == ["embed.weight"]
        assert '"tied": {"head.weight": "embed.weight"}' in str(file.metadata())
    back, _ = read_tensors(tmp_path / "a")
    assert back["head.weight"] is back["embed.weight"]
    assert torch.equal(back["embed.weight"], model["embed"].weight)


def test_views_of_one_memory_are_stored_whole(tmp_path):
    table = torch.randn(6, 4)
    write_tensors(tmp_path / "a", {"all": table, "top": table[:2], "rest": table[2:]}, {})
    back, _ = read_tensors(tmp_path / "a")
    assert torch.equal(back["all"], table)
    assert torch.equal(back["top"], table[:2])
    assert torch.equal(back["rest"], table[2:])


def test_the_last_two_are_kept_and_leftovers_go(tmp_path):
    (tmp_path / ".step-000000001.safetensors.part-99").write_bytes(b"half")
    for step in (0, 5, 10):
        save_checkpoint(tmp_path, step, {"a": torch.full((2,), float(step))}, {"at": step})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000000005.safetensors", "step-000000010.safetensors"]
    found = latest_checkpoint(tmp_path)
    assert (found.step, found.state, found.tensors["a"].tolist()) == (10, {"at": 10}, [10.0, 10.0])


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path):
    assert latest_checkpoint(tmp_path / "absent") is None
    for step in (5, 10):
        save_checkpoint(tmp_path, step, {"a": torch.zeros(100)}, {})
    path = tmp_path / "step-000000010.safetensors"
    path.write_bytes(path.read_bytes()[:200])
    assert latest_checkpoint(tmp_path).step == 5


def test_a_full_disk_is_an_input_error_and_leaves_the_checkpoint_before(tmp_path):
    save_checkpoint(tmp_path, 1, {"a": torch.zeros(10)}, {})
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(InputError, match="cannot write.*Check space"):
            save_checkpoint(tmp_path, 2, {"a": torch.zeros(1_000_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert before == {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert latest_checkpoint(tmp_path).step == 1


def test_the_number_of_the_error_is_read_from_the_library(tmp_path, monkeypatch):
    def full(*_):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(InputError, match="No space left") as caught:
        write_tensors(tmp_path / "a", {}, {})
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())
