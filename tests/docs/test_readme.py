"""The commands of both READMEs, run as written in a folder that holds only the files that they name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.texts import write_conll, write_corpus

ROOT = Path(__file__).parents[2]
SHORTER = {"--budget 5m": "--budget 4ktok", "--budget 2m": "--budget 20ktok", "--finetune-budget 5m": "--finetune-budget 20s",
           "--seeds 3": "--seeds 1", "word2vec,elmo,bert": "word2vec"}  # fmt: skip


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_every_block_runs(name: str, tmp_path: Path) -> None:
    """Only budgets and seeds are made smaller."""
    write_corpus(tmp_path / "corpus.txt", 700)
    for part, (first, last) in {"train": (0, 150), "dev": (150, 200), "test": (200, 260)}.items():
        write_conll(tmp_path / f"{part}.conll", first, last)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    shell = blocks(name, "sh")
    assert len(shell) >= 3
    for block in shell:
        for long, short in SHORTER.items():
            block = block.replace(long, short)
        done = subprocess.run(
            ["bash", "-ec", block], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "compared" / "report.html").stat().st_size > 10_000
    for block in blocks(name, "python"):
        done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "(4, 100)" in done.stdout or "(3, 100)" in done.stdout


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_every_link_leads_to_a_file(name: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / name).read_text("utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "make_docs.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
