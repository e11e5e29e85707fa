"""What a comparison must beat: counting, and a linear model of the visible words.

A control fits in seconds, has no pretraining, and may well be enough; ``measure`` runs it and measures its cost as
that of any system.  Controls have no luck: one trial is all there is (``deterministic`` in ``core.statistics.rank``).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TypeAlias

import numpy as np

from polysemy.core.errors import InputError
from polysemy.core.files import write_atomic

Words: TypeAlias = Callable[[str], Sequence[str]]
STRENGTHS = (1.0, 10.0, 100.0)  # C, inverse of the L2 penalty
LATENCY_ITEMS = 200
EPOCHS = 10


class Control(Protocol):
    """A text gets a label, or the words of a sentence get tags."""

    name: str

    def fit(self, items: Sequence[Any], labels: Sequence[Any], dev: tuple[Sequence[Any], Sequence[Any]] | None) -> None:
        """Learn from the train part; ``dev`` serves to choose settings."""

    def predict(self, items: Sequence[Any]) -> list[Any]:
        """One label an item, or one list of tags an item."""

    def parameters(self) -> int:
        """Numbers learned."""

    def save(self, folder: Path) -> None:
        """Write what is needed to predict, for its size on disk."""

    def settings(self) -> str:
        """What was chosen and how, for the report."""


@dataclass(frozen=True)
class Measured:
    """A control's predictions by part and its cost, in the keys of ``compare.results.Cost``."""

    name: str
    predictions: dict[str, list[Any]]
    cost: dict[str, float]
    settings: str


def measure(
    control: Control,
    train: tuple[Sequence[Any], Sequence[Any]],
    parts: dict[str, Sequence[Any]],
    folder: Path,
    *,
    dev: tuple[Sequence[Any], Sequence[Any]] | None = None,
    words: Words = str.split,
) -> Measured:
    """Fit, predict every part (``"dev"``, ``"test"``), and measure.

    ``words`` counts the words of a text for words/s.  Latency is the median over single items of the last part;
    peak memory is the caller's to measure, because only it knows the process.
    """
    start = time.perf_counter()
    control.fit(*train, dev)
    seconds = time.perf_counter() - start
    folder.mkdir(parents=True, exist_ok=True)
    control.save(folder)
    size = sum(path.stat().st_size for path in folder.iterdir())
    items = list(parts[next(reversed(parts))])
    single = []
    for item in items[:LATENCY_ITEMS]:
        start = time.perf_counter()
        control.predict([item])
        single.append(time.perf_counter() - start)
    start = time.perf_counter()
    predictions = {part: control.predict(rows) for part, rows in parts.items()}
    bulk = time.perf_counter() - start
    total = sum(len(words(row) if isinstance(row, str) else row) for rows in parts.values() for row in rows)
    cost = {
        "parameters": control.parameters(),
        "disk_mb": size / 1e6,
        "pretrain_seconds": 0.0,
        "finetune_seconds": seconds,
        "latency_ms": 1000 * median(single),
        "words_per_second": total / max(bulk, 1e-9),
    }
    return Measured(control.name, predictions, cost, control.settings())


@dataclass
class MajorityClass:
    """The most frequent class of the train part, whatever the text."""

    name: str = "majority"
    label: Any = None

    def fit(self, items: Sequence[str], labels: Sequence[Any], dev: object = None) -> None:
        self.label = _most_frequent(Counter(labels))

    def predict(self, items: Sequence[str]) -> list[Any]:
        return [self.label] * len(items)

    def parameters(self) -> int:
        return 1

    def save(self, folder: Path) -> None:
        write_atomic(folder / "majority.json", json.dumps(self.label, ensure_ascii=False))

    def settings(self) -> str:
        return f"always {self.label!r}"


@dataclass
class MajorityTag:
    """The most frequent tag of each word in the train part; the most frequent tag of all for other words.

    Tags are taken as they come, so an inside tag may stand without its beginning; strict scoring counts it wrong.
    """

    name: str = "majority"
    tags: dict[str, str] = field(default_factory=dict)
    otherwise: str = ""

    def fit(self, items: Sequence[Sequence[str]], labels: Sequence[Sequence[str]], dev: object = None) -> None:
        by_word: dict[str, Counter[str]] = {}
        for words, tags in zip(items, labels, strict=True):
            for word, tag in zip(words, tags, strict=True):
                by_word.setdefault(word, Counter())[tag] += 1
        self.tags = {word: _most_frequent(counts) for word, counts in by_word.items()}
        self.otherwise = _most_frequent(sum(by_word.values(), Counter()))

    def predict(self, items: Sequence[Sequence[str]]) -> list[list[str]]:
        return [[self.tags.get(word, self.otherwise) for word in words] for words in items]

    def parameters(self) -> int:
        return len(self.tags) + 1

    def save(self, folder: Path) -> None:
        write_atomic(folder / "majority.json", json.dumps([self.otherwise, self.tags], ensure_ascii=False))

    def settings(self) -> str:
        return f"{len(self.tags):,} words; other words {self.otherwise!r}"


class LinearText:
    """TF-IDF of word 1-2-grams and character 2-5-grams, logistic regression; C chosen on dev or by cross-validation."""

    name = "tfidf"

    def __init__(self, words: Words, *, seed: int = 0) -> None:
        self.words, self.seed = words, seed
        self.strength = 0.0
        self.chosen_on = ""

    def fit(
        self, items: Sequence[str], labels: Sequence[Any], dev: tuple[Sequence[str], Sequence[Any]] | None = None
    ) -> None:
        if len(set(labels)) < 2:
            raise InputError("the train part has one label only", do="Give labelled texts of at least two classes.")
        self.vectorizer = self._vectorizer(len(items))
        inputs, gold = self.vectorizer.fit_transform(items), np.asarray(labels, object)
        if dev is not None and len(dev[0]):
            self.chosen_on = "dev"
            parts = [(inputs, gold, self.vectorizer.transform(dev[0]), np.asarray(dev[1], object))]
        else:
            self.chosen_on = "cross-validation"
            parts = [(inputs[a], gold[a], inputs[b], gold[b]) for a, b in self._folds(len(gold))]
        quality = {strength: self._quality(strength, parts) for strength in STRENGTHS}
        self.strength = max(STRENGTHS, key=lambda strength: quality[strength])
        self.model = self._model(self.strength).fit(inputs, gold)

    def predict(self, items: Sequence[str]) -> list[Any]:
        return list(self.model.predict(self.vectorizer.transform(items)).tolist()) if len(items) else []

    def parameters(self) -> int:
        return int(self.model.coef_.size + self.model.intercept_.size)

    def settings(self) -> str:
        return f"word 1-2-grams and character 2-5-grams, C = {self.strength:g} chosen on {self.chosen_on}"

    def save(self, folder: Path) -> None:
        """Vocabulary as JSON, numbers as safetensors: opens without pickle."""
        from safetensors.numpy import save_file

        parts = dict(self.vectorizer.transformer_list)
        vocabulary = {name: list(part.get_feature_names_out()) for name, part in parts.items()}
        header = {"C": self.strength, "labels": self.model.classes_.tolist(), "vocabulary": vocabulary}
        write_atomic(folder / "tfidf.json", json.dumps(header, ensure_ascii=False))
        numbers = {f"idf.{name}": part.idf_.astype(np.float32) for name, part in parts.items()}
        numbers |= {"coef": self.model.coef_.astype(np.float32), "bias": self.model.intercept_.astype(np.float32)}
        save_file(numbers, folder / "tfidf.safetensors")

    def _vectorizer(self, texts: int) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import FeatureUnion

        settings = {"sublinear_tf": True, "min_df": 2 if texts > 500 else 1, "dtype": np.float32}
        words = TfidfVectorizer(ngram_range=(1, 2), tokenizer=self.words, token_pattern=None, **settings)
        characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), **settings)
        return FeatureUnion([("words", words), ("characters", characters)])

    def _model(self, strength: float) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=strength, max_iter=2000)

    def _quality(self, strength: float, parts: Sequence[tuple[Any, Any, Any, Any]]) -> tuple[float, float]:
        """Accuracy, then mean log-probability of the gold label (ties are common on a small dev part)."""
        hits, logs = [], []
        for inputs, labels, held_out, gold in parts:
            model = self._model(strength).fit(inputs, labels)
            chances = model.predict_proba(held_out)
            column = {label: i for i, label in enumerate(model.classes_)}
            of_gold = [row[column[label]] if label in column else 0.0 for row, label in zip(chances, gold, strict=True)]
            hits += (model.classes_[chances.argmax(1)] == gold).tolist()
            logs += np.log(np.maximum(of_gold, 1e-9)).tolist()
        return float(np.mean(hits)), float(np.mean(logs))

    def _folds(self, items: int) -> list[tuple[Any, Any]]:
        from sklearn.model_selection import KFold

        return list(KFold(min(5, items), shuffle=True, random_state=self.seed).split(np.zeros(items)))


class ContextTagger:
    """A structured perceptron over the word, its neighbours, affixes and shape: the linear control for tagging."""

    name = "context"

    def __init__(self, *, seed: int = 0, epochs: int = EPOCHS) -> None:
        from polysemy.compare import perceptron  # compiles on first import, before the clock of fit starts

        self.kernels, self.seed, self.epochs = perceptron, seed, epochs
        self.columns: dict[str, int] = {}
        self.tags: list[str] = []

    def fit(self, items: Sequence[Sequence[str]], labels: Sequence[Sequence[str]], dev: object = None) -> None:
        self.tags = sorted({tag for tags in labels for tag in tags})
        index = {tag: i for i, tag in enumerate(self.tags)}
        kept = [(words, tags) for words, tags in zip(items, labels, strict=True) if len(words)]
        features = np.concatenate([self._rows(words, grow=True) for words, _ in kept])
        gold = np.array([index[tag] for _, tags in kept for tag in tags], np.int64)
        starts = np.cumsum([0, *(len(words) for words, _ in kept)]).astype(np.int64)
        sizes = [(len(self.columns), len(index)), (len(index) + 1, len(index))]
        tables = tuple(np.zeros(size, np.float32) for size in (*sizes, *sizes))
        generator, step = np.random.default_rng(self.seed), 0
        for _ in range(self.epochs):
            order = generator.permutation(len(kept)).astype(np.int64)
            step = self.kernels.train_epoch(features, gold, starts, order, tables, step)
        self.weights, self.moves = (table - late / step for table, late in zip(tables[:2], tables[2:], strict=True))

    def predict(self, items: Sequence[Sequence[str]]) -> list[list[str]]:
        return [
            [self.tags[i] for i in self.kernels.decode(self._rows(words), self.weights, self.moves)]
            if len(words)
            else []
            for words in items
        ]

    def parameters(self) -> int:
        return int(self.weights.size + self.moves.size)

    def settings(self) -> str:
        return f"words within two places, affixes, shape; {self.epochs} epochs, averaged"

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        write_atomic(folder / "context.json", json.dumps([self.tags, list(self.columns)], ensure_ascii=False))
        save_file({"weights": self.weights, "moves": self.moves}, folder / "context.safetensors")

    def _rows(self, words: Sequence[str], *, grow: bool = False) -> np.ndarray:
        """(words, slots) of feature ids; unseen features are -1, or new ids while ``grow``."""
        around = ["<s>", "<s>", *words, "</s>", "</s>"]
        shapes = [_shape(word) for word in around]
        rows = []
        for i in range(2, len(around) - 2):
            word, lower = around[i], around[i].lower()
            names = [
                f"w={word}", f"l={lower}", f"-1={around[i - 1]}", f"+1={around[i + 1]}", f"-2={around[i - 2]}",
                f"+2={around[i + 2]}", f"-1,0={around[i - 1]} {word}", f"0,+1={word} {around[i + 1]}",
                f"s={shapes[i]}", f"s-={shapes[i - 1]},{shapes[i]}", f"s+={shapes[i]},{shapes[i + 1]}",
                *(f"p={lower[:n]}" for n in range(1, 5)), *(f"e={lower[-n:]}" for n in range(1, 5)),
            ]  # fmt: skip
            if grow:
                rows.append([self.columns.setdefault(name, len(self.columns)) for name in names])
            else:
                rows.append([self.columns.get(name, -1) for name in names])
        return np.array(rows, np.int32)


def _shape(word: str) -> str:
    """Capitals, small letters, digits and the rest, runs shortened: "McDonald's-2" -> "XxXx.x.0"."""
    kinds = ("X" if c.isupper() else "0" if c.isdigit() else "x" if c.isalpha() else "." for c in word)
    shape = ""
    for kind in kinds:
        if not shape.endswith(kind):
            shape += kind
    return shape


def _most_frequent(counts: Counter[Any]) -> Any:
    """Ties go to the first in the order of names, so that the answer does not hang on the order of the file."""
    if not counts:
        raise InputError("the train part is empty", do="Give labelled examples.")
    return min(counts, key=lambda label: (-counts[label], str(label)))
