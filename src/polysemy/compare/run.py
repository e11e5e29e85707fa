"""A comparison, top to bottom: plan, trials one after the other, results, report.  A kill loses one trial's last minute."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from polysemy.compare.gather import gather
from polysemy.compare.plan import CompareConfig, Estimate, Trial, estimate, trials
from polysemy.compare.report import write_report
from polysemy.compare.results import Results
from polysemy.compare.trial import DONE, JSON_REPORTS, job_file
from polysemy.core.config import override, parse, read_yaml, to_dict
from polysemy.core.errors import InputError, Interrupted
from polysemy.core.files import sha256, write_atomic
from polysemy.core.ledger import Ledger
from polysemy.core.messages import Lang
from polysemy.core.reporter import Reporter, Silent
from polysemy.core.run import Run
from polysemy.data.split import split
from polysemy.recipes.finetune import FinetuneConfig, make_task
from polysemy.recipes.prepare import TextConfig
from polysemy.tasks.example import Example

SPLIT = (0.8, 0.1, 0.1)  # train, dev, test where one file is given


@dataclass(frozen=True)
class Compared:
    """A finished comparison."""

    out: Path
    results: Results

    @property
    def report(self) -> Path:
        return self.out / "report.html"


def compare(
    config: CompareConfig, out: Path, *, reporter: Reporter | None = None, lang: Lang = "en", command: str = ""
) -> Compared:
    """Run every trial that is not finished, then write ``results.json`` and ``report.html``.

    Raises InputError for input that no trial could use, Interrupted when asked to stop.
    """
    reporter = reporter or Silent()
    check(config)
    planned = estimate(config)
    for line in planned.lines():
        reporter.say(line)
    run = Run.open(out, to_dict(config))
    with run:
        if run.finished:
            return Compared(out, run.read_json("results.json"))
        config, notes = settle_parts(config, out)
        began = time.monotonic()
        failures = _run_all(config, list(trials(config)), out, reporter)
        used = time.monotonic() - began
        results = gather(config, out, failures, notes)
        results["plan"] = {
            "trials": planned.trials, "seconds_at_most": planned.seconds, "seconds_used": used, "disk_mb": planned.disk_mb,
        }  # fmt: skip
        results["command"] = command
        results["created"] = datetime.now().astimezone().isoformat(timespec="seconds")
        write_report(results, out, lang)
        run.finish(results)
        return Compared(out, results)


def settings_of(recipe: Path | None, given: Mapping[str, Any], sets: Sequence[str]) -> CompareConfig:
    """Defaults <- YAML <- options <- ``--set``; unknown keys are refused with the nearest name."""
    text_keys = set(TextConfig.__dataclass_fields__)
    data = read_yaml(recipe) if recipe else {}
    data = {**data, **{k: v for k, v in given.items() if k not in text_keys and v is not None}}
    data["text"] = {**data.get("text", {}), **{k: v for k, v in given.items() if k in text_keys and v is not None}}
    return parse(CompareConfig, override(data, list(sets)), str(recipe or "options"))


def numbers(text: str) -> list[int]:
    """``"100,1000"`` -> ``[100, 1000]``"""
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"cannot read the numbers {text!r}", do="Write them as 100,1000.") from None


def plan(config: CompareConfig) -> tuple[Estimate, list[Trial]]:
    """What ``compare`` would do; nothing is done."""
    check(config)
    return estimate(config), list(trials(config))


def check(config: CompareConfig) -> None:
    """Refuse what cannot give an honest comparison."""
    paths = {part: Path(path) for part in ("train", "dev", "test") if (path := getattr(config, part))}
    for path in paths.values():
        if not path.is_file():
            raise InputError("no such file", where=str(path), do="Check the spelling of the path.")
    digests: dict[str, str] = {}
    for part, path in paths.items():
        if (other := digests.setdefault(sha256(path), part)) != part:
            raise InputError(
                f"{other} and {part} are the same text", where=str(path), do="Give different files, or leave one out."
            )


def settle_parts(config: CompareConfig, out: Path) -> tuple[CompareConfig, dict[str, str]]:
    """Without dev or test file, a seeded split of train written to ``out/data``; the overlap is taken out for both."""
    notes: dict[str, str] = {}
    task = make_task(FinetuneConfig("none", config.task, config.train, **config.task_settings))
    examples = task.read(Path(config.train), Ledger())
    task.fit(examples)
    if config.dev is None or config.test is None:
        shares = (SPLIT[0], SPLIT[1] if config.dev is None else 0.0, SPLIT[2] if config.test is None else 0.0)
        documents = [example.document for example in examples]
        grouped = len(set(documents) - {None}) > 1
        wanted = {part: s / sum(shares) for part, s in zip(("train", "dev", "test"), shares, strict=True) if s}
        parts = split(
            examples, 0, fractions=tuple(wanted.values()), groups=documents if grouped else None,
            labels=None if task.per_word else [example.label for example in examples],
        )  # fmt: skip
        changes: dict[str, Any] = {}
        for (part, share), chosen in zip(wanted.items(), parts, strict=True):
            changes[part] = str(write_part(out / "data", part, chosen, per_word=task.per_word))
            notes[part] = f"{share:.0%} of {Path(config.train).name}, seed 0{', by document' if grouped else ''}"
        config = replace(config, **changes)
    excluded = tuple(dict.fromkeys([*config.text.exclude, str(config.dev), str(config.test)]))
    return replace(config, text=replace(config.text, exclude=excluded)), notes


def write_part(folder: Path, part: str, examples: Sequence[Example], *, per_word: bool) -> Path:
    """Examples as a file that the task reads back: columns of words and tags, or JSON lines."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{part}.{'conll' if per_word else 'jsonl'}"
    if per_word:
        blocks = ("".join(f"{w}\t{t}\n" for w, t in zip(e.text, e.label, strict=True)) for e in examples)
        write_atomic(path, "\n".join(blocks) + "\n")
    else:
        rows = (json.dumps({"text": e.text, "label": e.label}, ensure_ascii=False) for e in examples)
        write_atomic(path, "".join(row + "\n" for row in rows))
    return path


def _run_all(config: CompareConfig, planned: list[Trial], out: Path, reporter: Reporter) -> list[dict[str, Any]]:
    """Run what is not finished; a trial whose input is wrong is a failure of its row, not of the comparison."""
    failures: list[dict[str, Any]] = []
    reporter.start("comparing", float(len(planned)), "trials")
    try:
        for number, trial in enumerate(planned):
            if (out / trial.folder / DONE).is_file():
                continue
            if trial.pretrained and trial.kind == "finetune" and not (out / trial.pretrained / DONE).is_file():
                continue  # its pretraining failed and is among the failures
            reporter.advance(float(number), f"{trial.row} seed {trial.seed}: {trial.kind}")
            reason = _run_one(config, trial, out, reporter, number)
            if reason:
                reporter.say(f"{trial.row} (seed {trial.seed}) failed: {reason}")
                failures.append({"system": trial.row, "seed": trial.seed, "reason": reason})
        reporter.advance(float(len(planned)))
    finally:
        reporter.stop()
    return failures


def _run_one(config: CompareConfig, trial: Trial, out: Path, reporter: Reporter, number: int) -> str:
    """Run a trial in its own process; the reason if its input was wrong, else an empty string."""
    folder = out / "jobs"
    folder.mkdir(exist_ok=True)
    job = folder / f"{trial.folder.replace('/', '_')}.json"
    write_atomic(job, job_file(config, trial, out))
    process = subprocess.Popen(
        [sys.executable, "-m", "polysemy.compare.trial", str(job)],
        stderr=subprocess.PIPE, text=True, encoding="utf-8", env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert process.stderr is not None
    last: list[str] = []
    try:
        for line in process.stderr:
            if line.startswith(JSON_REPORTS):
                name, *values = json.loads(line.removeprefix(JSON_REPORTS))
                if name == "advance":
                    reporter.advance(number + min(float(values[0]), 1.0), f"{trial.row} seed {trial.seed}: {values[1]}")
            else:
                last = [*last, line.rstrip()][-20:]
        code = process.wait()
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise
    if code == 130 or code in (-signal.SIGINT, -signal.SIGTERM):
        raise Interrupted(f"stopped in {trial.folder}")
    if code == 2:
        return last[-1] if last else "wrong input"
    if code:
        raise RuntimeError(f"trial {trial.folder} ended with code {code}:\n" + "\n".join(last))
    return ""
