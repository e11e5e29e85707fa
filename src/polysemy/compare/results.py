"""The shape of ``results.json``, which ``compare`` writes and the report reads.

The keys that DESIGN 5 promises come first in each table; the rest is what the report needs.  Everything is plain
JSON: numbers, text, lists.  Scores are fractions; times are seconds unless the name says otherwise.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

FORMAT = 1
Stage = Literal["pretrain", "finetune"]


class Score(TypedDict):
    """The mean over seeds on the test part with its interval."""

    mean: float
    interval: list[float]  # low, high
    per_seed: list[float]
    seeds_known: bool  # False: one seed of a system that has luck, so the interval covers the choice of items only


class Cost(TypedDict):
    """Measured, not estimated: medians over seeds (peak memory: the largest)."""

    parameters: int
    disk_mb: float
    pretrain_seconds: float | None  # None: pretrained elsewhere, not known here
    finetune_seconds: float
    peak_memory_mb: float
    latency_ms: float  # median of single items
    words_per_second: float  # in bulk


class Curve(TypedDict):
    """One quantity of one seed by the time of its stage."""

    stage: Stage
    seed: int
    quantity: str  # "loss", or the name of the metric on dev
    seconds: list[float]
    values: list[float]


class AgainstBest(TypedDict):
    """This system minus the best, paired on the same items."""

    difference: float
    interval: list[float]
    p: float
    p_holm: float  # corrected over all comparisons with the best


class SystemResult(TypedDict):
    """One row of the table."""

    system: str
    task: str
    metric: str
    test: Score
    under_trained: bool
    cost: Cost
    under_trained_in: list[Stage]
    control: bool
    elsewhere: bool  # pretrained elsewhere, on text that is not this corpus
    mode: str  # "features", "finetune", or "" for controls
    head: str  # what stands on top, for a person
    settings: str  # what was chosen and how, for a person
    tied: bool  # not told apart from the best
    against_best: AgainstBest | None  # None for the best itself
    curves: list[Curve]
    runs: list[str]  # run directories, relative to results.json


class OneHeadRow(TypedDict):
    """A system frozen under the head that all share."""

    system: str
    test: Score
    tied: bool
    against_best: AgainstBest | None


class OneHead(TypedDict):
    head: str
    systems: list[OneHeadRow]


class LabelPoint(TypedDict):
    """A system trained on the first ``labels`` labelled items."""

    system: str
    labels: int
    test: Score


class Disagreement(TypedDict):
    """A test item that the systems read differently.  Tags are lists beside ``words``; labels are texts."""

    words: NotRequired[list[str]]
    text: NotRequired[str]
    gold: str | list[str]
    predicted: dict[str, str | list[str]]
    same_pattern: int  # test items that the same systems get right and the same get wrong
    place: str


class Budget(TypedDict):
    pretrain: str  # as the user wrote it: "5m"
    finetune: str
    seeds: int
    share_pretraining: bool


class Limits(TypedDict):
    latency_ms: float | None
    size_mb: float | None


class Part(TypedDict):
    """A labelled file; ``note`` says how it came about where it was not given ("a tenth of train, seed 0")."""

    path: str
    items: int
    note: str


class Corpus(TypedDict):
    paths: list[str]
    sentences: int
    words: int


class Overlap(TypedDict):
    """Corpus sentences taken out because they contain a dev or test sentence."""

    held_out: int  # distinct dev and test sentences looked for
    found: int  # of those, found in the corpus
    removed: int  # corpus sentences taken out
    of: int  # corpus sentences before


class Failure(TypedDict):
    system: str
    seed: int
    reason: str


class Plan(TypedDict):
    trials: int
    seconds_at_most: float
    seconds_used: float
    disk_mb: float


class Spoken(TypedDict):
    """The verdict in one language."""

    sentence: str
    why: str
    notes: list[str]


class Statistics(TypedDict):
    level: float
    resamples: int


class Results(TypedDict):
    """``results.json``."""

    format: int
    systems: list[SystemResult]
    tied_with_best: list[str]
    recommended: str | None
    why: str  # English; the verdict has both languages
    overlap: Overlap | None
    environment: dict[str, Any]
    task: str
    metric: str
    best: str
    verdict: dict[str, Spoken]  # by language
    budget: Budget
    prefer: Literal["latency", "size", "training"]
    limits: Limits
    data: dict[str, Part]  # train, dev, test
    corpus: Corpus | None
    ledger: dict[str, Any]  # Ledger.to_json()
    one_head: OneHead | None
    label_curve: list[LabelPoint]
    disagreements: list[Disagreement]
    failures: list[Failure]
    plan: Plan
    statistics: Statistics
    command: str
    created: str  # ISO 8601 with its zone
