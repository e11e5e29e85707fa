"""The words nearest to a word: of a static system's table, or of a contextual system's vectors of single words."""

from __future__ import annotations

import numpy as np

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
    table = np.stack(
        [
            state.mean(0)[0] if state.shape[1] else 0
            for state in model.states([model.tokenizer.encode([w]) for w in words], pooling="mean")
        ]
    )
    if sentence is None:
        embedded = model.embed([[word]], layer="mean")[0]
        if not embedded.known.any():
            raise InputError(f"{word!r} is not in the vocabulary", do=nearest(word, words[:5000]))
        return neighbors(words, table, embedded.vectors[0], k=count, exclude=[word])
    embedded = model.embed([sentence], layer="mean")[0]
    if word not in embedded.words:
        raise InputError(f"{word!r} is not a word of the sentence", do=f"Its words: {' '.join(embedded.words)}.")
    return neighbors(words, table, embedded.vectors[embedded.words.index(word)], k=count, exclude=[word])


def candidates(model: Model) -> list[str]:
    """Whole words of the vocabulary, in its order (frequent first for words)."""
    special = {i for i in vars(model.tokenizer.special).values() if i is not None}
    symbols = [s for i, s in enumerate(model.tokenizer.vocabulary) if i not in special]
    if model.tokenizer.kind == "words":
        return symbols
    return [s for s in symbols if not s.startswith(("##", "[")) and any(c.isalpha() for c in s)][:CANDIDATES]
