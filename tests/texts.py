"""A small language with grammar, names and homographs: enough to train on in seconds, made without chance."""

from __future__ import annotations

from itertools import product
from pathlib import Path

PEOPLE = ("Ada", "Obi", "Ngozi", "Emeka", "Chidi", "Uche")
PLACES = ("Enugu", "Lagos", "Owerri", "Aba", "Nsukka", "Jos")
VERBS = ("lives", "works", "sleeps", "sings", "waits")
TIMES = ("today", "now", "again", "often")


def sentences() -> list[list[tuple[str, str]]]:
    """720 tagged sentences (IOB2), in a fixed order that mixes the parts."""
    out = []
    for i, (person, verb, place, time) in enumerate(product(PEOPLE, VERBS, PLACES, TIMES)):
        words = [(person, "B-PER"), (verb, "O"), ("in", "O"), (place, "B-LOC"), (time, "O"), (".", "O")]
        out.append(words if i % 3 else [("In", "O"), (place, "B-LOC"), (",", "O"), *words[:2], words[-1]])
    return [out[(i * 271) % len(out)] for i in range(len(out))]


def write_corpus(path: Path, count: int = 400) -> Path:
    """Raw text, one sentence a line."""
    path.write_text("".join(" ".join(w for w, _ in s) + "\n" for s in sentences()[:count]), "utf-8")
    return path


def write_conll(path: Path, first: int, last: int) -> Path:
    """Columns ``word tag``."""
    blocks = ("".join(f"{w} {t}\n" for w, t in s) for s in sentences()[first:last])
    path.write_text("\n".join(blocks), "utf-8")
    return path


def write_table(path: Path, first: int, last: int) -> Path:
    """A TSV of texts with the class ``inside`` (begins with In) or ``outside``."""
    rows = ((("inside" if s[0][0] == "In" else "outside"), " ".join(w for w, _ in s)) for s in sentences()[first:last])
    path.write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in rows), "utf-8")
    return path
