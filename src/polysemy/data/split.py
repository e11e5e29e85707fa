"""A seeded split that keeps documents whole and labels in proportion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from polysemy.core.errors import InputError
from polysemy.core.seeds import numpy_generator

T = TypeVar("T")


def split(
    examples: Sequence[T],
    seed: int,
    *,
    fractions: Sequence[float] = (0.8, 0.1, 0.1),
    groups: Sequence[str | None] | None = None,
    labels: Sequence[str] | None = None,
) -> list[list[T]]:
    """Parts of ``examples`` in the given proportions, each in the original order; the same for the same seed.

    Examples of the same group (a document) come to the same part; None is a group of its own.  With ``labels`` every
    part has about its share of each label: units are dealt label by label, each to the part that lacks most.
    Raises InputError when there are fewer groups than parts, ValueError for fractions that do not add up to 1.
    """
    if abs(sum(fractions) - 1) > 1e-6 or min(fractions) <= 0:
        raise ValueError(f"fractions must be positive and add up to 1, found {list(fractions)}")
    units: dict[tuple[bool, str], list[int]] = {}
    for i in range(len(examples)):
        group = groups[i] if groups is not None else None
        units.setdefault((group is None, str(i) if group is None else group), []).append(i)
    members = list(units.values())
    if len(members) < len(fractions):
        raise InputError(
            f"{len(members)} {'documents' if groups else 'examples'} cannot be split into {len(fractions)} parts",
            do="Give more labelled data, or give the parts as files.",
        )
    order = [int(i) for i in numpy_generator(seed, "split").permutation(len(members))]
    if labels is not None:
        order.sort(key=lambda unit: labels[members[unit][0]])  # stable: shuffled within a label
    parts: list[list[int]] = [[] for _ in fractions]
    dealt = 0
    for unit in order:
        dealt += len(members[unit])
        lacking = [fraction * dealt - len(part) for fraction, part in zip(fractions, parts, strict=True)]
        parts[lacking.index(max(lacking))] += members[unit]
    for part in parts:  # a few large documents can leave a part with nothing
        if not part:
            raise InputError("the documents are too few and too uneven to split", do="Give the parts as files.")
    return [[examples[i] for i in sorted(part)] for part in parts]
