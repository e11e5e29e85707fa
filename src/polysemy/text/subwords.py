"""Tokenizers whose pieces are smaller than words: WordPiece, byte-level BPE, unigram.

The models of the ``tokenizers`` library cut one word at a time; what a word gave is remembered, so that running text
costs a look-up a word.  Spans lead from every piece through lower case, accents and normal forms back to the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, cast

import regex  # type: ignore[import-untyped]
from tokenizers import models

from polysemy.core.errors import InputError
from polysemy.text import saved
from polysemy.text.normalize import Normalizer
from polysemy.text.tokens import Span, Special, Tokens
from polysemy.text.words import Segmenter, Words, is_unspaced, join_words

SubwordKind = Literal["wordpiece", "bpe", "unigram"]
_Pieces = tuple[list[int], list[Span] | None, int]
Rules = Literal["polysemy", "bert"]  # how WordPiece splits inside a word before it looks for pieces

CONTINUES = "##"  # WordPiece: the piece goes on from the one before it
MARKER = {"wordpiece": "", "bpe": "Ġ", "unigram": "▁"}  # the piece begins a word after a space
MAX_PART = 100  # characters cut at once; longer words are cut into parts of this length
MAX_REMEMBERED = 1 << 17  # words; memory must not grow with the corpus

_HAN = regex.compile(r"\p{Han}|[^\p{Han}]++", regex.V1)
_HAN_CHARACTER = regex.compile(r"\p{Han}")
_BERT = regex.compile(r"(?![\s\p{Cf}])(?:[\p{P}$+<=>^`|~]|\p{Han}|[^\s\p{P}$+<=>^`|~\p{Han}]++)", regex.V1)
_FORMAT = regex.compile(r"\p{Cf}")
_CLOSING = regex.compile(r"[\p{Pe}\p{Pf}.,;:!?%…]++", regex.V1)
_OPENING = regex.compile(r"[\p{Ps}\p{Pi}]++", regex.V1)


def _byte_letters() -> dict[int, str]:
    """GPT-2's printable letter for each byte: its own where it prints, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in printable}
    others = [byte for byte in range(256) if byte not in letters]
    return letters | {byte: chr(0x100 + i) for i, byte in enumerate(others)}


BYTE_LETTERS = _byte_letters()
_LETTER_BYTES = {letter: byte for byte, letter in BYTE_LETTERS.items()}


def is_han(character: str) -> bool:
    return _HAN_CHARACTER.match(character) is not None


def split_word(
    kind: str, segmenter: Segmenter, word: str, alphabet: frozenset[str] | None = None, rules: str = "polysemy"
) -> Iterator[Span]:
    """Parts of a folded word that are cut into pieces one by one.

    WordPiece reads Han characters one by one (as BERT does), and sets a run of characters outside ``alphabet`` apart,
    so that one strange character does not make its whole word unknown.
    """
    if rules == "bert":
        yield from (match.span() for match in _BERT.finditer(word))
        return
    for start, end in segmenter.parts(word):
        inside = [(start, end)]
        if kind == "wordpiece" and not word.isascii():
            inside = [match.span() for match in _HAN.finditer(word, start, end)]
        if alphabet is not None and not alphabet.issuperset(word[start:end]):
            inside = [span for begin, stop in inside for span in _apart(word, begin, stop, alphabet)]
        for begin, stop in inside:
            yield from ((i, min(i + MAX_PART, stop)) for i in range(begin, stop, MAX_PART))


def _apart(word: str, start: int, end: int, alphabet: frozenset[str]) -> Iterator[Span]:
    """Runs of known and of unknown characters."""
    for _, run in groupby(range(start, end), key=lambda i: word[i] in alphabet):
        places = list(run)
        yield places[0], places[-1] + 1


class SubwordTokenizer:
    """``vocabulary``: symbols by id; ``merges`` (bpe), ``scores`` (unigram, one a symbol) as learnt.

    A word gets the same pieces wherever it stands; with ``bpe`` and ``unigram``, one set after a space (its first piece
    holds the marker) and one without.  Words of scripts without spaces never take the marker; of words that the user
    cut, neither do closing marks nor what follows an opening bracket, as if the text were raw.
    ``rules="bert"``: inside words split at every mark, format characters dropped, a word with an unknown part is
    unknown whole, as BERT's own tokenizer has it.
    """

    def __init__(
        self,
        kind: SubwordKind,
        vocabulary: Sequence[str],
        special: Special,
        segmenter: Segmenter,
        normalizer: Normalizer | None = None,
        *,
        merges: Sequence[tuple[str, str]] = (),
        scores: Sequence[float] = (),
        rules: Rules = "polysemy",
    ) -> None:
        self.kind: str = kind
        self.vocabulary, self.special, self.rules = list(vocabulary), special, rules
        self.segmenter, self.normalizer = segmenter, normalizer or Normalizer()
        self.merges, self.scores = list(merges), list(scores)
        index = {piece: id_ for id_, piece in enumerate(self.vocabulary)}
        self._special_ids = {i for i in (special.pad, special.begin, special.end, special.mask) if i is not None}
        self._marker = MARKER[kind]
        self._model: Any
        self._alphabet: frozenset[str] | None = None
        if kind == "wordpiece":
            unknown = "[UNK]" if special.unk is None else self.vocabulary[special.unk]
            self._model = models.WordPiece(index, unk_token=unknown, max_input_chars_per_word=MAX_PART)
            if rules == "polysemy":
                self._alphabet = frozenset(piece for piece in self.vocabulary if len(piece) == 1)
        elif kind == "bpe":
            self._model = models.BPE(index, self.merges)
        else:
            self._model = models.Unigram(
                list(zip(self.vocabulary, self.scores, strict=True)), unk_id=special.unk, byte_fallback=False
            )
        self._remembered: dict[str, _Pieces] = {}

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str | Sequence[str]) -> Tokens:
        """Pieces of raw text, or of words that the user cut; words without anything to see have none."""
        found = self.segmenter.split(text)
        keys = found.words
        if self._marker:
            keys = _mark_given(keys) if not isinstance(text, str) else _mark_raw(found)
        remembered = self._remembered
        if len(remembered) > MAX_REMEMBERED:
            remembered.clear()
        ids: list[int] = []
        word_of: list[int] = []
        spans: list[Span] = []
        unknown, moved = 0, found.moved
        for index, (key, span) in enumerate(zip(keys, found.spans, strict=True)):
            known = remembered.get(key)
            if known is None:
                known = remembered[key] = self._pieces(key)
            pieces, inside, strange = known
            ids += pieces
            unknown += strange
            if inside is None:
                word_of.append(index)
                spans.append(span)
                continue
            word_of += [index] * len(pieces)
            if index in moved:
                places = moved[index]
                spans += [(places[a][0], places[b - 1][1]) if a < b else (places[a][0],) * 2 for a, b in inside]
            else:
                start = span[0]
                spans += [(start + a, start + b) for a, b in inside]
        return Tokens(found.source, found.words, found.spans, ids, word_of, spans, unknown)

    def _pieces(self, key: str) -> _Pieces:
        """Ids, spans in the word (None: one piece, all of it), and the number of unknown ones.  A space before the
        word asks for the marker."""
        marker, word = (self._marker, key[1:]) if self._marker and key[:1] == " " else ("", key)
        text, offsets = word, None
        if self.normalizer.folds:
            text, offsets, _ = self.normalizer(word)
        if self.rules == "bert" and not text.isascii() and _FORMAT.search(text):
            kept = [i for i, character in enumerate(text) if not _FORMAT.match(character)]
            offsets = [offsets[i] if offsets else (i, i + 1) for i in kept]
            text = "".join(text[i] for i in kept)
        ids: list[int] = []
        spans: list[Span] = []
        for start, end in split_word(self.kind, self.segmenter, text, self._alphabet, self.rules):
            for id_, a, b in self._cut(text[start:end], marker):
                ids.append(id_)
                spans.append((start + a, start + b))
            marker = ""
        if offsets is not None:
            spans = [(offsets[a][0], offsets[b - 1][1]) if a < b else (offsets[a][0],) * 2 for a, b in spans]
        unknown = ids.count(-1 if self.special.unk is None else self.special.unk)
        return ids, None if spans == [(0, len(word))] else spans, unknown

    def _cut(self, part: str, marker: str) -> Iterator[tuple[int, int, int]]:
        """Id, begin and end in ``part`` of each piece."""
        if self.kind == "wordpiece":
            yield from self._cut_wordpiece(part)
            return
        place = [i for i, character in enumerate(part) for _ in range(self._width(character))]
        begin = -len(marker)
        for token in self._model.tokenize(marker + self._letters(part)):
            end = begin + len(token.value)
            a = place[max(begin, 0)]
            yield self._no_special(token.id), a, (place[end - 1] + 1 if end > 0 else a)
            begin = end

    def _cut_wordpiece(self, part: str) -> Iterator[tuple[int, int, int]]:
        try:
            tokens = self._model.tokenize(part)
        except Exception as error:  # the library raises nothing narrower
            if self.special.unk is not None:
                raise
            what = f"the vocabulary has no unknown symbol and cannot write {part!r}"
            raise InputError(what, do="Add [UNK] to it.") from error
        begin = 0
        for token in tokens:
            if token.id == self.special.unk:
                yield token.id, 0, len(part)
                return
            end = begin + len(token.value) - (len(CONTINUES) if begin else 0)
            yield self._no_special(token.id), begin, end
            begin = end

    def _width(self, character: str) -> int:
        return len(character.encode()) if self.kind == "bpe" else 1

    def _letters(self, part: str) -> str:
        return "".join(BYTE_LETTERS[byte] for byte in part.encode()) if self.kind == "bpe" else part

    def _no_special(self, id_: int) -> int:
        """Text that spells the name of a special symbol is not that symbol."""
        return self.special.unk if id_ in self._special_ids and self.special.unk is not None else id_

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the pieces; specials are left out, the unknown symbol shows.

        With WordPiece words are joined by single spaces; with the others spaces stand where they stood.
        """
        pieces = [self.vocabulary[id_] for id_ in ids if id_ not in self._special_ids]
        if self.kind == "wordpiece":
            words: list[str] = []
            for piece in pieces:
                if piece.startswith(CONTINUES) and len(piece) > len(CONTINUES) and words:
                    words[-1] += piece[len(CONTINUES) :]
                else:
                    words.append(piece)
            return join_words(words)
        text = "".join(pieces).replace(self._marker, " ") if self.kind == "unigram" else _from_bytes(pieces)
        return text.removeprefix(" ")

    def save(self, path: Path) -> None:
        extra: dict[str, Any] = {"rules": self.rules}
        if self.kind == "bpe":
            extra["merges"] = [" ".join(pair) for pair in self.merges]
        if self.kind == "unigram":
            extra["scores"] = self.scores
        saved.write(path, self.kind, self.segmenter, self.normalizer, self.special, self.vocabulary, extra)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SubwordTokenizer:
        return cls(
            data["kind"],
            data["vocabulary"],
            Special(**data["special"]),
            Segmenter.from_json(data["segmenter"]),
            Normalizer.from_json(data["normalizer"]),
            merges=[cast("tuple[str, str]", tuple(pair.split(" "))) for pair in data.get("merges", ())],
            scores=data.get("scores", ()),
            rules=data["rules"],
        )

    @classmethod
    def from_vocab(cls, path: Path, *, lowercase: bool = False, strip_accents: bool | None = None) -> SubwordTokenizer:
        """BERT's ``vocab.txt``: one piece a line, by id; lines may end in CRLF (COR-02).

        ``strip_accents`` follows ``lowercase`` unless given, as in BERT.  Pieces equal those of BERT's own tokenizer
        but where a word of ours ends inside one of BERT's: before a symbol that is no punctuation (``5€``), and in
        scripts written without spaces.
        """
        lines = read_pieces(path)
        index = {piece: id_ for id_, piece in enumerate(lines)}
        names = {"pad": "[PAD]", "unk": "[UNK]", "begin": "[CLS]", "end": "[SEP]", "mask": "[MASK]"}
        special = Special(**{field: index.get(name) for field, name in names.items()})
        accents = lowercase if strip_accents is None else strip_accents
        normalizer = Normalizer(lowercase=lowercase, strip_accents=accents)
        return cls("wordpiece", lines, special, Segmenter(unit="char"), normalizer, rules="bert")


def _mark_raw(found: Words) -> list[str]:
    """Words with a space before those that had one, or that begin the text, unless their script needs none."""
    keys: list[str] = []
    last = -1
    for word, (start, end) in zip(found.words, found.spans, strict=True):
        keys.append(word if start == last or (word[0] > "\u0e00" and is_unspaced(word[0])) else " " + word)
        last = end
    return keys


def _mark_given(words: Sequence[str]) -> list[str]:
    keys: list[str] = []
    opened = False
    for word in words:
        bare = opened or not word or is_unspaced(word[0]) or _CLOSING.fullmatch(word) is not None
        keys.append(word if bare else " " + word)
        opened = _OPENING.fullmatch(word) is not None
    return keys


def _from_bytes(pieces: Sequence[str]) -> str:
    letters = "".join(pieces)
    return bytes(_LETTER_BYTES[letter] for letter in letters).decode("utf-8", errors="replace")


def read_pieces(path: Path) -> list[str]:
    """A vocabulary of one piece a line, by id; lines may end in CRLF (COR-02)."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the vocabulary: {error.strerror}", where=str(path)) from error
    lines = data.removesuffix(b"\n").split(b"\n")
    pieces: list[str] = []
    for number, line in enumerate(lines, 1):
        try:
            pieces.append(line.removesuffix(b"\r").decode("utf-8"))
        except UnicodeDecodeError as error:
            raise InputError("the vocabulary is not UTF-8", where=f"{path}:{number}") from error
    return pieces
