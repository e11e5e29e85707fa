"""Claim: skip-gram at least 1.5 times, CBOW at least 1.2 times as fast as gensim at the same settings and threads.

    python benchmarks/word2vec_speed.py [--words 1000000] [--threads 2] [--rounds 3]

Text: ``english_novels`` of the real data (POLYSEMY_DATA), 100 dimensions, window 5, five noise words, thinning 1e-3, one
epoch, vocabulary ready and kernels compiled beforehand.  The two run in turns; prints raw words a second of wall time and
of processor time, and the ratio of the medians.  Quality at these settings: ``benchmarks/word2vec_quality.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")  # gensim's threads each call BLAS

import torch
from word2vec_quality import BLOCK_WORDS, MIN_COUNT, blocks, numbered, sentences_of_novels

from polysemy.systems.word2vec import Word2Vec, Word2VecConfig


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--words", type=int, default=1_000_000)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    sentences = sentences_of_novels(chosen.words)
    words, counts, ids, offsets = numbered(sentences)
    parts = blocks(ids, offsets, BLOCK_WORDS * chosen.threads)
    for architecture in ("skip-gram", "cbow"):
        config = Word2VecConfig(vocab_size=len(words), architecture=architecture, workers=chosen.threads)
        Word2Vec(config).prepare(counts)
        run_ours(config, counts, parts[:1])  # compiles
        rates: dict[str, list[tuple[float, float]]] = {"ours": [], "gensim": []}
        for _ in range(chosen.rounds):
            rates["ours"].append(run_ours(config, counts, parts))
            rates["gensim"].append(run_gensim(sentences, architecture, chosen.threads))
        for clock, name in enumerate(("wall", "processor")):
            medians = {who: statistics.median(row[clock] for row in rows) for who, rows in rates.items()}
            ratio = medians["ours"] / medians["gensim"]
            line = {"architecture": architecture, "threads": chosen.threads, "clock": name, "words": len(ids)}
            print(
                json.dumps({**line, **{w: round(m) for w, m in medians.items()}, "ratio": round(ratio, 2)}), flush=True
            )


def timed(words: int, work: Callable[[], object]) -> tuple[float, float]:
    """Words a second of wall time and of processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return words / (time.perf_counter() - wall), words / (time.process_time() - processor)


def run_ours(config: Word2VecConfig, counts, parts) -> tuple[float, float]:
    torch.manual_seed(0)
    model = Word2Vec(config)
    model.prepare(counts)

    def work() -> None:
        for step, part in enumerate(parts):
            model.fit_block(part, step / len(parts), step)

    return timed(sum(len(ids) for ids, _ in parts), work)


def run_gensim(sentences: list[list[str]], architecture: str, threads: int) -> tuple[float, float]:
    from gensim.models import Word2Vec as Gensim

    model = Gensim(
        vector_size=100, window=5, sg=int(architecture == "skip-gram"), negative=5, sample=1e-3, min_count=MIN_COUNT,
        workers=threads, seed=1,
    )  # fmt: skip
    model.build_vocab(sentences)
    return timed(sum(map(len, sentences)), lambda: model.train(sentences, total_examples=model.corpus_count, epochs=1))


if __name__ == "__main__":
    sys.exit(main())
