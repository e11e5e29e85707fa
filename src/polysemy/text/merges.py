"""Byte-pair merges (Sennrich et al. 2016, arXiv:1508.07909) learnt from counts of distinct words.

Our own, because the trainers of the ``tokenizers`` library take texts, not counts (time and memory would follow the
size of the corpus), and number pieces differently from run to run.  Here the most frequent pair is merged; among
equals the first in the order of code points, left part before right part (TOK-16).  Any process learns the same.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise

Pair = tuple[int, int]


def learn_merges(
    words: Sequence[Sequence[str]],
    counts: Sequence[int],
    room: int,
    *,
    join: Callable[[str, str], str],
    min_count: int = 2,
) -> list[tuple[str, str]]:
    """Merges in the order they were made, until ``room`` new pieces are there or no pair occurs ``min_count`` times.

    ``words``: symbols of each distinct word; ``counts``: how often it occurs; ``join``: the symbol of two merged ones.
    Time follows the symbols of the distinct words, not the merges: each merge visits only words that hold its pair.
    """
    table = _Table(words, counts)
    heap = [table.entry(pair) for pair in table.total]
    heapq.heapify(heap)
    merges: list[tuple[str, str]] = []
    made = 0
    while heap and made < room:
        entry = heapq.heappop(heap)
        pair, now = entry[3], table.total.get(entry[3], 0)
        if now < min_count:
            continue
        if now != -entry[0]:  # counts fall without notice; here the notice is taken
            heapq.heappush(heap, table.entry(pair))
            continue
        left, right = table.symbols[pair[0]], table.symbols[pair[1]]
        merges.append((left, right))
        new, fresh = table.symbol(join(left, right))
        made += fresh
        for grown in table.merge(pair, new):
            heapq.heappush(heap, table.entry(grown))
    return merges


class _Table:
    """Words as symbol numbers, the count of each pair, and the words in which it may stand."""

    def __init__(self, words: Sequence[Sequence[str]], counts: Sequence[int]) -> None:
        self.symbols: list[str] = []
        self.numbers: dict[str, int] = {}
        self.words = [[self.symbol(symbol)[0] for symbol in word] for word in words]
        self.counts = counts
        self.total: dict[Pair, int] = defaultdict(int)
        self.places: dict[Pair, set[int]] = defaultdict(set)
        for index, (word, count) in enumerate(zip(self.words, counts, strict=True)):
            for pair in pairwise(word):
                self.total[pair] += count
                self.places[pair].add(index)

    def symbol(self, text: str) -> tuple[int, bool]:
        """The number of a symbol, and whether it is new."""
        number = self.numbers.setdefault(text, len(self.symbols))
        if number == len(self.symbols):
            self.symbols.append(text)
            return number, True
        return number, False

    def entry(self, pair: Pair) -> tuple[int, str, str, Pair]:
        return -self.total[pair], self.symbols[pair[0]], self.symbols[pair[1]], pair

    def merge(self, pair: Pair, new: int) -> set[Pair]:
        """Replace ``pair`` everywhere, from left to right; the pairs whose count grew."""
        first, second = pair
        total, places = self.total, self.places
        grown: set[Pair] = set()
        for index in places.pop(pair, ()):
            word, count = self.words[index], self.counts[index]
            merged: list[int] = []
            i, last = 0, len(word) - 1
            while i <= last:
                if i < last and word[i] == first and word[i + 1] == second:
                    merged.append(new)
                    i += 2
                else:
                    merged.append(word[i])
                    i += 1
            if len(merged) == len(word):  # an earlier merge took the pair away
                continue
            for old in pairwise(word):
                total[old] -= count
            for fresh in pairwise(merged):
                total[fresh] += count
                if fresh[0] == new or fresh[1] == new:
                    places[fresh].add(index)
                    grown.add(fresh)
            self.words[index] = merged
        total.pop(pair, None)
        return grown
