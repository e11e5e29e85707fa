"""The lineage: every system, where it lives, what it descends from and what it needs.

Written by hand; nothing registers itself.  The command line, the contract tests, the docs, ``compare`` and
cost estimates follow from this table.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, NamedTuple

from polysemy.core.errors import InputError, nearest

NOMINAL_VOCABULARY = 30_000  # for sizes that are shown before there is a text


class Entry(NamedTuple):
    """One row of the lineage.  The module of ``model`` also holds ``SIZES`` (name -> configuration fields; the first
    is the default), ``parameters(config)``, ``flops_per_token(config)`` and ``pretraining(config)``; the class has
    ``Config``."""

    model: str  # "module:Class"
    parents: tuple[str, ...]  # the systems whose files this one may import
    year: int
    title: str
    paper: str  # arXiv id, ACL id or the like
    tokenizer: Literal["words", "characters", "wordpiece", "bpe", "unigram"]
    inputs: tuple[str, ...]  # the Batch fields that forward takes, by name
    objective: str  # "module:Class" of what it is pretrained with
    trained: Literal["loop", "kernel"] = "loop"
    mode: Literal["features", "finetune"] = "finetune"  # how its paper puts it under a task


SYSTEMS: dict[str, Entry] = {
    "word2vec": Entry(
        "polysemy.systems.word2vec:Word2Vec", (), 2013,
        "Distributed Representations of Words and Phrases and their Compositionality", "arXiv:1310.4546",
        "words", ("ids", "mask"), "polysemy.systems.word2vec:Word2Vec", trained="kernel", mode="finetune",
    ),
    "elmo": Entry(
        "polysemy.systems.elmo:ELMo", (), 2018, "Deep Contextualized Word Representations", "arXiv:1802.05365",
        "characters", ("types", "characters", "mask"), "polysemy.objectives.bidirectional:Bidirectional", mode="features",
    ),
    "bert": Entry(
        "polysemy.systems.bert:BERT", (), 2019,
        "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", "arXiv:1810.04805",
        "wordpiece", ("ids", "segments", "mask"), "polysemy.objectives.masked:Masked",
    ),
}  # fmt: skip


def resolve(target: str) -> Any:
    """``"module:attribute"`` -> the attribute, imported on use."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def module_of(name: str) -> Any:
    """The module of a system: ``SIZES``, ``parameters`` and ``flops_per_token`` live there."""
    return import_module(find(name).model.partition(":")[0])


def find(name: str) -> Entry:
    """The row of a system, or an error that offers the nearest name."""
    if name not in SYSTEMS:
        raise InputError(f"unknown system {name!r}", do=nearest(name, SYSTEMS))
    return SYSTEMS[name]


def configure(spec: str) -> tuple[str, dict[str, Any]]:
    """``"bert:mini"`` -> ``("bert", {fields})``; a number sets the dimension where the system allows it
    (``word2vec:100``); without a size the first of its table."""
    name, _, size = spec.partition(":")
    find(name)
    module = module_of(name)
    sizes: dict[str, dict[str, Any]] = module.SIZES
    if not size:
        return name, dict(next(iter(sizes.values())))
    if size.isdigit() and getattr(module, "SIZE_FIELD", None):
        return name, {**next(iter(sizes.values())), module.SIZE_FIELD: int(size)}
    if size not in sizes:
        raise InputError(f"unknown size {size!r} of {name}", do=nearest(size, sizes))
    return name, dict(sizes[size])
