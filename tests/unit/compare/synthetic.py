"""Made-up comparisons of the right shape: simulated answers of systems on invented sentences, no measurement."""

from __future__ import annotations

from typing import Any

import numpy as np

from polysemy.compare import summary, verdict
from polysemy.compare.results import FORMAT, Budget, Curve, Limits, Results, Spoken
from polysemy.core.messages import LANGS
from polysemy.core.statistics import ItemScores
from polysemy.data.schemes import spans

PEOPLE, PLACES = ("Adaeze Okeke", "Chinedu", "Ngozi Eze", "王小明", "Obi"), ("Enugwu", "Owere", "Legọs", "Awka", "南京")
FRAMES = (
    "{p} si na {l} bịa ụnyaahụ ka ya na {q} kpaa maka ụlọ akwụkwọ ọhụrụ ahụ",
    "Ndị mmadụ nọ na {l} kwuru na {p} ga-alọta n'ụbọchị Fraịde",
    "Gọọmentị {l} na-ekwu na {p} enweghị ihe o mere",
    "昨天 ， {p} 在 {l} 的 银行 门口 等 {q} 。",
    "A na-atụ anya ihe mmiri ozuzo n'izu na-abịa",
)
# name, chance to read a span right, seed spread, invented spans a sentence, cost: M parameters, MB, pretrain, tune, MB, ms
SYSTEMS: dict[str, tuple[float, float, float, tuple[float, ...]]] = {
    "bert:tiny": (1.30, 0.05, 0.10, (4.4, 17.6, 301.0, 214.0, 1240, 3.9)),
    "elmo:tiny": (1.26, 0.04, 0.11, (9.8, 39.2, 303.0, 171.0, 1610, 11.7)),
    "word2vec": (1.19, 0.03, 0.11, (2.1, 8.4, 297.0, 96.0, 720, 1.6)),
    "bert:tiny without pretraining": (0.62, 0.06, 0.2, (4.4, 17.6, 0.0, 230.0, 1210, 3.9)),
    "minilm": (1.34, 0.03, 0.09, (22.7, 90.9, 0.0, 288.0, 1890, 12.4)),
    "none": (0.70, 0.04, 0.18, (2.1, 8.4, 0.0, 110.0, 700, 1.6)),
    "context": (1.16, 0.0, 0.11, (2.4, 14.5, 0.0, 3.8, 410, 0.27)),
    "majority": (-0.4, 0.0, 0.3, (0.016, 0.28, 0.0, 0.2, 160, 0.0049)),
}
CONTROLS = ("context", "majority", "none")


def tagging(*, items: int = 900, seeds: int = 3, prefer: verdict.Prefer = "latency", **limits: float) -> Results:
    """A comparison on tagging with every part of the report filled."""
    rng = np.random.default_rng(11)
    sentences = [_sentence(rng) for _ in range(items)]
    words, gold = [s[0] for s in sentences], [s[1] for s in sentences]
    difficulty = rng.normal(size=items)
    answers: dict[str, list[list[list[str]]]] = {}
    for name, (level, spread, invented, _) in SYSTEMS.items():
        runs = 1 if spread == 0 else seeds
        own = 0.5 * rng.normal(size=items)
        answers[name] = [
            [
                _answer(rng, tags, level + shift + 0.7 * d + o, invented)
                for tags, d, o in zip(gold, difficulty, own, strict=True)
            ]
            for shift in spread * rng.normal(size=runs)
        ]
    scored = {name: [_scores(gold, run) for run in runs] for name, runs in answers.items()}
    rows = [_row(name, scored[name], rng) for name in SYSTEMS]
    shown = {
        name: runs[0]
        for name, runs in answers.items()
        if name in ("bert:tiny", "elmo:tiny", "word2vec", "context", "minilm")
    }
    places = [f"ner_test.txt:{7 * i + 1}" for i in range(items)]
    frozen = {name: scored[name] for name in ("bert:tiny", "elmo:tiny", "word2vec", "none")}
    labels = {
        (name, n): [_fewer(s, n) for s in scored[name]] for name in ("bert:tiny", "word2vec") for n in (100, 1000, 7634)
    }
    ask: dict[str, Any] = {"task": "tagging", "metric": "f1", "prefer": prefer, "seeds": seeds, "limits": limits}
    return _results(rows, ask) | {  # type: ignore[return-value, operator]
        "one_head": summary.one_head("BiLSTM of 200 and CRF", frozen, resamples=300),
        "label_curve": summary.label_points(labels, resamples=200),
        "disagreements": summary.disagreements(words, gold, shown, places),
    }


def classification(*, task: str = "classification", hostile: str = "") -> Results:
    """A comparison on Chinese headlines in which a linear control is as good as any; ``hostile`` is put everywhere."""
    rng = np.random.default_rng(5)
    labels = ("体育" + hostile, "财经", "科技")
    gold = [labels[i] for i in rng.integers(3, size=400)]
    texts = [f"{hostile}国足今晚客场挑战劲旅，{i} 号门将复出，主帅称要拿下三分" for i in range(400)]
    rows, answers = [], {}
    for name, right, seeds in (("tfidf", 0.86, 1), ("bert:tiny" + hostile, 0.86, 3), ("majority", 0.0, 1)):
        runs = [[g if rng.random() < right else labels[0] for g in gold] for _ in range(seeds)]
        answers[name] = runs[0]
        rows.append(_row(name, [ItemScores.of_labels(gold, run) for run in runs], rng))
    results = _results(rows, {"task": task, "metric": "accuracy", "prefer": "latency", "seeds": 3, "limits": {}})
    results["disagreements"] = summary.disagreements(texts, gold, answers, ["test.tsv" + hostile] * 400)
    results["command"] = f"polysemy compare --train '{hostile}train.tsv'"
    return results


def _results(rows: list[summary.Row], ask: dict[str, Any]) -> Results:
    standing = summary.stand(rows, resamples=400)
    systems = summary.system_results(rows, standing, ask["task"], ask["metric"])
    limits = Limits(latency_ms=ask["limits"].get("latency_ms"), size_mb=ask["limits"].get("size_mb"))
    budget = Budget(pretrain="5m", finetune="5m", seeds=ask["seeds"], share_pretraining=False)
    prefer: verdict.Prefer = ask["prefer"]
    decision = verdict.decide(systems, standing, prefer, limits)
    spoken: dict[str, Spoken] = {
        lang: verdict.speak(decision, systems, standing, prefer=prefer, limits=limits, budget=budget, lang=lang)
        for lang in LANGS
    }
    return Results(
        format=FORMAT,
        systems=systems,
        tied_with_best=list(standing.tied),
        recommended=decision.recommended,
        why=spoken["en"]["why"],
        task=ask["task"],
        metric=ask["metric"],
        best=standing.best,
        verdict=spoken,
        budget=budget,
        prefer=prefer,
        limits=limits,
        statistics={"level": 0.95, "resamples": 400},
        overlap={"held_out": 3271, "found": 3068, "removed": 3353, "of": 8000},
        environment={
            "python": "3.11.9",
            "packages": {"polysemy": "0.1.0", "torch": "2.13.0"},
            "cores": 2,
            "cpu": "made up",
        },
        data={
            "train": {"path": "igbo/ner_train.txt", "items": 7634, "note": ""},
            "dev": {"path": "igbo/ner_dev.txt", "items": 1090, "note": ""},
            "test": {"path": "igbo/ner_test.txt", "items": rows[0].scores[0].counts.shape[0], "note": ""},
        },
        corpus={"paths": ["igbo/raw_news.txt", "igbo/news_train.tsv"], "sentences": 14630, "words": 1023450},
        ledger={
            "read": {"labelled items": {"count": 10905, "first": []}},
            "truncated": {"sentences cut into windows": {"count": 12, "first": ["ner_train.txt:812: ọ bụ ihe"]}},
        },
        one_head=None,
        label_curve=[],
        disagreements=[],
        failures=[{"system": "elmo:tiny", "seed": 2, "reason": "training diverged at step 40 with learning rate 0.01"}],
        plan={"trials": 31, "seconds_at_most": 8940.0, "seconds_used": 6410.0, "disk_mb": 612.0},
        command="polysemy compare --corpus igbo/raw_news.txt igbo/news_train.tsv --task tagging --train igbo/ner_train.txt"
        " --dev igbo/ner_dev.txt --test igbo/ner_test.txt --systems word2vec,elmo,bert --budget 5m --seeds 3 --out cmp",
        created="2031-05-04T10:12:00+01:00",
    )


def _row(name: str, scores: list[ItemScores], rng: np.random.Generator) -> summary.Row:
    known = name if name in SYSTEMS else "bert:tiny" if name.startswith("bert") else "context"
    parameters, disk, pretrain, tune, memory, latency = SYSTEMS[known][3]
    control, elsewhere = name in CONTROLS or name == "tfidf", name == "minilm"
    costs = [
        {
            "parameters": int(parameters * 1e6),
            "disk_mb": disk,
            "pretrain_seconds": None if elsewhere else pretrain,
            "finetune_seconds": tune * float(rng.uniform(0.9, 1.1)),
            "peak_memory_mb": memory,
            "latency_ms": latency * float(rng.uniform(0.95, 1.05)),
            "words_per_second": 60_000 / latency,
        }
        for _ in scores
    ]
    mode = "" if control and name != "none" else "finetune" if name.startswith(("bert", "minilm")) else "features"
    return summary.Row(
        system=name,
        scores=scores,
        costs=costs,
        control=control,
        deterministic=len(scores) == 1,
        elsewhere=elsewhere,
        mode=mode,
        head="" if not mode else "linear layer" if mode == "finetune" else "BiLSTM of 200 and CRF",
        settings="words within two places, affixes, shape; 10 epochs" if name == "context" else "",
        under_trained_in=("pretrain",) if name in ("bert:tiny", "elmo:tiny") else (),
        curves=[]
        if control
        else [c for seed in range(len(scores)) for c in _curves(seed, pretrain, tune, scores[seed], rng)],
        runs=[f"trials/{name}-s{seed}" for seed in range(len(scores))],
    )


def _curves(seed: int, pretrain: float, tune: float, scores: ItemScores, rng: np.random.Generator) -> list[Curve]:
    curves = []
    for stage, end in (("pretrain", pretrain), ("finetune", tune)):
        x = np.linspace(end / 40, end, 40)
        if stage == "pretrain" and end:
            y = 3.9 + 5 * np.exp(-x / 40) + 0.03 * rng.normal(size=40)
            curves.append(Curve(stage="pretrain", seed=seed, quantity="loss", seconds=x.tolist(), values=y.tolist()))
        if stage == "finetune":
            y = scores.score() * (1 - 0.8 * np.exp(-x / (end / 6))) + 0.004 * rng.normal(size=40)
            curves.append(Curve(stage="finetune", seed=seed, quantity="f1", seconds=x.tolist(), values=y.tolist()))
    return curves


def _sentence(rng: np.random.Generator) -> tuple[list[str], list[str]]:
    words, tags = [], []
    for piece in FRAMES[rng.integers(len(FRAMES))].split():
        kind = {"{p}": "PER", "{q}": "PER", "{l}": "LOC"}.get(piece)
        if kind is None:
            words.append(piece)
            tags.append("O")
            continue
        names = PEOPLE if kind == "PER" else PLACES
        for index, word in enumerate(names[rng.integers(len(names))].split()):
            words.append(word)
            tags.append(("B-" if index == 0 else "I-") + kind)
    return words, tags


def _answer(rng: np.random.Generator, tags: list[str], level: float, invented: float) -> list[str]:
    """Each span is read right, missed, or given the other type; now and then a span is invented."""
    out = ["O"] * len(tags)
    for start, stop, kind in sorted(spans(tags)):
        if rng.normal() < level:
            read = kind
        elif rng.random() < 0.5:
            continue
        else:
            read = "LOC" if kind == "PER" else "PER"
        out[start:stop] = ["B-" + read] + ["I-" + read] * (stop - start - 1)
    if rng.random() < invented:
        free = [i for i, tag in enumerate(tags) if tag == "O"]
        out[free[rng.integers(len(free))]] = "B-LOC"
    return out


def _scores(gold: list[list[str]], answers: list[list[str]]) -> ItemScores:
    return ItemScores.of_spans([spans(tags) for tags in gold], [spans(tags) for tags in answers])


def _fewer(scores: ItemScores, labels: int) -> ItemScores:
    """The same system with fewer labels: a share of its right spans is lost."""
    share = {100: 0.55, 1000: 0.86}.get(labels, 1.0)
    counts = scores.counts.copy()
    counts[:, 0] *= share
    return ItemScores("f1", counts)
