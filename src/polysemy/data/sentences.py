"""Sentences as words that are read by their characters and predicted by number, for word-level language models."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from polysemy.core.errors import InputError
from polysemy.core.files import atomic
from polysemy.core.seeds import derive, numpy_generator
from polysemy.data.batch import Batch
from polysemy.data.order import Ints, shuffled
from polysemy.data.shards import Shards
from polysemy.text.characters import SENTENCE_BEGIN, SENTENCE_END, character_ids
from polysemy.text.tokens import Special

POOL_BATCHES = 64  # batches that are sorted by length together


class WordVocabulary(Protocol):
    """What this loader needs of a tokenizer of kind "characters"."""

    special: Special
    slots: int  # characters of a word

    @property
    def words_index(self) -> dict[str, int]:
        """word -> output id"""


class SentenceLoader:
    """Batches of about ``batch_words`` words: begin, words, end, with ``types`` into ``characters`` and ``target_ids``.

    ``shards.ids`` index ``shards.lexicon``, so that a word outside the output vocabulary is still read by its
    characters.  A sentence of more than ``max_words`` is cut into equal parts; nothing is left out.  Each epoch
    shuffles the sentences, sorts pools of ``POOL_BATCHES`` batches by length and shuffles the batches of a pool.
    """

    def __init__(
        self, shards: Shards, tokenizer: WordVocabulary, *, batch_words: int = 2048, max_words: int = 200, seed: int = 0
    ) -> None:
        if shards.lexicon is None:
            raise ValueError("these shards were built without a lexicon")
        if not len(shards.ids):
            raise InputError("there are no words to train on", do="Give more text.")
        if batch_words < 1 or max_words < 1:
            raise InputError(f"batches of {batch_words} words from sentences of {max_words} have no room for text")
        special = tokenizer.special
        if special.begin is None or special.end is None or special.unk is None:
            raise ValueError("the output vocabulary has no begin, end or unknown symbol")
        self.special_ids = (special.begin, special.end)
        self.ids, self.sentences, self.seed = np.asarray(shards.ids), np.asarray(shards.sentences), seed
        index, unk = tokenizer.words_index, special.unk
        self.output = np.fromiter((index.get(w, unk) for w in shards.lexicon), np.int32, len(shards.lexicon))
        self.characters = lexicon_characters(shards.folder, shards.lexicon, tokenizer.slots)
        self.max_words = max_words
        self._find_long()
        self.steps_per_epoch = min(-(-len(self.ids) // batch_words), self.items)
        self.fills_batch = len(self.ids) >= batch_words
        self._pool = lru_cache(2)(self._make_pool)

    def _find_long(self, block: int = 1 << 20) -> None:
        """Items are sentences, and parts of the few that are too long; only those are remembered."""
        count = len(self.sentences) - 1
        long, parts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for low in range(0, count, block):
            needed = -(-np.diff(self.sentences[low : min(low + block, count) + 1]) // self.max_words)
            where = np.flatnonzero(needed > 1)
            long.append(low + where)
            parts.append(needed[where])
        self.long, self.parts = np.concatenate(long), np.concatenate(parts)
        extra = np.concatenate([[0], np.cumsum(self.parts - 1)])  # items beyond one a sentence, before each long one
        self.first_item = self.long + extra[:-1]
        self.extra = extra
        self.items = count + int(extra[-1])

    def _bounds(self, items: Ints) -> tuple[Ints, Ints]:
        """[low, high) of the corpus words of each item"""
        after = np.searchsorted(self.first_item, items, "right") - 1  # the last long sentence at or before the item
        sentence, part, parts = items - self.extra[after + 1], np.zeros_like(items), np.ones_like(items)
        if self.long.size:
            inside = (after >= 0) & (items < (self.first_item + self.parts)[after])
            sentence[inside] = self.long[after[inside]]
            part[inside] = items[inside] - self.first_item[after[inside]]
            parts[inside] = self.parts[after[inside]]
        low, length = self.sentences[sentence], self.sentences[sentence + 1] - self.sentences[sentence]
        return low + length * part // parts, low + length * (part + 1) // parts

    def batch(self, step: int) -> Batch:
        """types, mask and target_ids (b, n); characters (t, slots) with rows 0 padding, 1 begin, 2 end of a sentence"""
        low, high = self._pool(*self._place(step))[self._place_in_pool(step)]
        lengths = high - low
        shape = (len(low), int(lengths.max()) + 2)
        column = np.arange(shape[1])[None, :]
        is_word = (column >= 1) & (column <= lengths[:, None])
        corpus = np.concatenate([self.ids[a:b] for a, b in zip(low.tolist(), high.tolist(), strict=True)])
        distinct, row = np.unique(corpus, return_inverse=True)
        types, target = np.zeros(shape, dtype=np.int64), np.full(shape, -1, dtype=np.int64)
        types[is_word], target[is_word] = row + 3, self.output[corpus]
        types[:, 0], target[:, 0] = 1, self.special_ids[0]
        last = (np.arange(len(low)), lengths + 1)
        types[last], target[last] = 2, self.special_ids[1]
        slots = self.characters.shape[1]
        table = np.zeros((len(distinct) + 3, slots), dtype=np.int64)
        table[1, : len(SENTENCE_BEGIN)], table[2, : len(SENTENCE_END)] = SENTENCE_BEGIN[:slots], SENTENCE_END[:slots]
        table[3:] = self.characters[distinct]
        return Batch(
            size=shape[0], types=torch.from_numpy(types), mask=torch.from_numpy(types > 0),
            target_ids=torch.from_numpy(target), characters=torch.from_numpy(table),
        )  # fmt: skip

    def words(self, step: int) -> int:
        """Words of the batch, begin and end not counted."""
        low, high = self._pool(*self._place(step))[self._place_in_pool(step)]
        return int((high - low).sum())

    def _place(self, step: int) -> tuple[int, int]:
        """(epoch, pool)"""
        epoch, step = divmod(step, self.steps_per_epoch)
        return epoch, step // POOL_BATCHES

    def _place_in_pool(self, step: int) -> int:
        return step % self.steps_per_epoch % POOL_BATCHES

    def _make_pool(self, epoch: int, pool: int) -> list[tuple[Ints, Ints]]:
        """The batches of one pool, each as [low, high) of its items; all pools together hold every item once."""
        first = pool * POOL_BATCHES
        batches = min(POOL_BATCHES, self.steps_per_epoch - first)
        begin, end = (self.items * (first + i) // self.steps_per_epoch for i in (0, batches))
        items = shuffled(np.arange(begin, end), self.items, derive(self.seed, "order", epoch))
        low, high = self._bounds(items)
        by_length = np.argsort(high - low, kind="stable")
        low, high = low[by_length], high[by_length]
        total = np.cumsum(high - low + 2)
        cuts = np.searchsorted(total, total[-1] * np.arange(1, batches) // batches, "right")
        cuts = np.maximum.accumulate(cuts - np.arange(batches - 1)) + np.arange(batches - 1)  # none of them empty
        cuts = np.clip(cuts, np.arange(1, batches), len(items) - batches + np.arange(1, batches))
        parts = list(zip(np.split(low, cuts), np.split(high, cuts), strict=True))
        order = numpy_generator(self.seed, f"pool/{epoch}", pool).permutation(batches)
        return [parts[i] for i in order]


def lexicon_characters(folder: Path, lexicon: list[str], slots: int) -> NDArray[np.uint16]:
    """(words, slots) character ids of every word, made once and kept beside the shards, out of anonymous memory."""
    path = folder / f"characters-{slots}.npy"
    if not path.exists():
        with atomic(path) as part, part.open("wb") as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "<u2", "fortran_order": False, "shape": (len(lexicon), slots)}
            )
            for word in lexicon:
                file.write(np.asarray(character_ids(word, slots), dtype="<u2").tobytes())
    return np.asarray(np.load(path, mmap_mode="r"))
