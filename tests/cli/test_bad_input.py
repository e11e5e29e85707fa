"""Wrong input of every kind: one clear message on standard error, exit code 2, nothing half-written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from polysemy.cli import run
from tests.texts import write_conll, write_corpus, write_table


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a corpus and labelled files in it."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "corpus.txt")
    write_conll(tmp_path / "train.conll", 0, 60)
    write_conll(tmp_path / "dev.conll", 60, 90)
    write_table(tmp_path / "train.tsv", 0, 60)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "blank.txt").write_text("\n \n\t\n")
    (tmp_path / "utf16.txt").write_bytes("some text in another encoding\n".encode("utf-16"))
    (tmp_path / "latin.txt").write_bytes("one line\ncaf\xe9 au lait\n".encode("latin-1"))
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "short.conll").write_text("Ada B-PER\nlives\n. O\n")
    (tmp_path / "one.conll").write_text("Ada O\nsings O\n\n" * 30)
    (tmp_path / "one.tsv").write_text("label\ttext\n" + "same\ta text of words\n" * 30)
    (tmp_path / "ragged.tsv").write_text("label\ttext\nyes\tsome words here\nno\n")
    (tmp_path / "file").write_text("a file")
    return tmp_path


PRETRAIN = ["pretrain", "word2vec", "--budget", "1ktok", "--out", "run", "--corpus"]
FINETUNE = ["finetune", "word2vec:8", "--out", "run", "--set", "epochs=1", "--task"]
COMPARE = ["compare", "--corpus", "corpus.txt", "--out", "run", "--task", "tagging", "--budget", "1ktok"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*PRETRAIN, "missing.txt"], ["missing.txt", "no such file"]),
        ([*PRETRAIN, "empty.txt"], ["empty.txt"]),
        ([*PRETRAIN, "blank.txt"], ["blank.txt"]),
        ([*PRETRAIN, "utf16.txt"], ["utf16.txt", "--encoding"]),
        ([*PRETRAIN, "latin.txt"], ["latin.txt:2"]),
        ([*PRETRAIN, "binary.txt"], ["binary.txt"]),
        ([*PRETRAIN, "corpus.txt", "--encoding", "klingon"], ["klingon"]),
        ([*PRETRAIN, "corpus.txt", "--set", "text.min_cout=1"], ["min_cout", "min_count"]),
        ([*PRETRAIN, "corpus.txt", "--recipe", "no.yaml"], ["no.yaml"]),
        ([*PRETRAIN, "corpus.txt", "--budget", "0m"], ["not above zero"]),
        (["pretrain", "wrd2vec", "--corpus", "corpus.txt", "--out", "run"], ["word2vec"]),
        (["pretrain", "bert:huge", "--corpus", "corpus.txt", "--out", "run"], ["huge"]),
        (["pretrain", "bert", "--corpus", "corpus.txt", "--out", "run", "--set", "batch.batch_size=9999"], ["batch"]),
        (["pretrain", "word2vec", "--corpus", "corpus.txt", "--out", "file"], ["file"]),
        (["pretrain", "word2vec", "--corpus", "corpus.txt", "--out", "file/below"], ["file"]),
        (["pretrain", "word2vec", "--out", "run"], ["corpus"]),
        (["corpus", "missing.txt"], ["missing.txt"]),
        ([*FINETUNE, "tagging", "--train", "missing.conll"], ["missing.conll"]),
        ([*FINETUNE, "tagging", "--train", "short.conll"], ["short.conll:2"]),
        ([*FINETUNE, "tagging", "--train", "one.conll"], ["one.conll"]),
        ([*FINETUNE, "taging", "--train", "train.conll"], ["tagging"]),
        ([*FINETUNE, "classification", "--train", "one.tsv"], ["one.tsv"]),
        ([*FINETUNE, "classification", "--train", "ragged.tsv"], ["ragged.tsv:3"]),
        ([*FINETUNE, "classification", "--train", "train.tsv", "--set", "columns.label=lable"], ["lable", "label"]),
        ([*FINETUNE, "tagging", "--train", "train.conll", "--budget", "0s"], ["not above zero"]),
        (["finetune", "nowhere", "--task", "tagging", "--train", "train.conll", "--out", "run"], ["nowhere"]),
        (["evaluate", "nowhere", "--data", "dev.conll"], ["nowhere"]),
        (["predict", "nowhere", "--input", "corpus.txt"], ["nowhere"]),
        (["embed", "corpus.txt", "--input", "corpus.txt", "--output", "out.npz"], ["corpus.txt"]),
        (["neighbors", "nowhere", "king"], ["nowhere"]),
        ([*COMPARE, "--train", "train.conll", "--test", "train.conll"], ["same"]),
        ([*COMPARE, "--train", "train.conll", "--systems", "bret"], ["bert"]),
        ([*COMPARE, "--train", "train.conll", "--seeds", "0"], ["--seeds"]),
        ([*COMPARE, "--train", "train.conll", "--prefer", "beauty"], ["beauty"]),
        (["no-such-verb"], ["no-such-verb"]),
        (["pretrain", "word2vec", "--no-such-option", "1"], ["--no-such-option"]),
    ],
)  # fmt: skip
def test_one_message_exit_code_two_and_nothing_left(
    arguments: list[str], says: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    message = err.strip().splitlines()[-1] if "made with other settings" not in err else err
    assert "Traceback" not in err
    for part in says:
        assert part in message or part in err.split("polysemy: ", 1)[-1], err
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert not (folder / "run").exists()


def test_test_labels_that_training_does_not_know_are_counted_and_not_fatal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "strange.conll").write_text("Ada B-PER\nlives O\n\nMars B-PLANET\n. O\n")
    code = run(
        [*FINETUNE, "tagging", "--train", "train.conll", "--dev", "dev.conll", "--test", "strange.conll", "--json"]
    )
    out, _ = capsys.readouterr()
    assert code == 0
    ledger = json.loads(out)["ledger"]
    assert any("PLANET" in place for rows in ledger["unknown"].values() for place in rows["first"]) or any(
        "label" in reason for reason in ledger["unknown"]
    )


def test_json_is_the_only_thing_on_standard_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PRETRAIN, "corpus.txt", "--json", "--set", "model.dim=8"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["system"] == "word2vec"
    assert data["words"] >= 1000
    assert run(["neighbors", "run", "Ada", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["neighbors"]) == 10


def test_a_run_of_other_settings_is_refused_and_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PRETRAIN, "corpus.txt", "--set", "model.dim=8"]) == 0
    before = (folder / "run" / "model.safetensors").read_bytes()
    assert run([*PRETRAIN, "corpus.txt", "--set", "model.dim=9"]) == 2
    assert "dim: 8 there, 9 now" in capsys.readouterr().err
    assert (folder / "run" / "model.safetensors").read_bytes() == before


def test_a_directory_of_something_else_is_refused_and_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "run").mkdir()
    (folder / "run" / "thesis.txt").write_text("years of work")
    assert run([*PRETRAIN, "corpus.txt"]) == 2
    assert (folder / "run" / "thesis.txt").read_text() == "years of work"
    assert "thesis.txt" in capsys.readouterr().err


def test_import_is_light() -> None:
    code = "import sys, polysemy, polysemy.systems, polysemy.cli; print([m for m in ('torch', 'numba', 'sklearn', 'scipy') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
