"""Hugging Face folders of BERT: read in every form they come in, written so that transformers reads them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from polysemy.core.errors import InputError
from polysemy.interop.huggingface_bert import load_bert, save_bert
from polysemy.systems.bert import BERT, BERTConfig

GOLDEN = Path(__file__).parents[2] / "golden" / "fixtures" / "bert"


def weights() -> dict[str, Tensor]:
    return load_file(GOLDEN / "model.safetensors")


def folder_of(path: Path, tensors: dict[str, Tensor], **changes: Any) -> Path:
    """The golden folder with other tensors and some settings changed (None removes one)."""
    config = json.loads((GOLDEN / "config.json").read_text()) | changes
    (path / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    save_file(tensors, path / "model.safetensors")
    return path


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_everything_is_loaded_and_counted() -> None:
    config, state, ledger = load_bert(GOLDEN)
    assert config == BERTConfig(
        vocab_size=50,
        dim=24,
        num_layers=3,
        num_heads=4,
        ffn_dim=48,
        max_length=12,
        num_segments=2,
        dropout=0.1,
        eps=1e-12,
    )
    assert state.keys() == BERT(config).state_dict().keys()
    assert ledger.to_json() == {"loaded": {"tensors": {"count": len(weights()), "first": []}}}


def test_an_encoder_without_prefix_and_heads(tmp_path: Path) -> None:
    tensors = {name.removeprefix("bert."): t for name, t in weights().items() if name.startswith("bert.")}
    tensors = {name: t for name, t in tensors.items() if "pooler" not in name}
    tensors |= {"embeddings.position_ids": torch.arange(12)[None], "classifier.weight": torch.zeros(3, 24)}
    _, state, ledger = load_bert(folder_of(tmp_path, tensors))
    _, full, _ = load_bert(GOLDEN)
    heads = {name for name in full if name.startswith(("masked_lm_head", "next_sentence"))}
    assert same(state, {name: t for name, t in full.items() if name not in heads})
    assert {reason for kind, reason in ledger.entries if kind == "random"} == heads
    assert ledger.count("ignored") == 2
    assert ledger.count("loaded") == len(state)


def test_pytorch_model_bin_and_half_precision(tmp_path: Path) -> None:
    folder_of(tmp_path, weights())
    (tmp_path / "model.safetensors").unlink()
    torch.save({name: t.half() for name, t in weights().items()}, tmp_path / "pytorch_model.bin")
    _, state, _ = load_bert(tmp_path)
    _, full, _ = load_bert(GOLDEN)
    assert same(state, {name: t.half().float() for name, t in full.items()})


def test_weights_in_several_files(tmp_path: Path) -> None:
    folder_of(tmp_path, weights())
    (tmp_path / "model.safetensors").unlink()
    where = {name: f"part-{i % 2}.safetensors" for i, name in enumerate(weights())}
    for part in set(where.values()):
        save_file({name: t for name, t in weights().items() if where[name] == part}, tmp_path / part)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    assert same(load_bert(tmp_path)[1], load_bert(GOLDEN)[1])


def test_a_second_copy_of_the_output_matrix_is_recognised(tmp_path: Path) -> None:
    tied = weights() | {"cls.predictions.decoder.weight": weights()["bert.embeddings.word_embeddings.weight"].clone()}
    other = tied | {"cls.predictions.decoder.weight": torch.zeros(50, 24)}
    for tensors, words in ((tied, "the same as"), (other, "differs from")):
        _, state, ledger = load_bert(folder_of(tmp_path, tensors))
        assert same(state, load_bert(GOLDEN)[1])
        assert [words in reason for kind, reason in ledger.entries if kind == "ignored"] == [True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "gelu_new"}, "hidden_act 'gelu_new'.*'gelu'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"is_decoder": True}, "is_decoder"),
        ({"hidden_size": None}, "hidden_size is absent"),
        ({"vocab_size": 51}, r"word_embeddings.weight has shape \(50, 24\).*\(51, 24\)"),
        ({"num_hidden_layers": 4}, "incomplete: bert.encoder.layer.3.attention.key.bias is absent|incomplete.*layer.3"),
    ],
)
def test_what_would_give_other_states_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_bert(folder_of(tmp_path, weights(), **changes))


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.json"):
        load_bert(tmp_path)
    folder_of(tmp_path, weights())
    (tmp_path / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(InputError, match=r"model\.safetensors"):
        load_bert(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no weights"):
        load_bert(tmp_path)


def test_saved_it_is_read_back_and_by_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config, state, _ = load_bert(GOLDEN)
    save_bert(tmp_path / "new", config, state)
    assert load_bert(tmp_path / "new")[:2][0] == config
    assert same(load_bert(tmp_path / "new")[1], state)
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path / "new").eval()
    ours = BERT(config).eval()
    ours.load_state_dict(state)
    ids = torch.arange(12)[None]
    with torch.no_grad():
        out, last = theirs(ids), ours(ids).last
        torch.testing.assert_close(ours.masked_lm(last), out.prediction_logits, atol=1e-5, rtol=0)
        torch.testing.assert_close(ours.next_sentence(last[:, 0]), out.seq_relationship_logits, atol=1e-5, rtol=0)
    shutil.rmtree(tmp_path / "new")
    with pytest.raises(ValueError, match="extra"):
        save_bert(tmp_path / "new", config, state | {"extra.weight": torch.zeros(1)})
