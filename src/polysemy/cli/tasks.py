"""``polysemy finetune``, ``evaluate`` and ``predict``: a system under a task."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from polysemy.cli.output import reporter, result


def register(app: typer.Typer) -> None:
    app.command("finetune")(finetune)
    app.command("evaluate")(evaluate)
    app.command("predict")(predict)


def finetune(
    model: str = typer.Argument(None, help="A run directory, Hugging Face directory, vector file or SYSTEM:SIZE."),
    task: str = typer.Option(None, help="tagging or classification."),
    train: Path = typer.Option(None, help="Labelled file: CoNLL columns, CoNLL-U, TSV, CSV, JSONL or Parquet."),
    dev: Path = typer.Option(None, help="For early stopping; without it a seeded part of train, stated."),
    test: Path = typer.Option(None, help="Scored once at the end."),
    out: Path = typer.Option(..., "--out", help="The run directory; the same command on it resumes."),
    mode: str = typer.Option(None, help="features (frozen system) or finetune (whole); default: as its paper does."),
    budget: str = typer.Option(None, help="Wall time at most: 90s, 5m. Training stops early on dev anyway."),
    seed: int = typer.Option(None, help="0 by default. Same seed, recipe and machine: the same bytes."),
    recipe: Path = typer.Option(None, help="A YAML file of settings; options given here win."),
    settings: list[str] = typer.Option([], "--set", metavar="A.B=C", help="One setting, such as epochs=20."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output."),
) -> None:
    """Put a system under your task.

    Example: polysemy finetune runs/elmo --task tagging --train train.conll --dev dev.conll --out runs/ner
    """
    from polysemy.recipes.finetune import finetune as run
    from polysemy.recipes.finetune import settings_of

    given = {"model": model, "task": task, "train": train and str(train), "dev": dev and str(dev), "test": test and str(test),
             "mode": mode, "budget": budget, "seed": seed}  # fmt: skip
    outcome = run(settings_of(recipe, given, settings), out, reporter=reporter(as_json))
    result(outcome.lines(), outcome.to_json(), as_json)


def evaluate(
    run: Path = typer.Argument(..., help="A fine-tuned run directory."),
    data: Path = typer.Option(..., help="A labelled file as for finetune."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output."),
) -> None:
    """Score a fine-tuned run on a labelled file.

    Example: polysemy evaluate runs/ner --data test.conll
    """
    from polysemy.recipes.evaluate import evaluate as score

    outcome = score(run, data, reporter=reporter(as_json))
    result(outcome.lines(), outcome.to_json(), as_json)


def predict(
    run: Path = typer.Argument(..., help="A fine-tuned run directory."),
    source: str = typer.Option(..., "--input", help="A file with one text a line, or - for standard input."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a line."),
) -> None:
    """Label raw text: one output for each input line.

    Example: echo 'Ada lives in Enugu' | polysemy predict runs/ner --input -
    """
    from polysemy.recipes.predict import predict_lines

    for prediction in predict_lines(run, sys.stdin if source == "-" else Path(source)):
        result(prediction.lines(), prediction.to_json(), as_json)
