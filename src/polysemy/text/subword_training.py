"""Subword vocabularies learnt from counts of words.

Numbering is the same in any process: special symbols, then the alphabet by code points (for byte-level BPE the 256
byte letters; for WordPiece letters that begin a word, then those that continue one), then merged pieces in the order in
which they were made, then rare characters by falling frequency where room is left.  Unigram pieces follow the special
symbols by falling probability, rare characters last.

WordPiece is trained by byte-pair merges, as the ``tokenizers`` library does it too, and then read by the longest match
(Wu et al. 2016, arXiv:1609.08144 describe a likelihood criterion that was never released).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from polysemy.core.errors import InputError
from polysemy.text.merges import learn_merges
from polysemy.text.normalize import Normalizer
from polysemy.text.subwords import BYTE_LETTERS, CONTINUES, MARKER, SubwordKind, SubwordTokenizer, is_han, split_word
from polysemy.text.tokens import Special
from polysemy.text.unigram import learn_unigram
from polysemy.text.words import Segmenter, is_unspaced

# As in BERT, RoBERTa and ALBERT.
SPECIALS: dict[str, dict[str, str]] = {
    "wordpiece": {"pad": "[PAD]", "unk": "[UNK]", "begin": "[CLS]", "end": "[SEP]", "mask": "[MASK]"},
    "bpe": {"begin": "<s>", "pad": "<pad>", "end": "</s>", "unk": "<unk>", "mask": "<mask>"},
    "unigram": {"pad": "<pad>", "unk": "<unk>", "begin": "[CLS]", "end": "[SEP]", "mask": "[MASK]"},
}
FREE_SYMBOLS, FREE_SHARE, MOST_SHARE, COVERAGE = 512, 0.1, 0.5, 0.9995


def train_subwords(
    kind: SubwordKind,
    counts: Mapping[str, int],
    *,
    segmenter: Segmenter,
    normalizer: Normalizer,
    vocab_size: int,
    min_count: int = 1,
) -> SubwordTokenizer:
    """``counts`` of folded words -> a tokenizer of at most ``vocab_size`` symbols.

    ``min_count``: pairs (bpe, wordpiece: at least 2) or words (unigram) that occur less often teach nothing.
    """
    names = SPECIALS[kind]
    special = Special(**{field: id_ for id_, field in enumerate(names)})
    room = vocab_size - len(names)
    pieces: list[str]
    merges: list[tuple[str, str]] = []
    scores: list[float] = []
    if kind == "wordpiece":
        pieces = _train_wordpiece(counts, segmenter, room, min_count)
    elif kind == "bpe":
        pieces, merges = _train_bpe(counts, segmenter, room, min_count)
    else:
        learnt = _train_unigram(counts, segmenter, room, min_count)
        pieces, scores = [piece for piece, _ in learnt], [0.0] * len(names) + [score for _, score in learnt]
    vocabulary = [*names.values(), *pieces]
    return SubwordTokenizer(kind, vocabulary, special, segmenter, normalizer, merges=merges, scores=scores)


def choose_alphabet(counts: Mapping[str, int], room: int, rows: int = 1) -> list[str]:
    """Characters worth symbols of their own, by code points; the others will be unknown.

    ``counts``: words and how often they occur; ``room``: symbols in all; ``rows``: symbols that a character takes (Han
    characters take one).  By falling frequency, all that fit into 512 symbols or a tenth of the room; beyond that
    those that are needed to cover 99.95 % of the text, while half of the room is left for longer pieces.
    """
    free = max(FREE_SYMBOLS, FREE_SHARE * room)
    ranked = _ranked(counts)
    total, covered, used = sum(count for _, count in ranked), 0, 0
    chosen: list[str] = []
    for character, count in ranked:
        used += 1 if is_han(character) else rows
        if used > room or (used > free and (covered >= COVERAGE * total or used > MOST_SHARE * room)):
            break
        chosen.append(character)
        covered += count
    if not chosen and ranked:
        raise InputError(f"a vocabulary with {room} symbols beside the special ones has no room for any character")
    return sorted(chosen)


def _ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Characters of counted words, by falling frequency, then by code points."""
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    return sorted(characters.items(), key=lambda item: (-item[1], item[0]))


def _forms(character: str) -> list[str]:
    """WordPiece symbols of a character: Han characters always stand alone, so they never continue a word."""
    return [character] if is_han(character) else [character, CONTINUES + character]


def _train_wordpiece(counts: Mapping[str, int], segmenter: Segmenter, room: int, min_count: int) -> list[str]:
    alphabet = choose_alphabet(counts, room, rows=2)
    parts = _parts("wordpiece", counts, segmenter, frozenset(alphabet))
    known = set(alphabet)
    words = [part for part in sorted(parts) if known.issuperset(part)]
    symbols = [[part[0], *(CONTINUES + character for character in part[1:])] for part in words]
    # Both forms of every letter, so that no word of known letters is unknown.
    pieces = [*alphabet, *(form for character in alphabet for form in _forms(character)[1:])]
    present = set(pieces)
    merges = learn_merges(
        symbols,
        [parts[part] for part in words],
        room - len(pieces),
        join=lambda left, right: left + right.removeprefix(CONTINUES),
        min_count=max(2, min_count),
    )
    for left, right in merges:
        piece = left + right.removeprefix(CONTINUES)
        if piece not in present:
            present.add(piece)
            pieces.append(piece)
    for character, _ in _ranked(counts):  # room is left: rarer characters after all
        forms = _forms(character)
        if character not in known and len(pieces) + len(forms) <= room:
            pieces += forms
    return pieces


def _train_bpe(
    counts: Mapping[str, int], segmenter: Segmenter, room: int, min_count: int
) -> tuple[list[str], list[tuple[str, str]]]:
    if room < len(BYTE_LETTERS):
        least = len(BYTE_LETTERS) + len(SPECIALS["bpe"])
        raise InputError(f"byte-level BPE needs a vocabulary of at least {least}, not {least + room - 256}")
    marked = _marked("bpe", counts, segmenter)
    words = sorted(marked)
    pieces = sorted(BYTE_LETTERS.values())
    present = set(pieces)
    marker = MARKER["bpe"]
    symbols = [
        [marker] * word.startswith(" ") + [BYTE_LETTERS[byte] for byte in word.removeprefix(" ").encode()]
        for word in words
    ]
    merges = learn_merges(
        symbols,
        [marked[word] for word in words],
        room - len(pieces),
        join=str.__add__,
        min_count=2 * max(2, min_count),  # the counts are doubled
    )
    for left, right in merges:
        if left + right not in present:
            present.add(left + right)
            pieces.append(left + right)
    return pieces, merges


def _train_unigram(
    counts: Mapping[str, int], segmenter: Segmenter, room: int, min_count: int
) -> list[tuple[str, float]]:
    marker = MARKER["unigram"]
    enough = {word: count for word, count in counts.items() if count >= min_count}
    known = {marker, *choose_alphabet(enough, room - 1)}
    marked = {
        word.replace(" ", marker): count
        for word, count in _marked("unigram", enough, segmenter).items()
        if known.issuperset(word.replace(" ", marker))
    }
    if not marked:
        raise InputError(f"no word occurs {min_count} times: nothing to learn pieces from")
    words = sorted(marked, key=lambda word: (-marked[word], word))
    unseen = sorted(known.difference(*words))  # letters of words left out above; the marker, where no word has it
    learnt = learn_unigram(words, [marked[word] for word in words], room - len(unseen))
    rare = [character for character, _ in _ranked(enough) if character not in known]
    extra = unseen + rare[: max(0, room - len(learnt) - len(unseen))]  # rarer characters where room is left
    return learnt + [(letter, learnt[-1][1]) for letter in extra]


def _parts(
    kind: SubwordKind, counts: Mapping[str, int], segmenter: Segmenter, alphabet: frozenset[str] | None = None
) -> Counter[str]:
    parts: Counter[str] = Counter()
    for word, count in counts.items():
        for start, end in split_word(kind, segmenter, word, alphabet):
            parts[word[start:end]] += count
    return parts


def _marked(kind: SubwordKind, counts: Mapping[str, int], segmenter: Segmenter) -> Counter[str]:
    """Parts with the space that stands before them.  Counts are doubled: of a mark, half have a space and half none.

    Counting says nothing about spaces; in alphabets nearly every word has one before it, while marks have it or not
    by their kind, and quotation marks half and half.
    """
    marked: Counter[str] = Counter()
    for word, count in counts.items():
        for number, (start, end) in enumerate(split_word(kind, segmenter, word)):
            part = word[start:end]
            if number or is_unspaced(part[0]):
                marked[part] += 2 * count
            elif any(character.isalnum() for character in part):
                marked[" " + part] += 2 * count
            else:
                marked[part] += count
                marked[" " + part] += count
    return marked
