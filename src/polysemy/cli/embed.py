"""``polysemy embed`` and ``polysemy neighbors``: vectors of texts, and of words."""

from __future__ import annotations

from pathlib import Path

import typer

from polysemy.cli.output import reporter, result


def register(app: typer.Typer) -> None:
    app.command("embed")(embed)
    app.command("neighbors")(neighbors)


def embed(
    model: str = typer.Argument(..., help="A run directory, Hugging Face directory or word-vector file."),
    source: Path = typer.Option(..., "--input", help="One text a line."),
    output: Path = typer.Option(..., "--output", help="F.npz, F.parquet or F.h5; one entry a line, in input order."),
    layer: str = typer.Option("last", help="last, all, mean or a number (0 is the lowest)."),
    unit: str = typer.Option("word", help="word, sentence or piece."),
    exact: bool = typer.Option(False, help="One row at a time: bit-equal whatever stands beside it."),
    encoding: str = typer.Option("utf-8", help="Encoding of the input."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output."),
) -> None:
    """Turn each line of a file into vectors.

    Example: polysemy embed runs/elmo --input lines.txt --output vectors.npz --unit sentence
    """
    from polysemy.recipes.embed import embed_file

    outcome = embed_file(
        model, source, output, layer=layer, unit=unit, exact=exact, encoding=encoding, reporter=reporter(as_json)
    )
    result(outcome.lines(), outcome.to_json(), as_json)


def neighbors(
    model: str = typer.Argument(..., help="A run directory, Hugging Face directory or word-vector file."),
    word: str = typer.Argument(..., help="The word whose neighbours are wanted."),
    sentence: str = typer.Option(None, "--in", help="Take the word as it stands in this sentence."),
    count: int = typer.Option(10, "--count", min=1, help="How many neighbours."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output."),
) -> None:
    """The words whose vectors are nearest (cosine).

    Example: polysemy neighbors runs/vectors king
    """
    from polysemy.recipes.neighbors import nearest_words

    found = nearest_words(model, word, sentence=sentence, count=count)
    result([f"{score:6.3f}  {other}" for other, score in found], {"word": word, "neighbors": found}, as_json)
