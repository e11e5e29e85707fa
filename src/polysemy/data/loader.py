"""Shards -> batches.  A loader is a pure function of (seed, step), so a kill loses nothing of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from polysemy.core.errors import InputError
from polysemy.core.seeds import derive
from polysemy.data.batch import Batch
from polysemy.data.order import Ints, batches_by_length, shuffled
from polysemy.data.pairs import PairLoader
from polysemy.data.sentences import SentenceLoader
from polysemy.data.shards import Shards
from polysemy.text.tokens import Special

__all__ = [
    "Block", "BlockLoader", "LengthLoader", "Loader", "PackedLoader", "PairLoader", "Prefetch", "SentenceLoader",
    "batches_by_length",
]  # fmt: skip


class Loader(Protocol):
    """What the loop reads from.  Steps count on over the epochs."""

    steps_per_epoch: int
    fills_batch: bool  # whether there is enough for one whole batch

    def batch(self, step: int) -> Any:
        """The batch of a step: a Batch, or a Block for kernels."""

    def words(self, step: int) -> int:
        """Words of the corpus that begin in that batch."""


class PackedLoader:
    """Sequences of ``length`` ids, ``[begin, pieces..., end, pieces..., end]``, packed over sentence boundaries.

    The corpus is one stream of pieces with the end symbol after each sentence; a sequence is a run of it between begin
    and end (either is left out where the vocabulary has none).  Each epoch uses every piece once, from another offset
    and in another order; the stream is a ring, so that only one sequence of an epoch is padded.
    """

    def __init__(
        self, shards: Shards, special: Special, *, length: int = 128, batch_size: int = 32, seed: int = 0
    ) -> None:
        self.begin, self.end = special.begin, special.end
        self.ids, self.starts = np.asarray(shards.ids), np.asarray(shards.starts)
        self.sentences = np.asarray(shards.sentences)
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self.room = length - (self.begin is not None) - (self.begin is not None and self.end is not None)
        if self.room < 1 or batch_size < 1:
            raise InputError(f"sequences of {length} ids in batches of {batch_size} have no room for text")
        self.stream = len(self.ids) + (len(self.sentences) - 1 if self.end is not None else 0)
        if not len(self.ids):
            raise InputError("there are no pieces to train on", do="Give more text.")
        self.sequences = -(-self.stream // self.room)
        self.steps_per_epoch = -(-self.sequences // batch_size)
        self.fills_batch = self.sequences >= batch_size

    def batch(self, step: int) -> Batch:
        """ids, mask and words, each (b, length)"""
        runs = self._runs(step)
        ids = np.zeros((len(runs), self.length), dtype=np.int64)
        words = np.full((len(runs), self.length), -1, dtype=np.int64)
        mask = np.zeros((len(runs), self.length), dtype=np.bool_)
        for row, parts in enumerate(runs):
            symbols, begins = (np.concatenate(a) for a in zip(*(self._symbols(*part) for part in parts), strict=True))
            at = 0
            if self.begin is not None:
                ids[row, 0], at = self.begin, 1
            stop = at + len(symbols)
            ids[row, at:stop] = symbols
            piece = np.flatnonzero(begins >= 0)
            if piece.size:
                begins[piece[0]] = 1  # the rest of a word that the previous sequence began
                words[row, at + piece] = np.cumsum(begins[piece]) - 1
            if self.begin is not None and self.end is not None:
                ids[row, stop] = self.end
                stop += 1
            mask[row, :stop] = True
        return Batch(
            size=len(runs), ids=torch.from_numpy(ids), mask=torch.from_numpy(mask), words=torch.from_numpy(words)
        )

    def words(self, step: int) -> int:
        """Words that begin in the batch."""
        return sum(
            int(self.starts[self._pieces(low) : self._pieces(high)].sum())
            for parts in self._runs(step)
            for low, high in parts
        )

    def _runs(self, step: int) -> list[list[tuple[int, int]]]:
        """For each sequence its [low, high) of the stream, in two parts where it passes the end of the ring."""
        epoch, step = divmod(step, self.steps_per_epoch)
        first = step * self.batch_size
        numbers = np.arange(first, min(first + self.batch_size, self.sequences))
        offset = derive(self.seed, "offset", epoch) % self.stream
        runs = []
        for number in shuffled(numbers, self.sequences, derive(self.seed, "order", epoch)).tolist():
            low = offset + number * self.room
            high = min(low + self.room, offset + self.stream)
            parts = [(low, min(high, self.stream)), (max(low, self.stream) - self.stream, high - self.stream)]
            runs.append([(a, b) for a, b in parts if a < b])
        return runs

    def _sentence(self, position: int) -> int:
        """The sentence in which a position of the stream lies (its end symbol belongs to it)."""
        count = len(self.sentences) - 1
        return bisect_right(range(count + 1), position, key=lambda i: int(self.sentences[i]) + i) - 1

    def _pieces(self, position: int) -> int:
        """How many pieces of the corpus stand before a position of the stream."""
        return position if self.end is None else position - self._sentence(position)

    def _symbols(self, low: int, high: int) -> tuple[Ints, Ints]:
        """Ids of stream positions [low, high), and for each 1 where a word begins, 0 within, -1 at an end symbol."""
        if self.end is None:
            return self.ids[low:high].astype(np.int64), self.starts[low:high].astype(np.int64)
        first, last = self._sentence(low), self._sentence(high)
        ends = self.sentences[first + 1 : last + 1] + np.arange(first, last) - low
        is_piece = np.ones(high - low, dtype=np.bool_)
        is_piece[ends] = False
        symbols = np.full(high - low, self.end, dtype=np.int64)
        begins = np.full(high - low, -1, dtype=np.int64)
        symbols[is_piece] = self.ids[low - first : high - last]
        begins[is_piece] = self.starts[low - first : high - last]
        return symbols, begins


class Block(NamedTuple):
    """A run of whole sentences for a kernel."""

    ids: NDArray[np.int32]  # word ids
    offsets: Ints  # (sentences + 1,), where each sentence begins in ``ids``


class BlockLoader:
    """Blocks of about ``block_words`` words, never cutting a sentence; the whole corpus each epoch, blocks shuffled."""

    def __init__(self, shards: Shards, *, block_words: int = 50_000, seed: int = 0) -> None:
        self.ids, self.sentences, self.seed = np.asarray(shards.ids), np.asarray(shards.sentences), seed
        if not len(self.ids):
            raise InputError("there are no words to train on", do="Give more text.")
        cuts = np.searchsorted(self.sentences, np.arange(0, len(self.ids), block_words))
        self.bounds = np.unique(np.append(cuts, len(self.sentences) - 1))
        self.steps_per_epoch = len(self.bounds) - 1
        self.fills_batch = True

    def batch(self, step: int) -> Block:
        """The block of a step, copied out of the shards."""
        low, high = self._range(step)
        offsets = self.sentences[low : high + 1]
        return Block(self.ids[offsets[0] : offsets[-1]].astype(np.int32), (offsets - offsets[0]).astype(np.int64))

    def words(self, step: int) -> int:
        """Words of the block."""
        low, high = self._range(step)
        return int(self.sentences[high] - self.sentences[low])

    def _range(self, step: int) -> tuple[int, int]:
        """[first, last) sentence"""
        epoch, step = divmod(step, self.steps_per_epoch)
        number = shuffled(np.asarray([step]), self.steps_per_epoch, derive(self.seed, "order", epoch))[0]
        return int(self.bounds[number]), int(self.bounds[number + 1])


class LengthLoader:
    """Labelled examples held in memory: batches of similar length, made by ``collate`` from rows of the data.

    ``lengths``: tokens of each example.  ``collate``: indices (b,) -> Batch.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        collate: Callable[[Ints], Batch],
        *,
        batch_tokens: int = 4096,
        max_rows: int | None = None,
        seed: int = 0,
    ) -> None:
        if not len(lengths):
            raise InputError("there are no examples to train on")
        self.lengths, self.collate = np.asarray(lengths, dtype=np.int64), collate
        self._epoch = lru_cache(2)(
            lambda epoch: batches_by_length(self.lengths, batch_tokens, seed, epoch, max_rows=max_rows)
        )
        self.steps_per_epoch = len(self._epoch(0))
        self.fills_batch = True

    def batch(self, step: int) -> Batch:
        """What ``collate`` makes of the rows of the step."""
        return self.collate(self._rows(step))

    def words(self, step: int) -> int:
        """Tokens of the examples in the batch."""
        return int(self.lengths[self._rows(step)].sum())

    def _rows(self, step: int) -> Ints:
        epoch, step = divmod(step, self.steps_per_epoch)
        return self._epoch(epoch)[step]


class Prefetch:
    """Makes the batch of the next step in one thread while this one is trained on.  Off, the batches are the same."""

    def __init__(self, loader: Loader, *, last: int, enabled: bool = True) -> None:
        self.loader, self.last = loader, last
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch") if enabled else None
        self._next: tuple[int, Future[tuple[Any, int]]] | None = None

    def get(self, step: int) -> tuple[Any, int]:
        """(batch, words) of ``step``; then ``step + 1`` is begun, unless it is ``last``."""
        if self._pool is None:
            return self._make(step)
        ready = self._next if self._next and self._next[0] == step else (step, self._pool.submit(self._make, step))
        made = ready[1].result()
        self._next = (step + 1, self._pool.submit(self._make, step + 1)) if step + 1 < self.last else None
        return made

    def close(self) -> None:
        """End the thread; a batch that it is making is waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _make(self, step: int) -> tuple[Any, int]:
        return self.loader.batch(step), self.loader.words(step)
