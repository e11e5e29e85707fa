"""``polysemy pretrain``: a system from raw text."""

from __future__ import annotations

from pathlib import Path

import typer

from polysemy.cli.output import reporter, result


def register(app: typer.Typer) -> None:
    app.command("pretrain")(pretrain)


def pretrain(
    system: str = typer.Argument(
        None, metavar="SYSTEM[:SIZE]", help="A name of `polysemy systems`, such as elmo:tiny."
    ),
    corpus: list[Path] = typer.Option([], "--corpus", help="Text files, tables or folders; may be given many times."),
    out: Path = typer.Option(..., "--out", help="The run directory; the same command on it resumes."),
    start: str = typer.Option(None, "--from", metavar="MODEL", help="Go on from this model with its vocabulary."),
    budget: str = typer.Option(None, help="Wall time or corpus words: 90s, 10m (default), 2h, 50Mtok."),
    exclude: list[Path] = typer.Option(
        [], "--exclude", help="Labelled files whose sentences are taken out of the text."
    ),
    recipe: Path = typer.Option(None, help="A YAML file of settings; options given here win."),
    settings: list[str] = typer.Option([], "--set", metavar="A.B=C", help="One setting, such as train.lr=5e-4."),
    seed: int = typer.Option(None, help="0 by default. Same seed, recipe and machine: the same bytes."),
    unit: str = typer.Option(
        None, help="auto (default), word or char (data labelled by character is read by character)."
    ),
    encoding: str = typer.Option(None, help="Encoding of the text files, utf-8 by default; never guessed."),
    no_text: bool = typer.Option(False, "--no-text", help="Keep excerpts of the text out of the ledger."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output."),
) -> None:
    """Train a system on raw text.

    Examples:
      polysemy pretrain word2vec --corpus news.txt --out runs/vectors --budget 5m
      polysemy pretrain bert:mini --corpus texts/ --out runs/bert --budget 50Mtok --set train.lr=1e-3
    """
    from polysemy.recipes.pretrain import pretrain as run
    from polysemy.recipes.pretrain import settings_of

    config = settings_of(
        recipe,
        {"system": system, "corpus": [str(p) for p in corpus] or None, "start": start, "budget": budget, "seed": seed,
         "unit": unit, "encoding": encoding, "exclude": [str(p) for p in exclude] or None, "keep_text": False if no_text else None},
        settings,
    )  # fmt: skip
    outcome = run(config, out, reporter=reporter(as_json))
    result(outcome.lines(), outcome.to_json(), as_json)
