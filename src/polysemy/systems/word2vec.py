"""Word2Vec: Distributed Representations of Words and Phrases (Mikolov et al. 2013, arXiv:1310.4546; arXiv:1301.3781).

New: no hidden layer, so that billions of words can be read; a word is known by the words around it.  Skip-gram lets each
word around predict the word, CBOW lets their mean do it; negative sampling or a Huffman tree stands in for the softmax.

Differs from the paper: occurrences are kept by the released code's rule (``subsampling`` in nn/static.py), and as there
CBOW moves each word around by the whole slope of the mean.  A sentence may have any length; unknown words are passed
over as if they were not there.

Use when text is small, machines are slow, or words out of context are what is asked.  Instead: ELMo or BERT where the
same word means different things.  Cost: a look-up; training is three times ``flops_per_token`` and mostly waits for memory.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from polysemy.core.errors import InputError
from polysemy.core.reporter import Reporter, Silent
from polysemy.core.seeds import derive
from polysemy.nn.encoded import Encoded
from polysemy.objectives.loss import Loss


@dataclass(frozen=True)
class Word2VecConfig:
    vocab_size: int  # id 0 is the unknown word
    dim: int = 100
    architecture: Literal["skip-gram", "cbow"] = "skip-gram"
    objective: Literal["negative", "hierarchical"] = "negative"
    window: int = 5  # c: words on either side; the reach of each word is drawn from 1 to c
    negatives: int = 5  # k: noise words a pair
    noise_power: float = 0.75  # noise words are drawn in proportion to count ** 0.75
    subsample: float = 1e-3  # t: words more frequent than this are thinned out; 0 keeps all
    lr: float = 0.025  # falls in a straight line ...
    min_lr: float = 1e-4  # ... to this
    workers: int = 1  # threads on the same arrays without locks; more than one: runs differ

    def __post_init__(self) -> None:
        for name in ("vocab_size", "dim", "window", "negatives", "workers"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}", do=f"Set {name} to 1 or more.")


SIZES: dict[str, dict[str, Any]] = {
    "100": {"dim": 100},
    "cbow": {"dim": 100, "architecture": "cbow", "lr": 0.05},  # the released code's rate for CBOW
}
SIZE_FIELD = "dim"


class Word2Vec(nn.Module):
    """A table of input vectors v and one of output vectors u, trained by the kernels of nn/static.py."""

    Config = Word2VecConfig
    counts: Tensor  # (vocab_size,) long, occurrences of each word; unknown words are not counted

    def __init__(self, c: Word2VecConfig) -> None:
        super().__init__()
        self.config = c
        self.vectors = nn.Parameter((torch.rand(c.vocab_size, c.dim) - 0.5) / c.dim)
        self.output = nn.Parameter(torch.zeros(c.vocab_size, c.dim))  # of words, or of the nodes of the tree
        self.register_buffer("counts", torch.zeros(c.vocab_size, dtype=torch.long))
        self._tables: Any = None  # follows from the counts; rebuilt when it is asked for
        self.register_load_state_dict_post_hook(_forget_tables)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.vectors[0] = 0.0

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Encoded:
        """(batch, length) ids -> one layer (batch, length, dim); the unknown word, id 0, is zero."""
        return Encoded((F.embedding(ids, self.vectors, padding_idx=0),), mask)

    def prepare(self, counts: NDArray[np.int64], reporter: Reporter | None = None) -> None:
        """Take the occurrences of each id in the text, (vocab_size,); they set noise, thinning and tree."""
        if counts.shape != (self.config.vocab_size,):
            raise ValueError(f"counts of {counts.shape} words for a vocabulary of {self.config.vocab_size}")
        if not counts[1:].any():
            raise InputError("the text has no word of the vocabulary", do="Lower min_count or give more text.")
        self.counts.copy_(torch.from_numpy(counts.astype(np.int64)))
        self.counts[0] = 0
        self._tables = None
        if self.config.workers > 1:
            (reporter or Silent()).say(f"{self.config.workers} workers: faster, but two runs of one seed differ")

    def fit_block(self, block: tuple[NDArray[np.int32], NDArray[np.int64]], progress: float, seed: int) -> Loss:
        """Learn from consecutive words, in place.

        ``block``: ids (words,) and offsets (sentences + 1,), where each sentence begins.  ``progress``: part of the
        training that is done, 0 to 1.  Returns the sum of -log p over pairs of words (of a word and its surroundings
        in CBOW); ``parts["kept"]`` is how many of how many known words were left after thinning.
        """
        c = self.config
        ids, offsets = np.require(block[0], np.int32, ["C", "W"]), np.require(block[1], np.int64, ["C", "W"])
        _check(ids, offsets, c.vocab_size)
        bounds = np.searchsorted(offsets, offsets[-1] * np.arange(c.workers + 1) // c.workers)
        lr = max(c.lr + (c.min_lr - c.lr) * progress, c.min_lr)
        tables = self._made_tables()
        runs = [
            (tables, ids, offsets[low : high + 1], lr, derive(seed, "worker", number))
            for number, (low, high) in enumerate(pairwise(bounds))
            if high > low
        ]
        if len(runs) == 1:
            results = [self._run(*runs[0])]
        else:
            with ThreadPoolExecutor(c.workers) as pool:
                results = list(pool.map(lambda run: self._run(*run), runs))
        total, pairs, kept, known = (sum(column) for column in zip((0.0, 0, 0, 0), *results, strict=True))
        return Loss(torch.tensor(total, dtype=torch.float64), int(pairs), {"kept": (float(kept), int(known))})

    def _run(
        self, tables: Any, ids: NDArray[np.int32], offsets: NDArray[np.int64], lr: float, seed: int
    ) -> tuple[float, int, int, int]:
        """One thread's sentences."""
        from polysemy.nn import static  # numba takes half a second

        text = static.Text(ids, offsets)
        vectors, output = (static.as_rows(p.detach().numpy()) for p in (self.vectors, self.output))
        kernel = static.skip_gram if self.config.architecture == "skip-gram" else static.cbow
        scratch = static.scratch(text, tables, self.config.negatives, seed)
        result: tuple[float, int, int, int] = kernel(text, vectors, output, tables, scratch, self.config.window, lr)
        return result

    def _made_tables(self) -> Any:
        """Noise, thinning and tree of the counts, built once."""
        if self._tables is None:
            from polysemy.nn import static

            c = self.config
            tree = c.objective == "hierarchical"
            self._tables = static.tables(self.counts.numpy(), c.subsample, c.noise_power, tree=tree)
        return self._tables


def _check(ids: NDArray[np.int32], offsets: NDArray[np.int64], vocab_size: int) -> None:
    """The kernels look up whatever they are given, so it has to be there."""
    if len(ids) and not 0 <= ids.min() <= ids.max() < vocab_size:
        raise ValueError(f"ids beyond a vocabulary of {vocab_size}")
    if offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets do not rise from 0 to {len(ids)} words")


def _forget_tables(module: nn.Module, _: Any) -> None:
    """Other counts may have been loaded."""
    module._tables = None  # type: ignore[assignment]


def pretraining(c: Word2VecConfig) -> dict[str, dict[str, Any]]:
    """Settings of the batches; the rates are in the configuration, because the kernel lowers them itself."""
    return {"batch": {"block_words": 50_000}}


def parameters(c: Word2VecConfig) -> int:
    """Numbers that are trained: the vectors, and the output vectors that only training uses."""
    return 2 * c.vocab_size * c.dim


def flops_per_token(c: Word2VecConfig) -> int:
    """Operations of scoring what is predicted for one word of a text, two for each multiplication.

    Using the vectors is a look-up and costs none.  With a tree the path is taken to be as long as that of equally
    frequent words, and thinning is left out.
    """
    scored = c.negatives + 1 if c.objective == "negative" else max((c.vocab_size - 1).bit_length(), 1)
    predictions = c.window + 1 if c.architecture == "skip-gram" else 1  # the mean reach is (c + 1) / 2 on either side
    return 2 * c.dim * scored * predictions
