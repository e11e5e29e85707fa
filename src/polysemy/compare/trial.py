"""One trial in a process of its own, so that its peak memory is its own: ``python -m polysemy.compare.trial JOB.json``.

A trial is finished when its folder holds ``trial.json``, written last; what it ran resumes by itself.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from polysemy.compare.plan import UNTRAINED, CompareConfig, Trial
from polysemy.core.config import parse, to_dict
from polysemy.core.errors import InputError, Interrupted
from polysemy.core.files import write_atomic
from polysemy.core.ledger import Ledger
from polysemy.core.reporter import Reporter
from polysemy.systems import configure, find
from polysemy.tasks import Task, find_task
from polysemy.tasks.example import Example

DONE = "trial.json"
LATENCY_ITEMS = 60
JSON_REPORTS = "polysemy-report: "  # how a trial's progress comes back to the comparison


@dataclass(frozen=True)
class JobFile:
    """What the process is told."""

    config: CompareConfig
    trial: Trial
    out: str  # the comparison's directory


class Pipe:
    """A reporter whose calls travel as lines of standard error."""

    def say(self, message: str) -> None:
        self._send("say", message)

    def start(self, title: str, total: float, unit: str) -> None:
        self.total = max(total, 1.0)

    def advance(self, done: float, figures: str = "") -> None:
        self._send("advance", done / self.total, figures)

    def stop(self) -> None: ...

    def _send(self, *call: Any) -> None:
        print(JSON_REPORTS + json.dumps(call), file=sys.stderr, flush=True)


def run_trial(config: CompareConfig, trial: Trial, out: Path, reporter: Reporter) -> None:
    """Do one trial and write its ``trial.json``."""
    folder = out / trial.folder
    if (folder / DONE).is_file():
        return
    begin = {"pretrain": pretrain_trial, "finetune": finetune_trial, "control": control_trial}[trial.kind]
    found = begin(config, trial, out, reporter)
    found["cost"]["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    write_atomic(folder / DONE, json.dumps(found, ensure_ascii=False, indent=1) + "\n")


def pretrain_trial(config: CompareConfig, trial: Trial, out: Path, reporter: Reporter) -> dict[str, Any]:
    """Pretrain under the budget, over the vocabulary and shards that all seeds share."""
    from polysemy.recipes.pretrain import PretrainConfig, pretrain

    kind = find(configure(trial.spec)[0]).tokenizer
    settings = PretrainConfig(
        trial.spec, config.text, config.budget, trial.seed, **config.pretrain_settings.get(trial.spec, {})
    )
    result = pretrain(settings, out / trial.folder, reporter=reporter, prepared_in=out / "prepared" / kind)
    return {"cost": {"pretrain_seconds": result.data["seconds"]}}


def finetune_trial(config: CompareConfig, trial: Trial, out: Path, reporter: Reporter) -> dict[str, Any]:
    """Fine-tune under the budget, then measure latency and speed on the test items."""
    from polysemy.recipes.finetune import FinetuneConfig, finetune
    from polysemy.recipes.finetuned import Finetuned

    untrained = trial.row.endswith(UNTRAINED)
    settings = {
        "model": str(out / trial.pretrained) if trial.pretrained else trial.spec,
        "task": config.task, "train": config.train, "dev": config.dev, "test": config.test, "mode": trial.mode,
        "budget": config.finetune_budget, "seed": trial.seed, "items": trial.items, "untrained": untrained,
        "keep_text": config.text.keep_text, **config.task_settings,
    }  # fmt: skip
    result = finetune(parse(FinetuneConfig, settings, "the comparison"), out / trial.folder, reporter=reporter)
    tuned = Finetuned.load(out / trial.folder)
    examples = read(config, "test")
    return {"cost": {**result.data["cost"], **speed(tuned, examples)}}


def speed(tuned: Any, examples: list[Example]) -> dict[str, float]:
    """Median latency of single items, text to prediction, and words a second of all of them in bulk."""
    texts = [e.text if isinstance(e.text, str) else list(e.text) for e in examples]

    def answer(some: list[Any]) -> int:
        items = [tuned.model.tokenizer.encode(text) for text in some]
        tuned.predict(tuned.texts(items))
        return sum(len(item.words) for item in items)

    answer(texts[:2])
    single = []
    for text in texts[:LATENCY_ITEMS]:
        began = time.perf_counter()
        answer([text])
        single.append(time.perf_counter() - began)
    began = time.perf_counter()
    words = answer(texts)
    return {"latency_ms": 1000 * median(single), "words_per_second": words / (time.perf_counter() - began)}


def control_trial(config: CompareConfig, trial: Trial, out: Path, reporter: Reporter) -> dict[str, Any]:
    """Fit a control and keep its predictions."""
    from polysemy.compare.controls import ContextTagger, LinearText, MajorityClass, MajorityTag, measure
    from polysemy.text.words import Segmenter

    reporter.say(f"control {trial.spec}")
    words = Segmenter().words
    tagging = config.task == "tagging"
    control: Any = {
        "majority": MajorityTag if tagging else MajorityClass,
        "tfidf": lambda: LinearText(words),
        "context": lambda: ContextTagger(seed=trial.seed),
    }[trial.spec]()
    parts = {part: read(config, part) for part in ("train", "dev", "test")}
    items = {part: [list(e.text) if tagging else e.text for e in examples] for part, examples in parts.items()}
    labels = {part: [e.label for e in examples] for part, examples in parts.items()}
    measured = measure(
        control, (items["train"], labels["train"]), {"dev": items["dev"], "test": items["test"]},
        out / trial.folder, dev=(items["dev"], labels["dev"]), words=words,
    )  # fmt: skip
    return {"cost": measured.cost, "settings": measured.settings, "predicted": measured.predictions["test"]}


def read(config: CompareConfig, part: str) -> list[Example]:
    """The examples of train, dev or test as the task reads them."""
    return make_task(config).read(Path(getattr(config, part)), Ledger())


def make_task(config: CompareConfig) -> Task:
    """The task, which has read the training file, so that columns and scheme are known."""
    from polysemy.recipes.finetune import FinetuneConfig
    from polysemy.recipes.finetune import make_task as make

    settings = {"model": "none", "task": config.task, "train": config.train, **config.task_settings}
    find_task(config.task)
    task = make(parse(FinetuneConfig, settings, "the comparison"))
    task.read(Path(config.train), Ledger())
    return task


def die_with_parent() -> None:
    """A comparison that is killed must not leave a trial behind that holds its directory (Linux; elsewhere the closed
    pipe ends it at its next report)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main() -> int:
    die_with_parent()
    job = parse(JobFile, json.loads(Path(sys.argv[1]).read_text("utf-8")), sys.argv[1])
    try:
        run_trial(job.config, job.trial, Path(job.out), Pipe())
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except (Interrupted, KeyboardInterrupt):
        return 130
    return 0


def job_file(config: CompareConfig, trial: Trial, out: Path) -> str:
    """The text of the job file."""
    return json.dumps(to_dict(JobFile(config, trial, str(out))), ensure_ascii=False)


if __name__ == "__main__":
    raise SystemExit(main())
