"""data/shards.py: what was written is read back; damage, other sources and full disks are seen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from polysemy.core.errors import InputError
from polysemy.data import shards as module
from polysemy.data.shards import Shards, build_shards
from polysemy.text.tokens import Tokens


def tokens(words: list[str], pieces: list[list[int]]) -> Tokens:
    ids = [i for piece in pieces for i in piece]
    word_of = [w for w, piece in enumerate(pieces) for _ in piece]
    return Tokens(" ".join(words), words, [(0, 0)] * len(words), ids, word_of, [(0, 0)] * len(ids))


ITEMS = [
    (0, tokens(["a", "bc"], [[7], [8, 9]])),
    (0, tokens([], [])),
    (0, tokens(["x", "gone", "a"], [[5], [], [7]])),
    (4, tokens(["a", "é"], [[7], [1]])),
]


@pytest.mark.parametrize("buffer", [1, 2, 1 << 18])
def test_pieces_words_sentences_and_documents(tmp_path: Path, buffer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUFFER", buffer)
    built = build_shards(tmp_path / "s", iter(ITEMS), lexicon=False)
    for shards in (built, Shards.open(tmp_path / "s")):
        assert shards.ids.tolist() == [7, 8, 9, 5, 7, 7, 1]
        assert shards.starts.tolist() == [1, 1, 0, 1, 1, 1, 1]
        assert shards.sentences.tolist() == [0, 3, 5, 7]
        assert shards.documents.tolist() == [0, 2, 3]
        assert (shards.words, shards.lexicon, shards.longest_document) == (6, None, 2)
        assert shards.ids.dtype == np.int32
        assert isinstance(shards.ids, np.memmap)


@pytest.mark.parametrize("buffer", [1, 1 << 18])
def test_a_lexicon_is_sorted_by_count_then_code_points(
    tmp_path: Path, buffer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUFFER", buffer)
    shards = build_shards(tmp_path / "s", iter([*ITEMS, (5, tokens(["é", "z", ""], [[1], [2], []]))]), lexicon=True)
    assert shards.lexicon == ["a", "é", "bc", "gone", "x", "z"]
    words = [shards.lexicon[i] for i in shards.ids]
    assert words == ["a", "bc", "x", "gone", "a", "a", "é", "é", "z"]
    assert shards.words == 9
    assert shards.starts.all()


def test_no_items_give_empty_shards(tmp_path: Path) -> None:
    for lexicon in (False, True):
        shards = build_shards(tmp_path / "s", iter(()), lexicon=lexicon)
        assert len(shards.ids) == 0
        assert shards.sentences.tolist() == [0]
        assert shards.documents.tolist() == [0]


def test_a_failure_leaves_nothing_and_keeps_what_was_there(tmp_path: Path) -> None:
    build_shards(tmp_path / "s", iter(ITEMS), lexicon=False)

    def broken() -> Iterator[tuple[int, Tokens]]:
        yield ITEMS[0]
        raise InputError("bad line", where="a.txt:2")

    with pytest.raises(InputError, match="bad line"):
        build_shards(tmp_path / "s", broken(), lexicon=False)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    assert Shards.open(tmp_path / "s").words == 6


def test_a_full_disk_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        build_shards(tmp_path / "s", iter(ITEMS), lexicon=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["ids.bin", "documents.bin", "lexicon.json", "starts.bin"])
@pytest.mark.parametrize("damage", ["cut", "changed", "absent"])
def test_damage_is_seen(tmp_path: Path, name: str, damage: str) -> None:
    build_shards(tmp_path / "s", iter(ITEMS), lexicon=True)
    path = tmp_path / "s" / name
    data = path.read_bytes()
    if damage == "absent":
        path.unlink()
    else:
        path.write_bytes(data[:-1] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(InputError, match="cut or changed"):
        Shards.open(tmp_path / "s")


def test_other_sources_and_other_folders_are_refused(tmp_path: Path) -> None:
    build_shards(tmp_path / "s", iter(ITEMS), lexicon=False, source="corpus 1")
    assert Shards.open(tmp_path / "s", "corpus 1").source == "corpus 1"
    with pytest.raises(InputError, match="another corpus"):
        Shards.open(tmp_path / "s", "corpus 2")
    with pytest.raises(InputError, match="no shards here"):
        Shards.open(tmp_path)


MEMORY = """
import resource, sys
from pathlib import Path
from polysemy.data.shards import build_shards
from polysemy.text.tokens import Tokens
n = int(sys.argv[2])
words = [f"w{i}" for i in range(100)]
items = ((i // 50, Tokens("", words, [], list(range(100)), list(range(100)), [])) for i in range(n))
build_shards(Path(sys.argv[1]), items, lexicon=sys.argv[3] == "1")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.parametrize("lexicon", ["0", "1"])
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, lexicon: str) -> None:
    peaks = []
    for sentences in (2_000, 40_000):  # 0.8 and 16 MB of ids
        command = [sys.executable, "-c", MEMORY, str(tmp_path / f"s{sentences}"), str(sentences), lexicon]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    assert peaks[1] < peaks[0] + 25_000, peaks  # KB; the mapped ids themselves are counted while they are renumbered
