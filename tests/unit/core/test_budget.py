"""Budgets as people write them."""

from __future__ import annotations

import pytest

from polysemy.core.budget import Budget
from polysemy.core.errors import InputError


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("90s", Budget(seconds=90)),
        ("10m", Budget(seconds=600)),
        ("10min", Budget(seconds=600)),
        ("1.5h", Budget(seconds=5400)),
        ("1d", Budget(seconds=86400)),
        ("50Mtok", Budget(words=50_000_000)),
        ("200ktok", Budget(words=200_000)),
        ("0.5Mtok", Budget(words=500_000)),
        ("1234567tok", Budget(words=1_234_567)),
    ],
)
def test_parse_and_back(text, budget):
    assert Budget.parse(text) == budget
    assert Budget.parse(str(budget)) == budget


@pytest.mark.parametrize("text", ["0s", "-5m", "0tok", "0.2tok", "-1Mtok"])
def test_not_above_zero_is_refused(text):
    with pytest.raises(InputError, match="not above zero"):
        Budget.parse(text)


@pytest.mark.parametrize("text", ["", "10", "m", "10 weeks", "5mtok", "1e3tok", "ten minutes", "10m 5s"])
def test_other_texts_are_refused_with_the_forms(text):
    with pytest.raises(InputError, match="90s, 10m or 2h"):
        Budget.parse(text)
