"""``polysemy corpus``: what is in a text, before a night is spent on it."""

from __future__ import annotations

from pathlib import Path

import typer

from polysemy.cli.output import result


def register(app: typer.Typer) -> None:
    app.command("corpus")(corpus)


def corpus(
    paths: list[Path] = typer.Argument(..., help="Text files (.txt .gz .zst .jsonl .tsv .csv .parquet) or folders."),
    labels: list[Path] = typer.Option(
        [], "--labels", help="Labelled files: how many of their words does the text know?"
    ),
    encoding: str = typer.Option("utf-8", help="Encoding of the text files; never guessed."),
    unit: str = typer.Option("auto", help="auto, word or char."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output."),
) -> None:
    """What is in this text: scripts, broken characters, duplicates, words, and what it covers of your labelled words.

    Example: polysemy corpus news.txt articles.tsv --labels train.conll
    """
    from polysemy.recipes.corpus import inspect_corpus

    inspection = inspect_corpus(paths, labels, encoding=encoding, unit=unit)
    result(inspection.lines(), inspection.to_json(), as_json)
