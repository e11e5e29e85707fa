"""From pieces to words, from words to sentences, from layers to one."""

from __future__ import annotations

import pytest
import torch

from polysemy.nn.pool import AttentivePooling, ScalarMix, masked_mean, mean_of_pieces, normalised, word_states

X = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], [[-1.0, 0.0], [2.0, 2.0], [9.0, 9.0], [9.0, 9.0]]])
MASK = torch.tensor([[True] * 4, [True, True, False, False]])
LAYERS = tuple(torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(s)) for s in range(3))


def test_first_piece_of_each_word_and_zeros_for_a_word_without_pieces() -> None:
    positions = torch.tensor([[1, 3, -1], [0, -1, -1]])
    expected = torch.tensor([[[3.0, 4.0], [7.0, 8.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]])
    assert torch.equal(word_states(X, positions), expected)


def test_mean_of_pieces() -> None:
    words = torch.tensor([[-1, 0, 0, 2], [0, -1, -1, -1]])
    expected = torch.tensor([[[4.0, 5.0], [0.0, 0.0], [7.0, 8.0]], [[-1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]])
    assert torch.equal(mean_of_pieces(X, words, 3), expected)
    spoilt = X.masked_fill((words < 0)[..., None], float("nan"))  # specials and padding count for nothing
    assert torch.equal(mean_of_pieces(spoilt, words, 3), expected)


def test_masked_mean() -> None:
    spoilt = X.masked_fill(~MASK[..., None], float("nan"))
    assert torch.equal(masked_mean(spoilt, MASK), torch.tensor([[4.0, 5.0], [0.5, 1.0]]))
    assert torch.equal(masked_mean(X, torch.zeros_like(MASK)), torch.zeros(2, 2))


def test_attentive_pooling_weighs_real_tokens_only() -> None:
    torch.manual_seed(0)
    pool = AttentivePooling(2, 5)
    pooled = pool(X.masked_fill(~MASK[..., None], float("nan")), MASK)
    for row, length in enumerate((4, 2)):
        x = X[row, :length]
        weights = pool.score(pool.project(x).tanh()).softmax(0)
        torch.testing.assert_close(pooled[row], (weights * x).sum(0))
    nothing = pool(X.requires_grad_(), torch.zeros_like(MASK))
    assert torch.equal(nothing, torch.zeros(2, 2))
    nothing.sum().backward()
    assert not X.grad.any()
    X.requires_grad_(False)


def test_equal_scores_are_the_mean_and_gamma_scales() -> None:
    mix = ScalarMix(3)
    torch.testing.assert_close(mix(LAYERS), sum(LAYERS) / 3)
    with torch.no_grad():
        mix.gamma.fill_(-2.0)
    torch.testing.assert_close(mix(LAYERS), -2 * sum(LAYERS) / 3)


@pytest.mark.parametrize("given", [{}, {"scores": [1.0, 0.0, -1.0]}, {"weights": [0.2, 0.0, 1.3]}])
def test_the_mix_learns(given: dict[str, list[float]]) -> None:
    mix, target = ScalarMix(3, **given), LAYERS[1]
    optimizer = torch.optim.Adam(mix.parameters(), 0.1)
    for _ in range(200):
        optimizer.zero_grad()
        (mix(LAYERS) - target).square().mean().backward()
        optimizer.step()
    torch.testing.assert_close(mix.gamma * mix.weights, torch.tensor([0.0, 1.0, 0.0]), atol=0.05, rtol=0)


def test_a_fixed_mix_has_no_parameters_to_learn() -> None:
    assert not [p for p in ScalarMix(3, trainable=False).parameters() if p.requires_grad]


def test_padding_does_not_reach_the_normalised_mix() -> None:
    mix = ScalarMix(3, normalise=True)
    expected = mix(LAYERS, MASK)[MASK]
    spoilt = [layer.masked_fill(~MASK[..., None], float("nan")) for layer in LAYERS]
    torch.testing.assert_close(mix(spoilt, MASK)[MASK], expected)
    assert expected.mean().abs() < 1e-6
    assert normalised(X, torch.zeros_like(MASK)).isfinite().all()


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        ScalarMix(2, scores=[0.0, 0.0], weights=[1.0, 0.0])
    with pytest.raises(ValueError, match="2 numbers for 3 layers"):
        ScalarMix(3, weights=[1.0, 0.0])
    with pytest.raises(ValueError, match="3 layers for a mix of 2"):
        ScalarMix(2)(LAYERS)
