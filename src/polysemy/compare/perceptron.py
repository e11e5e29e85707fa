"""Averaged structured perceptron with Viterbi decoding: the kernels of the linear control for tagging.

Collins, "Discriminative Training Methods for Hidden Markov Models", EMNLP 2002 (W02-1001), averaged over all updates.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ROWS = "int32[:, ::1]"
WEIGHTS = "float32[:, ::1]"


@njit(f"int64[::1]({ROWS}, {WEIGHTS}, {WEIGHTS})", cache=True)
def decode(features, weights, moves):
    """Best tags of one sentence.

    ``features`` (words, slots): feature ids of each word, -1 for features never seen in training. ``weights``
    (features, tags). ``moves`` (tags + 1, tags): from tag to tag; the last row starts a sentence.
    """
    length, tags = features.shape[0], weights.shape[1]
    back = np.zeros((length, tags), np.int64)
    best = np.zeros(tags, np.float32)
    for word in range(length):
        score = np.zeros(tags, np.float32)
        for slot in range(features.shape[1]):
            if features[word, slot] >= 0:
                score += weights[features[word, slot]]
        if word == 0:
            best = score + moves[tags]
            continue
        for tag in range(tags):
            source = 0
            for other in range(1, tags):
                if best[other] + moves[other, tag] > best[source] + moves[source, tag]:
                    source = other
            back[word, tag] = source
            score[tag] += best[source] + moves[source, tag]
        best = score
    path = np.zeros(length, np.int64)
    if length:
        path[length - 1] = np.argmax(best)
        for word in range(length - 1, 0, -1):
            path[word - 1] = back[word, path[word]]
    return path


@njit(f"int64({ROWS}, int64[::1], int64[::1], int64[::1], UniTuple({WEIGHTS}, 4), int64)", cache=True)
def train_epoch(features, gold, starts, order, tables, step):
    """One pass over the sentences in ``order``; returns the count of sentences seen so far.

    ``features`` (words, slots) and ``gold`` (words,) of all sentences, cut at ``starts`` (sentences + 1,).
    ``tables``: weights and moves as in ``decode``, then the same shapes adding up step x change, so that
    average = weights - late / steps (the usual lazy form).
    """
    weights, moves, weights_late, moves_late = tables
    tags = weights.shape[1]
    for sentence in order:
        first, last = starts[sentence], starts[sentence + 1]
        step += 1
        path = decode(features[first:last], weights, moves)
        before_gold = before_path = tags
        for offset in range(last - first):
            right, said = gold[first + offset], path[offset]
            if right != said:
                for slot in range(features.shape[1]):
                    row = features[first + offset, slot]
                    if row >= 0:
                        weights[row, right] += 1
                        weights[row, said] -= 1
                        weights_late[row, right] += step
                        weights_late[row, said] -= step
            if right != said or before_gold != before_path:
                moves[before_gold, right] += 1
                moves[before_path, said] -= 1
                moves_late[before_gold, right] += step
                moves_late[before_path, said] -= step
            before_gold, before_path = right, said
    return step
