"""What a comparison will do: its trials, when it ends and how much disk it needs, known before anything is done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from polysemy.core.budget import Budget
from polysemy.core.errors import InputError
from polysemy.recipes.prepare import TextConfig
from polysemy.systems import NOMINAL_VOCABULARY, SYSTEMS, configure, find, module_of, resolve
from polysemy.tasks import find_task

Kind = Literal["control", "pretrain", "finetune"]
TRIAL_OVERHEAD_SECONDS = 25.0  # starting a process, reading files, scoring, latency
UNTRAINED = " without pretraining"
DETERMINISTIC = ("majority", "tfidf")  # controls without luck: one trial is all there is
CONTROLS = {"classification": ("majority", "tfidf"), "tagging": ("majority", "context")}


@dataclass(frozen=True)
class CompareConfig:
    """All that is needed to repeat a comparison."""

    text: TextConfig
    task: str
    train: str
    systems: tuple[str, ...] = ("word2vec", "elmo", "bert")
    dev: str | None = None
    test: str | None = None
    budget: str = "5m"  # of one system's pretraining with one seed
    finetune_budget: str = "5m"  # at most; fine-tuning stops early on dev
    seeds: int = 3
    share_pretraining: bool = False  # one pretraining a system for all seeds of its fine-tuning
    one_head: bool = True  # the second table: every system frozen under the same head
    prefer: Literal["latency", "size", "training"] = "latency"
    max_latency_ms: float | None = None
    max_size_mb: float | None = None
    label_curve: tuple[int, ...] = ()  # numbers of labelled items for a curve of the score
    task_settings: dict[str, Any] = field(default_factory=dict)  # passed on to every fine-tuning
    pretrain_settings: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # by system, passed on to its pretraining

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError("seeds must be at least 1")
        if not self.systems:
            raise ValueError("name at least one system")
        if len({label(spec) for spec in self.systems}) != len(self.systems):
            raise ValueError("a system is named twice")


class Trial(NamedTuple):
    """One independent job that writes one directory."""

    kind: Kind
    row: str  # the line of the table that it belongs to
    spec: str  # SYSTEM:SIZE, a MODEL, or the control's name
    seed: int
    folder: str  # below the comparison's directory
    pretrained: str | None = None  # folder of the pretraining that it starts from
    mode: str | None = None
    items: int | None = None  # labelled items to train on, for the label curve
    head: Literal["own", "one"] = "own"


def is_system(spec: str) -> bool:
    """Whether ``spec`` is SYSTEM[:SIZE] rather than a model that exists already."""
    return spec.partition(":")[0] in SYSTEMS and not Path(spec).exists()


def label(spec: str) -> str:
    """What stands in the table: SYSTEM:SIZE as it is, of a path the last two parts."""
    return spec if is_system(spec) else "/".join(Path(spec).parts[-2:])


def trials(config: CompareConfig) -> Iterator[Trial]:
    """Every job, in the order in which they run: cheap ones first, so that a report is there early."""
    find_task(config.task)
    for name in CONTROLS.get(config.task, ("majority",)):
        for seed in range(1 if name in DETERMINISTIC else config.seeds):
            yield Trial("control", name, name, seed, f"controls/{name}-s{seed}")
    for seed in range(config.seeds):
        yield Trial("finetune", "none", "word2vec", seed, f"trials/none-s{seed}")
        for spec in config.systems:
            yield from _system(config, spec, seed)


def _system(config: CompareConfig, spec: str, seed: int) -> Iterator[Trial]:
    row = label(spec)
    slug = row.replace("/", "_").replace(":", "-").strip("._") or "model"
    pretrained = None
    if is_system(spec):
        configure(spec)
        first = 0 if config.share_pretraining else seed
        pretrained = f"pretrained/{slug}-s{first}"
        if first == seed:
            yield Trial("pretrain", row, spec, seed, pretrained)
        entry = find(spec.partition(":")[0])
        mode = entry.mode
        if entry.trained == "loop":  # what pretraining brought: everything else is the same
            yield Trial("finetune", row + UNTRAINED, spec, seed, f"trials/{slug}-untrained-s{seed}", pretrained)
    else:
        if not Path(spec).exists():
            configure(spec)  # raises with the nearest name
        mode = None
    yield Trial("finetune", row, spec, seed, f"trials/{slug}-s{seed}", pretrained)
    if config.one_head and mode != "features":
        yield Trial("finetune", row, spec, seed, f"one-head/{slug}-s{seed}", pretrained, mode="features", head="one")
    for items in config.label_curve:
        folder = f"label-curve/{slug}-{items}-s{seed}"
        yield Trial("finetune", row, spec, seed, folder, pretrained, items=items)


@dataclass(frozen=True)
class Estimate:
    """Upper bounds known beforehand."""

    trials: int
    seconds: float
    disk_mb: float

    def lines(self) -> list[str]:
        end = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + self.seconds))
        return [
            f"{self.trials} trials, at most {self.seconds / 60:,.0f} minutes (until {end}), about {self.disk_mb:,.0f} MB of disk"
        ]


def estimate(config: CompareConfig) -> Estimate:
    """Time and disk of the whole comparison at most; budgets in words count as unknown time and are left out."""
    pretrain, finetune = Budget.parse(config.budget).seconds or 0.0, Budget.parse(config.finetune_budget).seconds
    if finetune is None:
        raise InputError("the fine-tuning budget must be a time", do="Write it as 90s or 5m.")
    seconds = disk = 0.0
    planned = list(trials(config))
    for trial in planned:
        seconds += TRIAL_OVERHEAD_SECONDS
        if trial.kind == "control":
            continue
        seconds += pretrain if trial.kind == "pretrain" else finetune
        if is_system(trial.spec):
            name, fields = configure(trial.spec)
            fields = {**fields, "vocab_size": NOMINAL_VOCABULARY}
            disk += module_of(name).parameters(resolve(find(name).model).Config(**fields)) * 4 / 1e6
    return Estimate(len(planned), seconds, disk)
