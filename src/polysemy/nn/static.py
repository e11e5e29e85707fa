# mypy: ignore-errors
"""Kernels of the static age: Word2Vec (Mikolov et al. 2013, arXiv:1301.3781 and arXiv:1310.4546).

v is a row of the input matrix ("vectors"), u a row of the output matrix, s the logistic function.  Everything is
learned in place by plain stochastic gradient descent, one word of context after the other, in the order of the text.
Compiled on first use and kept on disk; one compilation for each ``dim``.  Ids are word ids; 0 is an unknown word and
is passed over, as if it did not stand in the text.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from polysemy.nn.rows import add, as_rows, dot, load, prefetch, store, zeros

__all__ = ["Scratch", "Tables", "Text", "as_rows", "cbow", "scratch", "skip_gram", "tables"]

OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
LIMIT, STEPS = 16, 32  # the table of s covers (-16, 16) with 32 steps a unit; beyond it s is 0 or 1 within 1.2e-7
SMALL, LOG_SMALL = 1e-200, math.log(1e-200)  # products of probabilities are scaled up before they underflow


def compiled(function, **options):
    """Compile on first use; keep the machine code on disk where there is a place for it."""
    try:
        return njit(cache=True, **OPTIONS, **options)(function)
    except RuntimeError:  # a read-only installation without a home directory
        return njit(**OPTIONS, **options)(function)


def kernel(function):
    """A loop that allocates nothing, so that the compiler need not count references in it."""
    return compiled(function, _nrt=False)


def step(function):
    """A part of a kernel, put where it is called, so that its rows stay in registers."""
    return njit(forceinline=True, _nrt=False, **OPTIONS)(function)


class Text(NamedTuple):
    """Consecutive words and the sentences they stand in."""

    ids: np.ndarray  # (words,) int32
    offsets: np.ndarray  # (sentences + 1,) int64, where each sentence begins in ``ids``


class Tables(NamedTuple):
    """What follows from the counts of the words; see ``subsampling``, ``alias_table`` and ``huffman``."""

    keep: np.ndarray  # (vocab,) float64, probability that a word is kept
    threshold: np.ndarray  # (vocab,) uint32, alias table of the noise distribution
    alias: np.ndarray  # (vocab,) int32
    paths: np.ndarray  # (vocab + 1,) int64, where the path of each word begins in ``nodes``; (1,): negative sampling
    nodes: np.ndarray  # (length of all paths,) int32, inner nodes from the root
    codes: np.ndarray  # (length of all paths,) uint8, 0 = left
    sigmoid: np.ndarray  # (2 LIMIT STEPS + 1,) float32


def tables(counts: np.ndarray, subsample: float, noise_power: float, *, tree: bool) -> Tables:
    """Everything that follows from the occurrences of each word, (vocab,) int64."""
    noise = np.where(counts > 0, counts.astype(np.float64) ** noise_power, 0.0)
    threshold, alias = alias_table(noise)
    paths, nodes, codes = (
        huffman(counts) if tree else (np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8))
    )
    return Tables(subsampling(counts, subsample), threshold, alias, paths, nodes, codes, sigmoid_table())


def subsampling(counts: np.ndarray, subsample: float) -> np.ndarray:
    """(vocab,) probability that an occurrence is kept, ``sqrt(t/f) + t/f`` with f the relative frequency of a word.

    The released code's rule (word2vec.c, line 405); the paper writes ``sqrt(t/f)`` (section 2.3).  0 turns it off.
    """
    frequency = counts / max(counts.sum(), 1)
    ratio = np.divide(subsample, frequency, out=np.full(len(counts), np.inf), where=frequency > 0)
    return np.ones(len(counts)) if subsample == 0 else np.minimum(np.sqrt(ratio) + ratio, 1.0)


def sigmoid_table() -> np.ndarray:
    """s at every step from -LIMIT to LIMIT."""
    x = np.arange(-LIMIT * STEPS, LIMIT * STEPS + 1) / STEPS
    return (1 / (1 + np.exp(-x))).astype(np.float32)


@compiled
def alias_table(weights):
    """Walker's alias method: a draw from any distribution costs one random number (Vose 1991).

    Column j is j itself below ``threshold[j]`` and ``alias[j]`` from there on.
    """
    n = len(weights)
    share = weights * (n / weights.sum())
    threshold, alias = np.full(n, 0xFFFFFFFF, np.uint32), np.arange(n).astype(np.int32)
    less, more = np.empty(n, np.int64), np.empty(n, np.int64)
    lesser, greater = 0, 0
    for j in range(n):
        if share[j] < 1:
            less[lesser] = j
            lesser += 1
        else:
            more[greater] = j
            greater += 1
    while lesser > 0 and greater > 0:
        lesser -= 1
        j, k = less[lesser], more[greater - 1]
        threshold[j], alias[j] = np.uint32(min(share[j] * 4294967296.0, 4294967295.0)), k
        share[k] -= 1 - share[j]
        if share[k] < 1:
            greater -= 1
            less[lesser] = k
            lesser += 1
    return threshold, alias


@compiled
def huffman(counts):
    """Paths of the binary Huffman tree over the words that occur (arXiv:1310.4546, section 2.1).

    Rarest first, ties by the higher id.  Returns ``paths``, ``nodes``, ``codes``; node n - 2 is the root of n words.
    """
    words = np.argsort(-counts, kind="mergesort")[: np.sum(counts > 0)][::-1]
    n = len(words)
    weight, parent = np.empty(2 * n, np.int64), np.zeros(2 * n, np.int64)
    right = np.zeros(2 * n, np.uint8)
    for j in range(n):
        weight[j] = counts[words[j]]
    leaf, inner = 0, n
    for made in range(n, 2 * n - 1):  # the two lightest of the leaves and of the inner nodes, both in rising order
        total = 0
        for side in range(2):
            if leaf < n and (inner >= made or weight[leaf] <= weight[inner]):
                lightest = leaf
                leaf += 1
            else:
                lightest = inner
                inner += 1
            total += weight[lightest]
            parent[lightest], right[lightest] = made, side
        weight[made] = total
    depth = np.zeros(2 * n, np.int64)
    for j in range(2 * n - 3, -1, -1):
        depth[j] = depth[parent[j]] + 1
    paths = np.zeros(len(counts) + 1, np.int64)
    for j in range(n):
        paths[words[j] + 1] = depth[j]
    paths = np.cumsum(paths)
    nodes, codes = np.empty(paths[-1], np.int32), np.empty(paths[-1], np.uint8)
    for j in range(n):
        node, place = j, paths[words[j] + 1]
        while place > paths[words[j]]:
            place -= 1
            nodes[place], codes[place] = parent[node] - n, right[node]
            node = parent[node]
    return paths, nodes, codes


@step
def draw(state):
    """64 random bits (SplitMix64: Steele, Lea and Flood 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@step
def below(n, bits):
    """A number in [0, n) from the upper half of 64 random bits."""
    return np.int64(((bits >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@step
def noise_word(tables, state):
    """A word drawn in proportion to count ** 0.75 (arXiv:1310.4546, section 2.2)."""
    bits = draw(state)
    word = below(len(tables.alias), bits)
    if np.uint32(bits) >= tables.threshold[word]:
        word = np.int64(tables.alias[word])
    return word


@step
def sigmoid(x, table):
    """s(x) within 2e-5, by linear interpolation."""
    if -LIMIT < x < LIMIT:
        place = (x + np.float32(LIMIT)) * np.float32(STEPS)
        low = np.uint32(place)
        return table[low] + (place - np.float32(low)) * (table[low + np.uint32(1)] - table[low])
    return np.float32(x > 0)


@step
def charge(x, p, tally):
    """Add -log p, p = s(x), to the loss ``tally[0] - log tally[1]``: one logarithm for hundreds of terms."""
    if x > -LIMIT:
        tally[1] *= p
        if tally[1] < SMALL:
            tally[0], tally[1] = tally[0] - LOG_SMALL, tally[1] / SMALL
    else:
        tally[0] -= x  # -log s(x) = -x far to the left; NaN comes here and stays


@step
def negative_sampling(v, word, output, tables, ahead, lr, state, tally):
    """log s(u_word . v) + sum over noise words k of log s(-u_k . v)   (arXiv:1310.4546, eq. 4)

    Moves the rows u up this slope and returns how far v shall move.  A noise word that is ``word`` is passed over.
    ``ahead`` holds the noise words of this call, drawn in the last one so that their rows were brought near meanwhile.
    """
    move = zeros(output)
    for k in range(len(ahead) + 1):
        target, label = np.int64(word), np.float32(1)
        if k > 0:
            target, label = ahead[k - 1], np.float32(0)
            ahead[k - 1] = noise_word(tables, state)
            prefetch(output, ahead[k - 1])
            if target == word:
                continue
        u = load(output, target)
        x = dot(u, v)
        p = sigmoid(x, tables.sigmoid)
        if k == 0:
            charge(x, p, tally)
        else:
            charge(-x, 1 - p, tally)
        slope = (label - p) * lr
        move = add(move, slope, u)
        store(output, target, add(u, slope, v))
    return move


@step
def hierarchical_softmax(v, word, output, tables, lr, tally):
    """sum over the nodes n on the path from the root to the word of log s(+-u_n . v)   (arXiv:1310.4546, eq. 3)

    + where the path turns left.  Moves the rows u up this slope and returns how far v shall move.
    """
    move = zeros(output)
    for place in range(tables.paths[word], tables.paths[word + 1]):
        node, left = np.int64(tables.nodes[place]), np.float32(1 - tables.codes[place])
        u = load(output, node)
        x = dot(u, v)
        p = sigmoid(x, tables.sigmoid)
        if left > 0:
            charge(x, p, tally)
        else:
            charge(-x, 1 - p, tally)
        slope = (left - p) * lr
        move = add(move, slope, u)
        store(output, node, add(u, slope, v))
    return move


@step
def thin_out(text, sentence, tables, state, kept):
    """The words of a sentence that are known and kept -> ``kept``; returns (how many, how many were known)."""
    count = known = 0
    for place in range(text.offsets[sentence], text.offsets[sentence + 1]):
        word = text.ids[place]
        if word > 0:
            known += 1
            if (draw(state) >> np.uint64(11)) * 2.0**-53 < tables.keep[word]:
                kept[count] = word
                count += 1
    return count, known


class Scratch(NamedTuple):
    """Memory of one call: kernels allocate nothing, so that no reference is counted in their loops."""

    state: np.ndarray  # (1,) uint64, of the random numbers
    tally: np.ndarray  # (2,) float64, see ``charge``
    ahead: np.ndarray  # (negatives,) int64, noise words of the next pair; empty: hierarchical softmax
    kept: np.ndarray  # (longest sentence,) int64


def scratch(text: Text, tables: Tables, negatives: int, seed: int) -> Scratch:
    """Fresh memory, and the first noise words."""
    state = np.array([seed], np.uint64)
    ahead = np.empty(0 if len(tables.paths) > 1 else negatives, np.int64)
    fill_ahead(ahead, tables, state)
    return Scratch(state, np.array([0.0, 1.0]), ahead, np.empty(np.diff(text.offsets).max(initial=0), np.int64))


@kernel
def fill_ahead(ahead, tables, state):
    """Draw every noise word."""
    for k in range(len(ahead)):
        ahead[k] = noise_word(tables, state)


@kernel
def skip_gram(text, vectors, output, tables, scratch, window, lr):
    """Each word around predicts the word, within a window of 1 to ``window`` words drawn anew for each word.

    As in the released code the word around has the input row v and the word itself the output row u; the paper says it
    the other way round, and over a text every pair comes in both orders.  Returns the sum of -log p over all pairs, the
    number of pairs, of kept words and of known words.
    """
    state, tally, ahead, kept = scratch
    lr, pairs, words, known = np.float32(lr), 0, 0, 0
    for sentence in range(len(text.offsets) - 1):
        count, seen = thin_out(text, sentence, tables, state, kept)
        words, known = words + count, known + seen
        for i in range(count):
            reach = 1 + below(window, draw(state))
            prefetch(output, kept[min(i + 1, count - 1)])
            prefetch(vectors, kept[min(i + window + 1, count - 1)])
            for j in range(max(i - reach, 0), min(i + reach + 1, count)):
                if j != i:
                    pairs += 1
                    v = load(vectors, kept[j])
                    if len(tables.paths) == 1:
                        move = negative_sampling(v, kept[i], output, tables, ahead, lr, state, tally)
                    else:
                        move = hierarchical_softmax(v, kept[i], output, tables, lr, tally)
                    store(vectors, kept[j], add(v, np.float32(1), move))
    return tally[0] - math.log(tally[1]), pairs, words, known


@kernel
def cbow(text, vectors, output, tables, scratch, window, lr):
    """The mean of the words around each word predicts it (arXiv:1301.3781, section 3.1); window as in ``skip_gram``.

    As in the released code each word around moves by the whole slope of the mean, not by its share of it.
    Returns what ``skip_gram`` returns; a pair is a word with its surroundings.
    """
    state, tally, ahead, kept = scratch
    lr, pairs, words, known = np.float32(lr), 0, 0, 0
    for sentence in range(len(text.offsets) - 1):
        count, seen = thin_out(text, sentence, tables, state, kept)
        words, known = words + count, known + seen
        for i in range(count):
            reach = 1 + below(window, draw(state))
            prefetch(vectors, kept[min(i + window + 1, count - 1)])
            first, last = max(i - reach, 0), min(i + reach + 1, count)
            if last - first < 2:
                continue
            pairs += 1
            mean = zeros(vectors)
            for j in range(first, last):
                if j != i:
                    mean = add(mean, np.float32(1 / (last - first - 1)), load(vectors, kept[j]))
            if len(tables.paths) == 1:
                move = negative_sampling(mean, kept[i], output, tables, ahead, lr, state, tally)
            else:
                move = hierarchical_softmax(mean, kept[i], output, tables, lr, tally)
            for j in range(first, last):
                if j != i:
                    store(vectors, kept[j], add(load(vectors, kept[j]), np.float32(1), move))
    return tally[0] - math.log(tally[1]), pairs, words, known
