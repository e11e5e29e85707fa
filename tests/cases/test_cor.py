"""Cases COR: reading a corpus (COR-02 stands with the tokenizers, COR-05 and COR-07 with translation)."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from polysemy.data.corpus import Corpus, pair_problem
from polysemy.data.inspect import inspect
from polysemy.data.readers.table import read_table
from polysemy.text.normalize import normalize
from polysemy.text.vocabulary import count_words
from polysemy.text.words import Segmenter


def corpus(path: Path, data: bytes) -> Corpus:
    path.write_bytes(data)
    return Corpus(path)


def test_cor_01_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path: Path) -> None:
    read = corpus(tmp_path / "a.txt", b"\xef\xbb\xbfnorth wind\n")
    assert [Segmenter().words(line.text) for line in read] == [["north", "wind"]]
    assert set(count_words(read.texts(), Segmenter())) == {"north", "wind"}
    joined = corpus(tmp_path / "b.txt", b"\xef\xbb\xbfnorth wind\n\xef\xbb\xbfnorth sun\n")
    assert count_words(joined.texts(), Segmenter()) == {"north": 2, "wind": 1, "sun": 1}


def test_cor_04_only_line_feeds_end_lines(tmp_path: Path) -> None:
    text = "a\u2028b\u0085c\u000bd\n"
    assert len(text.splitlines()) == 4
    (line,) = corpus(tmp_path / "a.txt", text.encode())
    assert line.text == text[:-1]


def test_cor_08_a_line_of_10001_words_keeps_them_all(tmp_path: Path) -> None:
    read = corpus(tmp_path / "a.txt", b"a " * 10_000 + b"z\n")
    counts = count_words(read.texts(), Segmenter())
    assert counts == {"a": 10_000, "z": 1}
    assert counts.total() == 10_001


COUNT = """
import resource, sys
from pathlib import Path
from polysemy.data.corpus import Corpus
from polysemy.text.tokenizer import train_tokenizer
from polysemy.text.vocabulary import count_words
from polysemy.text.words import Segmenter
counts = count_words(Corpus(sys.argv[1]).texts(), Segmenter())
train_tokenizer("wordpiece", counts, segmenter=Segmenter(), vocab_size=500)
print(len(counts), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(path: Path, megabytes: int) -> int:
    """Peak memory in KB of training a tokenizer on the same 1,000 words, shuffled into ``megabytes``."""
    pick = random.Random(1)
    words = [f"w{i:03d}" for i in range(1000)]
    blocks = []
    for _ in range(20):
        pick.shuffle(words)
        blocks.append("\n".join(" ".join(words[i : i + 10]) for i in range(0, 1000, 10)) + "\n")  # 5 kB
    with path.open("w") as file:
        for _ in range(megabytes * 200):
            file.write(pick.choice(blocks))
    done = subprocess.run([sys.executable, "-c", COUNT, str(path)], check=True, capture_output=True, text=True)
    path.unlink()
    distinct, kilobytes = map(int, done.stdout.split())
    assert distinct == 1000
    return kilobytes


@pytest.mark.parametrize(("small", "large"), [(3, 25), pytest.param(10, 1000, marks=pytest.mark.slow)])
def test_cor_10_memory_depends_on_distinct_words_not_on_size(tmp_path: Path, small: int, large: int) -> None:
    assert peak(tmp_path / "large.txt", large) < 1.2 * peak(tmp_path / "small.txt", small)


def test_cor_11_text_after_a_nul_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'text,label\nab\x00cd,x\n"ab\x00c,d",y\n')
    cells = [row["text"] for _, row in read_table(path)]
    assert cells == ["ab\x00cd", "ab\x00c,d"]
    clean = normalize(cells[0])
    assert (clean.text, clean.removed) == ("abcd", 1)
    assert clean.offsets == [(0, 1), (1, 2), (3, 4), (4, 5)]  # of the source of 5 characters
    assert normalize(cells[0], clean=False).text == "ab\x00cd"
    read = corpus(tmp_path / "b.txt", b"ab\x00cd ef\n")
    assert [line.text for line in read] == ["ab\x00cd ef"]
    assert read.ledger.count("kept", "NUL inside a line") == 1


def test_cor_13_one_document_gives_no_random_pairs_and_says_so(tmp_path: Path) -> None:
    found = inspect(corpus(tmp_path / "a.txt", b"One.\nTwo.\nThree.\n"), Segmenter())
    assert (found.documents, found.longest_document) == (1, 3)
    assert pair_problem(1, 3) in found.warnings
    assert "needs at least 2 documents" in str(pair_problem(1, 3))


def test_cor_14_a_blank_line_after_every_sentence_is_noticed(tmp_path: Path) -> None:
    found = inspect(corpus(tmp_path / "a.txt", b"s1\n\ns2\n\ns3\n"), Segmenter())
    assert (found.documents, found.longest_document) == (3, 1)
    assert any(warning.startswith("3 documents, longest has 1 sentence:") for warning in found.warnings)
