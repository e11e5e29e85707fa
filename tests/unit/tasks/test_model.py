"""Texts as batches of windows, and a head over a system."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from polysemy.tasks.classification import Classification
from polysemy.tasks.heads import HeadConfig
from polysemy.tasks.model import Supervised, TaskModel, Texts, by_length, predict
from polysemy.tasks.tagging import Tagging
from polysemy.text.tokens import Tokens
from tests.unit.tasks.toy import ToySystem, ToyTokenizer

TOKENIZER = ToyTokenizer()
SENTENCES = [["aa", "bbbb", "c"], ["dd"], [f"w{i}" * (1 + i % 3) for i in range(23)], []]
TAGS = ["O", "B-X", "I-X"]


def items() -> list[Tokens]:
    return [TOKENIZER.encode(words) for words in SENTENCES]


def tagging() -> Tagging:
    task = Tagging()
    task.scheme, task.labels = "IOB2", list(TAGS)
    return task


def tagger(mode: str) -> TaskModel:
    torch.manual_seed(0)
    return TaskModel(ToySystem(), tagging().head(6, 2, HeadConfig("linear")), ("ids", "mask"), mode)  # type: ignore[arg-type]


def test_every_word_is_labelled_in_exactly_one_window() -> None:
    targets = [np.arange(len(words), dtype=np.int64) % 3 for words in SENTENCES]
    texts = Texts(items(), TOKENIZER, per_word=True, targets=targets, limit=8)
    many = len(texts.windows[2])
    assert many > 3
    assert texts.windowed == 1
    batch = texts.batch([2, 0])
    assert batch.labels is not None
    assert batch.rows is not None
    assert batch.word_mask is not None
    assert batch.rows.tolist() == [0] * many + [1]
    seen = batch.labels[batch.labels >= 0].tolist()
    assert seen == [*targets[2].tolist(), *targets[0].tolist()]
    assert int(batch.word_mask.sum()) > len(seen)  # the neighbours of the owned words are there to be looked at


def test_predictions_of_windows_are_stitched_to_one_label_a_word() -> None:
    texts = Texts(items(), TOKENIZER, per_word=True, limit=8)
    model = tagger("finetune")
    labels = predict(model, tagging().predict, texts)
    assert [len(row) for row in labels] == [len(words) for words in SENTENCES]
    assert predict(model, tagging().predict, texts, batch_tokens=1) == labels  # one text at a time


def test_a_classified_text_counts_each_word_once() -> None:
    texts = Texts(items(), TOKENIZER, per_word=False, targets=[np.array([i % 2]) for i in range(4)], limit=8)
    batch = texts.batch([2, 1])
    assert batch.labels is not None
    assert batch.word_positions is not None
    assert batch.labels.tolist() == [0] * len(texts.windows[2]) + [1]
    assert int((batch.word_positions >= 0).sum()) == 23 + 1
    task = Classification()
    task.labels = ["no", "yes"]
    torch.manual_seed(0)
    model = TaskModel(ToySystem(), task.head(6, 2, HeadConfig("linear")), ("ids", "mask"), "finetune")
    assert len(predict(model, task.predict, texts)) == 4
    loss = task.loss(model(batch), batch)
    assert loss.count == 2


def test_a_word_without_pieces_shifts_no_label() -> None:
    """TOK-14 as a tagger meets it: the second word has no pieces."""
    words = ["Ravi", "__", "joined", "Orbis", "today"]
    texts = Texts([TOKENIZER.encode(words)], TOKENIZER, per_word=True, targets=[np.array([0, 0, 0, 1, 0])])
    model = tagger("finetune")
    batch = texts.batch([0])
    states = model.states(batch)[0, 0]
    assert bool((states[1] == 0).all())
    orbis = model.system(torch.tensor([TOKENIZER.encode(["Orbis"]).ids[:1]])).layers[0][0, 0]
    torch.testing.assert_close(states[3], orbis)
    assert tagging().loss(model(batch), batch).count == 4  # there is nothing to learn from at word 1
    assert len(predict(model, tagging().predict, texts)[0]) == 5


def test_a_frozen_system_is_no_part_of_what_is_trained() -> None:
    model = tagger("features")
    assert {name.partition(".")[0] for name, _ in model.named_parameters()} == {"head"}
    texts = Texts(items(), TOKENIZER, per_word=True, targets=[np.zeros(len(w), dtype=np.int64) for w in SENTENCES])
    batch = texts.batch([0, 1])
    Supervised(tagging()).loss(model.train(), batch).total.backward()
    assert model.system.table.weight.grad is None
    assert not model.system.training


def test_states_that_come_with_the_batch_equal_those_computed_on_the_spot() -> None:
    model = tagger("features")
    plain = Texts(items(), TOKENIZER, per_word=True)
    states = [model.states(plain.batch([i]))[0].numpy() for i in range(4)]
    with_states = Texts(items(), TOKENIZER, per_word=True, states=lambda indices: [states[i] for i in indices])
    for indices in ([0], [0, 2, 1, 3]):
        torch.testing.assert_close(model.states(with_states.batch(indices)), model.states(plain.batch(indices)))


def test_a_tuned_system_learns_in_every_row_that_is_read() -> None:
    model = tagger("finetune").train()
    texts = Texts(items(), TOKENIZER, per_word=True, targets=[np.zeros(len(w), dtype=np.int64) for w in SENTENCES])
    Supervised(tagging()).loss(model, texts.batch([0])).total.backward()
    grad = model.system.table.weight.grad
    first = {TOKENIZER.encode([word]).ids[0] for word in SENTENCES[0]}
    assert grad is not None
    assert set(grad.any(1).nonzero().flatten().tolist()) == first


@pytest.mark.parametrize("room", [1, 10, 1000])
def test_batches_by_length_hold_every_text_within_the_room(room: int) -> None:
    lengths = [3, 9, 1, 4, 4, 20]
    batches = by_length(lengths, room)
    assert sorted(i for batch in batches for i in batch) == list(range(6))
    assert all(len(b) == 1 or len(b) * max(lengths[i] for i in b) <= room for b in batches)
