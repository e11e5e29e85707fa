"""One way to train a tokenizer of any kind, one way to load it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast, get_args

from polysemy.core.errors import InputError, nearest
from polysemy.text import huggingface, saved
from polysemy.text.normalize import Normalizer
from polysemy.text.subword_training import train_subwords
from polysemy.text.subwords import SubwordKind, SubwordTokenizer
from polysemy.text.tokens import Tokenizer
from polysemy.text.vocabulary import CharacterTokenizer, WordTokenizer, fold_counts, most_frequent
from polysemy.text.words import Segmenter

KINDS = ("words", "characters", *get_args(SubwordKind))


def train_tokenizer(
    kind: str,
    counts: Mapping[str, int],
    *,
    segmenter: Segmenter,
    vocab_size: int,
    min_count: int = 1,
    lowercase: bool = False,
    strip_accents: bool = False,
) -> Tokenizer:
    """``counts`` (of ``count_words``, by the same ``segmenter``) -> a tokenizer of at most ``vocab_size`` symbols.

    ``min_count``: least occurrences of a word (words, characters, unigram) or of a pair of symbols (bpe, wordpiece).
    The same counts give the same file in any process, whatever their order.  Raises InputError for an unknown kind,
    no words, or a vocabulary too small for its special symbols and alphabet.
    """
    if kind not in KINDS:
        raise InputError(f"unknown kind of tokenizer {kind!r}", do=nearest(kind, KINDS))
    normalizer = Normalizer(lowercase=lowercase, strip_accents=strip_accents)
    folded = fold_counts(counts, normalizer)
    if not folded:
        raise InputError("no words to make a vocabulary of", do="Give a corpus with text in it.")
    if kind in get_args(SubwordKind):
        return train_subwords(
            cast(SubwordKind, kind),
            folded,
            segmenter=segmenter,
            normalizer=normalizer,
            vocab_size=vocab_size,
            min_count=min_count,
        )
    of_kind: type[WordTokenizer] = WordTokenizer if kind == "words" else CharacterTokenizer
    for name in of_kind.names:  # in text these are text; in the vocabulary they are symbols
        folded.pop(name, None)
    words = most_frequent(folded, vocab_size - len(of_kind.names), min_count)
    if not words:
        raise InputError(
            f"no word occurs {min_count} times and fits a vocabulary of {vocab_size}",
            do="Lower the least count or enlarge the vocabulary.",
        )
    return of_kind(words, segmenter, normalizer)


def load_tokenizer(path: Path) -> Tokenizer:
    """Open a ``tokenizer.json``.  Raises InputError where it is none of ours, or where its segmenter is absent."""
    data = saved.read(path)
    kind = data["kind"]
    if kind == "words":
        return WordTokenizer.from_json(data)
    if kind == "characters":
        return CharacterTokenizer.from_json(data)
    if kind in KINDS:
        return SubwordTokenizer.from_json(data)
    if kind == huggingface.KIND:
        return huggingface.HuggingFaceTokenizer.from_json(data)
    raise InputError(f"unknown kind of tokenizer {kind!r}", where=str(path), do=nearest(str(kind), KINDS))
