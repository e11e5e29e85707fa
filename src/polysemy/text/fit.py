"""How a vocabulary fits a text: what a person should see before training starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from polysemy.text.characters import characters_cut
from polysemy.text.normalize import normalize
from polysemy.text.tokens import Tokenizer, Tokens


@dataclass
class Fit:
    words: int = 0
    pieces: int = 0
    unknown_pieces: int = 0
    unknown_words: int = 0  # words with an unknown piece, or with none
    characters_lost: int = 0  # removed by cleaning, covered by the unknown symbol, or cut off
    truncated_words: int = 0  # words of more characters than there are slots

    @property
    def unknown_rate(self) -> float:
        """Share of pieces that are unknown."""
        return self.unknown_pieces / self.pieces if self.pieces else 0.0

    @property
    def pieces_per_word(self) -> float:
        return self.pieces / self.words if self.words else 0.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "unknown_rate": self.unknown_rate, "pieces_per_word": self.pieces_per_word}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fit:
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})

    def add(self, tokens: Tokens, tokenizer: Tokenizer) -> None:
        """Count one text more."""
        self.words += len(tokens.words)
        self.pieces += len(tokens.ids)
        self.unknown_pieces += tokens.unknown
        self.truncated_words += tokens.truncated
        self.unknown_words += len(tokens.words) - len(set(tokens.word_of))
        if not tokens.source.isprintable():
            self.characters_lost += normalize(tokens.source).removed
        if tokens.unknown:
            strange = [i for i, id_ in enumerate(tokens.ids) if id_ == tokenizer.special.unk]
            self.unknown_words += len({tokens.word_of[i] for i in strange})
            if tokenizer.kind != "characters":  # there the unknown word is unknown as output only
                self.characters_lost += sum(tokens.spans[i][1] - tokens.spans[i][0] for i in strange)
        if tokens.truncated:
            slots = int(getattr(tokenizer, "slots"))  # noqa: B009  (kind "characters" alone has it)
            self.characters_lost += sum(characters_cut(word, slots) for word in tokens.words)


def fit(tokenizer: Tokenizer, lines: Iterable[str]) -> Fit:
    """Encode ``lines`` and count; memory does not grow with them."""
    result = Fit()
    for line in lines:
        result.add(tokenizer.encode(line), tokenizer)
    return result
