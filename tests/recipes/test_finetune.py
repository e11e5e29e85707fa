"""Fine-tuning end to end on toy files: learns, resumes to the byte, scores, predicts, counts, refuses."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import polysemy.recipes.finetune as recipe
from polysemy.core.errors import InputError, Interrupted
from polysemy.recipes.evaluate import evaluate
from polysemy.recipes.finetune import FinetuneConfig, FinetuneResult, finetune, settings_of
from polysemy.recipes.load import load
from polysemy.recipes.predict import ClassPrediction, TagPrediction, predict_lines

NAMES, PLACES, VERBS = ["Ada", "Obi", "Nneka", "Emeka"], ["Enugu", "Owerri", "New Haven"], ["visits", "leaves", "likes"]
WRITTEN = ("model.safetensors", "head.safetensors", "task.json", "tokenizer.json", "config.json", "ledger.json",
           "predictions/dev.txt", "predictions/test.txt")  # fmt: skip


def sentence(rng: random.Random) -> list[tuple[str, str]]:
    place = rng.choice(PLACES).split()
    return [(rng.choice(NAMES), "B-PER"), (rng.choice(VERBS), "O"),
            *((w, "I-LOC" if i else "B-LOC") for i, w in enumerate(place)), ("now", "O"), (".", "O")]  # fmt: skip


def conll(path: Path, count: int, seed: int) -> Path:
    rng = random.Random(seed)
    rows = ["".join(f"{word} {tag}\n" for word, tag in sentence(rng)) for _ in range(count)]
    path.write_text("\n".join(rows) + "\n", "utf-8")
    return path


def table(path: Path, count: int, seed: int) -> Path:
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        kind = ("warm", "cold")[i % 2]
        word = {"warm": ["sun", "beach", "heat"], "cold": ["snow", "ice", "frost"]}[kind]
        rows.append(f"{kind}\tthere was {rng.choice(word)} and {rng.choice(word)} today\n")
    path.write_text("label\ttext\n" + "".join(rows), "utf-8")
    return path


def tagger(folder: Path, **fields: Any) -> FinetuneConfig:
    given = {
        "model": "word2vec:16", "task": "tagging", "train": str(conll(folder / "train.txt", 48, 0)),
        "dev": str(conll(folder / "dev.txt", 12, 1)), "test": str(conll(folder / "test.txt", 12, 2)), "epochs": 8,
        "batch_size": 8, "head": {"hidden_size": 16}, "loop": {"lr": 0.02}, **fields,
    }  # fmt: skip
    return settings_of(None, given, [])


def classifier(folder: Path, **fields: Any) -> FinetuneConfig:
    given = {
        "model": "word2vec:16", "task": "classification", "train": str(table(folder / "train.tsv", 40, 0)),
        "test": str(table(folder / "test.tsv", 20, 1)), "epochs": 8, "batch_size": 8, "head": {"hidden_size": 8},
        "loop": {"lr": 0.02}, **fields,
    }  # fmt: skip
    return settings_of(None, given, [])


BERT = {"model": "bert:tiny", "head": {}, "loop": {"lr": 3e-3}, "system_lr": 1e-3, "epochs": 12}


def files(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in WRITTEN if (run / name).exists()}


@pytest.fixture(scope="module")
def ner(tmp_path_factory: pytest.TempPathFactory) -> FinetuneResult:
    folder = tmp_path_factory.mktemp("ner")
    return finetune(tagger(folder), folder / "run")


def test_a_tagger_learns_and_says_what_it_cost(ner: FinetuneResult) -> None:
    assert ner.data["scores"]["test"]["f1"] > 0.9
    assert ner.data["metric"] == "f1"
    assert ner.data["mode"] == "finetune"
    assert "strict" in ner.data["scoring"]
    assert {"parameters", "disk_mb", "finetune_seconds", "peak_memory_mb"} <= set(ner.data["cost"])
    for name in ("recipe.yaml", "environment.json", "metrics.jsonl", "results.json", "card.md", *WRITTEN):
        assert (ner.path / name).stat().st_size > 0, name
    assert not (ner.path / "checkpoints").exists()
    rows = [line.split("\t") for line in (ner.path / "predictions/test.txt").read_text().splitlines() if line]
    assert {len(row) for row in rows} == {3}
    assert rows[0][1] == "B-PER"


def test_the_same_command_again_returns_the_same_result(ner: FinetuneResult) -> None:
    assert finetune(settings_of(ner.path / "recipe.yaml", {}, []), ner.path).data == ner.data
    with pytest.raises(InputError, match="epochs: 8 there, 9 now"):
        finetune(settings_of(ner.path / "recipe.yaml", {}, ["epochs=9"]), ner.path)


def test_a_run_is_a_model_too(ner: FinetuneResult) -> None:
    assert load(ner.path).name == "word2vec"


def test_evaluation_gives_the_score_of_the_run(ner: FinetuneResult) -> None:
    score = evaluate(ner.path, ner.path.parent / "test.txt")
    assert score.scores == ner.data["scores"]["test"]
    other = ner.path.parent / "absent.txt"
    other.write_text("Ada B-PER\nmakes O\ntea B-DRINK\n", "utf-8")
    absent = evaluate(ner.path, other)
    assert absent.ledger.count("unknown", "labels absent from train") == 1
    assert absent.scores["recall"] == 0.5
    assert any("labels absent from train" in line for line in absent.lines())


def test_every_line_has_one_prediction_and_every_word_one_label(ner: FinetuneResult) -> None:
    lines = ["Ada visits New Haven now .", "", "   ", "Obi leaves Owerri now .", "unseen words everywhere"]
    found = list(predict_lines(ner.path, iter(lines)))
    assert [p.text for p in found] == lines
    first = found[0]
    assert isinstance(first, TagPrediction)
    assert len(first.words) == len(first.labels) == 6
    assert first.lines() == ["Ada/B-PER visits/O New/B-LOC Haven/I-LOC now/O ./O"]
    assert first.spans[1] == {"start": 11, "end": 20, "type": "LOC", "text": "New Haven"}
    assert found[1].lines() == found[2].lines() == [""]
    file = ner.path.parent / "lines.txt"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    assert [p.to_json() for p in predict_lines(ner.path, file)] == [p.to_json() for p in found]


@pytest.mark.parametrize("fields", [{"mode": "features"}, {}, BERT], ids=["features", "tuned vectors", "bert"])
def test_an_interrupted_run_ends_in_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    config = tagger(tmp_path, **{**fields, "epochs": 3})
    finetune(config, tmp_path / "whole")

    class Stops(recipe.GradientUpdate):
        def step(self, batch: Any, step: int) -> Any:
            if step == 10:
                raise Interrupted("now")
            return super().step(batch, step)

    monkeypatch.setattr(recipe, "GradientUpdate", Stops)
    with pytest.raises(Interrupted):
        finetune(settings_with(config, checkpoint_seconds=0.0), tmp_path / "cut")
    monkeypatch.undo()
    assert list((tmp_path / "cut" / "checkpoints").glob("step-*10.safetensors"))
    finetune(settings_with(config, checkpoint_seconds=0.0), tmp_path / "cut")
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    assert len(files(tmp_path / "cut")) == len(WRITTEN)


def settings_with(config: FinetuneConfig, **loop: Any) -> FinetuneConfig:
    from dataclasses import replace

    return replace(config, loop={**config.loop, **loop})


def test_bert_is_trained_whole_with_a_smaller_rate_below(tmp_path: Path) -> None:
    result = finetune(tagger(tmp_path, **BERT), tmp_path / "run")
    assert result.data["mode"] == "finetune"
    assert result.data["scores"]["test"]["f1"] > 0.8
    assert "linear head" in result.data["how"]


def test_long_sentences_go_through_in_windows_and_are_counted(tmp_path: Path) -> None:
    config = tagger(tmp_path, **{**BERT, "epochs": 1})
    words = [word for i in range(120) for word, _ in sentence(random.Random(i))]
    (tmp_path / "test.txt").write_text("".join(f"{word} O\n" for word in words), "utf-8")
    result = finetune(config, tmp_path / "run")
    assert result.ledger.count("kept", "texts longer than 126 pieces, read in windows") == 1
    rows = (tmp_path / "run/predictions/test.txt").read_text("utf-8").splitlines()
    assert [row.split("\t")[0] for row in rows] == words
    (prediction,) = predict_lines(tmp_path / "run", [" ".join(words)])
    assert isinstance(prediction, TagPrediction)
    assert prediction.labels == [row.split("\t")[2] for row in rows]


def test_a_classifier_learns_with_a_stated_part_held_out(tmp_path: Path) -> None:
    result = finetune(classifier(tmp_path), tmp_path / "run")
    assert result.data["scores"]["test"]["accuracy"] == 1.0
    assert result.data["examples"] == {"train": 36, "dev": 4, "test": 20}
    assert "4 of 40 examples of train held out" in result.data["notes"][0]
    rows = [json.loads(line) for line in (tmp_path / "run/predictions/test.jsonl").read_text().splitlines()]
    assert rows[0] == {"line": 2, "gold": "warm", "predicted": "warm"}
    assert len(rows) == 20
    found = list(predict_lines(tmp_path / "run", ["snow and ice", "", "sun at the beach"]))
    assert [p.lines() for p in found] == [["cold"], [""], ["warm"]]
    assert isinstance(found[0], ClassPrediction)
    assert found[0].probability is not None
    assert found[0].probability > 0.5
    assert found[1].to_json() == {"text": "", "label": None, "probability": None}


def test_a_long_text_is_classified_from_all_its_windows(tmp_path: Path) -> None:
    config = classifier(tmp_path, **{**BERT, "epochs": 10})
    long = "there was " * 70 + "snow and ice and frost " * 60  # the first window says nothing
    with (tmp_path / "test.tsv").open("a") as file:
        file.write(f"cold\t{long}\n")
    result = finetune(config, tmp_path / "run")
    assert result.ledger.count("kept", "texts longer than 126 pieces, read in windows") == 1
    last = (tmp_path / "run/predictions/test.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["predicted"] == "cold"


def test_states_that_do_not_fit_are_computed_anew_with_the_same_outcome(tmp_path: Path) -> None:
    fields = {"epochs": 2, "model": "word2vec:16"}
    kept = finetune(tagger(tmp_path, **fields), tmp_path / "kept")
    anew = finetune(tagger(tmp_path, **fields, cache_mb=0.0), tmp_path / "anew")
    assert anew.data["scores"] == kept.data["scores"]
    assert (tmp_path / "anew/head.safetensors").read_bytes() == (tmp_path / "kept/head.safetensors").read_bytes()


def test_no_text_is_written_where_none_may_be(tmp_path: Path) -> None:
    finetune(tagger(tmp_path, keep_text=False, epochs=1), tmp_path / "run")
    assert "Ada" not in (tmp_path / "run/predictions/test.txt").read_text("utf-8")


def test_training_on_the_first_items_and_on_untrained_weights(tmp_path: Path, ner: FinetuneResult) -> None:
    result = finetune(tagger(tmp_path, items=5, epochs=1), tmp_path / "few")
    assert result.data["examples"]["train"] == 5
    config = tagger(tmp_path, model=str(ner.path), untrained=True, epochs=1)
    assert finetune(config, tmp_path / "untrained").ledger.count("random") > 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": "no-such-model"}, "no such model"),
        ({"model": "bert:tinny"}, "Did you mean 'tiny'"),
        ({"task": "taging"}, "Did you mean 'tagging'"),
        ({"train": "absent.txt"}, "absent.txt"),
        ({"budget": "0s"}, "not above zero"),
        ({"head": {"hiden_size": 3}}, "Did you mean 'hidden_size'"),
        ({"loop": {"learning_rate": 3}}, "unknown setting 'learning_rate'"),
        ({"model": "bert:tiny", "head": {"characters": True}}, "character CNN"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_left(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        finetune(tagger(tmp_path, **fields), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_data_that_changed_under_a_run_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tagger(tmp_path, epochs=1)
    monkeypatch.setattr(recipe, "train", interrupted)
    with pytest.raises(Interrupted):
        finetune(config, tmp_path / "run")
    conll(tmp_path / "train.txt", 40, 9)
    with pytest.raises(InputError, match="train.txt: the file has changed since the run began"):
        finetune(config, tmp_path / "run")


def interrupted(*_: Any, **__: Any) -> None:
    raise Interrupted("now")


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no fine-tuned run here"):
        evaluate(tmp_path, tmp_path)
