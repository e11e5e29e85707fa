"""BERT as Hugging Face stores it: a folder of ``config.json`` and ``model.safetensors`` or ``pytorch_model.bin``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from polysemy.core.errors import InputError
from polysemy.core.files import atomic, write_atomic
from polysemy.core.ledger import Ledger
from polysemy.interop.table import Row, inverse, rename
from polysemy.systems.bert import BERT, BERTConfig

CONFIG: list[Row] = [
    ("vocab_size", "vocab_size"),
    ("hidden_size", "dim"),
    ("num_hidden_layers", "num_layers"),
    ("num_attention_heads", "num_heads"),
    ("intermediate_size", "ffn_dim"),
    ("max_position_embeddings", "max_length"),
    ("type_vocab_size", "num_segments"),
    ("hidden_dropout_prob", "dropout"),
    ("layer_norm_eps", "eps"),
]
# Settings under which the same weights would give other states, with the only value that is ours.
ONLY = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}

_MODULES: list[Row] = [
    ("bert.embeddings.LayerNorm", "embed.norm"),
    ("bert.encoder.layer.{i}.attention.self.query", "layers.{i}.attention.query"),
    ("bert.encoder.layer.{i}.attention.self.key", "layers.{i}.attention.key"),
    ("bert.encoder.layer.{i}.attention.self.value", "layers.{i}.attention.value"),
    ("bert.encoder.layer.{i}.attention.output.dense", "layers.{i}.attention.output"),
    ("bert.encoder.layer.{i}.attention.output.LayerNorm", "layers.{i}.attention_norm"),
    ("bert.encoder.layer.{i}.intermediate.dense", "layers.{i}.feed_forward.expand"),
    ("bert.encoder.layer.{i}.output.dense", "layers.{i}.feed_forward.contract"),
    ("bert.encoder.layer.{i}.output.LayerNorm", "layers.{i}.feed_forward_norm"),
    ("bert.pooler.dense", "next_sentence.pooler"),
    ("cls.predictions.transform.dense", "masked_lm_head.transform"),
    ("cls.predictions.transform.LayerNorm", "masked_lm_head.norm"),
    ("cls.seq_relationship", "next_sentence.classifier"),
]
TENSORS: list[Row] = [
    ("bert.embeddings.word_embeddings.weight", "embed.token.weight"),
    ("bert.embeddings.position_embeddings.weight", "embed.position.weight"),
    ("bert.embeddings.token_type_embeddings.weight", "embed.segment.weight"),
    ("cls.predictions.bias", "masked_lm_head.bias"),
    *((f"{theirs}.{kind}", f"{ours}.{kind}") for theirs, ours in _MODULES for kind in ("weight", "bias")),
]
# Second names of one tensor: some files hold both, most only the first.
TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
HEADS = ("masked_lm_head.", "next_sentence.")  # what a file may lack: encoders alone are stored without them


def load_bert(folder: Path) -> tuple[BERTConfig, dict[str, Tensor], Ledger]:
    """Configuration, weights under our names in fp32, and what became of every tensor.

    The ledger counts tensors: ``loaded``; ``renamed`` (gamma and beta of old files); ``ignored``, such as the head of
    some task; ``random``, pretraining heads that the file lacks and the returned weights too.  Raises InputError for
    an encoder that is incomplete, not BERT's, or not made of plain tensors.
    """
    config = _config(folder)
    ledger = Ledger()
    theirs = _modern(read_weights(folder), ledger)
    with torch.device("meta"):
        expected = {name: tensor.shape for name, tensor in BERT(config).state_dict().items()}
    state: dict[str, Tensor] = {}
    for name, ours in rename(theirs, TENSORS).items():
        if ours not in expected:
            ledger.add("ignored", _why_ignored(name, theirs))
        elif theirs[name].shape != expected[ours]:
            shapes = f"{tuple(theirs[name].shape)}, the configuration says {tuple(expected[ours])}"
            raise InputError(f"{name} has shape {shapes}", where=str(folder))
        else:
            state[ours] = theirs[name].float().contiguous()
            ledger.add("loaded", "tensors")
    for name in sorted(expected.keys() - state.keys()):
        if not name.startswith(HEADS):
            missing = rename([name], inverse(TENSORS))[name]
            raise InputError(f"the encoder is incomplete: {missing} is absent", where=str(folder))
        ledger.add("random", name)
    return config, state, ledger


def save_bert(folder: Path, config: BERTConfig, state: dict[str, Tensor]) -> None:
    """Write ``config.json`` and ``model.safetensors`` as transformers' BertForPreTraining does.

    The output matrix is stored once, as the word embedding; the header names its alias.
    """
    folder.mkdir(parents=True, exist_ok=True)
    theirs = {name: getattr(config, ours) for name, ours in CONFIG}
    fixed = {"model_type": "bert", "architectures": ["BertForPreTraining"], "tie_word_embeddings": True}
    data = {**fixed, **theirs, **ONLY, "attention_probs_dropout_prob": config.dropout}
    names = rename(state, inverse(TENSORS))
    unknown = [name for name, target in names.items() if target is None]
    if unknown:
        raise ValueError(f"not tensors of BERT: {unknown}")
    tensors = {target: state[name].detach().contiguous() for name, target in names.items() if target}
    with atomic(folder / "model.safetensors") as part:
        save_file(tensors, part, {"format": "pt", **TIED})
    write_atomic(folder / "config.json", json.dumps(data, indent=2) + "\n")


def _config(folder: Path) -> BERTConfig:
    path = folder / "config.json"
    try:
        data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"no configuration to read: {error}", where=str(path)) from error
    for name, value in ONLY.items():
        if data.get(name, value) != value:
            raise InputError(f"{name} {data[name]!r} is not supported", where=str(path), do=f"Readable: {value!r}.")
    optional = {"type_vocab_size", "hidden_dropout_prob", "layer_norm_eps"}  # absent from some early files
    absent = [name for name, _ in CONFIG if name not in data and name not in optional]
    if absent:
        raise InputError(f"{', '.join(absent)} is absent", where=str(path))
    return BERTConfig(**{ours: data[name] for name, ours in CONFIG if name in data})


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a folder, from one file or from the parts that an index names.  Nothing is unpickled but tensors."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).is_file():
            return _read(folder / name)
        index = folder / f"{name}.index.json"
        if index.is_file():
            parts = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
            return {key: tensor for part in parts for key, tensor in _read(folder / part).items()}
    raise InputError("no weights here", where=str(folder), do="Expected model.safetensors or pytorch_model.bin.")


def _read(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError) as error:
        raise InputError(f"cannot read weights: {error}", where=str(path)) from error
    except Exception as error:  # whatever a hostile or broken pickle raises
        raise InputError(
            "refused: not a file of plain tensors",
            where=str(path),
            do="Convert it to model.safetensors where it is trusted.",
        ) from error
    return {name: tensor for name, tensor in loaded.items() if isinstance(tensor, Tensor)}


def _modern(state: dict[str, Tensor], ledger: Ledger) -> dict[str, Tensor]:
    """The names of today: ``bert.`` before the encoder's, weight and bias for a LayerNorm's gamma and beta."""
    prefix = "" if any(name.startswith("bert.") for name in state) else "bert."
    modern: dict[str, Tensor] = {}
    for name, tensor in state.items():
        new = name if name.startswith("cls.") else prefix + name
        new = re.sub(r"\bLayerNorm\.gamma$", "LayerNorm.weight", new)
        new = re.sub(r"\bLayerNorm\.beta$", "LayerNorm.bias", new)
        if new.rpartition(".")[2] != name.rpartition(".")[2]:
            ledger.add("renamed", "LayerNorm gamma and beta", place=name)
        modern[new] = tensor
    return modern


def _why_ignored(name: str, state: dict[str, Tensor]) -> str:
    if name.endswith(".position_ids"):
        return f"{name}: counts 0, 1, 2, ... and teaches nothing"
    original = state.get(TIED.get(name, ""))
    if original is None:
        return f"{name}: no part of BERT or of its pretraining heads"
    same = original.shape == state[name].shape and bool(torch.equal(original, state[name]))
    return f"{name}: the same as {TIED[name]}" if same else f"{name}: differs from {TIED[name]}, which is used"
