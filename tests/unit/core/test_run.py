"""A run directory: made once, resumed, refused, held by one process, and never left half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from polysemy.core.config import read_yaml
from polysemy.core.errors import Diverged, InputError
from polysemy.core.run import Run

RECIPE = {"system": "bert:tiny", "train": {"lr": 5e-4, "betas": (0.9, 0.98)}, "corpus": ("a.txt",), "seed": 3}


def test_a_new_run_writes_recipe_and_environment(tmp_path):
    with Run.open(tmp_path / "deep" / "run", RECIPE) as run:
        assert not run.finished
        assert not run.resumed
        assert read_yaml(run.path / "recipe.yaml") == {
            "system": "bert:tiny", "train": {"lr": 5e-4, "betas": [0.9, 0.98]}, "corpus": ["a.txt"], "seed": 3,
        }  # fmt: skip
        assert run.read_json("environment.json")["seed"] == 3
    assert sorted(p.name for p in run.path.iterdir()) == ["environment.json", "recipe.yaml"]


def test_the_same_recipe_resumes_and_a_changed_one_is_refused_with_the_difference(tmp_path):
    Run.open(tmp_path / "run", RECIPE).close()
    with Run.open(tmp_path / "run", RECIPE) as run:
        assert run.resumed
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    changed = {**RECIPE, "train": {"lr": 1e-3, "betas": (0.9, 0.98)}, "extra": None}
    with pytest.raises(InputError) as caught:
        Run.open(tmp_path / "run", changed)
    assert "train.lr: 0.0005 there, 0.001 now" in str(caught.value)
    assert "extra: absent there, null now" in str(caught.value)
    assert "seed" not in str(caught.value)
    assert before == {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    with pytest.raises(InputError, match="there is a run already"):
        Run.open(tmp_path / "run", RECIPE, resume=False)


def test_a_decision_is_made_once_written_and_taken_from_a_repeated_recipe(tmp_path):
    made = []

    def measure():
        made.append(1)
        return 123

    with Run.open(tmp_path / "run", RECIPE) as run:
        assert run.decide("steps", measure) == 123 == run.decide("steps", measure)
    with Run.open(tmp_path / "run", RECIPE) as run:
        assert run.decide("steps", measure) == 123
    with Run.open(tmp_path / "again", read_yaml(tmp_path / "run" / "recipe.yaml")) as run:
        assert run.decide("steps", measure) == 123
    assert made == [1]
    with pytest.raises(InputError, match="decided.steps: 123 there, 5 now"):
        Run.open(tmp_path / "run", {**RECIPE, "decided": {"steps": 5}})


def test_what_is_not_a_run_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "draft.txt").write_text("words")
    with pytest.raises(InputError, match=r"not a run \(it holds draft.txt\)"):
        Run.open(tmp_path / "thesis", RECIPE)
    assert [p.name for p in (tmp_path / "thesis").iterdir()] == ["draft.txt"]
    with pytest.raises(InputError, match="a file, not a directory"):
        Run.open(tmp_path / "thesis" / "draft.txt", RECIPE)
    with pytest.raises(InputError, match="cannot make"):
        Run.open(tmp_path / "thesis" / "draft.txt" / "run", RECIPE)


def test_an_unwritable_place_is_an_input_error():
    with pytest.raises(InputError, match="cannot"):
        Run.open("/proc/polysemy-run", RECIPE)


def test_an_unwritable_directory_is_an_input_error(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (tmp_path / "run").mkdir(mode=0o500)
    with pytest.raises(InputError, match="cannot write"):
        Run.open(tmp_path / "run", RECIPE)


HOLD = (
    "import sys, time; from polysemy.core.run import Run; run = Run.open(sys.argv[1], {'seed': 3}); "
    "print('held', flush=True); time.sleep(60)"
)


def test_two_processes_cannot_hold_a_run_and_a_killed_one_does_not(tmp_path):
    path = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    with pytest.raises(InputError, match=f"process {process.pid} is working"):
        Run.open(path, {"seed": 3})
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (path / ".lock").exists()
    with Run.open(path, {"seed": 3}) as run:
        assert run.resumed
        with pytest.raises(InputError, match=f"process {os.getpid()} is working"):
            Run.open(path, {"seed": 3})


def test_metrics_are_lines_and_are_cut_where_a_checkpoint_was(tmp_path):
    with Run.open(tmp_path / "run", RECIPE) as run:
        for step in (1, 2, 3):
            run.log({"step": step, "loss": 1.5 if step < 3 else float("nan")})
        run.log({"note": "ụ"})
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')  # a kill in the middle of a write
    with Run.open(tmp_path / "run", RECIPE) as run:
        run.cut_metrics(2)
        run.log({"step": 3, "loss": 2.5})
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"step": 1, "loss": 1.5}, {"step": 2, "loss": 1.5}, {"note": "ụ"}, {"step": 3, "loss": 2.5},
    ]  # fmt: skip


def test_json_has_no_nan(tmp_path):
    with Run.open(tmp_path / "run", RECIPE) as run:
        run.write_json("a.json", {"f1": float("nan"), "rows": [float("inf"), (1.5,)]})
        assert run.read_json("a.json") == {"f1": None, "rows": [None, [1.5]]}


def test_finishing_writes_results_and_takes_checkpoints_away(tmp_path):
    with Run.open(tmp_path / "run", RECIPE) as run:
        run.checkpoints.mkdir()
        run.finish({"f1": 0.5})
        assert run.finished
        assert not run.checkpoints.exists()
        assert run.read_json("results.json") == {"f1": 0.5}


@pytest.mark.parametrize("there_before", [False, True])
def test_bad_input_before_the_first_checkpoint_leaves_nothing(tmp_path, there_before):
    path = tmp_path / "run"
    if there_before:
        path.mkdir()
    with pytest.raises(InputError, match="empty corpus"), Run.open(path, RECIPE) as run:
        (path / "shards").mkdir()
        (path / "shards" / "ids.bin").write_bytes(b"1")
        run.log({"step": 1})
        raise InputError("empty corpus")
    assert path.exists() is there_before
    assert not there_before or not list(path.iterdir())


def test_what_a_checkpoint_or_a_crash_belongs_to_is_kept(tmp_path):
    with pytest.raises(Diverged), Run.open(tmp_path / "a", RECIPE) as run:
        run.checkpoints.mkdir()
        raise Diverged(3, 0.1, "there")
    with pytest.raises(ZeroDivisionError), Run.open(tmp_path / "b", RECIPE):
        raise ZeroDivisionError
    Run.open(tmp_path / "c", RECIPE).close()
    with pytest.raises(InputError), Run.open(tmp_path / "c", RECIPE):
        raise InputError("now the corpus is gone")
    assert all((tmp_path / name / "recipe.yaml").exists() for name in "abc")


def test_another_environment_is_noted(tmp_path):
    with Run.open(tmp_path / "run", RECIPE) as run:
        found = run.read_json("environment.json")
        run.write_json("environment.json", {**found, "python": "2.7"})
    for _ in range(2):
        Run.open(tmp_path / "run", RECIPE).close()
    noted = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert noted["python"] == "2.7"
    assert [e["python"] for e in noted["resumed"]] == [found["python"]]


def test_other_processes_of_a_parallel_run_write_nothing(tmp_path):
    with Run.open(tmp_path / "run", RECIPE) as first:
        first.decide("steps", lambda: 5)
        with Run.open(tmp_path / "run", RECIPE, writer=False) as second:
            assert second.decide("steps", lambda: 9) == 5
            second.log({"step": 1})
            second.write_json("a.json", {})
        assert not (tmp_path / "run" / "a.json").exists()
        assert not (tmp_path / "run" / "metrics.jsonl").exists()
