"""Pretraining, top to bottom: text -> vocabulary -> shards -> system -> loop -> run directory."""

from __future__ import annotations

import math
import resource
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from polysemy.core.budget import Budget
from polysemy.core.config import override, parse, read_yaml, to_dict
from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.core.reporter import Reporter, Silent
from polysemy.core.run import Run, differences
from polysemy.core.seeds import derive
from polysemy.data.corpus import pair_problem
from polysemy.data.loader import BlockLoader, Loader, PackedLoader
from polysemy.data.pairs import PairLoader
from polysemy.data.sentences import SentenceLoader
from polysemy.data.shards import Shards
from polysemy.recipes.card import pretrain_card
from polysemy.recipes.load import Model, load, random_model, save
from polysemy.recipes.prepare import Prepared, TextConfig, prepare
from polysemy.systems import Entry, configure, find, module_of, resolve
from polysemy.text.tokens import Tokenizer
from polysemy.train.loop import GradientUpdate, KernelUpdate, TrainResult, TrainSettings, Update, calibrate, train
from polysemy.train.parallel import start_group

VOCAB_SIZE = {"words": 200_000, "characters": 50_000, "wordpiece": 8_000, "bpe": 8_000, "unigram": 8_000}
EVALUATIONS = 10  # held-out losses along the run, or as many as EVALUATION_SHARE of a time budget pays for
EVALUATION_SHARE = 0.15
HELD_OUT_BATCHES = 16  # read each time; all of them at the end


@dataclass(frozen=True)
class PretrainConfig:
    """All that is needed to repeat a pretraining."""

    system: str
    text: TextConfig
    budget: str = "10m"  # wall time (calibrated once, then kept as steps) or corpus words
    seed: int = 0
    start: str | None = None  # a MODEL to go on from, with its vocabulary
    model: dict[str, Any] = field(default_factory=dict)  # fields of the system's configuration
    objective: dict[str, Any] = field(default_factory=dict)  # arguments of its objective
    train: dict[str, Any] = field(default_factory=dict)  # fields of TrainSettings
    batch: dict[str, Any] = field(default_factory=dict)  # arguments of its loader
    decided: dict[str, Any] = field(default_factory=dict)  # what a run found out by itself, such as its steps


@dataclass(frozen=True)
class PretrainResult:
    """What came out, for a person and for a machine."""

    path: Path
    data: dict[str, Any]
    ledger: Ledger

    def lines(self) -> list[str]:
        held = self.data["held_out"]
        score = "  ".join(f"{name} {value:.4g}" for name, value in held.items()) or "no held-out text"
        return [
            *self.ledger.lines(),
            f"{self.data['system']}: {self.data['words']:,} words in {self.data['seconds']:.0f} s; held out: {score}",
            f"model in {self.path}",
        ]

    def to_json(self) -> dict[str, Any]:
        return {"run": str(self.path), **self.data, "ledger": self.ledger.to_json()}


def settings_of(recipe: Path | None, given: Mapping[str, Any], sets: Sequence[str]) -> PretrainConfig:
    """Defaults <- YAML <- options <- ``--set``; unknown keys are refused with the nearest name."""
    data = read_yaml(recipe) if recipe else {}
    text_keys = set(TextConfig.__dataclass_fields__)
    text = {k: v for k, v in given.items() if k in text_keys and v is not None}
    data = {**data, **{k: v for k, v in given.items() if k not in text_keys and v is not None}}
    data["text"] = {**data.get("text", {}), **text}
    settings = override(data, list(sets))
    if recipe and differences(read_yaml(recipe), settings):
        settings["decided"] = {}  # it was found out under other settings
    return parse(PretrainConfig, settings, str(recipe or "options"))


def pretrain(
    config: PretrainConfig, out: Path, *, reporter: Reporter | None = None, prepared_in: Path | None = None
) -> PretrainResult:
    """Train ``config.system`` on ``config.text``; the same call on an existing directory resumes.

    ``prepared_in``: a folder of vocabulary and shards that several runs share.  Raises InputError, Diverged,
    Interrupted.
    """
    reporter = reporter or Silent()
    began = time.monotonic()
    budget = Budget.parse(config.budget)
    name = configure(config.system)[0]
    entry = find(name)
    group = start_group()
    with group.first():
        run = Run.open(out, to_dict(config), writer=group.rank == 0)
    with run:
        if run.finished:
            data = run.read_json("results.json")
            return PretrainResult(out, data, Ledger.from_json(run.read_json("ledger.json")))
        before = load(config.start) if config.start else None
        if before is not None and before.name != name:
            raise InputError(f"{config.start} is {before.name}, not {name}", do=f"Name {before.name} to go on from it.")
        with group.first():  # the others find it done
            prepared = prepare(
                prepared_in or out / "shards", config.text, entry.tokenizer,
                vocab_size=config.text.vocab_size or VOCAB_SIZE[entry.tokenizer],
                tokenizer=before and before.tokenizer, reporter=reporter,
            )  # fmt: skip
        model = before or random_model(config.system, prepared.tokenizer, config.seed, config.model)
        job = Job(config, entry, model, prepared)
        job.evaluations = run.decide("evaluations", lambda: job.affordable_evaluations(budget))
        steps = run.decide("steps", lambda: job.steps(budget, reporter))
        reporter.say(
            f"{config.system}: {sum(p.numel() for p in model.system.parameters()):,} parameters, {steps:,} steps of about "
            f"{job.loader.words(0):,} words ({steps / job.loader.steps_per_epoch:.1f} epochs)"
        )
        result = job.train(run, steps, reporter)
        return _finish(config, run, job, result, time.monotonic() - began)


class Job:
    """The parts of one pretraining, assembled."""

    def __init__(self, config: PretrainConfig, entry: Entry, model: Model, prepared: Prepared) -> None:
        self.config, self.entry, self.model, self.prepared = config, entry, model, prepared
        module = module_of(model.name)
        defaults: Mapping[str, Any] = module.pretraining(model.system.config)
        where = f"{config.system} pretraining"
        self.settings_fields = {**defaults.get("train", {}), **config.train, "seed": config.seed}
        parse(TrainSettings, {**self.settings_fields, "steps": 1}, where)
        self.batch_fields = {**defaults.get("batch", {}), **config.batch}
        self.loader = make_loader(
            entry, prepared.shards, prepared.tokenizer, model.system, self.batch_fields, config.seed
        )
        self.held_loader = (
            make_loader(entry, prepared.held_out, prepared.tokenizer, model.system, self.batch_fields, config.seed)
            if prepared.held_out is not None and entry.trained == "loop"
            else None
        )
        self.objective = make_objective(entry, prepared.tokenizer, model.system, config.objective)
        self.evaluations = EVALUATIONS
        if not self.loader.fills_batch:
            raise InputError(
                "the text is smaller than one batch", where=", ".join(config.text.corpus),
                do="Give more text, or lower batch.batch_size (batch.batch_words).",
            )  # fmt: skip

    def settings(self, steps: int) -> TrainSettings:
        every = max(steps // self.evaluations, 1)
        return parse(
            TrainSettings, {"evaluate_every": every, **self.settings_fields, "steps": steps}, self.config.system
        )

    def update(self, steps: int) -> Update:
        if self.entry.trained == "kernel":
            self.model.system.prepare(count_ids(self.prepared.shards, self.prepared.tokenizer.vocab_size))
            return KernelUpdate(self.model.system, self.settings(steps))
        return GradientUpdate(self.model.system.train(), self.objective, self.settings(steps))

    def affordable_evaluations(self, budget: Budget) -> int:
        """At least one, at the end; an evaluation by the full softmax can cost as much as many steps."""
        if budget.seconds is None or self.held_loader is None:
            return EVALUATIONS
        began = time.perf_counter()
        self.evaluate()
        cost = time.perf_counter() - began
        return min(max(int(EVALUATION_SHARE * budget.seconds / cost), 1), EVALUATIONS)

    def steps(self, budget: Budget, reporter: Reporter) -> int:
        """Steps that the budget pays for: words divided out, or time measured on a few steps that are thrown away.

        A time budget is for training; reading the text comes before it, because seeds and systems share that.
        """
        if budget.words is not None:
            a_step = self.prepared.shards.words / self.loader.steps_per_epoch
            return max(math.ceil(budget.words / a_step), 1)
        assert budget.seconds is not None
        steps = calibrate(
            self.update, self.loader, budget.seconds, evaluate=self.evaluate if self.held_loader else None,
            evaluations=self.evaluations, reporter=reporter,
        )  # fmt: skip
        if steps < 1:
            raise InputError(
                f"a budget of {self.config.budget} does not pay for one step", do="Give more time or a smaller system."
            )
        return steps

    def train(self, run: Run, steps: int, reporter: Reporter) -> TrainResult:
        return train(
            self.update(steps), self.loader, self.settings(steps), run,
            evaluate=self.evaluate if self.held_loader is not None else None, reporter=reporter,
        )  # fmt: skip

    def evaluate(self, batches: int = HELD_OUT_BATCHES) -> dict[str, float]:
        assert self.held_loader is not None
        return held_out(self.model.system, self.objective, self.held_loader, batches)


@torch.no_grad()
def held_out(system: nn.Module, objective: Any, loader: Loader, max_batches: int) -> dict[str, float]:
    """Mean loss of each part over held-out text, and its perplexity; the same corruption every time."""
    training = system.training
    system.eval()
    sums: dict[str, list[float]] = {}
    for step in range(min(loader.steps_per_epoch, max_batches)):
        batch = objective.corrupt(loader.batch(step), torch.Generator().manual_seed(derive(0, "held-out", step)))
        loss = objective.loss(system, batch)
        parts = loss.parts or {"loss": (float(loss.total), loss.count)}
        for name, (total, count) in parts.items():
            pair = sums.setdefault(name, [0.0, 0])
            pair[0] += float(total)
            pair[1] += count
    system.train(training)
    out = {}
    for name, (total, count) in sums.items():
        if count:
            out[f"{name}_loss"] = total / count
            out[f"{name}_perplexity"] = math.exp(min(total / count, 700.0))
    return out


def make_loader(
    entry: Entry, shards: Shards, tokenizer: Tokenizer, system: nn.Module, fields: Mapping[str, Any], seed: int
) -> Loader:
    """The loader that suits what the system reads; unknown fields are refused."""
    if entry.trained == "kernel":
        return parse_call(BlockLoader, (shards,), fields, seed)
    if entry.tokenizer == "characters":
        return parse_call(SentenceLoader, (shards, tokenizer), fields, seed)
    fields = {"length": system.config.max_length, **fields}
    pairs = fields.pop("pairs", None)
    if pairs is None:
        lines = len(shards.sentences) - 1
        pairs = pair_problem(len(shards.documents) - 1, shards.longest_document, lines) is None
    return parse_call(PairLoader if pairs else PackedLoader, (shards, tokenizer.special), fields, seed)


def count_ids(shards: Shards, vocab_size: int, block: int = 1 << 22) -> NDArray[np.int64]:
    """(vocab_size,) how often each id stands in the text, counted in blocks."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for low in range(0, len(shards.ids), block):
        counts += np.bincount(shards.ids[low : low + block], minlength=vocab_size)
    return counts


def parse_call(target: Any, first: tuple[Any, ...], fields: Mapping[str, Any], seed: int) -> Any:
    """Call ``target``; a keyword that it does not take is the user's mistake."""
    import inspect

    known = list(inspect.signature(target).parameters)[len(first) :]
    for name in fields:
        if name not in known:
            from polysemy.core.errors import nearest

            raise InputError(f"unknown setting {name!r} of {target.__name__}", do=nearest(name, known))
    return target(*first, **fields, **({"seed": seed} if "seed" in known else {}))


def make_objective(entry: Entry, tokenizer: Tokenizer, system: nn.Module, fields: Mapping[str, Any]) -> Any:
    """The objective of the table, with what it needs to know of the vocabulary."""
    if entry.trained == "kernel":
        return None
    target = resolve(entry.objective)
    if entry.tokenizer == "characters":
        return parse_call(target, (tokenizer.vocab_size,), fields, 0)
    return parse_call(target, (tokenizer.special, tokenizer.vocab_size), fields, 0)


def _finish(config: PretrainConfig, run: Run, job: Job, result: TrainResult, seconds: float) -> PretrainResult:
    """Write the model and what it cost; the run is finished only when everything stands."""
    system = job.model.system.eval()
    save(run.path, job.model.name, system, job.prepared.tokenizer)
    held = job.evaluate(job.held_loader.steps_per_epoch) if job.held_loader is not None else {}
    ledger = Ledger()
    ledger.merge(job.prepared.ledger)
    ledger.merge(job.model.ledger)
    ledger.write(run.path / "ledger.json")
    data = {
        "system": config.system,
        "parameters": sum(p.numel() for p in system.parameters()),
        "steps": result.steps,
        "words": result.words,
        "corpus_words": job.prepared.shards.words,
        "seconds": round(seconds, 1),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "disk_mb": round((run.path / "model.safetensors").stat().st_size / 1e6, 2),
        "held_out": held,
        "fit": job.prepared.fit.to_json(),
        "overlap": job.prepared.overlap,
        "train_loss": result.loss,
        "curve": result.curve,
    }
    (run.path / "card.md").write_text(pretrain_card(config, data), "utf-8")
    shutil.rmtree(run.path / "shards", ignore_errors=True)
    run.finish(data)
    return PretrainResult(run.path, data, ledger)
