"""``card.md``: what a person wants to know of a model before using it, written from the run alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class Described(Protocol):
    """What the card needs of a pretraining's configuration."""

    @property
    def system(self) -> str: ...

    @property
    def budget(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def text(self) -> Any: ...


def pretrain_card(config: Described, data: Mapping[str, Any]) -> str:
    """Data, size, score, cost and use of a pretrained system, as Markdown."""
    held = "\n".join(f"| {name.replace('_', ' ')} | {value:.4g} |" for name, value in data["held_out"].items())
    corpus = ", ".join(Path(p).name for p in config.text.corpus)
    overlap = data["overlap"]
    removed = (
        f"Taken out of the text: {overlap['removed_sentences']:,} sentences that contain one of {overlap['given']:,} excluded "
        f"sentences ({overlap['found']:,} of these were found).\n"
        if overlap
        else ""
    )
    fit = data["fit"]
    return f"""# {config.system}

Trained with polysemy on {data["corpus_words"]:,} words of {corpus} (seed {config.seed}, budget {config.budget}).
{removed}
| | |
|---|---|
| parameters | {data["parameters"]:,} |
| words seen | {data["words"]:,} in {data["steps"]:,} steps |
| time | {data["seconds"]:,} s |
| peak memory | {data["peak_memory_mb"]:,} MB |
| on disk | {data["disk_mb"]} MB |
| unknown rate of the vocabulary | {fit["unknown_rate"]:.2%} |
| pieces a word | {fit["pieces_per_word"]:.2f} |
{held}

## Use

```
polysemy embed RUN --input lines.txt --output vectors.npz
polysemy finetune RUN --task tagging --train train.conll --dev dev.conll --out runs/tagger
```

The vectors follow the text above, with whatever it gets wrong. What was dropped, cut or unknown is in `ledger.json`;
all settings are in `recipe.yaml`.
"""
