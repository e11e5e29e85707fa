"""Learning rates over a run."""

from __future__ import annotations

import pytest

from polysemy.train.schedule import factor


def factors(schedule, total, warmup):
    return [factor(schedule, step, total, warmup) for step in range(total)]


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant", "inverse_sqrt"])
@pytest.mark.parametrize(("total", "warmup"), [(1, 0), (6, 0), (6, 2), (6, 6), (100, 10)])
def test_it_rises_to_one_never_rises_again_and_is_never_zero(schedule, total, warmup):
    found = factors(schedule, total, warmup)
    assert max(found) == pytest.approx(1.0)
    assert min(found) > 0
    top = max(warmup - 1, 0)
    assert found[top] == pytest.approx(1.0)
    assert found[: top + 1] == sorted(found[: top + 1])
    assert found[top:] == sorted(found[top:], reverse=True)


def test_values_of_each_shape():
    assert factors("constant", 4, 2) == [0.5, 1.0, 1.0, 1.0]
    assert factors("inverse_sqrt", 9, 4)[3:9:5] == pytest.approx([1.0, (4 / 9) ** 0.5])
    assert factors("cosine", 4, 0) == pytest.approx([1.0, 0.853553, 0.5, 0.146447], abs=1e-6)
