"""Two segments a sequence for next-sentence prediction (Devlin et al. 2019, section 3.1, task 2)."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from polysemy.core.errors import InputError
from polysemy.core.seeds import derive, numpy_generator
from polysemy.data.batch import Batch
from polysemy.data.order import shuffled
from polysemy.data.shards import Shards
from polysemy.text.tokens import Special


class Pair(NamedTuple):
    """[low, high) of the corpus pieces of both segments."""

    first: tuple[int, int]
    second: tuple[int, int]
    random: bool  # whether the second comes from another document


class PairLoader:
    """``[begin, A, end, B, end]`` of at most ``length`` ids; ``labels`` 1 where B is from another document, 0 where it
    follows A.

    Documents are cut into chunks of as many sentences as fit.  A chunk is split into A and B at a sentence boundary
    that is drawn anew each epoch; in half of the batch the Bs are exchanged between documents, so that all text is
    still seen.  A chunk that is one sentence is A of a random pair, its B drawn from all other documents, unless it
    fills the sequence: then it is split where the word nearest its middle begins.  A random pair that is too long loses
    the start of A and the end of B, as in the paper's code.

    InputError for fewer than two documents, or without a document of two sentences: every pair would be of one class.
    """

    def __init__(
        self, shards: Shards, special: Special, *, length: int = 128, batch_size: int = 32, seed: int = 0
    ) -> None:
        if special.begin is None or special.end is None:
            raise InputError("next-sentence pairs need a vocabulary with begin and end symbols")
        if length < 5 or batch_size < 1:
            raise InputError(f"sequences of {length} ids in batches of {batch_size} have no room for two texts")
        self.begin, self.end = special.begin, special.end
        self.ids, self.starts = np.asarray(shards.ids), np.asarray(shards.starts)
        self.sentences, documents = np.asarray(shards.sentences), np.asarray(shards.documents)
        self.room, self.length, self.batch_size, self.seed = length - 3, length, batch_size, seed
        counts = np.diff(documents)
        found, longest = int((counts > 0).sum()), int(counts.max(initial=0))
        if found < 2 or longest < 2:
            raise InputError(
                f"next-sentence pairs need at least 2 documents, one of them with 2 sentences; here: {found} "
                f"documents, longest has {longest} sentence{'s' * (longest != 1)}",
                do="Put one sentence a line and a blank line between documents, or train without pairs.",
            )
        self._cut(documents)
        self.steps_per_epoch = -(-len(self.bounds) // batch_size)
        self.fills_batch = len(self.bounds) >= batch_size
        self._pairs = lru_cache(2)(self._make_pairs)

    def _cut(self, documents: np.ndarray) -> None:
        """Chunks of at most ``room`` pieces: ``bounds`` (m, 2) of the corpus and ``document`` (m,)."""
        lows, highs, numbers = array("q"), array("q"), array("q")
        for number, (first, last) in enumerate(pairwise(documents.tolist())):
            offsets = self.sentences[first : last + 1].tolist()
            at = 0
            while at < len(offsets) - 1:
                stop = bisect_right(offsets, offsets[at] + self.room) - 1
                high = offsets[max(stop, at + 1)]
                for low in range(offsets[at], high, self.room):  # more than once only where a sentence does not fit
                    lows.append(low)
                    highs.append(min(low + self.room, high))
                    numbers.append(number)
                at = max(stop, at + 1)
        self.bounds = np.stack([np.frombuffer(lows, np.int64), np.frombuffer(highs, np.int64)], 1)
        self.document = np.frombuffer(numbers, np.int64)

    def batch(self, step: int) -> Batch:
        """ids, mask, segments and words, each (b, n); labels (b,)"""
        pairs = self._pairs(step)
        shape = (len(pairs), 3 + max(a[1] - a[0] + b[1] - b[0] for a, b, _ in pairs))
        ids, segments = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        words, mask = np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
        for row, (first, second, _) in enumerate(pairs):
            ids[row, 0], at, word = self.begin, 1, 0
            for segment, (low, high) in enumerate((first, second)):
                stop = at + high - low
                ids[row, at:stop], ids[row, stop] = self.ids[low:high], self.end
                begins = self.starts[low:high].astype(np.int64)
                begins[0] = 1
                words[row, at:stop] = word + np.cumsum(begins) - 1
                segments[row, at : stop + 1] = segment
                at, word = stop + 1, word + int(begins.sum())
            mask[row, :at] = True
        labels = np.asarray([pair.random for pair in pairs], dtype=np.int64)
        return Batch(
            size=len(pairs), ids=torch.from_numpy(ids), mask=torch.from_numpy(mask), words=torch.from_numpy(words),
            segments=torch.from_numpy(segments), labels=torch.from_numpy(labels),
        )  # fmt: skip

    def words(self, step: int) -> int:
        """Words that begin in the batch."""
        return sum(int(self.starts[low:high].sum()) for pair in self._pairs(step) for low, high in pair[:2])

    def _make_pairs(self, step: int) -> list[Pair]:
        epoch, at = divmod(step, self.steps_per_epoch)
        numbers = np.arange(at * self.batch_size, min((at + 1) * self.batch_size, len(self.bounds)))
        chunks = shuffled(numbers, len(self.bounds), derive(self.seed, "order", epoch)).tolist()
        draw = numpy_generator(self.seed, "pairs", step)
        cuts = [self._split(chunk, draw) for chunk in chunks]
        paired = [i for i, cut in enumerate(cuts) if cut is not None]
        wanted = (len(chunks) + int(draw.integers(2))) // 2 - (len(chunks) - len(paired))
        exchanged = draw.permutation(paired)[: max(wanted, 0)].tolist()
        giver = dict(zip(exchanged, exchanged[1:] + exchanged[:1], strict=True))
        pairs = []
        for i, chunk in enumerate(chunks):
            (low, high), cut = self.bounds[chunk].tolist(), cuts[i]
            if cut is not None and i not in giver:
                pairs.append(Pair((low, cut), (cut, high), False))
                continue
            other = giver.get(i, i)
            second = (cuts[other] or 0, int(self.bounds[chunks[other], 1]))
            if self.document[chunks[other]] == self.document[chunk]:
                second = self._elsewhere(chunk, draw)
            pairs.append(self._fit(chunk, low, cut or high, second))
        return pairs

    def _split(self, chunk: int, draw: np.random.Generator) -> int | None:
        """Where B begins: a sentence boundary, or a word near the middle of a chunk that is full; else None."""
        low, high = self.bounds[chunk].tolist()
        inside = self.sentences[np.searchsorted(self.sentences, low, "right") : np.searchsorted(self.sentences, high)]
        if inside.size:
            return int(draw.choice(inside))
        begins = low + 1 + np.flatnonzero(self.starts[low + 1 : high])
        if high - low < self.room or not begins.size:
            return None
        return int(begins[np.abs(begins - (low + high) // 2).argmin()])

    def _neighbours(self, chunk: int) -> tuple[int, int]:
        """[first, last) chunk of the same document"""
        number = self.document[chunk]
        first, last = np.searchsorted(self.document, [number, number + 1]).tolist()
        return first, last

    def _elsewhere(self, chunk: int, draw: np.random.Generator) -> tuple[int, int]:
        """A chunk of another document, each as likely."""
        first, last = self._neighbours(chunk)
        number = int(draw.integers(len(self.document) - (last - first)))
        low, high = self.bounds[number if number < first else number + last - first].tolist()
        return low, high

    def _fit(self, chunk: int, low: int, high: int, second: tuple[int, int]) -> Pair:
        """A random pair cut to the room.  Where another document repeats what follows A, it is no random pair."""
        begin, end = second
        length = min(end - begin, max(self.room // 2, self.room - (high - low)))
        low = max(low, high - (self.room - length))
        document_end = int(self.bounds[self._neighbours(chunk)[1] - 1, 1])
        follows = high + length <= document_end and np.array_equal(
            self.ids[high : high + length], self.ids[begin : begin + length]
        )
        return Pair((low, high), (begin, begin + length), not follows)
