"""The words nearest to a word: of a static system's table, or of a contextual system's vectors of single words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polysemy.core.errors import InputError, nearest
from polysemy.look.neighbors import neighbors
from polysemy.recipes.load import Model, load

CANDIDATES = 20_000  # words of a contextual system's vocabulary that are embedded alone, the most frequent first


def nearest_words(
    model_ref: str, word: str, *, sentence: str | None = None, count: int = 10
) -> list[tuple[str, float]]:
    """``count`` (word, cosine) pairs, nearest first.

    With ``sentence`` the query is the word as it stands there; candidates are always words alone.
    """
    model = load(model_ref)
    words = candidates(model)
    table = vectors_of(model, words)
    if sentence is None:
        embedded = model.embed([[word]], layer="mean")[0]
        if not embedded.known.any():
            raise InputError(f"{word!r} is not in the vocabulary", do=nearest(word, words))
        return neighbors(words, table, embedded.vectors[0], k=count, exclude=[word])
    embedded = model.embed([sentence], layer="mean")[0]
    if word not in embedded.words:
        raise InputError(f"{word!r} is not a word of the sentence", do=f"Its words: {' '.join(embedded.words)}.")
    return neighbors(words, table, embedded.vectors[embedded.words.index(word)], k=count, exclude=[word])


def vectors_of(model: Model, words: Sequence[str]) -> NDArray[np.float32]:
    """(words, dim) of each word alone, mean of the layers; a static table is read as one text."""
    if model.tokenizer.kind == "words":
        return model.states([model.tokenizer.encode(list(words))])[0].mean(0)
    alone = model.states([model.tokenizer.encode([word]) for word in words], pooling="mean")
    return np.stack([state.mean(0)[0] for state in alone])


def candidates(model: Model) -> list[str]:
    """Whole words of the vocabulary, in its order (frequent first for words)."""
    special = {i for i in vars(model.tokenizer.special).values() if i is not None}
    symbols = [s for i, s in enumerate(model.tokenizer.vocabulary) if i not in special]
    if model.tokenizer.kind == "words":
        return symbols
    return [s for s in symbols if not s.startswith(("##", "[")) and any(c.isalpha() for c in s)][:CANDIDATES]
