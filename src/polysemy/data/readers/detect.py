"""What kind of file holds a raw corpus: by suffix where it is sure, else by the first lines."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from polysemy.data.readers.conll import looks_like_conll
from polysemy.data.readers.conllu import looks_like_conllu
from polysemy.data.readers.lines import beginning, binary_kind, first_bytes, read_lines
from polysemy.data.readers.table import labelled_lines, suffix, tabs_agree

Kind = Literal["text", "table", "jsonl", "conll", "conllu"]
TEXT_SUFFIXES = (
    "",
    ".txt",
    ".text",
    ".md",
    ".tsv",
    ".csv",
    ".tab",
    ".jsonl",
    ".ndjson",
    ".parquet",
    ".conll",
    ".conllu",
)
# Text that is markup, settings or code: in a folder it lies beside the corpus and is no part of it.
OTHER_SUFFIXES = [
    ".json",
    ".html",
    ".htm",
    ".xml",
    ".yaml",
    ".yml",
    ".toml",
    ".ini",
    ".cfg",
    ".py",
    ".ipynb",
    ".js",
    ".css",
    ".sh",
    ".c",
    ".h",
    ".cpp",
    ".java",
    ".log",
    ".lock",
    ".sha256",
    ".md5",
]


def detect(path: Path, encoding: str) -> Kind:
    """The kind of a file of text (``lines.check_text`` must not refuse it)."""
    kind = suffix(path)
    if kind == ".parquet":
        return "table"
    if kind == ".conllu":
        return "conllu"
    if kind in (".jsonl", ".ndjson"):
        return "jsonl"
    numbered = beginning(read_lines(path, encoding=encoding, cut=True), lambda line: len(line[1]))
    lines = [line for _, line in numbered]
    filled = [line for line in lines if line.strip()]
    if filled and looks_like_conllu(filled):
        return "conllu"
    if looks_like_conll(lines):
        return "conll"
    if kind in (".tsv", ".csv", ".tab"):
        return "table"
    if filled and all(line.startswith("{") and line.rstrip().endswith("}") for line in filled):
        return "jsonl"
    return "table" if tabs_agree(filled) or labelled_lines(filled, sure=True) else "text"


def why_not_text(path: Path, encoding: str) -> str | None:
    """Why a file found in a folder is left out of the corpus; None when it is read.

    A file with a suffix of text is always read, so that a wrong encoding is an error and never a silent loss.
    """
    kind = suffix(path)
    if path.name.startswith("."):
        return "hidden file"
    if kind in OTHER_SUFFIXES:
        return f"{kind} file (markup, settings or code)"
    if kind in TEXT_SUFFIXES[1:]:
        return None
    found = binary_kind(first_bytes(path), encoding)
    return None if found is None or found.startswith("encoded in ") else found
