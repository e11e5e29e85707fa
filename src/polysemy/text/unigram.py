"""The unigram language model over pieces (Kudo 2018, arXiv:1804.10959), learnt from counts of distinct words.

Our own, for the reasons given in ``merges.py``; additions run in a fixed order, so that any process gives the same
scores.  Everything is done for all words at once: position by position, length by length.

*Differs from the paper:* pieces below an expected count of a half are dropped at every step, as SentencePiece does; the
maximisation is the plain one, without a prior; a word ends a sentence, so no piece crosses words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_PIECE = 16  # characters
MAX_WORDS = 300_000  # the most frequent ones are learnt from
SEEDS = 10  # times as many candidates as pieces wanted
KEPT = 0.75  # share of the candidates that survives one step
STEPS_EACH = 2  # steps of expectation and maximisation between two prunings


def learn_unigram(words: Sequence[str], counts: Sequence[int], room: int) -> list[tuple[str, float]]:
    """At most ``room`` pieces with their natural log probability, by falling probability, then by code points.

    ``words`` are distinct, not empty and sorted by falling count; all their characters are among the pieces.
    """
    lattice, texts, seen = _seed(list(words[:MAX_WORDS]), np.asarray(counts[:MAX_WORDS], dtype=np.float64), room)
    alive = np.ones(len(texts), dtype=bool)
    single = np.asarray([len(text) == 1 for text in texts])
    score = _log_share(seen, alive)
    while True:
        for _ in range(STEPS_EACH):
            expected = lattice.expect(score)
            alive &= single | (expected >= 0.5)
            score = _log_share(np.maximum(expected, 0.5), alive)
        if alive.sum() <= max(room, single.sum()):
            break
        wanted = max(room, int(KEPT * alive.sum()), int(single.sum()))
        with np.errstate(invalid="ignore"):  # of those that are not alive
            loss = expected * (score - lattice.without(score))
        loss[single] = np.inf
        loss[~alive] = -np.inf
        order = np.lexsort((np.arange(len(texts)), -loss))  # numbers follow the order of code points
        alive[order[wanted:]] = False
        score = _log_share(np.maximum(expected, 0.5), alive)
    pieces = [(round(float(score[i]), 6), texts[i]) for i in np.flatnonzero(alive)]
    return [(text, value) for value, text in sorted(pieces, key=lambda piece: (-piece[0], piece[1]))]


def _log_share(weight: Floats, alive: NDArray[np.bool_]) -> Floats:
    weight = np.where(alive, weight, 0.0)
    with np.errstate(divide="ignore"):
        share: Floats = np.log(weight) - np.log(weight.sum())
    return share


@dataclass
class _Lattice:
    """Every way to cut every word.  Words lie one after another, longest first, so that the words of at least i
    characters are the first ``reach[i]`` ones.  n: characters of all words, p: pieces."""

    ids: Ints  # (MAX_PIECE, n): piece that begins at a character and has (row + 1) characters; p where there is none
    starts: Ints  # of each word among the n characters
    reach: Ints
    counts: Floats  # of each word
    homes: Ints  # (p,): a character at which the piece begins
    lengths: Ints  # (p,)

    def expect(self, score: Floats) -> Floats:
        """Expected number of times that each piece is used, all cuts weighed by their probability."""
        score = np.append(score, -np.inf)
        longest = len(self.reach) - 1
        forward = np.full((longest + 1, len(self.starts)), -np.inf)
        backward = np.full_like(forward, -np.inf)
        forward[0] = 0.0
        for end in range(1, longest + 1):
            rows = slice(0, self.reach[end])
            for length in range(1, min(end, MAX_PIECE) + 1):
                edge = score[self.ids[length - 1, self.starts[rows] + end - length]]
                forward[end, rows] = np.logaddexp(forward[end, rows], forward[end - length, rows] + edge)
        for begin in range(longest, -1, -1):
            ending = slice(self.reach[begin + 1] if begin < longest else 0, self.reach[begin])
            backward[begin, ending] = 0.0
            for length in range(1, min(longest - begin, MAX_PIECE) + 1):
                rows = slice(0, self.reach[begin + length])
                edge = score[self.ids[length - 1, self.starts[rows] + begin]]
                backward[begin, rows] = np.logaddexp(backward[begin, rows], backward[begin + length, rows] + edge)
        expected = np.zeros(len(score))
        for begin in range(longest):
            for length in range(1, min(longest - begin, MAX_PIECE) + 1):
                rows = slice(0, self.reach[begin + length])
                ids = self.ids[length - 1, self.starts[rows] + begin]
                log = forward[begin, rows] + score[ids] + backward[begin + length, rows] - backward[0, rows]
                expected += np.bincount(ids, np.exp(log) * self.counts[rows], minlength=len(score))
        return expected[:-1]

    def without(self, score: Floats) -> Floats:
        """Log probability of the best other cut of each piece's own characters; -inf where there is none."""
        score = np.append(score, -np.inf)
        order = np.argsort(-self.lengths, kind="stable")
        homes, lengths = self.homes[order], self.lengths[order]
        best = np.full((MAX_PIECE + 1, len(order)), -np.inf)
        best[0] = 0.0
        for end in range(1, MAX_PIECE + 1):
            rows = int(np.searchsorted(-lengths, -end, side="right"))
            for length in range(1, end + 1):
                edge = score[self.ids[length - 1, homes[:rows] + end - length]]
                if length == end:
                    edge = np.where(lengths[:rows] == end, -np.inf, edge)  # not the piece itself
                best[end, :rows] = np.maximum(best[end, :rows], best[end - length, :rows] + edge)
        result = np.empty(len(order))
        result[order] = best[lengths, np.arange(len(order))]
        return result


def _seed(words: list[str], counts: Floats, room: int) -> tuple[_Lattice, list[str], Floats]:
    """The lattice of all characters and the ``SEEDS * room`` best repeated strings, by count times length."""
    order = sorted(range(len(words)), key=lambda i: (-len(words[i]), words[i]))
    words, counts = [words[i] for i in order], counts[order]
    sizes = np.asarray([len(word) for word in words])
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    reach = np.asarray([int((sizes >= i).sum()) for i in range(int(sizes[0]) + 1)])
    text = "".join(words)
    characters = np.asarray([ord(c) for c in text], dtype=np.int64)
    total = len(characters)
    left = np.repeat(starts + sizes, sizes) - np.arange(total)  # characters from here to the word's end
    weight = np.repeat(counts, sizes)
    begins = np.zeros(total, dtype=bool)
    begins[starts] = True

    ids = np.full((MAX_PIECE, total), -1, dtype=np.int64)
    homes: list[Ints] = []
    lengths: list[Ints] = []
    seen: list[Floats] = []
    here, key, made = np.arange(total), characters, 0
    for length in range(1, MAX_PIECE + 1):
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        often = np.bincount(group, weight[here]).astype(np.float64)
        used = np.bincount(group)
        at_start = begins[here]
        whole = np.zeros(len(used), dtype=bool)
        whole[group[at_start & (left[here] == length)]] = True
        # A string that stands in one word only is worth no more than that word; words themselves are candidates.
        keep = (used >= 2) | whole | (length == 1)
        number = np.cumsum(keep) - 1 + made
        kept = keep[group]
        ids[length - 1, here[kept]] = number[group[kept]]
        homes.append(here[first[keep]])
        lengths.append(np.full(int(keep.sum()), length))
        seen.append(often[keep])
        made += int(keep.sum())
        grow = (kept | at_start) & (left[here] > length)
        here, group = here[grow], group[grow]
        if not len(here):
            break
        key = group * 0x110000 + characters[here + length]
    lattice = _Lattice(ids, starts, reach, counts, np.concatenate(homes), np.concatenate(lengths))
    return _keep_best(lattice, np.concatenate(seen), text, SEEDS * room)


def _keep_best(lattice: _Lattice, seen: Floats, text: str, most: int) -> tuple[_Lattice, list[str], Floats]:
    """Keep single characters and the ``most`` candidates of greatest count times length, numbered by code points."""
    ends = lattice.homes + lattice.lengths
    texts = [text[a:b] for a, b in zip(lattice.homes.tolist(), ends.tolist(), strict=True)]
    value = np.where(lattice.lengths == 1, np.inf, seen * lattice.lengths)
    best = sorted(range(len(texts)), key=lambda i: (-value[i], texts[i]))[: max(most, int(np.isinf(value).sum()))]
    chosen = np.asarray(sorted(best, key=lambda i: texts[i]))
    number = np.full(len(texts) + 1, len(chosen), dtype=np.int64)
    number[chosen] = np.arange(len(chosen))
    lattice.ids = number[lattice.ids]
    lattice.homes, lattice.lengths = lattice.homes[chosen], lattice.lengths[chosen]
    return lattice, [texts[i] for i in chosen], seen[chosen]
