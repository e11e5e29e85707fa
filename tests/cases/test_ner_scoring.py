"""Cases NER-03, 04, 07 and 10: how names are scored and learned."""

from __future__ import annotations

from pathlib import Path

import pytest

from polysemy.core.ledger import Ledger
from polysemy.core.metrics import micro, span_agreement
from polysemy.data.schemes import spans
from polysemy.recipes.finetune import FinetuneConfig, finetune
from polysemy.tasks.example import Example
from polysemy.tasks.heads import HeadConfig
from polysemy.tasks.model import TaskModel, Texts, predict
from polysemy.tasks.tagging import Tagging
from polysemy.text.tokenizer import train_tokenizer
from polysemy.text.words import Segmenter
from tests.unit.tasks.toy import ToySystem


def test_ner_03_bioes_is_scored_as_bioes() -> None:
    gold, predicted = ["B-X", "E-X", "B-X", "E-X"], ["B-X", "I-X", "I-X", "E-X"]
    score = micro(span_agreement([spans(gold, scheme="BIOES")], [spans(predicted, scheme="BIOES")]))
    assert (score.gold, score.predicted, score.correct, score.f1) == (2, 1, 0, 0.0)


def test_ner_04_ill_formed_predictions_count_in_lenient_mode_only() -> None:
    task = Tagging()
    task.scheme = "IOB2"
    scores = task.score([["B-TEL", "I-TEL"]], [["I-TEL", "I-TEL"]])
    assert scores["f1"] == 0.0
    assert scores["f1_lenient"] == 1.0
    assert "strict" in scores["mode"]
    assert "IOB2" in scores["mode"]


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_ner_07_a_word_split_at_punctuation_has_one_label(kind: str) -> None:
    words = ["on", "9/7/1992", "here"]
    counts = {"9": 40, "/": 40, "7": 40, "1992": 40, "on": 40, "here": 40}
    tokenizer = train_tokenizer(kind, counts, segmenter=Segmenter(), vocab_size=300)
    item = tokenizer.encode(words)
    assert item.words == words
    assert item.word_of.count(1) >= 5
    task = Tagging()
    task.scheme, task.labels = "IOB2", ["O", "B-DATE", "I-DATE"]
    example = Example(tuple(words), ("O", "B-DATE", "O"), "file:1")
    texts = Texts([item], tokenizer, per_word=True, targets=task.targets([example], Ledger()))
    batch = texts.batch([0])
    assert batch.labels is not None
    assert batch.labels.tolist() == [[0, 1, 0]]
    head = task.head(6, 2, HeadConfig("linear"))
    model = TaskModel(ToySystem(vocab_size=tokenizer.vocab_size), head, ("ids", "mask"), "finetune")
    assert [len(labels) for labels in predict(model, task.predict, texts)] == [3]


def test_ner_10_plain_iob2_trains(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("Ada B-X\nLovelace I-X\nwrote O\n\nin O\nMilton B-X\nKeynes I-X\n\n", "utf-8")
    config = FinetuneConfig("word2vec:8", "tagging", str(path), dev=str(path), epochs=2, head={"hidden_size": 4})
    result = finetune(config, tmp_path / "run")
    task = (tmp_path / "run" / "task.json").read_text("utf-8")
    assert '"O",\n  "B-X",\n  "I-X"\n ]' in task
    assert result.data["metric"] == "f1"
    assert result.data["examples"]["train"] == 2
