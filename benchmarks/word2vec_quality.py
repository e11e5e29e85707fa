"""Claim: at the same settings our Word2Vec is as good as gensim's on analogies and word similarity, and two of our seeds
agree as much on neighbours as two of gensim's.

    python benchmarks/word2vec_quality.py [--words 3000000] [--epochs 3] [--seeds 3] [--architecture skip-gram]

Text: ``english_novels`` of the real data (POLYSEMY_DATA).  Prints one JSON line a model, then a table.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import sys
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import torch

from polysemy.core.seeds import derive
from polysemy.look.neighbors import analogies, normalize, read_pairs, read_questions, similarity
from polysemy.systems.word2vec import Word2Vec, Word2VecConfig

DATA = Path(os.environ.get("POLYSEMY_DATA", Path(__file__).parents[2] / "shared" / "data"))
SETS = {"wordsim": "EN-WS-353-ALL", "men": "EN-MEN-TR-3k", "simlex": "EN-SIMLEX-999"}
WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
MIN_COUNT, BLOCK_WORDS, PROBES = 5, 20_000, 1000


def sentences_of_novels(words: int) -> list[list[str]]:
    """Lower-cased lines of the novels in the order of their names, about ``words`` words."""
    out: list[list[str]] = []
    total = 0
    for path in sorted((DATA / "english_novels").glob("*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                if sentence := WORD.findall(line.lower()):
                    out.append(sentence)
                    total += len(sentence)
        if total >= words:
            break
    return out


def numbered(sentences: list[list[str]]) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Words by falling count (id 0 unknown), counts, ids, offsets."""
    from collections import Counter

    counts = Counter(word for sentence in sentences for word in sentence)
    words = ["<unk>", *sorted((w for w, n in counts.items() if n >= MIN_COUNT), key=lambda w: (-counts[w], w))]
    index = {word: i for i, word in enumerate(words)}
    ids = np.array([index.get(word, 0) for sentence in sentences for word in sentence], np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(sentence) for sentence in sentences])]).astype(np.int64)
    return words, np.array([0, *(counts[w] for w in words[1:])]), ids, offsets


def blocks(ids: np.ndarray, offsets: np.ndarray, block_words: int = BLOCK_WORDS) -> list[tuple[np.ndarray, np.ndarray]]:
    """Runs of whole sentences of about ``block_words`` words."""
    cuts = np.unique(np.append(np.searchsorted(offsets, np.arange(0, len(ids), block_words)), len(offsets) - 1))
    return [(ids[offsets[low] : offsets[high]], offsets[low : high + 1] - offsets[low]) for low, high in pairwise(cuts)]


def ours(numbers, seed: int, chosen: argparse.Namespace) -> tuple[list[str], np.ndarray]:
    """Words and vectors of our training."""
    words, counts, ids, offsets = numbers
    torch.manual_seed(seed)
    config = Word2VecConfig(
        vocab_size=len(words), architecture=chosen.architecture, objective=chosen.objective, lr=chosen.lr,
        workers=chosen.threads,
    )  # fmt: skip
    model = Word2Vec(config)
    model.prepare(counts)
    parts = blocks(ids, offsets)
    steps = chosen.epochs * len(parts)
    for step in range(steps):
        model.fit_block(parts[step % len(parts)], step / steps, derive(seed, "kernel", step))
    return words[1:], model.vectors.detach().numpy()[1:]


def gensims(sentences, seed: int, chosen: argparse.Namespace) -> tuple[list[str], np.ndarray]:
    """Words and vectors of gensim's training."""
    from gensim.models import Word2Vec as Gensim

    tree = chosen.objective == "hierarchical"
    model = Gensim(
        sentences, vector_size=100, window=5, sg=int(chosen.architecture == "skip-gram"), hs=int(tree), sample=1e-3,
        negative=0 if tree else 5, min_count=MIN_COUNT, epochs=chosen.epochs, seed=seed, workers=chosen.threads,
        alpha=chosen.lr,
    )  # fmt: skip
    return model.wv.index_to_key, model.wv.vectors


def scores(words: list[str], matrix: np.ndarray) -> dict[str, float]:
    out = {
        name: similarity(words, matrix, read_pairs(DATA / "word_similarity_en" / f"{file}.txt")).spearman
        for name, file in SETS.items()
    }
    questions = read_questions(DATA / "gensim_testdata" / "questions-words.txt")
    for method in ("3cosadd", "3cosmul"):
        total = analogies(words, matrix, questions, method)[-1]
        out[method] = total.accuracy
        out["asked"] = total.asked
    return out


def neighbour_sets(words: list[str], matrix: np.ndarray, probes: list[str]) -> list[set[str]]:
    index = {word: row for row, word in enumerate(words)}
    unit = normalize(matrix)
    near = unit[[index[p] for p in probes]] @ unit.T
    order = np.argpartition(-near, 11, axis=1)[:, :11]
    return [{words[j] for j in row} - {probe} for row, probe in zip(order, probes, strict=True)]


def overlap(first: list[set[str]], second: list[set[str]]) -> float:
    """Mean share of the ten nearest words that two tables have in common."""
    return float(np.mean([len(a & b) / 10 for a, b in zip(first, second, strict=True)]))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--words", type=int, default=3_000_000)
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--architecture", default="skip-gram", choices=["skip-gram", "cbow"])
    options.add_argument("--objective", default="negative", choices=["negative", "hierarchical"])
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--lr", type=float, default=0.025)
    chosen = options.parse_args()
    sentences = sentences_of_novels(chosen.words)
    numbers = numbered(sentences)
    probes = numbers[0][100 : 100 + PROBES]
    rows: dict[str, list[dict[str, float]]] = {"ours": [], "gensim": []}
    near: dict[str, list[list[set[str]]]] = {"ours": [], "gensim": []}
    for seed in range(1, chosen.seeds + 1):
        for name, train, text in (("ours", ours, numbers), ("gensim", gensims, sentences)):
            words, matrix = train(text, seed, chosen)
            rows[name].append(scores(words, matrix))
            near[name].append(neighbour_sets(words, matrix, probes))
            print(json.dumps({"system": name, "seed": seed, **rows[name][-1]}), flush=True)
    for figure in rows["ours"][0]:
        line = {name: [row[figure] for row in rows[name]] for name in rows}
        print(figure, *(f"{name} {np.mean(v):.4f} +- {np.std(v, ddof=1):.4f}" for name, v in line.items()))
    for first, second in (("ours", "ours"), ("gensim", "gensim"), ("ours", "gensim")):
        pairs = combinations(near[first], 2) if first == second else ((a, b) for a in near[first] for b in near[second])
        print(f"neighbours of {first} and {second} in common: {np.mean([overlap(a, b) for a, b in pairs]):.3f}")


if __name__ == "__main__":
    sys.exit(main())
