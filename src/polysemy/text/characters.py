"""ELMo's characters: a word is its UTF-8 bytes between a begin and an end mark (Peters et al. 2018, section 3.4).

The released models number bytes 0-255, then sentence begin 256, sentence end 257, word begin 258, word end 259 and
padding 260; all are shifted by one here, so that row 0 of the table can stand for no word at all.
"""

from __future__ import annotations

CHARACTERS = 262  # rows of the table: no word, 256 bytes, five marks
SLOTS = 50  # characters of a word in the released models, marks included

_SENTENCE_BEGIN, _SENTENCE_END, _WORD_BEGIN, _WORD_END, _PADDING = 257, 258, 259, 260, 261


def _row(inside: bytes | list[int], slots: int) -> list[int]:
    row = [_WORD_BEGIN, *inside, _WORD_END]
    return row + [_PADDING] * (slots - len(row))


SENTENCE_BEGIN = _row([_SENTENCE_BEGIN], SLOTS)
SENTENCE_END = _row([_SENTENCE_END], SLOTS)


def character_ids(word: str, slots: int = SLOTS) -> list[int]:
    """Rows of the table for ``word``: ``slots`` numbers from 1 to 261.  Bytes beyond ``slots`` - 2 are cut off.

    Bytes, not code points, so that every script fits the table.  ``slots`` must be at least 3.
    """
    if slots < 3:
        raise ValueError(f"slots must be at least 3 (begin mark, one byte, end mark), not {slots}")
    return _row([byte + 1 for byte in _bytes(word)[: slots - 2]], slots)


def byte_length(word: str) -> int:
    """Bytes of ``word``; more than ``slots`` - 2 are cut off."""
    return len(word) if word.isascii() else len(_bytes(word))


def characters_cut(word: str, slots: int = SLOTS) -> int:
    """Characters of ``word`` of which a byte does not fit into ``slots``."""
    if byte_length(word) <= slots - 2:
        return 0
    return len(word) - len(_bytes(word)[: slots - 2].decode("utf-8", errors="ignore"))


def _bytes(word: str) -> bytes:
    return word.encode("utf-8", errors="replace")  # "?" for half a surrogate pair, which UTF-8 cannot write
