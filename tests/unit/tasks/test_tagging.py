"""Tagging: files in, legal label sequences out, scores by name."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.data.batch import Batch
from polysemy.data.schemes import ill_formed
from polysemy.tasks import load_task
from polysemy.tasks.example import Columns
from polysemy.tasks.heads import TagScores
from polysemy.tasks.tagging import Inner, Tagging
from tests.data import need


def write(path: Path, sentences: list[str]) -> Path:
    """Sentences of ``word/tag`` as CoNLL columns."""
    rows = ["".join(f"{pair.rpartition('/')[0]} {pair.rpartition('/')[2]}\n" for pair in s.split()) for s in sentences]
    path.write_text("\n".join(rows), "utf-8")
    return path


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("IOB1", ["I-A I-A B-A O", "I-B O"]),
        ("IOB2", ["B-A I-A B-A O", "B-B O"]),
        ("BIOES", ["B-A E-A S-A O", "S-B O"]),
        ("BMES", ["B-A E-A S-A O", "B-B M-B E-B"]),
    ],
)
def test_every_scheme_becomes_iob2(tmp_path: Path, scheme: str, tags: list[str]) -> None:
    sentences = [" ".join(f"w/{tag}" for tag in row.split()) for row in tags]
    task = Tagging()
    examples = task.read(write(tmp_path / "train.txt", sentences), Ledger())
    assert task.scheme == scheme
    assert task.metric == "f1"
    assert scheme in task.mode
    assert examples[0].label == ("B-A", "I-A", "B-A", "O")
    assert examples[0].text == ("w",) * 4
    assert examples[0].place.endswith("train.txt:1")
    assert examples[1].place.endswith("train.txt:6")


def test_plain_tags_are_scored_by_accuracy(tmp_path: Path) -> None:
    task = Tagging()
    examples = task.read(write(tmp_path / "train.txt", ["a/NOUN b/VERB", "c/NOUN"]), Ledger())
    task.fit(examples)
    assert task.metric == "accuracy"
    assert task.mode == "accuracy of tags"
    assert task.labels == ["NOUN", "VERB"]
    scores = task.score([["NOUN", "VERB"], ["NOUN"]], [["NOUN", "NOUN"], ["NOUN"]])
    assert scores["accuracy"] == 2 / 3
    assert scores["by_label"]["VERB"]["f1"] == 0.0
    assert scores["mode"] == task.mode


def test_conllu_is_recognised_by_its_content() -> None:
    task = Tagging()
    examples = task.read(need("ud_english_ewt/en_ewt-ud-dev.conllu"), Ledger())
    task.fit(examples)
    assert len(examples) == 2001
    assert len(task.labels) == 17
    assert task.metric == "accuracy"
    feats = Tagging(Columns(label="xpos"))
    assert "NNP" in {tag for e in feats.read(need("ud_english_ewt/en_ewt-ud-dev.conllu"), Ledger()) for tag in e.label}


def test_a_label_absent_from_train_is_counted_and_never_right(tmp_path: Path) -> None:
    task, ledger = Tagging(), Ledger()
    task.fit(task.read(write(tmp_path / "train.txt", ["a/B-A b/O"]), ledger))
    test = task.read(write(tmp_path / "test.txt", ["a/B-A b/B-NEW c/I-NEW"]), ledger)
    assert [t.tolist() for t in task.targets(test, ledger)] == [[1, -1, -1]]
    assert ledger.count("unknown", "labels absent from train") == 2
    row = ledger.to_json()["unknown"]["labels absent from train"]["first"]
    assert row[0].endswith("test.txt:1: B-NEW")
    assert task.score([test[0].label], [["B-A", "O", "O"]])["recall"] == 0.5


def test_one_label_in_train_is_refused(tmp_path: Path) -> None:
    task = Tagging()
    examples = task.read(write(tmp_path / "train.txt", ["a/O b/O"]), Ledger())
    with pytest.raises(InputError, match=r"train.txt:1: the training file has only one label \('O'\)"):
        task.fit(examples)


def test_a_file_of_plain_tags_does_not_pass_for_one_of_spans(tmp_path: Path) -> None:
    task = Tagging()
    task.fit(task.read(write(tmp_path / "train.txt", ["a/B-A b/O"]), Ledger()))
    with pytest.raises(InputError, match="plain labels"):
        task.read(write(tmp_path / "test.txt", ["a/NOUN b/VERB"]), Ledger())
    nothing = task.read(write(tmp_path / "empty.txt", ["a/O b/O"]), Ledger())  # no spans is fine
    assert nothing[0].label == ("O", "O")


@pytest.mark.parametrize("inner", ["IOB2", "BIOES"])
def test_legal_is_what_the_scheme_would_write(inner: Inner) -> None:
    task = Tagging(inner=inner)
    task.scheme = "IOB2"
    letters = "BI" if inner == "IOB2" else "BIES"
    task.labels = ["O", *(f"{letter}-{kind}" for kind in "XY" for letter in letters)]
    legal = task.legal()
    for length in (1, 2, 3):
        for path in itertools.product(range(len(task.labels)), repeat=length):
            allowed = bool(legal.start[path[0]] and legal.end[path[-1]]) and all(
                bool(legal.between[a, b]) for a, b in itertools.pairwise(path)
            )
            assert allowed == (ill_formed([task.labels[i] for i in path], inner) == 0), [task.labels[i] for i in path]


@pytest.mark.parametrize("inner", ["IOB2", "BIOES"])
def test_predictions_are_well_formed_whatever_the_scores(inner: Inner, tmp_path: Path) -> None:
    task = Tagging(inner=inner)
    sentences = ["a/B-X b/I-X c/I-X d/O", "a/B-X b/B-Y c/I-Y", "a/B-Y b/O"]
    task.fit(task.read(write(tmp_path / "train.txt", sentences), Ledger()))
    lengths = torch.tensor([7, 1, 0, 4])
    mask = torch.arange(7) < lengths[:, None]
    for seed in range(20):
        emissions = torch.randn(4, 7, len(task.labels), generator=torch.Generator().manual_seed(seed)) * 5
        predicted = task.predict(TagScores(emissions, None), Batch(4, word_mask=mask))
        assert [len(row) for row in predicted] == lengths.tolist()
        assert all(ill_formed(row, inner) == 0 and ill_formed(task.outer(row), "IOB2") == 0 for row in predicted)


def test_a_task_comes_back_from_its_json(tmp_path: Path) -> None:
    task = Tagging(inner="BIOES")
    examples = task.read(write(tmp_path / "train.txt", ["a/B-X b/I-X c/O", "a/B-Y"]), Ledger())
    task.fit(examples)
    again = load_task(task.to_json())
    assert again.to_json() == task.to_json()
    assert again.labels == ["O", "B-X", "E-X", "S-Y"]
    assert [t.tolist() for t in again.targets(examples, Ledger())] == [[1, 2, 0], [3]]
