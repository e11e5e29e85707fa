"""Run directories -> ``results.json``.  Reads files only; nothing is trained or guessed here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polysemy.compare.plan import DETERMINISTIC, UNTRAINED, CompareConfig, Trial, is_system, trials
from polysemy.compare.results import FORMAT, Budget, Curve, Limits, OneHead, Overlap, Part, Results, Stage
from polysemy.compare.summary import Row, disagreements, label_points, one_head, stand, system_results
from polysemy.compare.trial import DONE, make_task, read
from polysemy.compare.verdict import decide, speak
from polysemy.core.environment import environment
from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.core.messages import LANGS
from polysemy.core.statistics import ItemScores
from polysemy.data.schemes import spans
from polysemy.tasks import Task
from polysemy.tasks.example import Example

RESAMPLES, LEVEL = 2000, 0.95
STILL_FALLING = 0.02  # held-out loss that fell by more than this in the last fifth was still improving


class Gathered:
    """The finished trials of a comparison with their scores."""

    def __init__(self, config: CompareConfig, out: Path) -> None:
        self.config, self.out = config, out
        self.task = make_task(config)
        self.test = read(config, "test")
        self.task.fit(read(config, "train"))
        self.gold = [example.label for example in self.test]
        self.done = [trial for trial in trials(config) if (out / trial.folder / DONE).is_file()]

    def file(self, trial: Trial | str, name: str) -> Any:
        folder = trial if isinstance(trial, str) else trial.folder
        return json.loads((self.out / folder / name).read_text("utf-8"))

    def predicted(self, trial: Trial) -> list[Any]:
        """The test predictions of a trial, in the order of the test file."""
        if trial.kind == "control":
            return list(self.file(trial, DONE)["predicted"])
        return read_predictions(self.out / trial.folder / "predictions", per_word=self.task.per_word)

    def scores(self, trial: Trial) -> ItemScores:
        return item_scores(self.task, self.gold, self.predicted(trial))

    def cost(self, trial: Trial) -> dict[str, Any]:
        """What one seed cost: both stages, the larger of their peaks."""
        cost: dict[str, Any] = {"pretrain_seconds": 0.0, **self.file(trial, DONE)["cost"]}
        if trial.kind == "finetune" and not is_system(trial.spec):
            cost["pretrain_seconds"] = None
        elif trial.pretrained and not trial.row.endswith(UNTRAINED):
            before = self.file(trial.pretrained, DONE)["cost"]
            cost["pretrain_seconds"] = before["pretrain_seconds"]
            cost["peak_memory_mb"] = max(cost["peak_memory_mb"], before["peak_memory_mb"])
        return cost

    def row(self, name: str, found: Sequence[Trial]) -> Row:
        """All seeds of one line of the table."""
        first = found[0]
        control = first.kind == "control" or name == "none"
        results = [] if first.kind == "control" else [self.file(trial, "results.json") for trial in found]
        return Row(
            system=name,
            scores=[self.scores(trial) for trial in found],
            costs=[self.cost(trial) for trial in found],
            control=control,
            deterministic=name in DETERMINISTIC,
            elsewhere=first.kind == "finetune" and not is_system(first.spec),
            mode=results[0]["mode"] if results and not control else "",
            head=results[0]["how"].partition(", ")[2] if results else "",
            settings=self.file(first, DONE).get("settings", "") if first.kind == "control" else "",
            under_trained_in=self.under_trained(found, results),
            curves=[curve for trial in found for curve in self.curves(trial)],
            runs=[trial.folder for trial in found],
        )

    def under_trained(self, found: Sequence[Trial], results: Sequence[Mapping[str, Any]]) -> list[Stage]:
        """The stages in which some seed was still improving when its budget ended."""
        stages: list[Stage] = []
        pretrained = {t.pretrained for t in found if t.pretrained and not t.row.endswith(UNTRAINED)}
        if any(still_falling(losses(self.file(folder, "results.json"))) for folder in pretrained):
            stages.append("pretrain")
        if any(cut_short(result) for result in results):
            stages.append("finetune")
        return stages

    def curves(self, trial: Trial) -> list[Curve]:
        """Held-out loss (training loss where there is none) and dev score, by the time of their stage."""
        out: list[Curve] = []
        if trial.kind == "control":
            return out
        if trial.pretrained and not trial.row.endswith(UNTRAINED):
            rows = losses(self.file(trial.pretrained, "results.json")) or self.logged(trial.pretrained)
            out.append(_curve("pretrain", trial.seed, "loss", rows))
        result = self.file(trial, "results.json")
        rows = [(row["seconds"], row[result["metric"]]) for row in result["curve"]]
        out.append(_curve("finetune", trial.seed, result["metric"], rows))
        return out

    def logged(self, folder: str) -> list[tuple[float, float]]:
        lines = (self.out / folder / "metrics.jsonl").read_text("utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        return [(row["seconds"], row["loss"]) for row in rows if row.get("loss") is not None and "seconds" in row]


def _curve(stage: Stage, seed: int, quantity: str, rows: Sequence[tuple[float, float]]) -> Curve:
    return Curve(stage=stage, seed=seed, quantity=quantity, seconds=[s for s, _ in rows], values=[v for _, v in rows])


def losses(result: Mapping[str, Any]) -> list[tuple[float, float]]:
    """(seconds, mean held-out loss over its parts) along a pretraining."""
    out = []
    for row in result["curve"]:
        parts = [value for name, value in row.items() if name.endswith("_loss")]
        if parts:
            out.append((row["seconds"], sum(parts) / len(parts)))
    return out


def still_falling(rows: Sequence[tuple[float, float]]) -> bool:
    """Whether the loss fell by more than ``STILL_FALLING`` (relative) in the last fifth of the time."""
    if len(rows) < 3:
        return False
    end, last = rows[-1]
    before = [value for seconds, value in rows if seconds <= 0.8 * end] or [rows[0][1]]
    return last < (1 - STILL_FALLING) * before[-1]


def cut_short(result: Mapping[str, Any]) -> bool:
    """Whether the budget ended a fine-tuning whose last dev score was its best."""
    best, curve = result["best"], result["curve"]
    ended = result["steps"] == result["planned_steps"] < result["full_steps"]
    return bool(ended and best and curve and best["step"] == curve[-1]["step"])


def item_scores(task: Task, gold: Sequence[Any], predicted: Sequence[Any]) -> ItemScores:
    """Sufficient statistics of the task's main metric by test item."""
    if task.per_word and task.metric == "f1":
        return ItemScores.of_spans([set(spans(tags)) for tags in gold], [set(spans(tags)) for tags in predicted])
    if task.per_word:
        return ItemScores.of_tags(gold, predicted)
    name = task.metric if task.metric in ("accuracy", "macro_f1", "weighted_f1") else "accuracy"
    return ItemScores.of_labels(gold, predicted, name)


def read_predictions(folder: Path, *, per_word: bool) -> list[Any]:
    """What ``finetune`` wrote for the test part."""
    if per_word:
        text = (folder / "test.txt").read_text("utf-8")
        return [
            [row.rsplit("\t", 1)[1] for row in block.split("\n") if row] for block in text.rstrip("\n").split("\n\n")
        ]
    return [json.loads(line)["predicted"] for line in (folder / "test.jsonl").read_text("utf-8").splitlines()]


def gather(config: CompareConfig, out: Path, failures: Sequence[Any], notes: Mapping[str, str]) -> Results:
    """``results.json`` of a comparison, its plan, command and date left to the caller."""
    found = Gathered(config, out)
    main: dict[str, list[Trial]] = {}
    for trial in found.done:
        if trial.kind != "pretrain" and trial.head == "own" and trial.items is None:
            main.setdefault(trial.row, []).append(trial)
    if not main:
        reasons = "; ".join(dict.fromkeys(f["reason"] for f in failures))
        raise InputError(f"no trial could be finished: {reasons}")
    rows = [found.row(name, group) for name, group in main.items()]
    standing = stand(rows, resamples=RESAMPLES, level=LEVEL)
    systems = system_results(rows, standing, config.task, found.task.metric)
    limits = Limits(latency_ms=config.max_latency_ms, size_mb=config.max_size_mb)
    decision = decide(systems, standing, config.prefer, limits)
    budget = Budget(
        pretrain=config.budget,
        finetune=config.finetune_budget,
        seeds=config.seeds,
        share_pretraining=config.share_pretraining,
    )
    spoken = {
        lang: speak(decision, systems, standing, prefer=config.prefer, limits=limits, budget=budget, lang=lang)
        for lang in LANGS
    }
    return Results(
        format=FORMAT, systems=systems, tied_with_best=list(standing.tied), recommended=decision.recommended,
        why=spoken["en"]["why"], overlap=overlap(out), environment=environment(), task=config.task,
        metric=found.task.metric, best=standing.best, verdict=dict(spoken), budget=budget, prefer=config.prefer,
        limits=limits, data=parts(config, notes), corpus=corpus(config, out), ledger=ledger(out),
        one_head=second_table(found), label_curve=by_labels(found), disagreements=examples_of(found, main),
        failures=list(failures), plan={"trials": 0, "seconds_at_most": 0.0, "seconds_used": 0.0, "disk_mb": 0.0},
        statistics={"level": LEVEL, "resamples": RESAMPLES}, command="", created="",
    )  # fmt: skip


def second_table(found: Gathered) -> OneHead | None:
    """Every system frozen under the same head; systems whose own head is that one take part with it."""
    groups: dict[str, list[Trial]] = {}
    for trial in found.done:
        same = trial.head == "own" and trial.items is None and trial.kind == "finetune"
        if trial.head == "one" or (same and found.file(trial, "results.json")["mode"] == "features"):
            groups.setdefault(trial.row, []).append(trial)
    if not found.config.one_head or len(groups) < 2:
        return None
    head = found.file(next(iter(groups.values()))[0], "results.json")["how"].partition(", ")[2]
    return one_head(
        head, {name: [found.scores(t) for t in group] for name, group in groups.items()}, resamples=RESAMPLES
    )


def by_labels(found: Gathered) -> list[Any]:
    groups: dict[tuple[str, int], list[ItemScores]] = {}
    for trial in found.done:
        if trial.items is not None:
            groups.setdefault((trial.row, trial.items), []).append(found.scores(trial))
    return label_points(groups, resamples=RESAMPLES) if groups else []


def examples_of(found: Gathered, main: Mapping[str, Sequence[Trial]]) -> list[Any]:
    """Test items that the systems (their first seed) read differently; none where text is to be left out."""
    if not found.config.text.keep_text:
        return []
    shown = {name: group[0] for name, group in main.items() if name not in ("majority", "none")}
    items = [list(e.text) if found.task.per_word else e.text for e in found.test]
    predicted = {name: found.predicted(trial) for name, trial in shown.items()}
    return disagreements(items, found.gold, predicted, [_place(e) for e in found.test])


def _place(example: Example) -> str:
    path, _, line = example.place.rpartition(":")
    return f"{Path(path).name}:{line}"


def parts(config: CompareConfig, notes: Mapping[str, str]) -> dict[str, Part]:
    return {
        part: Part(path=Path(getattr(config, part)).name, items=len(read(config, part)), note=notes.get(part, ""))
        for part in ("train", "dev", "test")
    }


def _prepared(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text("utf-8")) for path in sorted((out / "prepared").glob("*/prepared.json"))]


def overlap(out: Path) -> Overlap | None:
    """The same for every kind of reader, because it is taken out before any of them."""
    for meta in _prepared(out):
        if (found := meta["overlap"]) and "given" in found:
            lines = meta["lines"]
            return Overlap(held_out=found["given"], found=found["found"], removed=found["removed_lines"], of=lines)
    return None


def corpus(config: CompareConfig, out: Path) -> Any:
    for meta in _prepared(out):
        names = [Path(path).name for path in config.text.corpus]
        return {"paths": names, "sentences": meta["kept_lines"], "words": meta["fit_words"]}
    return None


def ledger(out: Path) -> dict[str, Any]:
    """What the first reader of the text counted."""
    for meta in _prepared(out):
        return Ledger.from_json(meta["ledger"]).to_json()
    return {}
