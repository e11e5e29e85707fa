"""The character network: the fast path is the convolution of the paper, and only the spelling counts."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from polysemy.nn import characters as module
from polysemy.nn.characters import CharacterCNN, Highway
from polysemy.text.characters import SENTENCE_BEGIN, character_ids

FILTERS = ((1, 3), (2, 4), (5, 6))
WORDS = ["a", "bank", "ụlọ", "日本語", "x" * 60, "antidisestablishmentarianism", "it's"]


def network(activation: str = "relu") -> CharacterCNN:
    torch.manual_seed(1)
    model = CharacterCNN(FILTERS, 8, char_dim=4, num_highways=2, activation=activation)  # type: ignore[arg-type]
    with torch.no_grad():
        model.bias.normal_()
        for weight in model.weights:
            weight.normal_()
    return model


def rows(words: list[str] = WORDS) -> Tensor:
    return torch.tensor([[0] * 50, SENTENCE_BEGIN, *map(character_ids, words)])


def by_the_paper(model: CharacterCNN, characters: Tensor) -> Tensor:
    """torch's convolution over all slots, padding included, and its maximum."""
    x = model.embedding(characters).transpose(1, 2)  # (t, char_dim, c)
    parts = []
    for (width, count), weight in zip(FILTERS, model.weights, strict=True):
        kernel = weight.view(width, -1, count).permute(2, 1, 0)
        parts.append(F.conv1d(x, kernel).amax(2))
    y = model.activation(torch.cat(parts, 1) + model.bias)
    for highway in model.highways:
        transform, gate = highway.both(y).chunk(2, 1)
        y = gate.sigmoid() * transform.relu() + (1 - gate.sigmoid()) * y
    return model.projection(y)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("group", [128, 2])
def test_vectors_and_gradients_are_those_of_the_convolution(
    activation: str, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WORDS_AT_ONCE", group)
    model, characters = network(activation).double(), rows()
    results = []
    for path in (model, lambda x: by_the_paper(model, x)):
        y = path(characters)
        weights = torch.linspace(-1, 2, y[1:].numel(), dtype=torch.double).view_as(y[1:])
        results.append((y, *torch.autograd.grad((y[1:] * weights).sum(), list(model.parameters()))))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-10, rtol=1e-10)
    with torch.no_grad():
        torch.testing.assert_close(model(characters), results[0][0], atol=1e-12, rtol=0)


def test_a_word_alone_and_in_any_company_is_the_same() -> None:
    model, characters = network().eval(), rows()
    with torch.no_grad():
        together = model(characters)
        for i, row in enumerate(characters):
            torch.testing.assert_close(model(row[None])[0], together[i], atol=1e-6, rtol=0)


@pytest.mark.parametrize("held", [1, 700])
def test_any_memory_limit_gives_the_same(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, characters = network(), rows()
    with torch.no_grad():
        expected = model(characters)
        monkeypatch.setattr(module, "RESPONSES_HELD", held)
        torch.testing.assert_close(model(characters), expected, atol=1e-6, rtol=0)


def test_fewer_slots_than_fifty() -> None:
    model = network()
    wide, narrow = rows(["bank"]), torch.tensor([character_ids("bank", slots=12)])
    torch.testing.assert_close(model(narrow)[0], model(wide)[2])


def test_padding_row_of_the_table_stays_zeros() -> None:
    model = network()
    assert not model.embedding.weight[0].any()
    model(rows()).sum().backward()
    assert not model.embedding.weight.grad[0].any()
    assert model.embedding.weight.grad[1:].any()


def test_highway_carries_its_input_at_first() -> None:
    torch.manual_seed(0)
    highway, x = Highway(64), torch.randn(200, 64)
    y = highway(x)
    assert F.cosine_similarity(x, y).mean() > 0.9  # σ(-2) = 0.12 of the transform
    with torch.no_grad():
        highway.both.bias[64:] = -40.0
    torch.testing.assert_close(highway(x), x)


def test_bf16_is_close_to_fp32() -> None:
    model = network()
    with torch.autocast("cpu", torch.bfloat16):
        low = model(rows())
    low.float().sum().backward()
    expected = model(rows())
    assert not torch.equal(low.float(), expected)
    torch.testing.assert_close(low.float(), expected, atol=0.1 * float(expected.abs().max()), rtol=0)
