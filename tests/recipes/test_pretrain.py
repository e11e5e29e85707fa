"""From raw text to a model: the same bytes twice, the same bytes after a kill, refusals that leave nothing behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polysemy.core.errors import InputError, Interrupted
from polysemy.recipes.load import load
from polysemy.recipes.prepare import TextConfig
from polysemy.recipes.pretrain import PretrainConfig, pretrain
from tests.texts import sentences, write_conll, write_corpus

SMALL = {
    "word2vec": {"model": {"dim": 16}, "batch": {"block_words": 300}},
    "elmo:tiny": {
        "model": {"hidden_size": 16, "proj_size": 8, "filters": [[1, 4], [2, 8]]},
        "batch": {"batch_words": 220},
    },
    "bert:tiny": {"model": {"dim": 16, "ffn_dim": 32, "max_length": 32}, "batch": {"batch_size": 8}},
}
FILES = ("model.safetensors", "tokenizer.json", "config.json")


def config(system: str, corpus: Path, **changes: object) -> PretrainConfig:
    text = TextConfig(corpus=(str(corpus),), min_count=1)
    return replace(PretrainConfig(system, text, budget="8ktok", **SMALL[system]), **changes)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.mark.parametrize("system", SMALL)
def test_twice_the_same_recipe_gives_the_same_bytes(system: str, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt")
    first = pretrain(config(system, corpus), tmp_path / "a")
    pretrain(config(system, corpus), tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert first.data["words"] >= 8000
    assert (tmp_path / "a" / "card.md").is_file()
    pretrain(config(system, corpus, seed=1), tmp_path / "c")
    assert contents(tmp_path / "a")["model.safetensors"] != contents(tmp_path / "c")["model.safetensors"]


@pytest.mark.parametrize("system", SMALL)
def test_vectors_do_not_depend_on_company_or_order(system: str, tmp_path: Path) -> None:
    """Alone, among 32, in another order: 1e-5; the exact mode: bit-equal."""
    corpus = write_corpus(tmp_path / "corpus.txt")
    pretrain(config(system, corpus, budget="1ktok"), tmp_path / "run")
    model = load(tmp_path / "run")
    lines = [*corpus.read_text("utf-8").splitlines()[:32], "", "Ada", " ".join(["Aba"] * 60)]
    together = model.embed(lines)
    order = list(range(len(lines)))
    random.Random(0).shuffle(order)
    shuffled = model.embed([lines[i] for i in order])
    for place, i in enumerate(order):
        np.testing.assert_allclose(shuffled[place].vectors, together[i].vectors, atol=1e-5)
        alone = model.embed([lines[i]])[0]
        np.testing.assert_allclose(alone.layers, together[i].layers, atol=1e-5)
        assert len(alone.words) == len(alone.vectors)
    exact = model.embed(lines, exact=True)
    again = model.embed(lines[::-1], exact=True)[::-1]
    assert all(np.array_equal(a.layers, b.layers) for a, b in zip(exact, again, strict=True))


def test_an_interrupted_run_resumes_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt")
    pretrain(config("bert:tiny", corpus), tmp_path / "whole")
    from polysemy.train import loop

    real, steps = loop._Training._look_around, [0]

    def stop_once(self: object) -> None:
        steps[0] += 1
        if steps[0] == 7:
            os.kill(os.getpid(), signal.SIGINT)
        real(self)  # type: ignore[arg-type]

    monkeypatch.setattr(loop._Training, "_look_around", stop_once)
    with pytest.raises(Interrupted):
        pretrain(config("bert:tiny", corpus), tmp_path / "cut")
    assert not (tmp_path / "cut" / "results.json").exists()
    pretrain(config("bert:tiny", corpus), tmp_path / "cut")
    assert contents(tmp_path / "whole") == contents(tmp_path / "cut")


def test_a_changed_setting_is_refused_with_the_difference(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt")
    pretrain(config("word2vec", corpus), tmp_path / "run")
    with pytest.raises(InputError, match=r"seed: 0 there, 5 now"):
        pretrain(config("word2vec", corpus, seed=5), tmp_path / "run")


def test_sentences_of_excluded_files_are_taken_out_and_counted(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt", 400)
    test = write_conll(tmp_path / "test.conll", 0, 50)
    text = TextConfig(corpus=(str(corpus),), min_count=1, exclude=(str(test),))
    result = pretrain(replace(config("word2vec", corpus), text=text), tmp_path / "run")
    assert result.data["overlap"]["found"] == 50
    held_out = [" ".join(word for word, _ in sentence) for sentence in sentences()[:50]]
    removed = sum(line in held_out for line in corpus.read_text("utf-8").splitlines())
    assert result.data["overlap"]["removed_lines"] == removed == result.ledger.count("dropped") >= 50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"system": "bret"}, "Did you mean 'bert'"),
        ({"system": "bert:tinny"}, "Did you mean 'tiny'"),
        ({"budget": "0m"}, "not above zero"),
        ({"budget": "-5m"}, "not above zero"),
        ({"budget": "soon"}, "cannot read the budget"),
        ({"train": {"lrr": 1.0}}, "lrr"),
        ({"model": {"dimm": 4}}, "dimm"),
        ({"batch": {"batch_size": 100_000}}, "smaller than one batch"),
        ({"start": "nowhere"}, "no such model"),
    ],
)
def test_wrong_input_is_one_message_and_leaves_nothing(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt")
    with pytest.raises(InputError, match=message):
        pretrain(replace(config("bert:tiny", corpus), **changes), tmp_path / "run")  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_text_that_the_vocabulary_does_not_know_is_refused(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"word{i} other{i} common\n" for i in range(300)), "utf-8")
    text = TextConfig(corpus=(str(corpus),), min_count=2)
    with pytest.raises(InputError, match="min_count"):
        pretrain(replace(config("word2vec", corpus), text=text), tmp_path / "run")


def test_going_on_from_a_model_keeps_its_vocabulary(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt")
    pretrain(config("bert:tiny", corpus), tmp_path / "first")
    pretrain(config("bert:tiny", corpus, start=str(tmp_path / "first"), model={}, seed=3), tmp_path / "second")
    first, second = contents(tmp_path / "first"), contents(tmp_path / "second")
    assert first["tokenizer.json"] == second["tokenizer.json"]
    assert first["model.safetensors"] != second["model.safetensors"]


@pytest.mark.slow
@pytest.mark.parametrize("system", SMALL)
def test_ten_kills_at_random_moments_change_nothing(system: str, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt")
    sets = [f"--set={part}.{k}={json.dumps(v)}" for part, fields in SMALL[system].items() for k, v in fields.items()]  # type: ignore[attr-defined]
    command = [sys.executable, "-m", "polysemy", "pretrain", system, "--corpus", str(corpus), "--budget", "300ktok",
               "--set=text.min_count=1", "--set=train.checkpoint_seconds=0.2", *sets]  # fmt: skip
    began = time.monotonic()
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, capture_output=True)
    seconds = time.monotonic() - began
    draw, kills = random.Random(7), 0
    for _ in range(60):
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path / "cut")], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        try:
            code = process.wait(draw.uniform(0.1, 0.9) * seconds if kills < 10 else None)
            assert code == 0
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    assert kills == 10
    assert contents(tmp_path / "whole") == contents(tmp_path / "cut")
