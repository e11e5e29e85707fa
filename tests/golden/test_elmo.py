"""ELMo against what the original tools (bilm-tf, AllenNLP) gave for the same weights and sentences."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from polysemy.interop.elmo_hdf5 import load_elmo
from polysemy.systems.elmo import ELMo
from polysemy.text.characters import SENTENCE_BEGIN, SENTENCE_END, character_ids
from tests.data import need

h5py = pytest.importorskip("h5py")

TOLERANCE = 1e-5
FIXTURES = {
    "allennlp": ("options.json", "lm_weights.hdf5", "sentences.json"),
    "bilm-tf": ("model/options.json", "model/lm_weights.hdf5", "model/lm_embeddings_sentences.json"),
}


def model_of(options: Path, weights: Path) -> ELMo:
    config, state, _ = load_elmo(options, weights)
    model = ELMo(config)
    model.load_state_dict(state)  # strict: nothing is left random
    return model.eval()


def inputs(sentences: list[list[str]]) -> tuple[Tensor, Tensor, Tensor]:
    """types, characters and mask, with sentence begin and end."""
    words = sorted({word for sentence in sentences for word in sentence})
    row = {word: i + 3 for i, word in enumerate(words)}
    characters = torch.tensor([[0] * 50, SENTENCE_BEGIN, SENTENCE_END, *map(character_ids, words)])
    lengths = torch.tensor([len(sentence) + 2 for sentence in sentences])
    types = torch.zeros(len(sentences), int(lengths.max()), dtype=torch.long)
    for i, sentence in enumerate(sentences):
        types[i, : len(sentence) + 2] = torch.tensor([1, *(row[word] for word in sentence), 2])
    return types, characters, torch.arange(types.size(1)) < lengths[:, None]


@pytest.fixture(params=FIXTURES)
def fixture(request: pytest.FixtureRequest) -> tuple[ELMo, list[list[list[str]]], list[list[np.ndarray]]]:
    """The model, ten batches of three sentences, and the original's top layer (words, 32) for each sentence."""
    folder = need(f"elmo_fixtures/{request.param}")
    options, weights, sentences = (folder / name for name in FIXTURES[request.param])
    lists = json.loads(sentences.read_text("utf-8"))
    expected = []
    for k in range(3):
        with h5py.File(weights.with_name(f"lm_embeddings_{k}.hdf5")) as file:
            expected.append([np.concatenate(list(file[str(i)][...]), -1) for i in range(10)])
    batches = [[lists[k][i].split() for k in range(3)] for i in range(10)]
    return model_of(options, weights), batches, [[expected[k][i] for k in range(3)] for i in range(10)]


def error(layer: Tensor, expected: list[np.ndarray]) -> float:
    """The largest difference over the words of a batch, begin and end left out."""
    return max(float(np.abs(layer[k, 1 : len(e) + 1].numpy() - e).max()) for k, e in enumerate(expected))


@torch.no_grad()
def test_first_batch_without_state(fixture) -> None:
    model, batches, expected = fixture
    assert error(model(*inputs(batches[0])).last, expected[0]) <= TOLERANCE


@torch.no_grad()
def test_all_thirty_sentences_with_state_carried_over(fixture) -> None:
    model, batches, expected = fixture
    state, errors = None, []
    for batch, wanted in zip(batches, expected, strict=True):
        encoded, state = model.encode_stateful(*inputs(batch), state)
        errors.append(error(encoded.last, wanted))
    assert len(errors) == 10
    assert max(errors) <= TOLERANCE


@torch.no_grad()
def test_state_matters(fixture) -> None:
    """Without the state of the batch before, the second batch differs: the tests above can fail."""
    model, batches, expected = fixture
    assert error(model(*inputs(batches[1])).last, expected[1]) > 100 * TOLERANCE


def test_the_training_path_gives_the_same_states(fixture) -> None:
    """With gradients another function runs; dropout is off in evaluation mode."""
    model, batches, expected = fixture
    state = None
    for batch, wanted in zip(batches[:3], expected[:3], strict=True):
        encoded, state = model.encode_stateful(*inputs(batch), state)
        assert encoded.last.requires_grad
        assert error(encoded.last.detach(), wanted) <= TOLERANCE


@torch.no_grad()
def test_character_network_on_458_words() -> None:
    folder = need("elmo_fixtures/allennlp")
    model = model_of(folder / "options.json", folder / "lm_weights.hdf5")
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][...]
    words = (folder / "vocab_test.txt").read_text("utf-8").split("\n")
    rows = {"<S>": SENTENCE_BEGIN, "</S>": SENTENCE_END}
    characters = torch.tensor([rows.get(word) or character_ids(word) for word in words[: len(expected)]])
    assert len(characters) == 458
    assert np.abs(model.words(characters).numpy() - expected).max() <= TOLERANCE


@pytest.mark.parametrize("language", ["es", "fr", "it"])
def test_multilingual_files_load_whole(language: str) -> None:
    folder = need(f"elmo_fixtures/allennlp_multilingual/{language}")
    config, _, ledger = load_elmo(folder / "options.json", folder / "weights.hdf5")
    assert (config.characters, config.proj_size, config.hidden_size, config.skip) == (262, 16, 64, True)
    assert ledger.count("loaded") == 33
    assert ledger.count("ignored") == ledger.count("random") == 0
