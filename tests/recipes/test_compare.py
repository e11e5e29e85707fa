"""A comparison end to end: plan, trials, report; kills repeat nothing that was finished; dishonest input is refused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from polysemy.compare.gather import cut_short, still_falling
from polysemy.compare.plan import UNTRAINED, CompareConfig, trials
from polysemy.compare.run import check, compare, plan, settle_parts
from polysemy.core.errors import InputError
from polysemy.recipes.prepare import TextConfig
from tests.texts import write_conll, write_corpus, write_table


@pytest.fixture
def config(tmp_path: Path) -> CompareConfig:
    text = TextConfig(corpus=(str(write_corpus(tmp_path / "corpus.txt", 700)),), min_count=1)
    return CompareConfig(
        text, "tagging", str(write_conll(tmp_path / "train.conll", 0, 120)), ("word2vec:16",),
        dev=str(write_conll(tmp_path / "dev.conll", 120, 160)), test=str(write_conll(tmp_path / "test.conll", 160, 220)),
        budget="5ktok", finetune_budget="20s", seeds=1, one_head=False, task_settings={"epochs": 2, "head": {"hidden_size": 8}},
    )  # fmt: skip


def test_from_files_to_verdict_and_report(config: CompareConfig, tmp_path: Path) -> None:
    done = compare(config, tmp_path / "out")
    results = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert {row["system"] for row in results["systems"]} == {"majority", "context", "none", "word2vec:16"}
    assert results["recommended"] in results["tied_with_best"]
    assert results["overlap"]["held_out"] <= 100
    assert results["overlap"]["found"] == results["overlap"]["held_out"]  # all of them stand in the corpus
    row = next(row for row in results["systems"] if row["system"] == "word2vec:16")
    assert row["test"]["interval"][0] <= row["test"]["mean"] <= row["test"]["interval"][1]
    cost = row["cost"]
    assert all(cost[name] > 0 for name in ("parameters", "disk_mb", "pretrain_seconds", "latency_ms", "peak_memory_mb"))
    page = done.report.read_text("utf-8")
    assert results["verdict"]["en"]["sentence"].split(":")[0] in page
    assert "https://" not in page.split("</head>")[0].replace("https://plotly", "")
    again = compare(config, tmp_path / "out")
    assert again.results["created"] == results["created"]


def test_the_plan_names_every_trial_and_does_nothing(config: CompareConfig, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    estimate, planned = plan(replace(config, systems=("word2vec", "elmo", "bert"), seeds=2, budget="5m"))
    assert sorted(tmp_path.iterdir()) == before
    assert estimate.trials == len(planned) and estimate.seconds > 6 * 300 and estimate.disk_mb > 1
    rows = {trial.row for trial in planned if trial.kind == "finetune"}
    assert rows == {"none", "word2vec", "elmo", "bert", "elmo" + UNTRAINED, "bert" + UNTRAINED}
    assert len({trial.folder for trial in planned}) == len(planned)


def test_shared_pretraining_is_done_once(config: CompareConfig) -> None:
    shared = replace(config, systems=("bert",), seeds=3, share_pretraining=True)
    assert sum(trial.kind == "pretrain" for trial in trials(shared)) == 1
    assert sum(trial.kind == "pretrain" for trial in trials(replace(shared, share_pretraining=False))) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": "train.conll"}, "train and test are the same text"),
        ({"dev": "test.conll"}, "dev and test are the same text"),
        ({"train": "gone.conll"}, "no such file"),
        ({"systems": ("brt",)}, "Did you mean 'bert'"),
        ({"systems": ("nowhere/model",)}, "nowhere"),
        ({"budget": "0m"}, "not above zero"),
        ({"finetune_budget": "5Mtok"}, "must be a time"),
        ({"task": "tagging-names"}, "unknown task"),
    ],
)
def test_what_cannot_be_honest_is_refused(
    changes: dict[str, object], message: str, config: CompareConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        compare(replace(config, **changes), tmp_path / "out")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_the_same_text_under_another_name_is_refused(config: CompareConfig, tmp_path: Path) -> None:
    (tmp_path / "copy.conll").write_bytes(Path(config.train).read_bytes())
    with pytest.raises(InputError, match="same text"):
        check(replace(config, test=str(tmp_path / "copy.conll")))


@pytest.mark.parametrize("task", ["tagging", "classification"])
def test_without_dev_and_test_a_seeded_split_is_written_and_stated(
    task: str, config: CompareConfig, tmp_path: Path
) -> None:
    train = config.train if task == "tagging" else str(write_table(tmp_path / "train.tsv", 0, 120))
    bare = replace(config, task=task, train=train, dev=None, test=None)
    settled, notes = settle_parts(bare, tmp_path / "a")
    again, _ = settle_parts(bare, tmp_path / "b")
    for part in ("train", "dev", "test"):
        assert Path(getattr(settled, part)).read_bytes() == Path(getattr(again, part)).read_bytes()
        assert notes[part]
    assert set(settled.text.exclude) == {settled.dev, settled.test}


def test_a_loss_that_still_falls_and_a_budget_that_cut_are_seen() -> None:
    assert still_falling([(1.0, 9.0), (5.0, 6.0), (8.0, 5.0), (10.0, 4.5)])
    assert not still_falling([(1.0, 9.0), (5.0, 4.6), (8.0, 4.52), (10.0, 4.5)])
    result = {"steps": 50, "planned_steps": 50, "full_steps": 80, "best": {"step": 50}, "curve": [{"step": 50}]}
    assert cut_short(result)
    assert not cut_short({**result, "full_steps": 50})
    assert not cut_short({**result, "best": {"step": 25}})


@pytest.mark.slow
def test_ten_kills_change_no_score_and_repeat_no_finished_trial(config: CompareConfig, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "polysemy", "compare", "--corpus", config.text.corpus[0], "--task", "tagging",
               "--train", config.train, "--dev", str(config.dev), "--test", str(config.test), "--systems", "word2vec:16,bert",
               "--budget", "20ktok", "--finetune-budget", "60s", "--seeds", "2", "--set", "text.min_count=1",
               "--set", "task_settings.epochs=2", "--set", "pretrain_settings.bert.model.dim=16",
               "--set", "pretrain_settings.bert.batch.batch_size=8"]  # fmt: skip
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, capture_output=True)
    draw, written = random.Random(3), {}
    for _ in range(10):
        process = subprocess.Popen([*command, "--out", str(tmp_path / "cut")], stderr=subprocess.DEVNULL)
        try:
            process.wait(draw.uniform(6, 20))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for path in sorted((tmp_path / "cut").glob("*/*/trial.json")):
            assert written.setdefault(path, path.stat().st_mtime_ns) == path.stat().st_mtime_ns
        time.sleep(0.3)
    subprocess.run([*command, "--out", str(tmp_path / "cut")], check=True, capture_output=True)
    scores = [json.loads((tmp_path / name / "results.json").read_text("utf-8"))["systems"] for name in ("whole", "cut")]
    assert [(r["system"], r["test"]) for r in scores[0]] == [(r["system"], r["test"]) for r in scores[1]]
