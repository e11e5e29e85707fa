"""readers/conll.py and conllu.py (cases: tests/cases/test_ner_reading.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.data.readers.conll import looks_like_conll, read_conll
from polysemy.data.readers.conllu import read_conllu
from polysemy.data.schemes import detect_scheme, ill_formed
from tests.data import need


def conll(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_columns_documents_and_places(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O O\n\nEU NNP B I-ORG\nrejects VBZ I O\n\n-DOCSTART-\nPeter NNP B I-PER\n"
    path = conll(tmp_path / "a.conll", text)
    first, second = read_conll(path)
    assert (first.words, first.tags, first.document, first.place) == (
        ["EU", "rejects"],
        ["I-ORG", "O"],
        "1",
        f"{path}:3",
    )
    assert (second.words, second.document, second.place) == (["Peter"], "2", f"{path}:7")
    assert read_conll(path, token_column=3, tag_column=1)[0].words == ["I-ORG", "O"]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a O\nb\n", 2, "1 column,"),
        ("a O\nb O O\n", 2, "3 columns"),
        ("a\tO\nb\t\n", 2, "1 column,"),
        ("a\tO\n\tO\n", 2, "column 1 is empty"),
        ("a\n", 1, "a word without a tag"),
        ("a O\n\n\nb # O\n", 4, "3 columns"),
    ],
)
def test_a_malformed_row_stops_at_its_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    path = conll(tmp_path / "a.conll", text)
    with pytest.raises(InputError, match=what) as caught:
        read_conll(path)
    assert caught.value.where == f"{path}:{line}"


@pytest.mark.parametrize("column", [2, -3])
def test_a_column_that_is_not_there(tmp_path: Path, column: int) -> None:
    with pytest.raises(InputError, match=f"no column {column}"):
        read_conll(conll(tmp_path / "a.conll", "a O\n"), tag_column=column)


def test_a_tab_file_may_have_spaces_inside_tokens(tmp_path: Path) -> None:
    (sentence,) = read_conll(conll(tmp_path / "a.tsv", "New York\tB-LOC\n# x\tO\n"))
    assert sentence.words == ["New York", "# x"]


def test_comments_are_counted_but_a_hash_with_a_tag_is_a_token(tmp_path: Path) -> None:
    ledger = Ledger()
    path = conll(tmp_path / "a.conll", "# id 1 domain=en\n# O\na O\n\n# id 2\nb O\n")
    assert [s.words for s in read_conll(path, ledger=ledger)] == [["#", "a"], ["b"]]
    assert ledger.count("ignored", "comment lines") == 2
    assert ledger.count("read", "labelled words") == 3


def test_no_sentences_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no sentences"):
        read_conll(conll(tmp_path / "a.conll", "-DOCSTART- O\n\n \n"))


CONLLU = """\
# newdoc id = first
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
2.1\tx\tx\tVERB\t_\t_\t_\t_\t_\t_
3\t2 000\t2 000\tNUM\t_\t_\t1\tobl\t_\t_

# newdoc
1\tok\tok\tINTJ\t_\t_\t0\troot\t_\t_

"""


def test_conllu_keeps_syntactic_words_and_counts_what_is_left_out(tmp_path: Path) -> None:
    ledger = Ledger()
    path = conll(tmp_path / "a.conllu", CONLLU)
    first, second = read_conllu(path, ledger=ledger)
    assert first.words == ["vamos", "nos", "2 000"]
    assert first.tags == ["VERB", "PRON", "NUM"]
    assert (first.place, first.document, second.document) == (f"{path}:4", "1", "2")
    assert ledger.count("ignored") == 2
    assert read_conllu(path, "deprel")[0].tags == ["root", "obj", "obl"]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("2\tnos", "4\tnos", "the id is '4', expected 2"),
        ("\t1\tobj\t_\t_", "\t1\tobj\t_", "9 columns"),
    ],
)
def test_a_malformed_conllu_row_stops_at_its_line(tmp_path: Path, old: str, new: str, what: str) -> None:
    path = conll(tmp_path / "a.conllu", CONLLU.replace(old, new))
    with pytest.raises(InputError, match=what) as caught:
        read_conllu(path)
    assert caught.value.where == f"{path}:5"


def test_an_unknown_or_empty_conllu_column(tmp_path: Path) -> None:
    path = conll(tmp_path / "a.conllu", CONLLU)
    with pytest.raises(InputError, match="Did you mean 'upos'"):
        read_conllu(path, "upso")
    with pytest.raises(InputError, match="empty"):
        read_conllu(path, "xpos")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a O\nb B-X\n\nc O", True),
        ("-DOCSTART- -X- O\n\na NN O\n", True),
        ("good morning\nGood evening\n", False),
        ("a b c\nd e\n", False),
        ("word\nword\n", False),
        ("\n".join(f"w{i} NOUN\nv{i} VERB" for i in range(20)), True),
        ("\n".join(f"w{i} N{i}" for i in range(40)), False),
    ],
)
def test_columns_are_told_from_running_text(text: str, answer: bool) -> None:
    assert looks_like_conll(text.split("\n")) is answer


@pytest.mark.parametrize(
    ("name", "sentences", "scheme", "broken"),
    [
        ("igbo/ner_train.txt", 7634, "IOB2", 0),
        ("igbo/ner_dev.txt", 1090, "IOB2", 0),
        ("igbo/ner_test.txt", 2181, "IOB2", 0),
        ("igbo/pos_test.txt", 642, "none", 0),
        ("swahili/ner_test.txt", 1883, "IOB2", 1),
        ("resume_ner/test.char.bmes", 477, "BMES", 0),
        ("resume_ner/train.char.bmes", 3821, "BMES", 4),
        ("conll2003/eng.testa", 3250, "IOB1", 0),
        ("conll2003/eng.testb", 3453, "IOB1", 0),
        ("conll2003/eng.train", 14_041, "IOB1", 2),
        ("bio_ner/NCBI-disease-IOB/test.tsv", 940, "IOB2", 0),
    ],
)
def test_real_files_of_columns(name: str, sentences: int, scheme: str, broken: int) -> None:
    read = read_conll(need(name))
    found = detect_scheme(sentence.tags for sentence in read)
    assert (len(read), found) == (sentences, scheme)
    assert sum(ill_formed(sentence.tags, found) for sentence in read) == broken


@pytest.mark.parametrize(
    ("part", "sentences"), [("dev.conllu", 2001), ("test.conllu", 2077), ("train.rebuilt.conllu.gz", 12_544)]
)
def test_real_conllu(part: str, sentences: int) -> None:
    read = read_conllu(need(f"ud_english_ewt/en_ewt-ud-{part}"))
    assert len(read) == sentences
    assert len({tag for sentence in read for tag in sentence.tags}) == 17
