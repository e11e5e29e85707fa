"""What the loop logs, shows, keeps and refuses; equal trajectories are in tests/invariants."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from polysemy.core.errors import Diverged, InputError
from polysemy.core.run import Run
from polysemy.objectives.loss import Loss
from polysemy.train.calibrate import calibrate
from polysemy.train.checkpoint import all_finite, latest_checkpoint, read_tensors
from polysemy.train.loop import GradientUpdate, KernelUpdate, TrainSettings, train
from tests.invariants.toys import Lines, Masked, same, settings, toy, trained


class Telling:
    def __init__(self):
        self.lines, self.bar = [], []

    def say(self, message):
        self.lines.append(message)

    def start(self, title, total, unit):
        self.bar.append((title, total, unit))

    def advance(self, done, figures=""):
        self.bar.append((done, figures))

    def stop(self):
        self.bar.append("stop")


def lines(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_metrics_have_means_rate_norm_words_and_time(tmp_path):
    _, result = trained(tmp_path, steps=100, log_every=5)
    rows = lines(tmp_path)
    assert [row["step"] for row in rows] == list(range(5, 101, 5))
    assert rows[-1]["words"] == result.words == 10 * sum(Lines().words(i) for i in range(10))
    assert rows[0].keys() == {
        "step", "words", "loss", "masked", "lr", "grad_norm", "seconds", "words_per_second"
    }  # fmt: skip
    assert rows[0]["loss"] == pytest.approx(rows[0]["masked"])
    assert rows[0]["lr"] == pytest.approx(0.005)
    assert 0 < result.seconds == pytest.approx(rows[-1]["seconds"], abs=1e-3)


def test_a_short_run_still_has_a_curve(tmp_path):
    trained(tmp_path, steps=40, log_every=50)
    assert [row["step"] for row in lines(tmp_path)] == list(range(2, 41, 2))


def test_the_reporter_sees_a_bar_to_its_end_and_the_place_of_a_resumption(tmp_path):
    s, telling = settings(), Telling()
    with Run.open(tmp_path, {}) as run:
        train(GradientUpdate(toy(), Masked(), replace(s, patience=0)), Lines(), s, run, reporter=telling)
        assert telling.bar[0] == ("training", 12, "steps")
        assert telling.bar[-1] == "stop"
        assert telling.bar[-2][0] == 12
        assert "words/s" in telling.bar[-2][1]
        assert "loss" in telling.bar[-2][1]
        train(GradientUpdate(toy(), Masked(), s), Lines(), s, run, reporter=telling)
    assert telling.lines == ["resuming after step 12 of 12"]


def test_evaluation_sees_evaluation_mode_and_gives_every_module_its_own_back(tmp_path):
    model, s, seen = toy(), settings(evaluate_every=6), []
    update = GradientUpdate(model, Masked(), s)
    model.norm.eval()  # a frozen part

    def evaluate():
        seen.append(model.training)
        return {"f1": 0.5}

    with Run.open(tmp_path, {}) as run:
        result = train(update, Lines(), s, run, evaluate=evaluate)
    assert seen == [False, False]
    assert model.training
    assert model.dropout.training
    assert not model.norm.training
    assert [row["f1"] for row in result.curve] == [0.5, 0.5]
    assert result.best is None
    assert [row["step"] for row in lines(tmp_path) if row.get("evaluation")] == [6, 12]


def test_the_best_weights_are_the_last_ones_without_keep_best(tmp_path):
    losses = iter([3.0, 1.0, 2.0])
    weights, result = trained(
        tmp_path, evaluate=lambda: {"loss": next(losses)}, evaluate_every=4, keep_best="loss", lower_is_better=True
    )
    assert result.best["step"] == 8
    assert result.best["loss"] == 1.0
    assert result.steps == 12
    saved, header = read_tensors(tmp_path / "checkpoints" / "best-000000008.safetensors")
    assert header == {"step": 8}
    assert same(weights, {k.removeprefix("model."): v for k, v in saved.items()})


def test_a_figure_that_is_not_a_number_is_never_the_best(tmp_path):
    scores = iter([float("nan"), 0.5, float("nan")])
    _, result = trained(tmp_path, evaluate=lambda: {"f1": next(scores)}, evaluate_every=4, keep_best="f1")
    assert result.best["step"] == 8


def test_an_unknown_figure_to_keep_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no figure 'f1'.*It has: accuracy"):
        trained(tmp_path, evaluate=lambda: {"accuracy": 0.5}, keep_best="f1")


@pytest.mark.parametrize(
    "changes",
    [{"steps": -1}, {"accumulate": 0}, {"lr": 0.0}, {"warmup": 1.5}, {"clip": -1.0}, {"patience": 2}, {"log_every": 0}],
)
def test_contradictory_settings_are_refused(changes):
    with pytest.raises(ValueError, match=r"must|needs"):
        settings(**changes)


class Failing(Masked):
    """Infinite loss, or a gradient that is NaN although the loss is finite, in step ``at``."""

    def __init__(self, at, kind):
        self.at, self.kind, self.step = at, kind, -1

    def corrupt(self, batch, generator):
        self.step += 1
        return super().corrupt(batch, generator)

    def loss(self, model, batch):
        loss = super().loss(model, batch)
        if self.step != self.at:
            return loss
        if self.kind == "loss":
            return replace(loss, total=loss.total * float("inf"))
        return replace(loss, total=loss.total + (model.norm.weight * 0).sqrt().sum())


@pytest.mark.parametrize("kind", ["loss", "gradient"])
def test_divergence_keeps_the_weights_before_the_step(tmp_path, kind):
    model, s = toy(), settings()
    reference, _ = trained(tmp_path / "whole", checkpoint_seconds=0.0)
    with Run.open(tmp_path / "run", {}) as run, pytest.raises(Diverged) as caught:
        train(GradientUpdate(model, Failing(7, kind), s), Lines(), s, run)
    kept = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert caught.value.step == 8
    assert caught.value.lr == pytest.approx(0.01 * 5 / 11)
    assert kept.step == 7
    assert str(kept.path) in str(caught.value)
    assert all_finite(kept.tensors)
    with Run.open(tmp_path / "run", {}) as run:  # the same place, without what failed
        train(GradientUpdate(model, Masked(), s), Lines(), s, run)
    assert same(reference, model.state_dict())


def test_a_step_with_nothing_to_predict_changes_nothing():
    model = toy()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    class Nothing(Masked):
        def corrupt(self, batch, generator):
            return replace(batch, target_ids=torch.full_like(batch.ids, -1))

    update = GradientUpdate(model, Nothing(), settings())
    loss = update.step(Lines().batch(0), 0)
    assert (float(loss.total), loss.count, update.figures["grad_norm"]) == (0.0, 0, 0.0)
    assert same(before, model.state_dict())


def test_clipping_bounds_the_norm_that_is_reported_before_it():
    figures, moved = [], []
    for clip in (0.0, 1e-3):
        model = toy(0.0)
        update = GradientUpdate(model, Masked(), settings(clip=clip))
        clipped = []
        update.optimizer.step = lambda factor, u=update, c=clipped: c.append(
            float(nn.utils.get_total_norm([p.grad for p in u.optimizer.parameters]))
        )
        update.step(Lines().batch(0), 0)
        figures.append(update.figures["grad_norm"])
        moved += clipped
    assert figures[0] == pytest.approx(figures[1]) == pytest.approx(moved[0], rel=1e-5)
    assert moved[1] == pytest.approx(1e-3, rel=1e-4)


def test_a_full_disk_while_training_leaves_the_last_checkpoint(tmp_path):
    trained(tmp_path / "whole")

    class Filling(Lines):
        def batch(self, step):
            if step == 5:
                resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
            return super().batch(step)

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(InputError, match="cannot write.*Check space"):
            trained(tmp_path / "run", loader=Filling(), checkpoint_seconds=0.0, prefetch=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert latest_checkpoint(tmp_path / "run" / "checkpoints").step == 5
    resumed, _ = trained(tmp_path / "run", checkpoint_seconds=0.0)
    assert same(resumed, trained(tmp_path / "whole")[0])


class Kernel(nn.Module):
    """Moves its table by seeded noise, as a kernel would by its samples."""

    def __init__(self, fails_at=1.0):
        super().__init__()
        self.table, self.calls, self.fails_at = nn.Parameter(torch.zeros(4, 3)), [], fails_at

    def fit_block(self, block, progress, seed):
        self.calls.append((progress, seed))
        rows = self.table.detach().numpy()
        rows += np.random.default_rng(seed).normal(size=rows.shape).astype(np.float32)
        if progress >= self.fails_at:
            rows += np.float32("nan")
            return Loss(torch.tensor(float("nan")), 1)
        return Loss(torch.tensor(2.0 * len(block.ids)), len(block.ids), {"kept": (1.0, 2)})


def kernel_run(path, model, steps=6):
    from polysemy.data.loader import BlockLoader
    from tests.unit.data.test_loader import random_documents, shards

    s = TrainSettings(steps, checkpoint_seconds=0.0)
    loader = BlockLoader(shards(random_documents()), block_words=300)
    with Run.open(path, {}) as run:
        return train(KernelUpdate(model, s), loader, s, run)


def test_kernels_run_under_the_same_loop_and_resume(tmp_path):
    whole, cut, resumed = Kernel(), Kernel(), Kernel()
    result = kernel_run(tmp_path / "whole", whole)
    assert result.loss == pytest.approx(2.0)
    assert [p for p, _ in whole.calls] == [i / 6 for i in range(6)]
    assert len({seed for _, seed in whole.calls}) == 6
    with pytest.raises(Diverged, match="step 4 with learning rate 0.025") as caught:
        cut.fails_at, cut.config = 0.5, SimpleNamespace(lr=0.025)
        kernel_run(tmp_path / "cut", cut)
    assert "step-000000003" in str(caught.value)
    kernel_run(tmp_path / "cut", resumed)
    assert torch.equal(whole.table, resumed.table)
    assert resumed.calls == whole.calls[3:]


def test_calibration_survives_a_rate_that_diverges_and_restores_what_it_spoilt():
    model = Kernel(fails_at=0.001)
    s = TrainSettings(100)
    assert calibrate(lambda n: KernelUpdate(model, replace(s, steps=n)), Blocks(), 5.0) > 0
    assert len(model.calls) > 3
    assert (model.table == 0).all()


class Blocks(Lines):
    def batch(self, step):
        from polysemy.data.loader import Block

        return Block(np.zeros(3, np.int32), np.asarray([0, 3]))

    def words(self, step):
        return 3


def test_calibration_fits_steps_into_the_time_and_leaves_the_weights_alone():
    import time

    class Steady(Lines):
        def batch(self, step):
            return super().batch(step)

    model = toy()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    class Slow(GradientUpdate):
        def step(self, batch, step):
            time.sleep(0.02)
            return super().step(batch, step)

    steps = calibrate(lambda n: Slow(model, Masked(), settings(steps=n)), Steady(), 20.0)
    assert 20.0 * 0.95 / 0.2 < steps < 20.0 / 0.02
    assert same(before, model.state_dict())
    fewer = calibrate(
        lambda n: Slow(model, Masked(), settings(steps=n)), Steady(), 20.0,
        evaluate=lambda: time.sleep(0.2) or {}, evaluations=50,
    )  # fmt: skip
    assert fewer < 0.75 * steps
    assert calibrate(lambda n: Slow(model, Masked(), settings(steps=n)), Steady(), 0.01) == 0
