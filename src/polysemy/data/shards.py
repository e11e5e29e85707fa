"""The corpus as ids on disk, memory-mapped: built in one stream, read in any order, memory independent of its size."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from polysemy.core.errors import InputError
from polysemy.text.tokens import Tokens

FORMAT = 1
BUFFER = 1 << 18  # numbers held before they are written
EDGE_BYTES = 1 << 16  # of the beginning and the end of each file, checked when it is opened
ARRAYS: dict[str, Any] = {"ids": np.int32, "starts": np.uint8, "sentences": np.int64, "documents": np.int64}
LEXICON = "lexicon.json"


@dataclass(frozen=True)
class Shards:
    """Pieces of all sentences, one after the other.  Sentence i is ``ids[sentences[i]:sentences[i + 1]]``; document d
    is the sentences ``documents[d]`` to ``documents[d + 1]``."""

    folder: Path
    ids: NDArray[np.int32]  # (p,) pieces; words of ``lexicon`` where there is one
    starts: NDArray[np.uint8]  # (p,) 1 where a piece begins a word
    sentences: NDArray[np.int64]  # (n + 1,) offsets into ``ids``
    documents: NDArray[np.int64]  # (d + 1,) offsets into sentences
    words: int  # that have pieces: the sum of ``starts``
    lexicon: list[str] | None  # distinct words by falling count, then by code points
    source: str  # what they were made of, as given to ``build_shards``

    @classmethod
    def open(cls, folder: Path, source: str | None = None) -> Shards:
        """Map the files of ``build_shards``.

        Raises InputError when they are absent, were cut or changed, or were made of something else than ``source``.
        """
        meta = _read_meta(folder)
        if source is not None and meta["source"] != source:
            raise InputError("the shards were made from another corpus or tokenizer", where=str(folder), do=_AGAIN)
        if meta["files"] != {name: _edges(folder / name) for name in meta["files"]}:
            raise InputError("the shards were cut or changed", where=str(folder), do=_AGAIN)
        arrays = {}
        for name, kind in ARRAYS.items():
            path = folder / f"{name}.bin"
            empty = path.stat().st_size == 0  # cannot be mapped
            arrays[name] = np.zeros(0, dtype=kind) if empty else np.memmap(path, dtype=kind, mode="r")
        lexicon = json.loads((folder / LEXICON).read_text(encoding="utf-8")) if LEXICON in meta["files"] else None
        return cls(folder=folder, words=meta["words"], lexicon=lexicon, source=meta["source"], **arrays)

    @property
    def longest_document(self) -> int:
        """Sentences of the longest document (see ``corpus.pair_problem``)."""
        return int(np.diff(self.documents).max(initial=0))


_AGAIN = "Delete the folder: they are made again."


class _Column:
    """One array that grows at the end of its file."""

    def __init__(self, path: Path, kind: Any) -> None:
        self.kind = kind
        self.file: BinaryIO = path.open("wb")
        self.waiting: list[int] = []

    def extend(self, numbers: Iterable[int]) -> None:
        """Add numbers at the end."""
        self.waiting.extend(numbers)
        if len(self.waiting) >= BUFFER:
            self.write()

    def write(self) -> None:
        """Hand what waits to the file."""
        np.asarray(self.waiting, dtype=self.kind).tofile(self.file)
        self.waiting.clear()

    def close(self) -> None:
        """Write the rest and make sure that it is on the disk."""
        self.write()
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()


def build_shards(folder: Path, items: Iterable[tuple[int, Tokens]], *, lexicon: bool, source: str = "") -> Shards:
    """Write ``items``, (document, sentence) in the order of the corpus, to ``folder`` and open it.

    ``lexicon``: ids are numbers of distinct words instead of pieces, whatever the vocabulary.  Memory: the distinct
    words and a buffer.  The folder appears whole or not at all and replaces one that was there.  ``source`` is kept in
    it for ``Shards.open`` to compare.  Items without words give empty shards.  Raises InputError when the disk is full.
    """
    part = folder.with_name(f".{folder.name}.part")  # one left by a killed process is taken away
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        words, index = _write_columns(part, items, lexicon)
        names = [f"{name}.bin" for name in ARRAYS]
        if lexicon:
            _renumber(part, index)
            names.append(LEXICON)
        files = {name: _edges(part / name) for name in names}
        meta = {"format": FORMAT, "words": words, "source": source, "files": files}
        (part / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        part.replace(folder)
    except OSError as error:
        raise InputError(
            f"cannot write the shards: {error.strerror or error}", where=str(folder), do="Check space and rights."
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return Shards.open(folder)


def _write_columns(part: Path, items: Iterable[tuple[int, Tokens]], lexicon: bool) -> tuple[int, dict[str, list[int]]]:
    """Write the four arrays; the words written and, with ``lexicon``, [provisional id, count] of each distinct word."""
    columns = {name: _Column(part / f"{name}.bin", kind) for name, kind in ARRAYS.items()}
    index: dict[str, list[int]] = {}
    pieces = words = sentences = 0
    current: int | None = None
    try:
        columns["sentences"].extend([0])
        for document, tokens in items:
            ids, starts = _by_words(tokens, index) if lexicon else (tokens.ids, _word_starts(tokens.word_of))
            if not ids:
                continue
            if document != current:
                columns["documents"].extend([sentences])
                current = document
            columns["ids"].extend(ids)
            columns["starts"].extend(starts)
            pieces += len(ids)
            words += sum(starts)
            sentences += 1
            columns["sentences"].extend([pieces])
        columns["documents"].extend([sentences])
    finally:
        for column in columns.values():
            column.close()
    return words, index


def _by_words(tokens: Tokens, index: dict[str, list[int]]) -> tuple[list[int], list[int]]:
    """Provisional ids of the words, in the order of their first appearance; counts go up in ``index``."""
    ids = []
    for word in tokens.words:
        if not word:  # nothing of it is left: no vector and no target
            continue
        entry = index.get(word)
        if entry is None:
            entry = index[word] = [len(index), 0]
        entry[1] += 1
        ids.append(entry[0])
    return ids, [1] * len(ids)


def _word_starts(word_of: list[int]) -> list[int]:
    before = -1
    starts = []
    for word in word_of:
        starts.append(int(word != before))
        before = word
    return starts


def _renumber(part: Path, index: dict[str, list[int]]) -> None:
    """Give the words their final ids, by falling count and then by code points, and write the lexicon."""
    order = sorted(index, key=lambda word: (-index[word][1], word))
    final = np.empty(len(order), dtype=np.int32)
    final[[index[word][0] for word in order]] = np.arange(len(order), dtype=np.int32)
    if order:
        ids = np.memmap(part / "ids.bin", dtype=np.int32, mode="r+")
        for start in range(0, len(ids), BUFFER):
            ids[start : start + BUFFER] = final[ids[start : start + BUFFER]]
        ids.flush()
    (part / LEXICON).write_text(json.dumps(order, ensure_ascii=False), encoding="utf-8")


def _edges(path: Path) -> str:
    """Size and digest of the beginning and the end of a file: enough to see that it was cut or replaced."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            digest = hashlib.sha256(file.read(EDGE_BYTES))
            file.seek(max(size - EDGE_BYTES, 0))
            digest.update(file.read())
    except OSError:
        return "absent"
    return f"{size} bytes, {digest.hexdigest()[:32]}"


def _read_meta(folder: Path) -> dict[str, Any]:
    try:
        meta: dict[str, Any] = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError("no shards here", where=str(folder), do=_AGAIN) from error
    if meta.get("format") != FORMAT:
        raise InputError(f"shards of format {meta.get('format')}, expected {FORMAT}", where=str(folder), do=_AGAIN)
    return meta
