"""Cases ELM: what broke ELMo's other tools."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from polysemy.data.collate import collate
from polysemy.data.sentences import SentenceLoader
from polysemy.data.shards import build_shards
from polysemy.nn.pool import ScalarMix, normalised
from polysemy.systems.elmo import ELMo, ELMoConfig
from polysemy.text.characters import CHARACTERS, character_ids
from polysemy.text.tokenizer import train_tokenizer
from polysemy.text.tokens import Tokenizer
from polysemy.text.words import Segmenter
from tests.data import need

TIDE = ["the", "tide", "turned"]


@pytest.fixture(scope="module")
def model() -> ELMo:
    torch.manual_seed(0)
    return ELMo(ELMoConfig(vocab_size=9, filters=((1, 8), (3, 8)), num_highways=1, hidden_size=12, proj_size=6)).eval()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    counts = Counter({"the": 5, "tide": 3, "turned": 2, "short": 2, "line": 2})
    return train_tokenizer("characters", counts, segmenter=Segmenter(), vocab_size=8)


@torch.no_grad()
def vectors(model: ELMo, tokenizer: Tokenizer, *texts: list[str]) -> list[torch.Tensor]:
    """(layers, words, dim) of each text, all in one batch."""
    batch = collate([tokenizer.encode(text) for text in texts], tokenizer)
    encoded = model(batch.types, batch.characters, batch.mask)
    return [torch.stack(encoded.layers, 1)[i, :, 1 : int(batch.mask[i].sum()) - 1] for i in range(batch.size)]


def test_elm_01_the_same_sentence_twice_gives_the_same_vectors(model: ELMo, tokenizer: Tokenizer) -> None:
    first = vectors(model, tokenizer, TIDE)[0]
    vectors(model, tokenizer, ["something", "else"])
    assert (vectors(model, tokenizer, TIDE)[0] - first).abs().max() == 0


@torch.no_grad()
def test_elm_01_carrying_state_is_an_explicit_mode(model: ELMo, tokenizer: Tokenizer) -> None:
    batch = collate([tokenizer.encode(TIDE)], tokenizer)
    inputs = (batch.types, batch.characters, batch.mask)
    first, state = model.encode_stateful(*inputs)
    second, _ = model.encode_stateful(*inputs, state)
    assert torch.equal(first.last, model(*inputs).last)
    assert not torch.allclose(first.last, second.last, atol=1e-3)


def test_elm_03_empty_strings_are_no_words(model: ELMo, tokenizer: Tokenizer) -> None:
    padded, longer = vectors(model, tokenizer, ["short", "line", "", ""], [*TIDE, "again"])
    assert padded.shape[1] == 2
    torch.testing.assert_close(padded, vectors(model, tokenizer, ["short", "line"])[0], atol=1e-6, rtol=0)
    assert longer.shape[1] == 4


@pytest.mark.parametrize("declared", [261, 262])
def test_elm_06_a_table_of_261_rows_loads_whatever_is_declared(declared: int, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    from polysemy.interop.elmo_hdf5 import load_elmo

    folder = need("elmo_fixtures/allennlp")
    options = json.loads((folder / "options.json").read_text("utf-8"))
    options["char_cnn"]["n_characters"] = declared
    (tmp_path / "options.json").write_text(json.dumps(options), "utf-8")
    config, state, _ = load_elmo(tmp_path / "options.json", folder / "lm_weights.hdf5")
    table = state["words.embedding.weight"]
    assert config.characters == len(table) == CHARACTERS == 262
    assert not table[0].any()
    assert table[1:].any(1).all()


class Words:
    """The output vocabulary that the loader asks for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.special, self.slots, self.words_index = tokenizer.special, 50, {"word": 3}


def test_elm_07_batches_an_epoch_follow_from_the_corpus(tokenizer: Tokenizer, tmp_path: Path) -> None:
    line = tokenizer.encode(["word"] * 12)
    shards = build_shards(tmp_path, ((0, line) for _ in range(1200)), lexicon=True)
    loader = SentenceLoader(shards, Words(tokenizer), batch_words=128 * 20)
    assert shards.words == 14_400
    assert loader.steps_per_epoch == 6
    assert sum(loader.words(step) for step in range(6)) == 14_400


def test_elm_12_weights_and_scores_are_two_names() -> None:
    layers = [torch.full((1, 1, 1), value) for value in (1.0, 10.0, 100.0)]
    assert ScalarMix(3, weights=[0, 0, 1]).weights.tolist() == [0, 0, 1]
    assert ScalarMix(3, weights=[0, 0, 1])(layers).item() == 100
    scored = ScalarMix(3, scores=[0, 0, 1]).weights
    torch.testing.assert_close(scored, torch.tensor([0.2119, 0.2119, 0.5761]), atol=5e-5, rtol=0)


SECOND_PROCESS = """
import sys, torch
from safetensors.torch import load_file, save_file
from polysemy.nn.pool import ScalarMix
mix = ScalarMix(3)
mix.load_state_dict(load_file(sys.argv[1]))
layers = load_file(sys.argv[2])
save_file({"mixed": mix(list(layers.values())).detach().contiguous()}, sys.argv[3])
"""


def test_elm_13_the_mix_is_saved_and_restored_in_another_process(tmp_path: Path) -> None:
    mix = ScalarMix(3, scores=[1, 0, 0])
    with torch.no_grad():
        mix.gamma.fill_(2.0)
    layers = {str(i): torch.randn(2, 3, 4) for i in range(3)}
    files = [str(tmp_path / name) for name in ("mix", "layers", "mixed")]
    save_file(mix.state_dict(), files[0])
    save_file(layers, files[1])
    subprocess.run([sys.executable, "-c", SECOND_PROCESS, *files], check=True)
    saved = load_file(files[0])
    assert saved["scores"].tolist() == [1, 0, 0]
    assert saved["gamma"].item() == 2
    assert (load_file(files[2])["mixed"] - mix(list(layers.values()))).abs().max() == 0


def test_elm_15_layer_normalisation_leaves_padding_out() -> None:
    layer, mask = torch.tensor([[[1.0, 3.0], [5.0, 7.0], [0.0, 0.0]]]), torch.tensor([[True, True, False]])
    expected = (layer - 4.0) / 2.2361
    torch.testing.assert_close(normalised(layer, mask)[mask], expected[mask], atol=1e-4, rtol=0)
    torch.testing.assert_close(ScalarMix(1, normalise=True)([layer], mask)[mask], expected[mask], atol=1e-4, rtol=0)


def test_elm_18_a_character_beyond_ascii_is_its_bytes() -> None:
    row = character_ids("日")
    assert [number - 1 for number in row[1:4]] == [0xE6, 0x97, 0xA5]
    assert np.max(row) < 262
