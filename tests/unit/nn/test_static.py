"""The kernels against their equations: autograd for a step, exact distributions for what is drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from polysemy.nn import static

COUNTS = np.array([7, 50, 20, 10, 5, 3, 2, 1])  # id 0 is not counted


def table(tree: bool = False, subsample: float = 0.0) -> static.Tables:
    counts = COUNTS.copy()
    counts[0] = 0
    return static.tables(counts, subsample, 0.75, tree=tree)


def random_matrices(dim: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return tuple((scale * generator.standard_normal((len(COUNTS), dim))).astype(np.float32) for _ in range(2))


def text(*sentences: list[int]) -> static.Text:
    return static.Text(
        np.array([w for s in sentences for w in s], np.int32), np.cumsum([0, *map(len, sentences)]).astype(np.int64)
    )


def run(kernel, words, vectors, output, tables, *, negatives=5, window=1, lr=0.1, seed=1):
    scratch = static.scratch(words, tables, negatives, seed)
    ahead = scratch.ahead.copy()
    result = kernel(words, static.as_rows(vectors), static.as_rows(output), tables, scratch, window, lr)
    return result, ahead


def slope(vectors, output, objective, lr=0.1):
    """What one step of plain gradient descent on ``objective(v, u)`` makes of both tables, and its loss."""
    v, u = torch.tensor(vectors, requires_grad=True), torch.tensor(output, requires_grad=True)
    loss = objective(v, u)
    loss.backward()
    return (v - lr * v.grad).detach().numpy(), (u - lr * u.grad).detach().numpy(), loss.item()


@pytest.mark.parametrize("dim", [1, 5, 16, 20, 100])
def test_a_pair_with_noise_words_moves_as_autograd_says(dim):
    vectors, output = random_matrices(dim, 0.5)
    # one sentence of two words and a window of 1: the pairs (2 around 1) and (1 around 2); the first is checked alone
    # by letting the second word of the second pair be learnt from tables that the first pair has changed
    words, tables = text([1, 2]), table()
    found_v, found_u = vectors.copy(), output.copy()
    (total, pairs, kept, known), first = run(static.skip_gram, words, found_v, found_u, tables, negatives=3)
    second = noise_after(tables, 3, skip=2 + 1)  # two words kept, one reach
    want_v, want_u, loss = vectors, output, 0.0
    for around, word, noise in ((2, 1, first), (1, 2, second)):
        noise = [k for k in noise if k != word]

        def objective(v, u, around=around, word=word, noise=noise):
            return -F.logsigmoid(u[word] @ v[around]) - sum(F.logsigmoid(-(u[k] @ v[around])) for k in noise)

        if len(set(noise)) == len(noise):
            want_v, want_u, part = slope(want_v, want_u, objective)
        else:  # a word drawn twice is learnt twice, one after the other
            want_v, want_u, part = one_by_one(want_v, want_u, around, word, noise)
        loss += part
    assert (pairs, kept, known) == (2, 2, 2)
    assert total == pytest.approx(loss, rel=1e-4)
    np.testing.assert_allclose(found_v, want_v, atol=2e-5)
    np.testing.assert_allclose(found_u, want_u, atol=2e-5)


def noise_after(tables, negatives, skip):
    """The second set of noise words: drawn while the first pair is learnt, after ``skip`` other draws."""
    state = np.array([1], np.uint64)
    ahead = np.empty(negatives, np.int64)
    static.fill_ahead(ahead, tables, state)
    state += np.uint64(skip * 0x9E3779B97F4A7C15 % 2**64)
    static.fill_ahead(ahead, tables, state)
    return ahead


def one_by_one(vectors, output, around, word, noise, lr=0.1):
    """The released code's order: every output row at once, the input row at the end."""
    v, u, move, loss = vectors.astype(float), output.astype(float), 0.0, 0.0
    for target, label in [(word, 1.0), *((k, 0.0) for k in noise)]:
        x = u[target] @ v[around]
        p = 1 / (1 + np.exp(-x))
        loss -= np.log(p if label else 1 - p)
        move = move + lr * (label - p) * u[target]
        u[target] += lr * (label - p) * v[around]
    v[around] += move
    return v.astype(np.float32), u.astype(np.float32), loss


def test_cbow_moves_each_word_around_by_the_slope_of_the_mean():
    vectors, output = random_matrices(20, 0.5)
    words, tables = text([3, 1, 4]), table(tree=True)
    found_v, found_u = vectors.copy(), output.copy()
    (total, pairs, _, _), _ = run(static.cbow, words, found_v, found_u, tables)
    want_v, want_u, loss = vectors.astype(float), output.astype(float), 0.0
    for around, word in (([1], 3), ([3, 4], 1), ([1], 4)):
        mean, move = want_v[around].mean(0), 0.0
        for place in range(tables.paths[word], tables.paths[word + 1]):
            node, left = tables.nodes[place], 1 - tables.codes[place]
            p = 1 / (1 + np.exp(-want_u[node] @ mean))
            loss -= np.log(p if left else 1 - p)
            move = move + 0.1 * (left - p) * want_u[node]
            want_u[node] += 0.1 * (left - p) * mean
        want_v[around] += move
    assert pairs == 3
    assert total == pytest.approx(loss, rel=1e-4)
    np.testing.assert_allclose(found_v, want_v, atol=2e-5)
    np.testing.assert_allclose(found_u, want_u, atol=2e-5)


def test_the_probabilities_of_the_tree_sum_to_one():
    tables = table(tree=True)
    generator = np.random.default_rng(0)
    node_logits = generator.standard_normal(len(COUNTS))
    total = 0.0
    for word in range(1, len(COUNTS)):
        low, high = tables.paths[word], tables.paths[word + 1]
        x = node_logits[tables.nodes[low:high]] * (1.0 - 2.0 * tables.codes[low:high])
        total += np.prod(1 / (1 + np.exp(-x)))
    assert total == pytest.approx(1.0)


def test_the_tree_is_as_short_as_entropy_allows():
    counts = np.random.default_rng(0).integers(1, 10_000, 500)
    counts[0] = 0
    paths, nodes, _ = static.huffman(counts)
    share = counts[1:] / counts.sum()
    mean_length = (np.diff(paths)[1:] * share).sum()
    entropy = -(share * np.log2(share)).sum()
    assert entropy <= mean_length < entropy + 1
    assert nodes.max() == 497  # 499 words have 498 inner nodes, the root last


def test_noise_words_follow_the_counts_to_the_power_of_three_quarters():
    tables, draws = table(), 400_000
    drawn = np.empty(draws, np.int64)
    static.fill_ahead(drawn, tables, np.array([3], np.uint64))
    expected = np.where(np.arange(len(COUNTS)) > 0, COUNTS**0.75, 0.0)
    expected /= expected.sum()
    found = np.bincount(drawn, minlength=len(COUNTS)) / draws
    assert found[0] == 0
    np.testing.assert_allclose(found, expected, atol=5 * np.sqrt(0.25 / draws))


def test_frequent_words_are_thinned_out_by_the_rule_of_the_released_code():
    tables = table(subsample=0.01)
    words = text([1] * 100_000)
    vectors, output = random_matrices(4, 0.1)
    (_, _, kept, known), _ = run(static.skip_gram, words, vectors, output, tables, lr=0.0)
    frequency = COUNTS[1] / COUNTS[1:].sum()
    assert known == 100_000
    assert kept / known == pytest.approx(np.sqrt(0.01 / frequency) + 0.01 / frequency, abs=0.005)
    assert tables.keep[0] == 1.0  # never asked, and never a division by zero


def test_unknown_words_are_passed_over_and_windows_reach_across_them():
    vectors, output = random_matrices(8)
    with_gap = vectors.copy(), output.copy()
    without = vectors.copy(), output.copy()
    a, _ = run(static.skip_gram, text([1, 0, 0, 2], [0], []), *with_gap, table())
    b, _ = run(static.skip_gram, text([1, 2]), *without, table())
    assert a == b
    np.testing.assert_array_equal(with_gap[0], without[0])
    np.testing.assert_array_equal(with_gap[0][0], vectors[0])


def test_the_reach_is_uniform_up_to_the_window():
    words, window = text([1, 2] * 5000), 4
    (_, pairs, _, _), _ = run(static.skip_gram, words, *random_matrices(4, 0.1), table(), window=window, lr=0.0)
    assert pairs / 10_000 == pytest.approx(window + 1, rel=0.03)  # twice the mean reach, (window + 1) / 2


def test_saturated_and_broken_numbers_are_told_in_the_loss():
    vectors, output = random_matrices(4, 0.0)
    vectors[1], output[2] = 10.0, -10.0  # u_2 . v_1 = -400, and -log s(-400) = 400
    # lr 0: the pair (1 around 2) costs 400; (2 around 1) and all noise are scored at 0
    (total, pairs, _, _), _ = run(
        static.skip_gram, text([1, 2]), vectors, output, table(tree=False), negatives=0, lr=0.0
    )
    assert pairs == 2
    assert total == pytest.approx(400 + np.log(2), rel=1e-6)
    vectors[1] = np.nan
    (total, *_), _ = run(static.skip_gram, text([1, 2]), vectors, output, table(), lr=0.0)
    assert np.isnan(total)


def test_a_loss_of_many_terms_does_not_underflow():
    vectors, output = random_matrices(4, 0.0)
    (total, pairs, _, _), _ = run(static.skip_gram, text([1, 2] * 20_000), vectors, output, table(tree=True), lr=0.0)
    lengths = np.diff(table(tree=True).paths)
    assert total == pytest.approx(pairs / 2 * (lengths[1] + lengths[2]) * np.log(2), rel=1e-4)
