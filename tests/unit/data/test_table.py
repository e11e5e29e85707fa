"""readers/table.py, records.py, columns.py."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path

import pytest

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.data.readers.records import split_records
from polysemy.data.readers.table import find_columns, read_table, table_layout
from tests.data import need


def table(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def rows(path: Path, **options: object) -> list[dict[str, str]]:
    return [row for _, row in read_table(path, **options)]  # type: ignore[arg-type]


def test_records_are_those_of_the_csv_module_on_random_tables() -> None:
    pick = random.Random(1)
    for _ in range(300):
        width = pick.randint(1, 4)
        made = [["".join(pick.choices('ab,"\n; \t', k=pick.randint(0, 6))) for _ in range(width)] for _ in range(5)]
        made = [row for row in made if width > 1 or row[0].strip()]  # a blank line is no record
        out = io.StringIO()
        csv.writer(out, lineterminator="\n", quoting=pick.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))).writerows(made)
        text = out.getvalue().removesuffix("\n")
        got = [cells for _, cells in split_records(enumerate(text.split("\n"), 1), ",", quoted=True, where="t")]
        assert got == made


def test_places_are_the_lines_where_rows_begin(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", 'text,label\n"one\ntwo\r\nthree",x\n\nfour,y\n')
    assert list(read_table(path)) == [
        (f"{path}:2", {"text": "one\ntwo\nthree", "label": "x"}),
        (f"{path}:6", {"text": "four", "label": "y"}),
    ]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("text\tlabel\na b\tx\nc d\n", 3, "1 cell,"),
        ("text\tlabel\na b\tx\ty\n", 2, "3 cells"),
    ],
)
def test_a_row_of_another_width_stops_at_its_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    path = table(tmp_path / "a.tsv", text)
    with pytest.raises(InputError, match=what) as caught:
        rows(path)
    assert caught.value.where == f"{path}:{line}"


@pytest.mark.parametrize(
    ("bad", "what"), [('"never closed,x\nmore,y\n', "never closed"), ('"a"b,x\n', "after the closing")]
)
def test_a_broken_quote_stops_at_the_row_where_it_begins(tmp_path: Path, bad: str, what: str) -> None:
    path = table(tmp_path / "a.csv", "text,label\nfine,x\n" + bad)
    with pytest.raises(InputError, match=what) as caught:
        rows(path)
    assert caught.value.where == f"{path}:3"


def test_an_unknown_column_gets_the_nearest_name(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", "sentence\tlabel\na b\tx\n")
    with pytest.raises(InputError, match="Did you mean 'sentence'"):
        rows(path, columns=["sentense"])
    assert rows(path, columns=["2"]) == [{"label": "x"}]  # by number, from 1


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_the_delimiter_of_a_csv_is_found(tmp_path: Path, delimiter: str) -> None:
    body = "".join(f'"a, b; c {i}"{delimiter}{i % 2}\n' for i in range(5))
    path = table(tmp_path / "a.csv", f"text{delimiter}label\n{body}")
    assert rows(path)[4] == {"text": "a, b; c 4", "label": "0"}


def test_quotes_in_a_tsv_enclose_cells_only_where_a_writer_had_a_reason(tmp_path: Path) -> None:
    quoted = table(tmp_path / "a.tsv", 'text\tlabel\n"he said ""no"""\t1\nplain\t0\n')
    assert rows(quoted)[0]["text"] == 'he said "no"'
    letters = table(tmp_path / "b.tsv", 'text\tlabel\n"a whole sentence in quotation marks"\t1\nplain\t0\n')
    assert rows(letters)[0]["text"] == '"a whole sentence in quotation marks"'
    open_quote = table(tmp_path / "c.tsv", 'text\tlabel\n"opened and not closed\t1\nplain\t0\n')
    assert rows(open_quote)[0]["text"] == '"opened and not closed'


WITH_LABELS = "".join(f"maneno mengi {i}\t{'nzuri' if i % 2 else 'mbaya'}\n" for i in range(20))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("text\tlabel\na b\tx\n", ("text", "label")),
        ("Kauli\tAina\n" + WITH_LABELS, ("Kauli", "Aina")),
        ("Quote\tValue\na b\t1\nc d\t2\n", ("Quote", "Value")),
        ("a b c\tnzuri\n" + WITH_LABELS, ("1", "2")),
        ("体验十大创新\t8\n六十年铁树\t5\n", ("1", "2")),
    ],
)
def test_headers_are_told_from_data(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    assert table_layout(table(tmp_path / "a.tsv", text)).names == names


def test_label_text_lines(tmp_path: Path) -> None:
    path = table(tmp_path / "a.all", "0 bad film\n1 good film\n0 \n1 fine\n")
    assert rows(path) == [
        {"label": "0", "text": "bad film"},
        {"label": "1", "text": "good film"},
        {"label": "0", "text": ""},
        {"label": "1", "text": "fine"},
    ]


def test_jsonl_values_become_strings_and_errors_name_the_line(tmp_path: Path) -> None:
    records = [{"text": "a b", "label": 1, "ok": True, "none": None}, {"text": "c", "label": 2.5}]
    path = table(tmp_path / "a.jsonl", "\n".join(map(json.dumps, records)) + "\n\n")
    assert rows(path)[0] == {"text": "a b", "label": "1", "ok": "true", "none": ""}
    assert rows(path, columns=["label"]) == [{"label": "1"}, {"label": "2.5"}]
    with pytest.raises(InputError, match=r"a\.jsonl:2: the record has no field 'ok'"):
        rows(path, columns=["ok"])
    for bad, what in (('{"text": ', "broken JSON"), ("[1]", "no object")):
        broken = table(tmp_path / "b.jsonl", f'{{"text": "a"}}\n{bad}\n')
        with pytest.raises(InputError, match=rf"b\.jsonl:2: .*{what}"):
            rows(broken)


def test_parquet(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["a b", None], "label": [1, 2]}), tmp_path / "a.parquet")
    assert list(read_table(tmp_path / "a.parquet", columns=["label", "text"])) == [
        (f"{tmp_path}/a.parquet:1", {"label": "1", "text": "a b"}),
        (f"{tmp_path}/a.parquet:2", {"label": "2", "text": ""}),
    ]
    (tmp_path / "b.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match="Parquet"):
        rows(tmp_path / "b.parquet")


def test_columns_are_found_by_name_then_by_content(tmp_path: Path) -> None:
    body = "".join(f"{i}\tgood\tthis is sentence {i}\n" for i in range(9)) + "9\tbad\tone more\n"
    assert find_columns(table(tmp_path / "a.tsv", "id\tlabel\ttext\n" + body)) == (["text"], "label")
    assert find_columns(table(tmp_path / "b.tsv", body)) == (["3"], "2")
    assert find_columns(tmp_path / "a.tsv", text=["label"], label="id") == (["label"], "id")
    with pytest.raises(InputError, match="Did you mean 'label'"):
        find_columns(tmp_path / "a.tsv", label="labl")
    assert find_columns(table(tmp_path / "c.tsv", "index\tsentence\n0\tsome words here\n1\tand more\n")) == (
        ["sentence"],
        None,
    )


def test_rows_are_counted(tmp_path: Path) -> None:
    ledger = Ledger()
    rows(table(tmp_path / "a.tsv", "text\tlabel\na b\tx\nc d\ty\n"), ledger=ledger)
    assert ledger.count("read", "rows of tables") == 2


@pytest.mark.parametrize(
    ("name", "count", "columns", "labels"),
    [
        ("igbo/news_train.tsv", 1356, (["text"], "category"), 6),
        ("igbo/news_dev.tsv", 194, (["text"], "category"), 6),
        ("igbo/news_test.tsv", 390, (["text"], "category"), 6),
        ("chnsenticorp/ChnSentiCorp_htl_all.csv", 7766, (["review"], "label"), 2),
        ("thucnews_titles/dev.txt", 10_000, (["1"], "2"), 10),
        ("thucnews_titles/test.txt", 10_000, (["1"], "2"), 10),
        ("sst2_glue/train_full.tsv", 67_349, (["sentence"], "label"), 2),
        ("sst2_glue/dev.tsv", 872, (["sentence"], "label"), 2),
        ("sst2_glue/test-labeled.tsv", 1821, (["sentence"], "label"), 2),
        ("sst2_glue/test.tsv", 1821, (["sentence"], None), 0),
        ("sentence_classification_en/TREC.test.all", 500, (["text"], "label"), 6),
        ("sentence_classification_en/stsa.fine.train", 8544, (["text"], "label"), 5),
        ("sentence_classification_en/mpqa.all", 10_606, (["text"], "label"), 2),
        ("sentence_classification_en/custrev.all", 3775, (["text"], "label"), 2),
        ("swahili/raw_voa.csv", 1029, (["Text"], None), 0),
        ("mrpc/msr-para-test.tsv", 1725, (["#1 String"], "Quality"), 2),
        ("rte/train.tsv", 2490, (["sentence1"], "label"), 2),
    ],
)
def test_real_tables(name: str, count: int, columns: tuple[list[str], str | None], labels: int) -> None:
    path = need(name)
    assert find_columns(path) == columns
    read = rows(path)
    assert len(read) == count
    assert columns[1] is None or len({row[columns[1]] for row in read}) == labels


@pytest.mark.parametrize(
    ("name", "count"), [("rt-polarity.all", 10_662), ("subj.all", 10_000), ("TREC.train.all", 5452)]
)
def test_real_latin_1_needs_to_be_named(name: str, count: int) -> None:
    path = need(f"sentence_classification_en/{name}")
    with pytest.raises(InputError, match="not valid UTF-8"):
        rows(path)
    assert len(rows(path, encoding="latin-1")) == count
