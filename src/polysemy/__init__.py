"""Train, compare, compress and serve every generation of language representation on your own text."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_LAZY = {
    "load": "polysemy.recipes.load:load",
    "pretrain": "polysemy.api:pretrain",
    "finetune": "polysemy.api:finetune",
    "compare": "polysemy.api:compare",
}
__all__ = ["__version__", "compare", "finetune", "load", "pretrain"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'polysemy' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(import_module(module), attribute)
