"""``polysemy compare`` and ``polysemy demo``: which system is worth it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import typer

from polysemy.cli.output import reporter, result


def register(app: typer.Typer) -> None:
    app.command("compare")(compare)
    app.command("demo")(demo)


def compare(
    corpus: list[Path] = typer.Option([], "--corpus", help="Raw text, tables or folders; may be given many times."),
    task: str = typer.Option(None, help="tagging or classification."),
    train: Path = typer.Option(None, help="Labelled file."),
    dev: Path = typer.Option(None, help="Without it a seeded part of train, stated."),
    test: Path = typer.Option(None, help="Without it a seeded part of train, stated."),
    systems: str = typer.Option(None, help="Names, sizes or MODELs, separated by commas (word2vec,elmo,bert)."),
    out: Path = typer.Option(..., "--out", help="The comparison's directory; the same command resumes it."),
    budget: str = typer.Option(None, help="5m by default. One system's pretraining with one seed: 90s, 5m, 50Mtok."),
    finetune_budget: str = typer.Option(
        None, "--finetune-budget", help="5m by default, at most; it stops early on dev."
    ),
    seeds: int = typer.Option(None, min=1, help="Trials of each system, 3 by default."),
    share_pretraining: bool = typer.Option(None, "--share-pretraining", help="One pretraining for all seeds."),
    one_head: bool = typer.Option(None, help="A second table with every system frozen under one head."),
    label_curve: str = typer.Option(None, "--label-curve", help="Scores with the first 100,1000,... labelled items."),
    prefer: str = typer.Option(None, help="latency (default), size or training: what is cheap among the tied."),
    max_latency_ms: float = typer.Option(None, "--max-latency-ms", help="Recommend nothing slower."),
    max_size_mb: float = typer.Option(None, "--max-size-mb", help="Recommend nothing larger."),
    unit: str = typer.Option(None, help="auto (default), word or char."),
    encoding: str = typer.Option(None, help="Encoding of the text files, utf-8 by default."),
    no_text: bool = typer.Option(False, "--no-text", help="Keep excerpts of the text out of ledger and report."),
    recipe: Path = typer.Option(None, help="A YAML file of settings; options given here win."),
    settings: list[str] = typer.Option([], "--set", metavar="A.B=C", help="One setting."),
    plan: bool = typer.Option(False, "--plan", help="Print trials, end time and disk, and do nothing."),
    lang: str = typer.Option("en", help="en or zh: the report and the verdict."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output."),
) -> None:
    """Compare systems on your text and task under one budget, with controls, intervals, tests and costs.

    Example:
      polysemy compare --corpus news.txt --task tagging --train train.conll --dev dev.conll --test test.conll \\
        --systems word2vec,elmo,bert --budget 5m --out runs/compared
    """
    from polysemy.compare import run
    from polysemy.compare.terminal import terminal_lines
    from polysemy.core.messages import language

    chosen = language(lang)
    config = run.settings_of(
        recipe,
        {"task": task, "train": train and str(train), "dev": dev and str(dev), "test": test and str(test),
         "systems": systems and [s.strip() for s in systems.split(",") if s.strip()], "budget": budget,
         "finetune_budget": finetune_budget, "seeds": seeds, "share_pretraining": share_pretraining, "one_head": one_head,
         "label_curve": run.numbers(label_curve) if label_curve else None, "prefer": prefer, "max_latency_ms": max_latency_ms,
         "max_size_mb": max_size_mb, "corpus": [str(p) for p in corpus] or None, "unit": unit, "encoding": encoding,
         "keep_text": False if no_text else None},
        settings,
    )  # fmt: skip
    if plan:
        estimate, trials = run.plan(config)
        lines = [*(f"{t.kind:9} {t.row} seed {t.seed}" for t in trials), *estimate.lines()]
        result(
            lines,
            {"trials": [t._asdict() for t in trials], "seconds": estimate.seconds, "disk_mb": estimate.disk_mb},
            as_json,
        )
        return
    command = "polysemy " + shlex.join(sys.argv[1:])
    done = run.compare(config, out, reporter=reporter(as_json), lang=chosen, command=command)
    result([*terminal_lines(done.results, chosen), f"report: {done.report}"], done.results, as_json)


def demo(
    out: Path = typer.Option(Path("runs/demo"), "--out", help="Where everything goes; the same command resumes."),
    wheels: Path = typer.Option(None, help="A folder with the two source packages, for machines without network."),
    lang: str = typer.Option("en", help="en or zh."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output."),
) -> None:
    """The main job on real data: English sentiment and Chinese tagging compared, and words that mean two things.

    Example: polysemy demo --out runs/demo
    """
    from polysemy.compare.demo import run_demo
    from polysemy.core.messages import language

    done = run_demo(out, wheels, reporter=reporter(as_json), lang=language(lang))
    result(done.lines(), done.to_json(), as_json)
