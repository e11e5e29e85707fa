"""The one loop: batches in, updates, what is logged, evaluated and kept, and what a kill leaves behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from polysemy.core.errors import Diverged, InputError, Interrupted
from polysemy.core.reporter import Reporter, Silent
from polysemy.core.run import Run
from polysemy.data.loader import Loader, Prefetch
from polysemy.objectives.loss import Loss
from polysemy.train.calibrate import calibrate
from polysemy.train.checkpoint import all_finite, latest_checkpoint, read_tensors, save_checkpoint, write_tensors
from polysemy.train.guard import deterministic, signals_end_the_step
from polysemy.train.settings import TrainSettings
from polysemy.train.update import GradientUpdate, KernelUpdate, NotFiniteError, Update, load_model, model_tensors

__all__ = [
    "GradientUpdate", "KernelUpdate", "TrainResult", "TrainSettings", "Update", "calibrate", "train",
]  # fmt: skip

Evaluate = Callable[[], Mapping[str, float]]
LEAST_LINES = 20  # of metrics.jsonl in a short run
SECONDS_SHOWN = 0.5  # between two advances of the bar


@dataclass(frozen=True)
class TrainResult:
    """What a run of the loop came to."""

    steps: int  # that were taken; fewer than asked where it stopped early
    words: int  # of the corpus that were read
    seconds: float  # of training, over all resumptions, without evaluations
    loss: float  # mean over the last steps that were logged together
    curve: list[dict[str, float]]  # every evaluation, with its step, words and seconds
    best: dict[str, float] | None  # the evaluation whose weights were kept, if keep_best


@dataclass
class Progress:
    """Where the loop is: JSON, and with the tensors all that a checkpoint needs."""

    step: int = 0
    words: int = 0
    seconds: float = 0.0
    sums: dict[str, list[float]] = field(default_factory=dict)  # name -> [total, count] since the last line
    loss: float = float("nan")
    curve: list[dict[str, float]] = field(default_factory=list)
    best: dict[str, float] | None = None
    waited: int = 0  # evaluations since the best
    stopped: bool = False  # early


def train(
    update: Update,
    loader: Loader,
    settings: TrainSettings,
    run: Run,
    *,
    evaluate: Evaluate | None = None,
    reporter: Reporter | None = None,
) -> TrainResult:
    """Take ``settings.steps`` updates, from the run's last checkpoint on if it has one; the model is trained in place.

    ``evaluate`` is called with the model in evaluation mode, after every ``evaluate_every`` steps and after the last;
    it changes no later step.  A run that was killed at any moment and resumed ends in the bytes of one that was not.

    Raises Interrupted after SIGINT or SIGTERM, with the state saved; Diverged where a loss, a gradient or a weight is
    not finite, with the last finite weights kept; InputError where the disk is full, with the last checkpoint intact.
    """
    return _Training(update, loader, settings, run, evaluate, reporter or Silent()).run_through()


class _Training:
    def __init__(
        self,
        update: Update,
        loader: Loader,
        settings: TrainSettings,
        run: Run,
        evaluate: Evaluate | None,
        reporter: Reporter,
    ) -> None:
        self.update, self.loader, self.settings = update, loader, settings
        self.run, self.evaluate, self.reporter = run, evaluate, reporter
        self.progress = Progress()
        self.log_every = max(1, min(settings.log_every, settings.steps // LEAST_LINES))
        self.saved_at = self.shown_at = time.monotonic()

    def run_through(self) -> TrainResult:
        self._resume()
        self.update.group.barrier()
        progress, steps = self.progress, self.settings.steps
        self.reporter.start("training", steps, "steps")
        try:
            with (
                deterministic(),
                signals_end_the_step() as stop,
                closing(Prefetch(self.loader, last=steps, enabled=self.settings.prefetch)) as batches,
            ):
                while progress.step < steps and not progress.stopped:
                    began = time.perf_counter()
                    batch, words = batches.get(progress.step)
                    self._count(self._step(batch), words, time.perf_counter() - began)
                    self._look_around()
                    if self.update.group.any(stop.wanted):
                        path = self._save()
                        raise Interrupted(f"stopped after step {progress.step} of {steps}; saved in {path}")
                    self._save_if_due()
        finally:
            self.reporter.stop()
        self._keep_the_best()
        p = progress
        return TrainResult(p.step, p.words, p.seconds, p.loss, p.curve, p.best if self.settings.keep_best else None)

    def _resume(self) -> None:
        checkpoint = latest_checkpoint(self.run.checkpoints)
        if checkpoint is None:
            self.run.cut_metrics(-1)
            self._save()
            return
        self.update.load(checkpoint.tensors, checkpoint.state["update"])
        self.progress = Progress(**checkpoint.state["progress"])
        self.run.cut_metrics(self.progress.step)
        if self.progress.step:
            self.reporter.say(f"resuming after step {self.progress.step:,} of {self.settings.steps:,}")

    def _step(self, batch: Any) -> Loss:
        try:
            return self.update.step(batch, self.progress.step)
        except NotFiniteError as error:
            self._diverged(error.lr, weights_changed=error.applied)

    def _count(self, loss: Loss, words: int, seconds: float) -> None:
        p = self.progress
        for name, (total, count) in {"loss": (float(loss.total), loss.count), **loss.parts}.items():
            pair = p.sums.setdefault(name, [0.0, 0])
            pair[0] += total
            pair[1] += count
        p.step, p.words, p.seconds = p.step + 1, p.words + words, p.seconds + seconds

    def _look_around(self) -> None:
        """Log, show and evaluate after a step, whichever is due."""
        p, last = self.progress, self.progress.step == self.settings.steps
        if p.step % self.log_every == 0 or last:
            self._log()
        now = time.monotonic()
        if now - self.shown_at > SECONDS_SHOWN or last:
            self.shown_at = now
            total, count = p.sums.get("loss", [p.loss, 1])
            speed = p.words / p.seconds if p.seconds else 0.0
            self.reporter.advance(p.step, f"loss {total / max(count, 1):.4g}  {speed:,.0f} words/s")
        every = self.settings.evaluate_every
        if self.evaluate is not None and (last or (every and p.step % every == 0)):
            self._evaluate()

    def _log(self) -> None:
        """One line: means since the last one, rate, norm; only the two of time differ between equal runs."""
        p = self.progress
        means = {name: total / count for name, (total, count) in p.sums.items() if count}
        p.loss = means.get("loss", p.loss)
        speed = round(p.words / p.seconds, 1) if p.seconds else None
        self.run.log(
            {"step": p.step, "words": p.words, **means, **self.update.figures, "seconds": round(p.seconds, 3),
             "words_per_second": speed}
        )  # fmt: skip
        p.sums = {}

    def _evaluate(self) -> None:
        """Figures of the model as it stands; keeps it where it is the best, and stops where that is long ago."""
        assert self.evaluate is not None
        p, model = self.progress, self.update.model
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        try:
            figures = {name: float(value) for name, value in self.evaluate().items()}
        finally:
            for module, mode in modes:
                module.training = mode
        row = {"step": p.step, "words": p.words, "seconds": round(p.seconds, 3), **figures}
        self.run.log({"evaluation": True, **row})
        p.curve.append(row)
        metric = self.settings.keep_best
        if metric is None:
            return
        if metric not in figures:
            raise InputError(f"the evaluation has no figure {metric!r}", do=f"It has: {', '.join(figures)}.")
        sign = -1.0 if self.settings.lower_is_better else 1.0
        best = sign * p.best[metric] if p.best else float("-inf")
        if sign * figures[metric] > best:  # which NaN never is
            p.best, p.waited = row, 0
            if self.run.writer:
                self.run.checkpoints.mkdir(parents=True, exist_ok=True)
                write_tensors(self._best_path(p.step), model_tensors(model), {"step": p.step})
        else:
            p.waited += 1
            p.stopped = 0 < self.settings.patience <= p.waited

    def _best_path(self, step: float) -> Path:
        return self.run.checkpoints / f"best-{int(step):09d}.safetensors"

    def _save_if_due(self) -> None:
        p = self.progress
        over = p.stopped or p.step == self.settings.steps
        if over or time.monotonic() - self.saved_at >= self.settings.checkpoint_seconds:
            self._save()

    def _save(self) -> Path | None:
        """Write a checkpoint; former best weights go, because every way to the end passes better ones."""
        if not self.run.writer:
            return None
        tensors, values = self.update.state()
        if not all_finite(tensors):
            self._diverged(self.update.figures.get("lr", self.settings.lr), weights_changed=True)
        state = {"update": values, "progress": asdict(self.progress)}
        path = save_checkpoint(self.run.checkpoints, self.progress.step, tensors, state)
        self.saved_at = time.monotonic()
        best = self._best_path(self.progress.best["step"]) if self.progress.best else None
        for old in self.run.checkpoints.glob("best-*.safetensors"):
            if old != best:
                old.unlink()
        return path

    def _diverged(self, lr: float, *, weights_changed: bool) -> NoReturn:
        """Keep the weights before the step, or the last checkpoint where the step has spoilt them."""
        if not weights_changed and all_finite(self.update.state()[0]):
            self._save()
        kept = sorted(self.run.checkpoints.glob("step-*.safetensors"))
        raise Diverged(self.progress.step + 1, lr, str(kept[-1]) if kept else "no file: they never were finite")

    def _keep_the_best(self) -> None:
        best = self.progress.best
        if self.settings.keep_best and best and int(best["step"]) != self.progress.step:
            load_model(self.update.model, read_tensors(self._best_path(best["step"]))[0])
