"""Cases CKP: old names, the user's own names, tied weights, hostile files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from polysemy.core.errors import InputError
from polysemy.interop.huggingface_bert import load_bert, save_bert
from polysemy.systems.bert import BERT, BERTConfig
from polysemy.train.checkpoint import read_tensors, write_tensors

CONFIG = BERTConfig(vocab_size=5, dim=4, num_layers=1, num_heads=1, ffn_dim=4, max_length=4)


def saved(folder: Path, changes: dict[str, str], extra: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
    """A tiny checkpoint in ``folder`` with parts of names exchanged; our weights of it."""
    torch.manual_seed(0)
    state = {name: torch.randn_like(tensor) for name, tensor in BERT(CONFIG).state_dict().items()}
    save_bert(folder, CONFIG, state)
    tensors = {}
    with safe_open(str(folder / "model.safetensors"), "pt") as file:
        for name in file.keys():  # noqa: SIM118 - not a mapping
            new = name
            for old, other in changes.items():
                new = new.replace(old, other)
            tensors[new] = file.get_tensor(name)
    save_file(tensors | (extra or {}), folder / "model.safetensors")
    return state


def test_ckp_01_gamma_and_beta_of_old_files(tmp_path: Path) -> None:
    first = "bert.embeddings.LayerNorm"
    state = saved(tmp_path, {f"{first}.weight": f"{first}.gamma", f"{first}.bias": f"{first}.beta"})
    _, loaded, ledger = load_bert(tmp_path)
    assert (ledger.count("renamed"), ledger.count("random"), ledger.count("ignored")) == (2, 0, 0)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())


def test_ckp_02_the_users_own_gamma_stays(tmp_path: Path) -> None:
    saved(tmp_path, {}, {"cls.block.gamma": torch.tensor([0.5])})
    _, _, ledger = load_bert(tmp_path)
    assert ledger.count("renamed") == 0
    assert [reason for kind, reason in ledger.entries if kind == "ignored" and "cls.block.gamma" in reason]
    block = torch.nn.Module()
    block.gamma = torch.nn.Parameter(torch.tensor(0.5))
    write_tensors(tmp_path / "own.safetensors", {f"block.{n}": p for n, p in block.state_dict().items()}, {})
    assert read_tensors(tmp_path / "own.safetensors")[0]["block.gamma"] == 0.5


def test_ckp_04_tied_weights_are_stored_once_and_stay_tied(tmp_path: Path) -> None:
    state = saved(tmp_path, {})
    save_bert(tmp_path, CONFIG, state)
    with safe_open(str(tmp_path / "model.safetensors"), "pt") as file:
        assert "cls.predictions.decoder.weight" not in file.keys()  # noqa: SIM118 - not a mapping
        alias = file.metadata()["cls.predictions.decoder.weight"]
    assert alias == "bert.embeddings.word_embeddings.weight"
    config, loaded, _ = load_bert(tmp_path)
    models = [BERT(config).eval(), BERT(config).eval()]
    for model, weights in zip(models, (state, loaded), strict=True):
        model.load_state_dict(weights)
    logits = [model.masked_lm(model(torch.arange(4)[None]).last) for model in models]
    assert torch.equal(*logits)
    with torch.no_grad():
        models[1].embed.token.weight.add_(1.0)
    assert not torch.equal(models[1].masked_lm(torch.ones(1, 4)), models[0].masked_lm(torch.ones(1, 4)))


class Hostile:
    """Unpickled, it would create a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.marker,)


def test_ckp_07_a_pickle_with_code_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, {})
    (tmp_path / "model.safetensors").unlink()
    torch.save({"bert.x": Hostile(tmp_path / "marker")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="safetensors"):
        load_bert(tmp_path)
    assert not (tmp_path / "marker").exists()
    assert json.loads((tmp_path / "config.json").read_text())["vocab_size"] == 5
