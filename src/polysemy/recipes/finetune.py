"""Fine-tuning, top to bottom: labelled files -> a system under a task -> loop -> scores -> run directory."""

from __future__ import annotations

import json
import math
import resource
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from polysemy.core.budget import Budget
from polysemy.core.config import override, parse, read_yaml, to_dict
from polysemy.core.errors import InputError
from polysemy.core.files import sha256, write_atomic
from polysemy.core.ledger import Ledger
from polysemy.core.reporter import Reporter, Silent
from polysemy.core.run import Run, differences
from polysemy.core.seeds import derive
from polysemy.data.loader import LengthLoader
from polysemy.data.split import split
from polysemy.recipes.finetuned import HEAD, TASK, Finetuned, encode, scores_line
from polysemy.recipes.load import Model, load, random_model
from polysemy.recipes.task_card import finetune_card
from polysemy.systems import SYSTEMS, find
from polysemy.tasks import Task, find_task
from polysemy.tasks.example import Columns, Example
from polysemy.tasks.heads import HeadConfig
from polysemy.tasks.model import Mode, Supervised
from polysemy.text.tokenizer import train_tokenizer
from polysemy.text.tokens import Tokens
from polysemy.text.words import Segmenter
from polysemy.train.loop import GradientUpdate, TrainResult, TrainSettings, calibrate, train

VOCAB_SIZE = 8_000  # pieces of a system without a vocabulary of its own
LEAST_STEPS, MOST_EPOCHS = 1_500, 50  # small data goes round more often, within reason

# What each kind of head is trained with; ``epochs``, ``batch_size`` and the fields of TrainSettings.
READING: dict[str, Any] = {
    "epochs": 14, "batch_size": 32, "lr": 4e-3, "warmup": 0.0, "weight_decay": 0.0, "clip": 5.0, "precision": "fp32",
}  # fmt: skip
LINEAR: dict[str, Any] = {"epochs": 14, "batch_size": 32, "lr": 1e-3, "warmup": 0.1}
SYSTEM_LR = 1e-4  # of a system that is trained whole


@dataclass(frozen=True)
class FinetuneConfig:
    """All that is needed to repeat a fine-tuning.  None: what suits the mode."""

    model: str  # a MODEL, or SYSTEM:SIZE for random weights
    task: str
    train: str
    dev: str | None = None  # None: a seeded part of train
    test: str | None = None
    mode: Mode | None = None  # None: as the system's paper does
    budget: str | None = None  # wall time at most, such as 5m
    seed: int = 0
    epochs: int | None = None
    batch_size: int | None = None  # texts an update
    batch_tokens: int = 8192  # and at most so many words or pieces, padding counted
    patience: int = 5  # epochs without a better dev score after which training stops; 0 never does
    system_lr: float | None = None  # peak rate of the system where it is trained too; loop.lr is the head's
    dev_fraction: float = 0.1
    items: int | None = None  # train on the first so many examples only
    untrained: bool = False  # the model's size and vocabulary with random weights
    scheme: Literal["IOB2", "BIOES"] = "IOB2"  # in which spans are learned
    columns: Columns = field(default_factory=Columns)
    head: dict[str, Any] = field(default_factory=dict)  # fields of HeadConfig
    loop: dict[str, Any] = field(default_factory=dict)  # fields of TrainSettings
    cache_mb: float = 2048.0  # states of a frozen system that are kept in memory
    keep_text: bool = True  # words and excerpts in ledger and predictions
    decided: dict[str, Any] = field(default_factory=dict)  # what the run settled for itself (core.run.Run.decide)

    def __post_init__(self) -> None:
        if not 0 < self.dev_fraction < 1:
            raise ValueError("dev_fraction must be between 0 and 1")
        for name in ("epochs", "batch_size", "batch_tokens", "items"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} must be above zero")


@dataclass(frozen=True)
class FinetuneResult:
    """What came out, for a person and for a machine."""

    path: Path
    data: dict[str, Any]
    ledger: Ledger

    def lines(self) -> list[str]:
        scores = self.data["scores"]
        return [
            *self.ledger.lines(),
            f"{self.data['system']} under {self.data['task']} ({self.data['how']}), scored by {self.data['scoring']}",
            *(f"{part:5} {scores_line(scores[part])}" for part in ("dev", "test") if part in scores),
            f"model in {self.path}",
        ]

    def to_json(self) -> dict[str, Any]:
        return {"run": str(self.path), **self.data, "ledger": self.ledger.to_json()}


def settings_of(recipe: Path | None, given: Mapping[str, Any], sets: Sequence[str]) -> FinetuneConfig:
    """Defaults <- YAML <- options <- ``--set``; unknown keys are refused with the nearest name."""
    data = read_yaml(recipe) if recipe else {}
    data = {**data, **{name: value for name, value in given.items() if value is not None}}
    settings = override(data, list(sets))
    if recipe and differences(read_yaml(recipe), settings):
        settings["decided"] = {}  # it was found out under other settings
    return parse(FinetuneConfig, settings, str(recipe or "options"))


def finetune(config: FinetuneConfig, out: Path, *, reporter: Reporter | None = None) -> FinetuneResult:
    """Put ``config.model`` under ``config.task``; the same call on an existing directory resumes.

    Raises InputError, Diverged, Interrupted.
    """
    reporter = reporter or Silent()
    began = time.monotonic()
    run = Run.open(out, to_dict(config))
    with run:
        if run.finished:
            return FinetuneResult(out, run.read_json("results.json"), Ledger.from_json(run.read_json("ledger.json")))
        check_data(config, run)
        job = Job(config, reporter)
        steps = run.decide("steps", lambda: job.steps(reporter))
        reporter.say(
            f"{config.task} with {job.tuned.model.name} ({job.how}): {len(job.parts['train']):,} examples, {steps:,} steps "
            f"({steps / job.loader.steps_per_epoch:.1f} epochs at most), scored by {job.task.mode}"
        )
        result = train(
            job.update(steps), job.loader, job.settings(steps), run, evaluate=job.evaluate, reporter=reporter
        )
        return _finish(config, run, job, result, time.monotonic() - began)


def check_data(config: FinetuneConfig, run: Run) -> None:
    """Write the digests of the labelled files into the recipe.  Raises InputError where a file is absent, or another
    one than when the run began."""
    digests = {}
    for part in ("train", "dev", "test"):
        if (name := getattr(config, part)) is not None:
            if not Path(name).is_file():
                raise InputError("no such file", where=name, do=f"Name the labelled file for {part}.")
            digests[part] = sha256(Path(name))
    for part, digest in run.decide("sha256", lambda: digests).items():
        if digests.get(part) != digest:
            raise InputError(
                "the file has changed since the run began", where=str(getattr(config, part)), do="Give another output."
            )


class Job:
    """The parts of one fine-tuning, assembled."""

    def __init__(self, config: FinetuneConfig, reporter: Reporter) -> None:
        self.config, self.ledger = config, Ledger(keep_text=config.keep_text)
        self.budget = Budget.parse(config.budget) if config.budget else None
        self.task = make_task(config)
        self.parts, self.notes = read_parts(config, self.task, self.ledger)
        for note in self.notes:
            reporter.say(note)
        model = start_model(config, self.parts["train"])
        self.ledger.merge(model.ledger)
        self.mode: Mode = config.mode or model.entry.mode
        head = head_config(config, model, self.task, self.mode)
        self.defaults = LINEAR if head.kind == "linear" else READING
        self.fields = {
            **{k: v for k, v in self.defaults.items() if k in TrainSettings.__dataclass_fields__},
            **config.loop,
        }
        self.settings(1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(config.seed, "head"))
            self.tuned = Finetuned.build(model, self.task, self.mode, head)
        self.items = {part: encode(model, examples, self.ledger) for part, examples in self.parts.items()}
        self.tuned.measure_scale(self.items["train"])
        self.began = time.monotonic()  # the budget counts what the system does, not the reading of files
        reporter.say("reading the texts with the system" if self.mode == "features" else "preparing the texts")
        self.texts, left = {}, config.cache_mb
        for part, items in self.items.items():
            targets = self.task.targets(self.parts[part], self.ledger)
            self.texts[part] = self.tuned.texts(items, targets, cache_mb=left)
            left -= getattr(self.texts[part].states, "megabytes", 0.0)
        self.loader = LengthLoader(
            self.texts["train"].lengths, self.texts["train"].batch, batch_tokens=config.batch_tokens,
            max_rows=config.batch_size or self.defaults["batch_size"], seed=config.seed,
        )  # fmt: skip

    @property
    def how(self) -> str:
        kind = {"bilstm": "BiLSTM", "attention": "attention", "linear": "linear"}[self.tuned.head_config.kind]
        crf = " and CRF" if self.tuned.head_config.crf else ""
        return f"system {'trained' if self.mode == 'finetune' else 'frozen'}, {kind}{crf} head"

    @property
    def epochs(self) -> int:
        """Those asked for; else more of small data."""
        if self.config.epochs:
            return self.config.epochs
        enough = math.ceil(LEAST_STEPS / self.loader.steps_per_epoch)
        return max(int(self.defaults["epochs"]), min(enough, MOST_EPOCHS))

    def settings(self, steps: int) -> TrainSettings:
        every = min(self.loader.steps_per_epoch, steps) if hasattr(self, "loader") else 0
        fields = {
            "evaluate_every": every,
            "keep_best": self.task.metric,
            "patience": self.config.patience,
            **self.fields,
        }
        return parse(TrainSettings, {**fields, "seed": self.config.seed, "steps": steps}, "loop")

    def update(self, steps: int) -> GradientUpdate:
        """Word vectors move by the rate of the head in units of their own size, whole systems by a smaller one."""
        settings = self.settings(steps)
        static = self.tuned.model.entry.tokenizer == "words"
        usual = settings.lr / float(self.tuned.reader.scale[-1]) if static else SYSTEM_LR
        system_lr = self.config.system_lr or usual
        groups = [(lambda name: name.startswith("tuned."), system_lr / settings.lr)]
        return GradientUpdate(self.tuned.network.train(), Supervised(self.task), settings, groups)

    def steps(self, reporter: Reporter) -> int:
        """Steps of all epochs, or what the budget pays for if that is less."""
        whole = self.epochs * self.loader.steps_per_epoch
        if self.budget is None:
            return whole
        if self.budget.words is not None:
            words = sum(self.loader.words(step) for step in range(self.loader.steps_per_epoch))
            paid = int(self.budget.words / max(words, 1) * self.loader.steps_per_epoch)
        else:
            assert self.budget.seconds is not None
            paid = self._paid(self.began + self.budget.seconds, reporter)
        if paid < 1:
            raise InputError(
                f"a budget of {self.config.budget} does not pay for one step", do="Give more time or a smaller system."
            )
        return min(whole, paid)

    def _paid(self, end: float, reporter: Reporter) -> int:
        """Steps until the moment ``end`` of the monotonic clock, with an evaluation after each epoch."""
        paid = calibrate(self.update, self.loader, max(end - time.monotonic(), 0.0), reporter=reporter)
        start = time.monotonic()
        self.evaluate()
        now = time.monotonic()
        left, evaluation = max(end - now, 0.0), (now - start) / self.loader.steps_per_epoch
        return int(left / (max(end - start, 0.0) / paid + evaluation)) if paid and end > now else 0

    def evaluate(self) -> dict[str, float]:
        scores = self.scores("dev", self.tuned.predict(self.texts["dev"]))
        return {name: value for name, value in scores.items() if isinstance(value, float)}

    def scores(self, part: str, predicted: Sequence[Any]) -> dict[str, Any]:
        return self.task.score([example.label for example in self.parts[part]], predicted)


def make_task(config: FinetuneConfig) -> Task:
    """The task with its columns."""
    task_class = find_task(config.task)
    task: Task = (
        task_class(config.columns, inner=config.scheme) if config.task == "tagging" else task_class(config.columns)
    )
    return task


def read_parts(config: FinetuneConfig, task: Task, ledger: Ledger) -> tuple[dict[str, list[Example]], list[str]]:
    """Examples of train, dev and test, and what a person should know of how they came about."""
    parts = {"train": task.read(Path(config.train), ledger)}
    notes = []
    if config.dev is None:
        examples = parts["train"]
        documents = [example.document for example in examples]
        grouped = len(set(documents) - {None}) > 1
        labels = None if task.per_word else [example.label for example in examples]
        parts["train"], parts["dev"] = split(
            examples, config.seed, fractions=(1 - config.dev_fraction, config.dev_fraction),
            groups=documents if grouped else None, labels=labels,
        )  # fmt: skip
        note = (
            f"no dev file: {len(parts['dev']):,} of {len(examples):,} examples of train held out"
            f"{' by document' if grouped else ''} (seed {config.seed})"
        )
        notes.append(note)
        ledger.add("kept", "examples of train held out as dev", len(parts["dev"]))
    if config.items is not None:
        parts["train"] = parts["train"][: config.items]
        notes.append(f"training on the first {len(parts['train']):,} examples")
    task.fit(parts["train"])
    for name, path in (("dev", config.dev), ("test", config.test)):
        if path is not None:
            parts[name] = task.read(Path(path), ledger)
    return parts, notes


def start_model(config: FinetuneConfig, examples: Sequence[Example]) -> Model:
    """The model asked for; SYSTEM:SIZE has random weights over a vocabulary of the training texts."""
    name = config.model.partition(":")[0]
    if Path(config.model).exists() or name not in SYSTEMS:
        model = load(config.model)
        if not config.untrained:
            return model
        fields = {key: value for key, value in to_dict(model.system.config).items() if key != "vocab_size"}
        return random_model(model.name, model.tokenizer, config.seed, fields)
    segmenter = Segmenter()
    counts: Counter[str] = Counter()
    for example in examples:
        counts.update(segmenter.words(example.text) if isinstance(example.text, str) else example.text)
    kind = find(name).tokenizer
    size = VOCAB_SIZE if kind not in ("words", "characters") else len(counts) + 3
    tokenizer = train_tokenizer(kind, counts, segmenter=segmenter, vocab_size=size)
    return random_model(config.model, tokenizer, config.seed)


def head_config(config: FinetuneConfig, model: Model, task: Task, mode: Mode) -> HeadConfig:
    """What stands on top by default: a reader of words on frozen systems and on word vectors, else one linear map."""
    static = model.entry.tokenizer == "words"
    reading = "bilstm" if task.per_word else "attention"
    fields: dict[str, Any] = {"kind": reading if mode == "features" or static else "linear"}
    fields = {**fields, **config.head}
    if fields["kind"] != "linear":
        fields = {"characters": static, "crf": task.per_word, **fields}
    else:
        fields = {"dropout": 0.1, **fields}
    head = parse(HeadConfig, fields, "head")
    if head.characters and model.tokenizer.kind not in ("words", "characters"):
        raise InputError("a character CNN stands beside word vectors only", where="head.characters")
    return head


def _finish(config: FinetuneConfig, run: Run, job: Job, result: TrainResult, seconds: float) -> FinetuneResult:
    """Score, write predictions, model and what it cost; the run is finished only when everything stands."""
    scores = {}
    (run.path / "predictions").mkdir(exist_ok=True)
    for part in ("dev", "test"):
        if part in job.texts:
            predicted = job.tuned.predict(job.texts[part])
            scores[part] = job.scores(part, predicted)
            name, text = predictions_file(job.task, part, job.parts[part], job.items[part], predicted, config.keep_text)
            write_atomic(run.path / "predictions" / name, text)
    job.tuned.save(run.path)
    job.ledger.write(run.path / "ledger.json")
    sizes = [(run.path / name).stat().st_size for name in ("model.safetensors", HEAD, "tokenizer.json", TASK)]
    data = {
        "model": config.model,
        "system": job.tuned.model.name,
        "task": job.task.name,
        "mode": job.mode,
        "how": job.how,
        "metric": job.task.metric,
        "scoring": job.task.mode,
        "scores": scores,
        "examples": {part: len(examples) for part, examples in job.parts.items()},
        "notes": job.notes,
        "steps": result.steps,
        "planned_steps": run.recipe["decided"]["steps"],
        "full_steps": job.epochs * job.loader.steps_per_epoch,
        "epochs": round(result.steps / job.loader.steps_per_epoch, 2),
        "best": result.best,
        "curve": result.curve,
        "words": result.words,
        "cost": {
            "parameters": job.tuned.parameters,
            "disk_mb": round(sum(sizes) / 1e6, 2),
            "finetune_seconds": round(seconds, 1),
            "train_seconds": round(result.seconds, 1),
            "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        },
    }
    write_atomic(run.path / "card.md", finetune_card(data, job.task.to_json(), config.seed))
    run.finish(data)
    return FinetuneResult(run.path, data, job.ledger)


def predictions_file(
    task: Task,
    part: str,
    examples: Sequence[Example],
    items: Sequence[Tokens],
    predicted: Sequence[Any],
    keep_text: bool,
) -> tuple[str, str]:
    """Name and content: rows of ``word gold predicted``, or a JSON object a text."""
    if task.per_word:
        sentences = []
        for example, item, tags in zip(examples, items, predicted, strict=True):
            words = item.words if keep_text else [str(i + 1) for i in range(len(item.words))]
            rows = (f"{word}\t{gold}\t{tag}" for word, gold, tag in zip(words, example.label, tags, strict=True))
            sentences.append("\n".join(rows) + "\n")
        return f"{part}.txt", "\n".join(sentences)
    records = (
        {"line": int(example.place.rpartition(":")[2]), "gold": example.label, "predicted": label}
        for example, label in zip(examples, predicted, strict=True)
    )
    return f"{part}.jsonl", "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
