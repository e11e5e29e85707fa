"""Counting words, and tokenizers whose pieces are whole words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from polysemy.text import saved
from polysemy.text.characters import SLOTS, byte_length
from polysemy.text.normalize import Normalizer
from polysemy.text.tokens import Special, Tokens
from polysemy.text.words import Segmenter, Words, join_words


def count_words(texts: Iterable[str], segmenter: Segmenter) -> Counter[str]:
    """How often each word (cleaned, NFC) occurs.  Memory follows the distinct words, not the texts."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(segmenter.words(text))
    return counts


def fold_counts(counts: Mapping[str, int], normalizer: Normalizer) -> Counter[str]:
    """Counts of the folded words; words that fold to nothing are left out."""
    if not normalizer.folds:
        return Counter(counts)
    folded: Counter[str] = Counter()
    for word, count in counts.items():
        if text := normalizer(word).text:
            folded[text] += count
    return folded


def most_frequent(counts: Mapping[str, int], room: int, min_count: int) -> list[str]:
    """At most ``room`` words that occur at least ``min_count`` times: by falling count, then by code points."""
    frequent = sorted((-count, word) for word, count in counts.items() if count >= min_count)
    return [word for _, word in frequent[:room]]


class WordTokenizer:
    """Every word is one piece; a word outside the vocabulary is the unknown symbol, id 0.

    ``Tokens.words`` keep their letters as written; the switches of ``normalizer`` concern the vocabulary alone, so
    that characters beside a lower-cased vocabulary still see capitals.
    """

    kind = "words"
    special = Special(unk=0)
    names: tuple[str, ...] = ("<unk>",)

    def __init__(self, words: Sequence[str], segmenter: Segmenter, normalizer: Normalizer | None = None) -> None:
        self.segmenter, self.normalizer = segmenter, normalizer or Normalizer()
        self.vocabulary = [*self.names, *words]
        self.words_index: dict[str, int] = {}
        for id_, word in enumerate(words, len(self.names)):
            self.words_index.setdefault(word, id_)
        self._folded: dict[str, str] = {}

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str | Sequence[str]) -> Tokens:
        """One piece a word; words that the user gave without anything to see in them have none."""
        found = self.segmenter.split(text)
        return self._tokens(found, self._fold(found.words) if self.normalizer.folds else found.words)

    def _tokens(self, found: Words, keys: Sequence[str]) -> Tokens:
        get = self.words_index.get
        ids = [get(key, 0) for key in keys]
        word_of, spans = list(range(len(ids))), found.spans
        if found.blank:
            word_of = [i for i in word_of if i not in found.blank]
            ids, spans = [ids[i] for i in word_of], [spans[i] for i in word_of]
        return Tokens(found.source, found.words, found.spans, ids, word_of, spans, unknown=ids.count(0))

    def _fold(self, words: Sequence[str]) -> list[str]:
        known = self._folded
        if len(known) > 1 << 17:  # memory must not grow with the corpus
            known.clear()
        for word in words:
            if word not in known:
                known[word] = self.normalizer(word).text
        return [known[word] for word in words]

    def decode(self, ids: Sequence[int]) -> str:
        """The words joined by spaces; sentence marks are left out, the unknown symbol shows."""
        hidden = (self.special.begin, self.special.end)
        return join_words([self.vocabulary[id_] for id_ in ids if id_ not in hidden])

    def save(self, path: Path) -> None:
        saved.write(path, self.kind, self.segmenter, self.normalizer, self.special, self.vocabulary, self._extra())

    def _extra(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WordTokenizer:
        return cls(
            data["vocabulary"][len(cls.names) :],
            Segmenter.from_json(data["segmenter"]),
            Normalizer.from_json(data["normalizer"]),
        )


class CharacterTokenizer(WordTokenizer):
    """Words are read by their characters, so none is unknown as input; ids are those of the output vocabulary.

    ``Tokens.unknown`` counts words outside the output vocabulary, ``Tokens.truncated`` words of more than ``slots`` - 2
    UTF-8 bytes.  The switches change ``Tokens.words``, which are what is read.  Numbering as in Peters et al. 2018,
    but with the unknown word first.
    """

    kind = "characters"
    special = Special(unk=0, begin=1, end=2)
    names = ("<unk>", "<s>", "</s>")

    def __init__(
        self,
        words: Sequence[str],
        segmenter: Segmenter,
        normalizer: Normalizer | None = None,
        slots: int = SLOTS,
    ) -> None:
        super().__init__(words, segmenter, normalizer)
        self.slots = slots

    def encode(self, text: str | Sequence[str]) -> Tokens:
        """One piece a word; words that the user gave without anything to see in them have none."""
        found = self.segmenter.split(text)
        words = self._fold(found.words) if self.normalizer.folds else found.words
        tokens = self._tokens(found, words)
        limit = self.slots - 2
        # A character has at most four bytes, which spares most words the exact look.
        truncated = sum(1 for word in words if len(word) * 4 > limit and byte_length(word) > limit)
        return Tokens(
            tokens.source, list(words), tokens.word_spans, tokens.ids, tokens.word_of, tokens.spans,
            tokens.unknown, truncated,
        )  # fmt: skip

    def _extra(self) -> dict[str, Any]:
        return {"slots": self.slots}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CharacterTokenizer:
        return cls(
            data["vocabulary"][len(cls.names) :],
            Segmenter.from_json(data["segmenter"]),
            Normalizer.from_json(data["normalizer"]),
            data["slots"],
        )
