"""``card.md`` of a fine-tuned run: what a person wants to know before using it, written from the run alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def finetune_card(data: Mapping[str, Any], task: Mapping[str, Any], seed: int) -> str:
    """Data, scores, curve, cost and use, as Markdown."""
    parts = [part for part in ("dev", "test") if part in data["scores"]]
    names = [name for name, value in data["scores"][parts[0]].items() if isinstance(value, float)]
    scores = "\n".join(
        f"| {name.replace('_', ' ')} | " + " | ".join(f"{data['scores'][part][name]:.4f}" for part in parts) + " |"
        for name in names
    )
    examples = ", ".join(f"{count:,} {part}" for part, count in data["examples"].items())
    notes = "".join(f"{note[0].upper()}{note[1:]}.\n" for note in data["notes"])
    cost = data["cost"]
    curve = ", ".join(f"{row[data['metric']]:.3f}" for row in data["curve"])
    shown = ", ".join(task["labels"][:40]) + (", ..." if len(task["labels"]) > 40 else "")
    return f"""# {data["system"]} under {data["task"]}

{data["model"]} ({data["how"]}), {examples} examples, seed {seed}.  Scored by {data["scoring"]}.
{notes}
| | {" | ".join(parts)} |
|---|{"---|" * len(parts)}
{scores}

{data["metric"]} on dev, epoch by epoch: {curve}.  The weights of step {int(data["best"]["step"]):,} were kept.

| cost | |
|---|---|
| parameters | {cost["parameters"]:,} |
| on disk | {cost["disk_mb"]} MB |
| time | {cost["finetune_seconds"]:,} s |
| peak memory | {cost["peak_memory_mb"]:,} MB |

Labels: {shown}

## Use

```
polysemy predict RUN --input lines.txt
polysemy evaluate RUN --data labelled-file
```

What was read, cut, unknown or absent is in `ledger.json`; the predictions on dev and test are in `predictions/`; all
settings are in `recipe.yaml`.
"""
