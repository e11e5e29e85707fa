"""Classification: tables in, a label a text out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.data.batch import Batch
from polysemy.tasks import find_task, load_task
from polysemy.tasks.classification import Classification, first_of_each
from polysemy.tasks.example import Columns
from tests.data import need

ROWS = "label\ttext\nup\tit went up again\ndown\tdown it came\nup\tup and away\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_all_columns_of_running_text_are_joined_unless_named() -> None:
    task, ledger = Classification(), Ledger()
    examples = task.read(need("igbo/news_test.tsv"), ledger)
    assert task.found == (("headline", "text"), "category")
    assert len(examples) == 390
    assert "texts (columns headline + text; label category)" in ledger.to_json()["read"]
    headlines = Classification(Columns(text=("headline",))).read(need("igbo/news_test.tsv"), Ledger())
    assert examples[0].text.split("\n")[0] == headlines[0].text


def test_lines_of_label_and_text() -> None:
    task = Classification(Columns(encoding="latin-1"))
    task.fit(task.read(need("sentence_classification_en/TREC.train.all"), Ledger()))
    assert len(task.labels) == 6


@pytest.mark.parametrize("cell", ["", " ", "nan", "NaN", "None", "null"])
def test_an_absent_label_is_an_error_with_its_line(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path / "train.tsv", ROWS + f"{cell}\tno label here\n")
    with pytest.raises(InputError, match=r"train.tsv:5: no label \(column 'label'"):
        Classification().read(path, Ledger())


def test_an_absent_text_is_an_error_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"train.tsv:5: no text"):
        Classification().read(write(tmp_path / "train.tsv", ROWS + "up\t \n"), Ledger())


def test_one_class_in_train_is_refused(tmp_path: Path) -> None:
    task = Classification()
    examples = task.read(write(tmp_path / "train.tsv", ROWS.replace("down\t", "up\t")), Ledger())
    with pytest.raises(InputError, match=r"train.tsv:2: the training file has only one label \('up'\)"):
        task.fit(examples)


def test_an_unknown_column_offers_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'label'"):
        Classification(Columns(label="lable")).read(write(tmp_path / "train.tsv", ROWS), Ledger())


def test_quantities_are_no_classes(tmp_path: Path) -> None:
    rows = "".join(f"{i / 7:.3f}\ttext number {i} of many\n" for i in range(1, 300))
    task = Classification(Columns(label="score", text=("text",)))
    examples = task.read(write(tmp_path / "train.tsv", "score\ttext\n" + rows), Ledger())
    with pytest.raises(InputError, match="a quantity and not classes"):
        task.fit(examples)


def test_a_label_absent_from_train_is_counted_and_never_right(tmp_path: Path) -> None:
    task, ledger = Classification(), Ledger()
    task.fit(task.read(write(tmp_path / "train.tsv", ROWS), ledger))
    test = task.read(write(tmp_path / "test.tsv", ROWS + "sideways\tit went there\n"), ledger)
    assert [int(t[0]) for t in task.targets(test, ledger)] == [1, 0, 1, -1]
    assert ledger.count("unknown", "labels absent from train") == 1
    scores = task.score([e.label for e in test], ["up", "down", "up", "up"])
    assert scores["accuracy"] == 0.75
    assert scores["by_label"]["sideways"]["f1"] == 0.0
    assert scores["confusion"]["sideways"] == {"up": 1}


def test_columns_are_those_of_the_training_file(tmp_path: Path) -> None:
    task = Classification()
    task.read(write(tmp_path / "train.tsv", ROWS), Ledger())
    other = write(tmp_path / "other.tsv", ROWS.replace("label\ttext", "label\treview"))
    with pytest.raises(InputError, match="no column 'text'"):
        task.read(other, Ledger())


def test_loss_counts_texts_and_not_their_windows() -> None:
    task = Classification()
    task.labels = ["a", "b"]
    batch = Batch(4, rows=torch.tensor([0, 0, 1, 2]), labels=torch.tensor([1, 1, 0, -1]))
    logits = torch.tensor([[0.0, 1.0], [2.0, 0.0], [5.0, 5.0]])
    loss = task.loss(logits, batch)
    assert loss.count == 2
    expected = -(logits[0].log_softmax(0)[1] + logits[1].log_softmax(0)[0])
    torch.testing.assert_close(loss.total, expected)
    assert first_of_each(torch.tensor([0, 0, 1, 2, 2])).tolist() == [True, False, True, True, False]
    assert first_of_each(torch.tensor([], dtype=torch.long)).tolist() == []
    assert task.predict(logits, batch) == ["b", "a", "a"]


def test_a_task_comes_back_from_its_json_and_its_name(tmp_path: Path) -> None:
    task = Classification()
    task.fit(task.read(write(tmp_path / "train.tsv", ROWS), Ledger()))
    assert load_task(task.to_json()).to_json() == task.to_json()
    with pytest.raises(InputError, match="Did you mean 'classification'"):
        find_task("clasification")
