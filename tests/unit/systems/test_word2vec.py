"""Word2Vec as a system: sizes, training in blocks, resuming, several workers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from polysemy.core.errors import InputError
from polysemy.look.neighbors import neighbors
from polysemy.systems import configure
from polysemy.systems.word2vec import Word2Vec, Word2VecConfig, flops_per_token, parameters

TOPICS, WORDS_A_TOPIC = 4, 25
VOCAB = 1 + TOPICS * WORDS_A_TOPIC


def topical_text(sentences: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Sentences of ten words of one topic each; word 1 + 25 t + i belongs to topic t."""
    generator = np.random.default_rng(seed)
    topics = generator.integers(0, TOPICS, sentences)
    words = generator.integers(0, WORDS_A_TOPIC, (sentences, 10))
    ids = (1 + WORDS_A_TOPIC * topics[:, None] + words).astype(np.int32).ravel()
    return ids, np.arange(0, len(ids) + 1, 10)


def model_for(ids: np.ndarray, **settings) -> Word2Vec:
    torch.manual_seed(0)
    model = Word2Vec(Word2VecConfig(vocab_size=VOCAB, **{"dim": 20, "subsample": 0.0, "window": 3, **settings}))
    model.prepare(np.bincount(ids, minlength=VOCAB))
    return model


@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
@pytest.mark.parametrize("objective", ["negative", "hierarchical"])
@pytest.mark.parametrize("workers", [1, 2])
def test_words_of_one_topic_come_to_lie_together(architecture, objective, workers):
    ids, offsets = topical_text()
    lr = 0.05 if architecture == "skip-gram" else 0.2
    model = model_for(ids, architecture=architecture, objective=objective, workers=workers, lr=lr)
    losses = [model.fit_block((ids, offsets), epoch / 8, epoch) for epoch in range(8)]
    assert all(loss.parts["kept"] == (len(ids), len(ids)) for loss in losses)
    means = [float(loss.total) / loss.count for loss in losses]
    assert means[-1] < means[0]
    words = [str(row) for row in range(VOCAB)]
    nearest = neighbors(words, model.vectors.detach().numpy(), "1", k=WORDS_A_TOPIC - 1)
    own_topic = sum(1 <= int(word) <= WORDS_A_TOPIC for word, _ in nearest)
    assert own_topic >= WORDS_A_TOPIC - 3


def test_a_resumed_training_gives_the_same_bytes():
    ids, offsets = topical_text(200)
    whole, part = model_for(ids), model_for(ids)
    for step in range(4):
        whole.fit_block((ids, offsets), step / 4, step)
    for step in range(2):
        part.fit_block((ids, offsets), step / 4, step)
    resumed = Word2Vec(part.config)
    resumed.load_state_dict(part.state_dict())
    for step in range(2, 4):
        resumed.fit_block((ids, offsets), step / 4, step)
    assert torch.equal(whole.vectors, resumed.vectors)
    assert torch.equal(whole.output, resumed.output)


def test_tables_follow_counts_that_are_loaded_later():
    ids, offsets = topical_text(50)
    first, second = model_for(ids), model_for(np.concatenate([ids, np.full(5000, 7)]))
    first.fit_block((ids, offsets), 0.0, 0)
    first.load_state_dict(second.state_dict())
    first.fit_block((ids, offsets), 0.0, 0)
    second.fit_block((ids, offsets), 0.0, 0)
    assert torch.equal(first.vectors, second.vectors)


def test_the_rate_falls_in_a_straight_line_to_its_least():
    ids, _ = topical_text(1)
    moved = []
    for progress in (0.0, 0.5, 1.0, 1.2):
        model = model_for(ids, lr=0.1, min_lr=0.01)
        torch.nn.init.constant_(model.output, 0.1)
        before = model.vectors.detach().clone()
        model.fit_block((ids[:2], np.array([0, 2])), progress, 0)
        moved.append((model.vectors.detach() - before).norm().item())
    ratios = np.array(moved) / moved[0]
    np.testing.assert_allclose(ratios, [1.0, 0.55, 0.1, 0.1], rtol=0.02)


def test_divergence_shows_in_the_loss():
    ids, offsets = topical_text(200)
    model = model_for(ids, lr=1e30)
    totals = [float(model.fit_block((ids, offsets), 0.0, step).total) for step in range(3)]
    assert not np.isfinite(totals[-1])


def test_the_unknown_word_is_zero_and_stays_zero():
    ids, offsets = topical_text(100)
    ids[::7] = 0
    model = model_for(ids)
    model.fit_block((ids, offsets), 0.0, 0)
    encoded = model(torch.tensor([[0, 5, 0]]), mask=torch.tensor([[True, True, False]]))
    assert len(encoded.layers) == 1
    assert encoded.last.shape == (1, 3, 20)
    assert not encoded.last[0, 0].any()
    assert torch.equal(encoded.last[0, 1], model.vectors[5])
    encoded.last.sum().backward()
    assert not model.vectors.grad[0].any()


@pytest.mark.parametrize("settings", [{"dim": 100}, {"objective": "hierarchical"}, {"architecture": "cbow"}])
def test_size_follows_from_the_configuration(settings):
    config = Word2VecConfig(vocab_size=50, **settings)
    assert parameters(config) == sum(p.numel() for p in Word2Vec(config).parameters())
    assert flops_per_token(config) > 0


def test_names_carry_sizes():
    assert configure("word2vec")[1]["dim"] == 100
    assert configure("word2vec:300")[1]["dim"] == 300
    assert Word2VecConfig(vocab_size=2, **configure("word2vec:cbow")[1]).architecture == "cbow"


def test_what_cannot_be_trained_is_refused():
    ids, offsets = topical_text(10)
    model = model_for(ids)
    with pytest.raises(ValueError, match="beyond"):
        model.fit_block((np.array([VOCAB], np.int32), np.array([0, 1])), 0.0, 0)
    with pytest.raises(ValueError, match="offsets"):
        model.fit_block((ids, offsets[:-1]), 0.0, 0)
    with pytest.raises(InputError, match="no word"):
        model.prepare(np.eye(1, VOCAB, dtype=np.int64)[0])
    with pytest.raises(InputError, match="negatives"):
        Word2VecConfig(vocab_size=5, negatives=0)


@pytest.mark.parametrize("objective", ["negative", "hierarchical"])
def test_nothing_to_learn_is_no_error(objective):
    model = model_for(np.array([1], np.int32), objective=objective)  # one word: no noise and no tree
    for block in (([], [0]), ([0, 0], [0, 2]), ([1], [0, 1]), ([1, 1], [0, 1, 1, 2])):
        loss = model.fit_block((np.array(block[0], np.int32), np.array(block[1])), 0.0, 0)
        assert (float(loss.total), loss.count) == (0.0, 0)


def test_arrays_that_may_not_be_written_are_read(tmp_path):
    ids, offsets = topical_text(20)
    np.save(tmp_path / "ids.npy", ids)
    mapped = np.load(tmp_path / "ids.npy", mmap_mode="r")
    first, second = model_for(ids), model_for(ids)
    first.fit_block((ids, offsets), 0.0, 0)
    second.fit_block((mapped, offsets.astype(np.int32)), 0.0, 0)
    assert torch.equal(first.vectors, second.vectors)


def test_importing_the_system_does_not_import_numba():
    code = "import sys, polysemy.systems.word2vec; print('numba' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "False"
