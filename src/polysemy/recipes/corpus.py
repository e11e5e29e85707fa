"""What is in a text, and what it covers of the labelled words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from polysemy.data.corpus import Corpus
from polysemy.data.inspect import Inspection, inspect
from polysemy.text.words import Segmenter


def inspect_corpus(
    paths: Sequence[Path], labels: Sequence[Path] = (), *, encoding: str = "utf-8", unit: str = "auto"
) -> Inspection:
    """Read ``paths`` once and say what a person should know before training; raises InputError as Corpus does."""
    segmenter = Segmenter("auto", "char" if unit == "char" else "word")
    labelled = [segmenter.words(line.text) for path in labels for line in Corpus([path], encoding=encoding)]
    return inspect(Corpus(list(paths), encoding=encoding), segmenter, labelled if labels else None)
