"""What a table of word vectors knows: nearest words, analogies, agreement with people.  Arrays in, values out."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polysemy.core.errors import InputError

Floats = NDArray[np.floating]
Question = tuple[str, str, str, str]  # a is to b as c is to d
BLOCK = 256  # questions scored at once against the whole vocabulary


def neighbors(
    words: Sequence[str], matrix: Floats, query: str | Floats, k: int = 10, exclude: Collection[str] = ()
) -> list[tuple[str, float]]:
    """The ``k`` words whose rows of ``matrix`` (n, dim) have the highest cosine with ``query``, highest first.

    ``query`` is a vector (dim,), or a word, which is then left out itself.  Ties go to the earlier word.  Raises
    InputError for a word that is not there.
    """
    if isinstance(query, str):
        if query not in words:
            close = get_close_matches(query, words[:20_000], n=1)
            offer = f"Did you mean {close[0]!r}?" if close else "Ask for a word of the vocabulary."
            raise InputError(f"{query!r} is not among the {len(words):,} words", do=offer)
        exclude, query = {query, *exclude}, matrix[words.index(query)]
    scores = normalize(matrix) @ normalize(np.asarray(query, matrix.dtype))
    order = np.argsort(-scores, kind="stable") if k * 4 > len(scores) else _first(scores, k + len(exclude))
    found = ((words[row], float(scores[row])) for row in order if words[row] not in exclude)
    return [pair for pair, _ in zip(found, range(k), strict=False)]


def normalize(vectors: Floats) -> Floats:
    """Rows of length 1; a row of zeros stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Floats = vectors / np.where(lengths > 0, lengths, 1.0)
    return unit


@dataclass(frozen=True)
class Section:
    """Analogy questions of one kind; those with an unknown word are not asked."""

    name: str
    correct: int
    asked: int
    total: int

    @property
    def accuracy(self) -> float:
        """Of the questions asked; NaN where none was."""
        return self.correct / self.asked if self.asked else math.nan

    @property
    def coverage(self) -> float:
        """Part of the questions whose four words are known."""
        return self.asked / self.total if self.total else math.nan


def analogies(
    words: Sequence[str],
    matrix: Floats,
    questions: Mapping[str, Sequence[Question]],
    method: Literal["3cosadd", "3cosmul"] = "3cosadd",
    *,
    exclude: bool = True,
    limit: int = 300_000,
    fold: bool = True,
) -> list[Section]:
    """Find d in "a is to b as c is to d" among the first ``limit`` words; a section a result, then ``total``.

    ``3cosadd``: d has the highest cos(d, b - a + c) (Mikolov et al. 2013, NAACL).  ``3cosmul``: the highest cos(d, b)
    cos(d, c) / (cos(d, a) + 0.001) with cosines moved to [0, 1] (Levy and Goldberg 2014, eq. 3).  ``exclude`` takes
    a, b and c out of the answers.  ``fold`` compares words without case; of words that differ by case the first counts.
    """
    words = words[:limit]
    index = _index(words, fold)
    unit = normalize(matrix[: len(words)])
    sections = []
    for name, asked in questions.items():
        rows = [[index.get(word.casefold() if fold else word, -1) for word in question] for question in asked]
        known = np.array([row for row in rows if min(row) >= 0], np.int64).reshape(-1, 4)
        blocks = [known[i : i + BLOCK] for i in range(0, len(known), BLOCK)]
        correct = sum(int((_answers(unit, block, method, exclude) == block[:, 3]).sum()) for block in blocks)
        sections.append(Section(name, correct, len(known), len(asked)))
    total = Section("total", *(sum(getattr(s, f) for s in sections) for f in ("correct", "asked", "total")))
    return [*sections, total]


@dataclass(frozen=True)
class Agreement:
    """Rank correlation with human ratings over the pairs whose two words are known."""

    spearman: float  # NaN below three pairs
    interval: tuple[float, float]  # 95 %
    used: int
    total: int

    @property
    def coverage(self) -> float:
        """Part of the pairs that could be compared."""
        return self.used / self.total if self.total else math.nan


def similarity(
    words: Sequence[str], matrix: Floats, pairs: Sequence[tuple[str, str, float]], *, fold: bool = True
) -> Agreement:
    """Spearman correlation of cosines with the ratings of ``pairs`` (word, word, rating).

    The interval is Fisher's with the variance (1 + rho^2 / 2) / (n - 3) (Bonett and Wright 2000).
    """
    from scipy.stats import spearmanr

    index = _index(words, fold)
    rows = [(index.get(_key(a, fold)), index.get(_key(b, fold)), rating) for a, b, rating in pairs]
    known = [(a, b, rating) for a, b, rating in rows if a is not None and b is not None]
    if len(known) < 3:
        return Agreement(math.nan, (math.nan, math.nan), len(known), len(pairs))
    first, second = (normalize(matrix[list(side)]) for side in ([a for a, _, _ in known], [b for _, b, _ in known]))
    rho = float(spearmanr((first * second).sum(1), [rating for _, _, rating in known]).statistic)
    half = 1.96 * math.sqrt((1 + rho * rho / 2) / max(len(known) - 3, 1))
    z = math.atanh(max(min(rho, 1 - 1e-12), 1e-12 - 1))
    return Agreement(rho, (math.tanh(z - half), math.tanh(z + half)), len(known), len(pairs))


def read_questions(path: Path) -> dict[str, list[Question]]:
    """Analogies by section: ``: name`` begins one, a question is four words between spaces."""
    sections: dict[str, list[Question]] = {}
    name = "questions"
    for place, line in _lines(path):
        if line.startswith(":"):
            name = line[1:].strip()
            continue
        words = line.split()
        if len(words) != 4:
            raise InputError(f"an analogy has 4 words, found {len(words)}", where=place, do="Write a b c d.")
        sections.setdefault(name, []).append((words[0], words[1], words[2], words[3]))
    return sections


def read_pairs(path: Path) -> list[tuple[str, str, float]]:
    """Rated pairs: word, word, number (further columns are not read) between tabs, else between spaces; # is a remark."""
    pairs = []
    for place, line in _lines(path):
        if line.startswith("#"):
            continue
        fields = line.split("\t") if "\t" in line else line.split()
        try:
            pairs.append((fields[0].strip(), fields[1].strip(), float(fields[2])))
        except (IndexError, ValueError):
            raise InputError("a rated pair is word, word, number", where=place, do="Correct the line.") from None
    return pairs


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """(place, line) of the lines that hold something."""
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        try:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path}:{number}", line.strip()
        except UnicodeDecodeError as error:
            raise InputError(f"not UTF-8: {error.reason}", where=str(path), do="Convert the file to UTF-8.") from None


def _key(word: str, fold: bool) -> str:
    return word.casefold() if fold else word


def _index(words: Sequence[str], fold: bool) -> dict[str, int]:
    """The row of each word; the first where several are the same."""
    return {_key(word, fold): row for row, word in reversed(list(enumerate(words)))}


def _first(scores: Floats, count: int) -> NDArray[np.int64]:
    """Rows of the ``count`` highest scores, highest first, earlier rows first among equals."""
    least = np.partition(scores, -count)[-count]
    rows: NDArray[np.int64] = np.flatnonzero(scores >= least)
    return rows[np.argsort(-scores[rows], kind="stable")]


def _answers(unit: Floats, block: NDArray[np.int64], method: str, exclude: bool) -> NDArray[np.int64]:
    """(questions, 4) rows -> (questions,) rows of the answers."""
    a, b, c = (unit[block[:, side]] for side in range(3))
    if method == "3cosadd":
        scores = (b - a + c) @ unit.T
    else:
        near_a, near_b, near_c = ((side @ unit.T + 1) / 2 for side in (a, b, c))
        scores = near_b * near_c / (near_a + 0.001)
    if exclude:
        np.put_along_axis(scores, block[:, :3], -np.inf, axis=1)
    best: NDArray[np.int64] = scores.argmax(1)
    return best
