"""data/split.py."""

from __future__ import annotations

from collections import Counter

import pytest

from polysemy.core.errors import InputError
from polysemy.data.split import split


def test_parts_have_their_sizes_and_hold_everything_once_in_order() -> None:
    parts = split(range(100), seed=1)
    assert [len(part) for part in parts] == [80, 10, 10]
    assert sorted(i for part in parts for i in part) == list(range(100))
    assert all(part == sorted(part) for part in parts)
    assert parts == split(range(100), seed=1) != split(range(100), seed=2)


def test_documents_stay_whole() -> None:
    documents = [f"d{i // 7}" for i in range(210)]
    parts = split(range(210), seed=3, groups=documents)
    homes = [{documents[i] for i in part} for part in parts]
    assert not homes[0] & homes[1]
    assert not homes[0] & homes[2]
    assert not homes[1] & homes[2]
    assert [len(part) for part in parts] == [168, 21, 21]


def test_labels_keep_their_proportions_also_rare_ones() -> None:
    labels = ["common"] * 900 + ["rare"] * 100
    for seed in range(5):
        parts = split(range(1000), seed, labels=labels)
        counts = [Counter(labels[i] for i in part) for part in parts]
        assert [c["rare"] for c in counts] == pytest.approx([80, 10, 10], abs=1)
        assert [len(part) for part in parts] == [800, 100, 100]


def test_what_cannot_be_split_is_said() -> None:
    with pytest.raises(InputError, match="2 documents cannot be split into 3"):
        split(range(10), 1, groups=["a"] * 5 + ["b"] * 5)
    with pytest.raises(ValueError, match="add up to 1"):
        split(range(10), 1, fractions=(0.8, 0.1))
