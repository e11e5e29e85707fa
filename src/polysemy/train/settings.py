"""Everything that the loop can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from polysemy.train.schedule import Schedule


@dataclass(frozen=True)
class TrainSettings:
    """Settings of one run of the loop.  A step is one update of the weights."""

    steps: int
    lr: float = 5e-4  # at the peak
    schedule: Schedule = "linear"
    warmup: float = 0.1  # fraction of the steps in which the rate rises
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01  # of matrices and embeddings; norms and biases have none
    clip: float = 1.0  # largest norm of the gradient of all parameters; 0 does not clip
    accumulate: int = 1  # parts that a batch is cut into, to fit memory; changes no result
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    device: str = "auto"
    seed: int = 0
    log_every: int = 50  # steps between two lines of metrics.jsonl; less in a run of under 20 such lines
    evaluate_every: int = 0  # steps; 0 evaluates at the end only
    keep_best: str | None = None  # a figure of the evaluation: end with the weights that had the best
    lower_is_better: bool = False  # of that figure
    patience: int = 0  # evaluations without a better figure after which to stop; 0 never stops early
    checkpoint_seconds: float = 60.0
    prefetch: bool = True  # make the next batch in a thread; changes no result

    def __post_init__(self) -> None:
        if self.steps < 0 or self.accumulate < 1 or self.log_every < 1:
            raise ValueError("steps must be at least 0, accumulate and log_every at least 1")
        if not (self.lr > 0 and 0 <= self.warmup <= 1 and self.clip >= 0):
            raise ValueError("lr must be above 0, warmup between 0 and 1, clip at least 0")
        if self.patience and not self.keep_best:
            raise ValueError("patience needs keep_best, the figure to watch")

    @property
    def warmup_steps(self) -> int:
        return round(self.warmup * self.steps)
