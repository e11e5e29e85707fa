"""A Hugging Face folder as MODEL: loaded with an account, fine-tuned into a run of ours, refused by name when broken."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from polysemy.core.errors import InputError
from polysemy.recipes.evaluate import evaluate
from polysemy.recipes.finetune import finetune, settings_of
from polysemy.recipes.load import load, save
from polysemy.recipes.neighbors import nearest_words
from polysemy.recipes.predict import TagPrediction, predict_lines
from tests.texts import PEOPLE, PLACES, TIMES, VERBS, write_conll

WORDS = [word.lower() for word in (*PEOPLE, *PLACES[:-1], *VERBS, *TIMES, "in")]  # "Jos" is read in pieces
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", *WORDS, ".", ",", "j", "##o", "##s"]
FINETUNE = {
    "task": "tagging",
    "mode": "finetune",
    "epochs": 12,
    "batch_size": 16,
    "loop": {"lr": 3e-3},
    "system_lr": 3e-3,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights, written by transformers."""
    transformers = pytest.importorskip("transformers")
    path = tmp_path_factory.mktemp("hub") / "bert"
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=32,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(path)
    (path / "vocab.txt").write_text("".join(piece + "\n" for piece in VOCABULARY), "utf-8")
    transformers.AutoTokenizer.from_pretrained(path, do_lower_case=True).save_pretrained(path)
    return path


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_loaded_with_an_account(folder: Path) -> None:
    model = load(folder)
    assert (model.name, model.tokenizer.kind, model.limit) == ("bert", "huggingface", 30)
    tensors = load_file(folder / "model.safetensors")
    assert model.ledger.count("loaded") == len(tensors)
    assert model.ledger.count("ignored") == 0
    random = [reason for kind, reason in model.ledger.entries if kind == "random"]
    assert "masked_lm_head.bias" in random
    assert all(r.startswith(("masked_lm_head.", "next_sentence.")) for r in random)


def test_tensors_of_old_files_are_renamed_and_of_other_heads_ignored(copy: Path) -> None:
    tensors = load_file(copy / "model.safetensors")
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): tensor for name, tensor in tensors.items()}
    save_file({**old, "classifier.weight": torch.zeros(2, 32)}, copy / "model.safetensors")
    model = load(copy)
    assert model.ledger.count("renamed") == 5
    assert model.ledger.count("loaded") == len(tensors)
    assert [reason for kind, reason in model.ledger.entries if kind == "ignored"] == [
        "bert.classifier.weight: no part of BERT or of its pretraining heads"
    ]


def test_saved_as_a_run_it_gives_the_same_vectors(folder: Path, tmp_path: Path) -> None:
    model = load(folder)
    save(tmp_path, model.name, model.system, model.tokenizer)
    texts = ["Ada lives in Jos .", ["Obi", "", "sings"], "", "in " * 40]
    for ours, theirs in zip(load(tmp_path).embed(texts), model.embed(texts), strict=True):
        assert ours.words == theirs.words
        assert np.array_equal(ours.layers, theirs.layers)


def test_finetuned_it_is_a_run_of_ours(folder: Path, tmp_path: Path) -> None:
    data = {part: write_conll(tmp_path / part, *span) for part, span in (("train", (0, 96)), ("dev", (96, 120)), ("test", (120, 160)))}  # fmt: skip
    given = {"model": str(folder), **FINETUNE, **{part: str(path) for part, path in data.items()}}
    run = tmp_path / "run"
    result = finetune(settings_of(None, given, []), run)
    assert result.data["scores"]["test"]["f1"] > 0.9
    assert {"loaded", "random"} <= {kind for kind, _ in result.ledger.entries}
    assert load(run).tokenizer.kind == "huggingface"
    assert json.loads((run / "tokenizer.json").read_text("utf-8"))["kind"] == "huggingface"
    assert evaluate(run, data["test"]).scores == result.data["scores"]["test"]
    shutil.move(folder, folder.with_name("away"))  # the run stands alone
    try:
        found = list(predict_lines(run, ["Ada lives in Jos now .", ""]))
    finally:
        shutil.move(folder.with_name("away"), folder)
    assert isinstance(found[0], TagPrediction)
    assert found[0].lines() == ["Ada/B-PER lives/O in/O Jos/B-LOC now/O ./O"]
    assert found[1].lines() == [""]
    assert found[0].spans[1] == {"start": 13, "end": 16, "type": "LOC", "text": "Jos"}


def test_its_size_without_its_weights(folder: Path, tmp_path: Path) -> None:
    train = write_conll(tmp_path / "train", 0, 20)
    given = {"model": str(folder), **FINETUNE, "epochs": 1, "train": str(train), "untrained": True}
    finetune(settings_of(None, given, []), tmp_path / "run")
    system = load(tmp_path / "run").system
    assert system.config == load(folder).system.config
    assert not torch.equal(system.embed.token.weight, load(folder).system.embed.token.weight)


def test_neighbours_are_words_and_not_symbols(folder: Path) -> None:
    found = [word for word, _ in nearest_words(str(folder), "lives", count=50)]
    assert "sings" in found
    assert not any("[" in word or "#" in word for word in found)


def edit(path: Path, **changes: Any) -> None:
    data = json.loads(path.read_text("utf-8")) | changes
    path.write_text(json.dumps({k: v for k, v in data.items() if v is not None}), "utf-8")


def enlarge(path: Path) -> None:
    (path / "tokenizer.json").unlink()
    with (path / "vocab.txt").open("a") as file:
        file.write("more\n")


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "another kind": (lambda p: edit(p / "config.json", model_type="t5"), r"config\.json: model_type 't5'.*Readable model types: bert"),
    "no kind": (lambda p: (p / "config.json").write_text("{}"), r"config\.json: neither a run .* Readable model types: bert"),
    "another activation": (lambda p: edit(p / "config.json", hidden_act="relu"), r"config\.json: hidden_act 'relu'"),
    "half a configuration": (lambda p: edit(p / "config.json", hidden_size=None), r"config\.json: hidden_size is absent"),
    "no JSON": (lambda p: (p / "config.json").write_text("{"), r"config\.json: not a JSON file"),
    "no weights": (lambda p: (p / "model.safetensors").unlink(), r"copy: no weights here"),
    "cut weights": (lambda p: (p / "model.safetensors").write_bytes(b"\x10"), r"model\.safetensors: cannot read"),
    "other weights": (lambda p: save_file({"a": torch.zeros(1)}, p / "model.safetensors"), r"copy: the encoder is incomplete: bert\."),
    "no tokenizer": (lambda p: [(p / n).unlink() for n in ("tokenizer.json", "vocab.txt")], r"tokenizer\.json or vocab\.txt"),
    "cut tokenizer": (lambda p: (p / "tokenizer.json").write_text("{"), r"tokenizer\.json: not a JSON file"),
    "a larger tokenizer": (enlarge, r"copy: the tokenizer has 33 symbols and the model vectors for 32"),
    "cut modules": (lambda p: (p / "modules.json").write_text("{}"), r"modules\.json: "),
    "no pooling": (
        lambda p: (p / "modules.json").write_text('[{"type": "a.Transformer"}, {"type": "a.Pooling", "path": "1_Pooling"}]'),
        r"1_Pooling/config\.json: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_refused_by_file(name: str, copy: Path) -> None:
    breaks, message = BROKEN[name]
    breaks(copy)
    with pytest.raises(InputError, match=message):
        load(copy)


POOLINGS = {
    "cls": lambda top: top[0],
    "max": lambda top: top.max(0),
    "mean": lambda top: top.mean(0),
    "mean_sqrt_len_tokens": lambda top: top.sum(0) / np.sqrt(len(top)),
}


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("mode", POOLINGS)
def test_sentences_under_each_pooling(mode: str, normalize: bool, copy: Path) -> None:
    modules = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    rows = [{"type": f"sentence_transformers.models.{m}", "path": "pool" if m == "Pooling" else ""} for m in modules]
    (copy / "modules.json").write_text(json.dumps(rows), "utf-8")
    (copy / "pool").mkdir()
    old = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens"}.get(mode, mode)
    (copy / "pool" / "config.json").write_text(json.dumps({f"pooling_mode_{old}": True}), "utf-8")
    model = load(copy)
    texts = ["Ada lives in Jos .", "Obi sings", ""]
    system = model.system
    for text, found in zip(texts, model.embed(texts), strict=True):
        ids = torch.tensor([[2, *model.tokenizer.encode(text).ids, 3]])
        with torch.inference_mode():
            expected = POOLINGS[mode](system(ids).last[0].numpy())
        np.testing.assert_allclose(
            found.sentence, expected / np.linalg.norm(expected) if normalize else expected, atol=1e-5
        )
    (copy / "pool" / "config.json").write_text(json.dumps({"pooling_mode": mode}), "utf-8")
    assert load(copy).pooling == model.pooling


@pytest.mark.parametrize(
    ("modules", "config", "settings"),
    [
        (["Transformer", "Pooling", "Dense"], {"pooling_mode": "mean"}, {}),
        (["Transformer", "Pooling"], {"pooling_mode": "weightedmean"}, {}),
        (["Transformer", "Pooling"], {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}, {}),
        (["Transformer", "Pooling"], {"pooling_mode": "mean"}, {"do_lower_case": True}),
    ],
)
def test_what_it_does_beyond_that_is_ignored_and_said(
    modules: list[str], config: dict[str, Any], settings: dict[str, Any], copy: Path
) -> None:
    (copy / "modules.json").write_text(json.dumps([{"type": f"a.{m}", "path": ""} for m in modules]), "utf-8")
    edit(copy / "config.json", **config)
    (copy / "sentence_bert_config.json").write_text(json.dumps(settings), "utf-8")
    model = load(copy)
    assert model.pooling is None
    assert ["mean of its words" in reason for kind, reason in model.ledger.entries if kind == "ignored"] == [True]
    one = model.embed(["Ada sings"])[0]
    np.testing.assert_allclose(one.sentence, one.vectors.mean(0), atol=1e-6)
