"""How many steps a time budget pays for: measured on a few that are thrown away."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from polysemy.core.reporter import Reporter, Silent
from polysemy.data.loader import Loader
from polysemy.train.guard import deterministic
from polysemy.train.update import NotFiniteError, Update

TRIAL_STEPS = 1000  # the length of run that the trial pretends to be the start of
WARM = 2  # steps that compile, allocate and fill caches, and are not counted
SHARE, LEAST_SECONDS, MOST_SECONDS = 0.05, 0.5, 15.0  # of the budget that the trial may take
MARGIN = 0.05  # of what is left, for checkpoints and for hours that are slower than the trial
GOLDEN = 0.6180339887498949


def calibrate(
    make_update: Callable[[int], Update],
    loader: Loader,
    seconds: float,
    *,
    evaluate: Callable[[], Mapping[str, float]] | None = None,
    evaluations: int = 0,
    reporter: Reporter | None = None,
) -> int:
    """Steps of training that fit into ``seconds``, the trial itself and ``evaluations`` of ``evaluate`` included.

    ``make_update(steps)`` builds an update for a run of that many steps; afterwards its model has its weights back.
    The trial takes batches from all over an epoch, because their cost differs.  May be 0.  All
    processes of a group get the same number.
    """
    began = time.perf_counter()
    (reporter or Silent()).say("measuring how many steps the budget pays for")
    update = make_update(TRIAL_STEPS)
    tensors, values = update.state()
    kept = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    limit = min(max(seconds * SHARE, LEAST_SECONDS), MOST_SECONDS)
    costs: list[float] = []
    going = True
    with deterministic():
        while going:
            at = int(GOLDEN * len(costs) % 1 * loader.steps_per_epoch)
            start = time.perf_counter()
            batch = loader.batch(at)
            ready = time.perf_counter()
            try:
                update.step(batch, len(costs))
            except NotFiniteError:  # the run itself will say so
                update.load(kept, values)
            # the loop makes one batch while it trains on another
            costs.append(max(ready - start, time.perf_counter() - ready))
            time_left = time.perf_counter() - began < limit and len(costs) < TRIAL_STEPS
            going = update.group.any(time_left or len(costs) <= WARM)
    evaluation = 0.0
    if evaluate is not None and evaluations:
        start = time.perf_counter()
        evaluate()
        evaluation = time.perf_counter() - start
    update.load(kept, values)
    cost = sum(costs[WARM:]) / len(costs[WARM:])
    left = seconds - (time.perf_counter() - began) - evaluations * evaluation
    return min(update.group.gather(max(int(left * (1 - MARGIN) / cost), 0)))
