"""Controls: counted by hand, better than counting where there is something to see, and honest about their cost."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from polysemy.compare.controls import ContextTagger, LinearText, MajorityClass, MajorityTag, measure
from polysemy.core import metrics
from polysemy.core.errors import InputError
from polysemy.data.schemes import spans
from tests.data import need

TEXTS = ["good film", "very good", "fine and good", "bad film", "very bad", "bad and dull"] * 4
LABELS = ["+", "+", "+", "-", "-", "-"] * 4


def test_majority_by_hand() -> None:
    tags = MajorityTag()
    tags.fit([["the", "can", "can"], ["can", "can"]], [["D", "N", "V"], ["N", "N"]])
    assert tags.predict([["the", "can", "unseen"], []]) == [["D", "N", "N"], []]
    classes = MajorityClass()
    classes.fit(["a", "b", "c"], ["x", "y", "y"])
    assert classes.predict(["d", "e"]) == ["y", "y"]
    with pytest.raises(InputError, match="empty"):
        MajorityTag().fit([], [])


def test_ties_do_not_hang_on_the_order_of_the_file() -> None:
    for order in (["x", "y"], ["y", "x"]):
        control = MajorityClass()
        control.fit(["a", "b"], order)
        assert control.label == "x"


@pytest.mark.parametrize("dev", [None, (TEXTS[:6], LABELS[:6])])
def test_linear_text_learns_and_says_how_it_chose(dev: tuple[list[str], list[str]] | None, tmp_path: Path) -> None:
    control = LinearText(str.split)
    parts = {"dev": TEXTS[:6], "test": ["a good one", "so bad"]}
    measured = measure(control, (TEXTS, LABELS), parts, tmp_path, dev=dev)
    assert measured.predictions["test"] == ["+", "-"]
    assert ("dev" if dev else "cross-validation") in measured.settings
    saved = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert measured.cost["disk_mb"] == saved / 1e6 > 0
    assert measured.cost["parameters"] == control.model.coef_.size + 1
    assert measured.cost["pretrain_seconds"] == 0 < measured.cost["latency_ms"]


def test_one_class_is_the_users_input() -> None:
    with pytest.raises(InputError, match="one label only"):
        LinearText(str.split).fit(["a", "b"], ["x", "x"])


def test_a_dev_label_that_train_lacks_does_no_harm() -> None:
    control = LinearText(str.split)
    control.fit(TEXTS, LABELS, (["good", "odd"], ["+", "never seen"]))
    assert control.predict(["good"]) == ["+"]
    assert control.predict([]) == []


def test_context_tagger_reads_the_neighbours(tmp_path: Path) -> None:
    """ "can" is a verb after "they" and a noun after "the": counting words cannot know."""
    train = [(["they", "can", "swim"], ["P", "V", "V"]), (["the", "can", "leaks"], ["D", "N", "V"])] * 10
    words, tags = [w for w, _ in train], [t for _, t in train]
    tagger = ContextTagger()
    measured = measure(tagger, (words, tags), {"test": [["they", "can"], ["the", "can"], []]}, tmp_path)
    assert measured.predictions["test"] == [["P", "V"], ["D", "N"], []]
    majority = MajorityTag()
    majority.fit(words, tags)
    assert majority.predict([["they", "can"], ["the", "can"]]) != measured.predictions["test"][:2]
    assert measured.cost["parameters"] == tagger.weights.size + tagger.moves.size


def test_the_same_seed_gives_the_same_tagger() -> None:
    rng = np.random.default_rng(0)
    words = [[f"w{i}" for i in rng.integers(20, size=6)] for _ in range(40)]
    tags = [[("A", "B")[int(a) % 2] for a in rng.integers(9, size=6)] for _ in range(40)]
    one, two, other = ContextTagger(seed=1), ContextTagger(seed=1), ContextTagger(seed=2)
    for tagger in (one, two, other):
        tagger.fit(words, tags)
    assert np.array_equal(one.weights, two.weights)
    assert not np.array_equal(one.weights, other.weights)


def test_decoding_is_the_best_of_all_paths() -> None:
    rng = np.random.default_rng(3)
    kernels = ContextTagger().kernels
    for _ in range(20):
        weights, moves = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
        features = rng.integers(-1, 5, size=(4, 2)).astype(np.int32)
        emit = np.stack([sum((weights[f] for f in row if f >= 0), np.zeros(3)) for row in features])
        paths = np.stack(np.meshgrid(*[range(3)] * 4, indexing="ij"), -1).reshape(-1, 4)
        scores = [emit[range(4), p].sum() + moves[3, p[0]] + sum(moves[a, b] for a, b in pairwise(p)) for p in paths]
        assert kernels.decode(features, weights, moves).tolist() == paths[int(np.argmax(scores))].tolist()


def _conll(path: Path) -> tuple[list[list[str]], list[list[str]]]:
    blocks = [block.splitlines() for block in path.read_text(encoding="utf-8").split("\n\n") if block.strip()]
    rows = [[line.split() for line in block if line.strip()] for block in blocks]
    return [[row[0] for row in block] for block in rows], [[row[-1] for row in block] for block in rows]


def test_igbo_names_with_the_linear_tagger() -> None:
    """Six seeds: 0.840 to 0.850."""
    train, test = _conll(need("igbo/ner_train.txt")), _conll(need("igbo/ner_test.txt"))
    tagger = ContextTagger()
    tagger.fit(*train)
    predicted = tagger.predict(test[0])
    f1 = metrics.micro(metrics.span_agreement([spans(t) for t in test[1]], [spans(t) for t in predicted])).f1
    assert f1 > 0.83


@pytest.mark.slow
def test_igbo_news_topics_with_tfidf() -> None:
    """0.836 was found by others; headline and text, accuracy."""
    parts = {}
    for part in ("train", "dev", "test"):
        with need(f"igbo/news_{part}.tsv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        parts[part] = [f"{row['headline']} {row['text']}" for row in rows], [row["category"] for row in rows]
    control = LinearText(str.split)
    control.fit(*parts["train"], parts["dev"])
    assert metrics.accuracy(parts["test"][1], control.predict(parts["test"][0])) >= 0.836
