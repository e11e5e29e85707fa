"""How a sentence-transformers folder makes one vector of a text (Reimers and Gurevych 2019, arXiv:1908.10084).

Read: ``modules.json`` with one Transformer, one Pooling and at most one Normalize.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch.nn.functional as F
from torch import Tensor

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.nn.pool import masked_mean

Mode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens"]
MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])


@dataclass(frozen=True)
class SentencePooling:
    """A text's vector from all pieces of the top layer, begin and end symbols included."""

    mode: Mode
    normalize: bool  # to length 1
    max_length: int | None  # pieces, begin and end symbols included; the rest of a text is not read

    def __call__(self, states: Tensor, mask: Tensor) -> Tensor:
        """(b, n, dim) states, (b, n) mask -> (b, dim)"""
        if self.mode == "cls":
            pooled = states[:, 0]
        elif self.mode == "max":
            pooled = states.masked_fill(~mask[..., None], float("-inf")).amax(1)
        else:
            pooled = masked_mean(states, mask)
            if self.mode == "mean_sqrt_len_tokens":
                pooled = pooled * mask.sum(1, keepdim=True).sqrt()
        return F.normalize(pooled, dim=-1) if self.normalize else pooled


def read_pooling(folder: Path, ledger: Ledger) -> SentencePooling | None:
    """None where the folder is no sentence-transformers model, or one that does more than can be done here; the ledger
    then says what is ignored.  Raises InputError for broken files."""
    if not (folder / "modules.json").is_file():
        return None
    modules = [
        (str(m.get("type", "")).rpartition(".")[2], folder / m.get("path", ""))
        for m in _read(folder / "modules.json", list)
    ]
    names = [name for name, _ in modules]
    if names not in MODULES:
        ledger.add("ignored", f"modules.json ({', '.join(names)}): a sentence is the mean of its words")
        return None
    settings = (
        _read(folder / "sentence_bert_config.json", dict) if (folder / "sentence_bert_config.json").is_file() else {}
    )
    modes = _modes(_read(modules[1][1] / "config.json", dict))
    if settings.get("do_lower_case") or len(modes) != 1 or modes[0] not in get_args(Mode):
        how = "do_lower_case" if settings.get("do_lower_case") else "+".join(modes)
        ledger.add("ignored", f"pooling of sentences ({how}): a sentence is the mean of its words")
        return None
    return SentencePooling(cast(Mode, modes[0]), len(names) == 3, settings.get("max_seq_length"))


def _modes(config: dict[str, Any]) -> list[str]:
    """The modes of a Pooling module: named, or switched on one by one in older files."""
    if "pooling_mode" in config:
        named = config["pooling_mode"]
        return [named] if isinstance(named, str) else list(named)
    old = {"pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean"}
    on = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
    return [old.get(key, key.removeprefix("pooling_mode_")) for key in on] or ["mean"]


def _read(path: Path, kind: type) -> Any:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read: {error}", where=str(path)) from error
    if not isinstance(data, kind):
        raise InputError("not what sentence-transformers writes here", where=str(path))
    return data
