"""``tokenizer.json``: one file in which a tokenizer travels with its switches, its segmenter and its special names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from polysemy.core.errors import InputError
from polysemy.core.files import write_atomic
from polysemy.text.normalize import Normalizer
from polysemy.text.tokens import Special
from polysemy.text.words import Segmenter

FORMAT = 1


def write(
    path: Path,
    kind: str,
    segmenter: Segmenter,
    normalizer: Normalizer,
    special: Special,
    vocabulary: Sequence[str],
    extra: Mapping[str, Any],
) -> None:
    """Write the file whole or not at all.  The same tokenizer gives the same bytes."""
    data = {
        "format": FORMAT,
        "kind": kind,
        "normalizer": normalizer.to_json(),
        "segmenter": segmenter.to_json(),
        "special": {f.name: getattr(special, f.name) for f in fields(special)},
        **extra,
        "vocabulary": list(vocabulary),
    }
    write_atomic(path, json.dumps(data, ensure_ascii=False, indent=1) + "\n")


def read(path: Path) -> dict[str, Any]:
    """The content of the file; InputError where it is absent, no JSON, or not one of ours."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            "no such file", where=str(path), do="Name a run directory that holds tokenizer.json."
        ) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"not a tokenizer file: {error}", where=str(path)) from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or "kind" not in data:
        raise InputError(
            f"not a tokenizer file of format {FORMAT}",
            where=str(path),
            do="Files of other tools are opened by loading the directory of their model.",
        )
    return data
