"""Equal runs: however a batch is cut, whoever makes it, whenever the run was killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from polysemy.core.errors import Interrupted
from polysemy.core.run import Run
from polysemy.train.checkpoint import read_tensors, write_tensors
from polysemy.train.loop import GradientUpdate, train
from tests.invariants.toys import Lines, Masked, distance, same, settings, toy, trained

ROOT = Path(__file__).parents[2]


class KilledError(Exception):
    pass


class Killing(Lines):
    """Dies when the batch of step ``at`` is asked for."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def batch(self, step):
        if step == self.at:
            raise KilledError
        return super().batch(step)


def metrics(path):
    """Lines without what depends on the clock."""
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in ("seconds", "words_per_second")} for row in rows]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("parts", [2, 3, 8, 20])
def test_accumulation_changes_nothing(tmp_path, parts, sparse):
    whole, one = trained(tmp_path / "a", dropout=0.0, sparse=sparse)
    cut, other = trained(tmp_path / "b", dropout=0.0, accumulate=parts, sparse=sparse)
    assert distance(whole, cut) < 1e-6
    assert one.loss == pytest.approx(other.loss, abs=1e-6)


def test_training_learns_and_dropout_and_order_follow_the_seed(tmp_path):
    start = toy().state_dict()
    first, result = trained(tmp_path / "a", steps=60)
    again, _ = trained(tmp_path / "b", steps=60)
    other, _ = trained(tmp_path / "c", steps=60, seed=1)
    curve = [row["loss"] for row in metrics(tmp_path / "a")]
    assert curve[-1] < curve[0] - 0.3
    assert result.loss == curve[-1]
    assert same(first, again)
    assert not same(first, other)
    assert not any(torch.equal(start[name], first[name]) for name in start)


def test_prefetching_changes_nothing(tmp_path):
    assert same(trained(tmp_path / "a")[0], trained(tmp_path / "b", prefetch=False)[0])


def test_evaluation_changes_nothing(tmp_path):
    def evaluate():
        torch.rand(100)
        return {"loss": 1.0}

    with_evaluation, result = trained(tmp_path / "a", evaluate=evaluate, evaluate_every=2)
    assert same(trained(tmp_path / "b")[0], with_evaluation)
    assert [row["step"] for row in result.curve] == [2, 4, 6, 8, 10, 12]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["checkpoint each step", "no checkpoint between"])
def test_a_run_killed_after_any_step_ends_in_the_same_bytes(tmp_path, seconds, sparse):
    options = {"checkpoint_seconds": seconds, "sparse": sparse}
    whole, result = trained(tmp_path / "whole", **options)
    for at in range(1, 12, 1 if seconds == 0 and not sparse else 4):
        path = tmp_path / str(at)
        with pytest.raises(KilledError):
            trained(path, loader=Killing(at), **options)
        resumed, again = trained(path, **options)
        assert same(whole, resumed)
        assert metrics(path) == metrics(tmp_path / "whole")
        assert (again.words, again.loss) == (result.words, result.loss)
        name = f"checkpoints/step-{12:09d}.safetensors"
        (tensors, header), (others, same_header) = (read_tensors(p / name) for p in (tmp_path / "whole", path))
        assert same(tensors, others)
        assert header["step"] == same_header["step"] == 12


def test_a_finished_run_takes_no_step_more(tmp_path):
    whole, _ = trained(tmp_path)
    again, result = trained(tmp_path, loader=Killing(0))
    assert same(whole, again)
    assert result.steps == 12


def test_the_best_weights_survive_a_kill(tmp_path):
    scores = [0.1, 0.5, 0.3, 0.2, 0.4]

    def run(path, loader=None, done=0):
        left = iter(scores[done:])
        return trained(
            path, loader=loader, evaluate=lambda: {"f1": next(left)}, evaluate_every=2, keep_best="f1", patience=3,
            checkpoint_seconds=0.0,
        )  # fmt: skip

    best, result = run(tmp_path / "a")
    assert result.best["step"] == 4
    assert result.steps == 10
    with pytest.raises(KilledError):
        run(tmp_path / "b", Killing(7))
    resumed, again = run(tmp_path / "b", done=3)
    assert same(best, resumed)
    assert again.best["step"] == 4
    assert again.steps == 10
    four, _ = trained(tmp_path / "c", loader=Killing(12))
    assert not same(best, four)
    assert len(list((tmp_path / "b" / "checkpoints").iterdir())) == 3  # two to resume, one best


def test_bf16_trains_and_keeps_fp32_weights(tmp_path):
    weights, result = trained(tmp_path / "a", steps=40, precision="bf16")
    exact, reference = trained(tmp_path / "b", steps=40)
    assert {t.dtype for t in weights.values()} == {torch.float32}
    assert result.loss == pytest.approx(reference.loss, abs=0.1)
    assert not same(weights, exact)
    assert same(weights, trained(tmp_path / "c", steps=40, precision="bf16")[0])


def test_fp16_scales_its_loss_and_resumes(tmp_path):
    weights, result = trained(tmp_path / "a", steps=20, precision="fp16")
    _, reference = trained(tmp_path / "b", steps=20)
    assert result.loss == pytest.approx(reference.loss, abs=0.2)
    with pytest.raises(KilledError):
        trained(tmp_path / "c", steps=20, precision="fp16", checkpoint_seconds=0.0, loader=Killing(9))
    assert same(weights, trained(tmp_path / "c", steps=20, precision="fp16", checkpoint_seconds=0.0)[0])


SCRIPT = """
import sys, time
from pathlib import Path
import torch
from polysemy.core.run import Run
from polysemy.train.checkpoint import write_tensors
from polysemy.train.loop import GradientUpdate, train
from polysemy.train.parallel import start_group
from tests.invariants.toys import Lines, Masked, settings, toy

torch.set_num_threads(1)
path, dropout, pause, accumulate = Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
group = start_group()


class Slow(Lines):
    def batch(self, step):
        time.sleep(pause)
        return super().batch(step)


model, s = toy(dropout), settings(steps=30, checkpoint_seconds=0.0, accumulate=accumulate)
if group.rank:
    group.barrier()
run = Run.open(path, {"seed": 0}, writer=group.rank == 0)
if not group.rank:
    group.barrier()
with run:
    train(GradientUpdate(model, Masked(), s), Slow(), s, run)
    if run.writer:
        write_tensors(path / "model.safetensors", model.state_dict(), {})
print("trained", flush=True)
"""


def script(path, *, dropout=0.1, pause=0.0, accumulate=1, launcher=()):
    command = [sys.executable, *launcher, "-c", SCRIPT]
    if launcher:
        file = path.parent / "script.py"
        file.write_text(SCRIPT)
        command = [sys.executable, *launcher, str(file)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [*command, str(path), str(dropout), str(pause), str(accumulate)],
        env=environment, cwd=path.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process):
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0 and "trained" in out, err
    return out


def undisturbed(path, *, dropout=0.1):
    """The run of SCRIPT in this process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model, s = toy(dropout), settings(steps=30, checkpoint_seconds=0.0)
    with Run.open(path, {"seed": 0}) as run:
        train(GradientUpdate(model, Masked(), s), Lines(), s, run)
    torch.set_num_threads(threads)
    write_tensors(path / "model.safetensors", model.state_dict(), {})


def wait_for(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None and time.monotonic() < end, process.stderr.read()
        time.sleep(0.01)


def kill_after(path, step, number, **options):
    """Start, wait for the checkpoint of ``step``, send the signal; what it then says on standard error."""
    process = script(path, **options)

    def newest():
        return max((int(p.stem[5:]) for p in path.glob("checkpoints/step-*.safetensors")), default=-1)

    wait_for(lambda: newest() >= step, process)
    process.send_signal(number)
    return process.communicate(timeout=60)[1]


def test_sigkill_and_sigint_resume_to_the_same_bytes(tmp_path):
    undisturbed(tmp_path / "whole")
    assert not kill_after(tmp_path / "cut", 4, signal.SIGKILL, pause=0.1)
    assert "Interrupted: stopped after step" in kill_after(tmp_path / "cut", 12, signal.SIGINT, pause=0.1)
    finish(script(tmp_path / "cut"))
    whole, cut = (tmp_path / name / "model.safetensors" for name in ("whole", "cut"))
    assert whole.read_bytes() == cut.read_bytes()
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "cut")


@pytest.mark.slow
def test_ten_random_sigkills_resume_to_the_same_bytes(tmp_path):
    undisturbed(tmp_path / "whole")
    path, draw = tmp_path / "cut", random.Random(0)
    for _ in range(10):
        process = script(path, pause=0.1)
        wait_for(path.exists, process)
        time.sleep(draw.uniform(0.0, 2.0))
        process.kill()
        process.wait(timeout=60)
    finish(script(path))
    assert (path / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert metrics(path) == metrics(tmp_path / "whole")


def test_two_gloo_processes_give_the_trajectory_of_one(tmp_path):
    pytest.importorskip("accelerate")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    finish(script(tmp_path / "two", dropout=0.0, accumulate=3, launcher=launcher))
    undisturbed(tmp_path / "one", dropout=0.0)
    one, two = (read_tensors(tmp_path / name / "model.safetensors")[0] for name in ("one", "two"))
    assert distance(one, two) < 1e-6
    for row, other in zip(metrics(tmp_path / "one"), metrics(tmp_path / "two"), strict=True):
        assert row == pytest.approx(other, abs=1e-6, rel=1e-6)


def test_interrupt_ends_the_step_saves_and_can_be_repeated(tmp_path):
    class Interrupting(Lines):
        sent = False

        def batch(self, step):
            if step == 5 and not self.sent:  # a second signal would end this process, as it should
                self.sent = True
                os.kill(os.getpid(), signal.SIGTERM)
            return super().batch(step)

    before = signal.getsignal(signal.SIGTERM)
    s = settings(prefetch=False)
    with Run.open(tmp_path / "cut", {"seed": 0}) as run, pytest.raises(Interrupted, match="after step 6 of 12"):
        train(GradientUpdate(toy(), Masked(), s), Interrupting(), s, run)
    assert signal.getsignal(signal.SIGTERM) is before
    assert same(trained(tmp_path / "cut", prefetch=False)[0], trained(tmp_path / "whole")[0])
