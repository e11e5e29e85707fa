"""A file of texts -> a file of vectors: one entry a line, in input order, in memory that does not grow with the file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_args

import numpy as np
from numpy.typing import NDArray

from polysemy.core.errors import InputError
from polysemy.core.files import atomic
from polysemy.core.ledger import Ledger
from polysemy.core.reporter import Reporter, Silent
from polysemy.data.readers.lines import read_lines
from polysemy.recipes.load import Model, as_pieces, check_layer, known_words, load, mean_known
from polysemy.text.tokens import Tokens

LINES_A_CHUNK = 512
Unit = Literal["word", "sentence", "piece"]
Layer = Literal["last", "mean", "all"] | int


@dataclass(frozen=True)
class EmbedResult:
    """What was written."""

    output: str
    count: int  # lines
    unit: Unit
    words: int  # pieces, where the unit is the piece
    unknown_words: int
    dim: int
    how: str  # a vector came about
    ledger: Ledger

    def lines(self) -> list[str]:
        unknown = f", {self.unknown_words:,} without a vector (zeros)" if self.unknown_words else ""
        things = "pieces" if self.unit == "piece" else "words"
        what = f"{self.count:,} lines, {self.words:,} {things}{unknown}"
        each = "one vector a line" if self.unit == "sentence" else f"one vector a {self.unit}"
        return [f"{what}; {each} ({self.how}), of {self.dim} numbers -> {self.output}"]

    def to_json(self) -> dict[str, Any]:
        return {"output": self.output, "lines": self.count, "unit": self.unit, "words": self.words,
                "unknown_words": self.unknown_words, "dim": self.dim, "how": self.how,
                "ledger": self.ledger.to_json()}  # fmt: skip


class Writer(Protocol):
    """One entry a line: (words, dim), (layers, words, dim), (dim,) or (layers, dim)."""

    def write(self, line: int, text: str, words: Sequence[str], vectors: NDArray[np.float32]) -> None: ...

    def close(self) -> None: ...


class NpzWriter:
    """``numpy.load(F)["12"]`` is line 12 (from 0)."""

    def __init__(self, path: Path) -> None:
        self.file = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True)

    def write(self, line: int, text: str, words: Sequence[str], vectors: NDArray[np.float32]) -> None:
        entry = zipfile.ZipInfo(f"{line}.npy", date_time=(1980, 1, 1, 0, 0, 0))  # same input, same bytes
        with self.file.open(entry, "w", force_zip64=True) as stream:
            np.lib.format.write_array(stream, np.ascontiguousarray(vectors), allow_pickle=False)

    def close(self) -> None:
        self.file.close()


class ParquetWriter:
    """Columns line, text, words (or pieces; what the rows of vectors belong to), shape and vectors (flat)."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.pa = pa
        self.schema = pa.schema(
            [("line", pa.int64()), ("text", pa.string()), ("words", pa.list_(pa.string())),
             ("shape", pa.list_(pa.int32())), ("vectors", pa.list_(pa.float32()))]
        )  # fmt: skip
        self.file = pq.ParquetWriter(path, self.schema)
        self.rows: list[tuple[int, str, Sequence[str], Sequence[int], NDArray[np.float32]]] = []

    def write(self, line: int, text: str, words: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self.rows.append((line, text, words, vectors.shape, vectors.ravel()))
        if len(self.rows) >= LINES_A_CHUNK:
            self._flush()

    def _flush(self) -> None:
        columns: list[Sequence[Any]] = list(zip(*self.rows, strict=True)) if self.rows else [()] * len(self.schema)
        arrays = [self.pa.array(c, type=f.type) for c, f in zip(columns, self.schema, strict=True)]
        self.file.write_batch(self.pa.record_batch(arrays, schema=self.schema))
        self.rows = []

    def close(self) -> None:
        self._flush()
        self.file.close()


class Hdf5Writer:
    """``h5py.File(F)["12"]`` is line 12 (from 0); its text is the attribute ``text``."""

    def __init__(self, path: Path) -> None:
        try:
            import h5py
        except ImportError as error:
            raise InputError("h5py is not installed", do="pip install 'polysemy[elmo]' or write .npz.") from error
        self.file = h5py.File(path, "w")

    def write(self, line: int, text: str, words: Sequence[str], vectors: NDArray[np.float32]) -> None:
        entry = self.file.create_dataset(str(line), data=vectors)
        entry.attrs["text"] = text.replace("\0", "\ufffd")  # strings of HDF5 end at NUL

    def close(self) -> None:
        self.file.close()


WRITERS: dict[str, type[NpzWriter | ParquetWriter | Hdf5Writer]] = {
    ".npz": NpzWriter,
    ".parquet": ParquetWriter,
    ".h5": Hdf5Writer,
}


def embed_file(
    model_ref: str,
    source: Path,
    output: Path,
    *,
    layer: str = "last",
    unit: Unit = "word",
    exact: bool = False,
    encoding: str = "utf-8",
    reporter: Reporter | None = None,
) -> EmbedResult:
    """Every line of ``source`` becomes one entry of ``output``, empty and repeated ones too.

    Raises InputError for an unknown format, layer or unit before anything is read; ``output`` stays as it was then, and
    whenever something fails.
    """
    reporter = reporter or Silent()
    if output.suffix not in WRITERS:
        what = f"cannot write {output.suffix or 'a file without a suffix'}"
        raise InputError(what, where=str(output), do="Use .npz, .parquet or .h5.")
    if unit not in get_args(Unit):
        raise InputError(f"unknown unit {unit!r}", do=f"Use {', '.join(get_args(Unit))}.")
    chosen = _layer(layer)
    model = load(model_ref)
    num_layers, _, dim = model.states([model.tokenizer.encode(["a"])])[0].shape
    check_layer(chosen, num_layers)
    lines = words = unknown = 0
    reporter.start("embedding", float(max(source.stat().st_size, 1)) if source.is_file() else 1.0, "bytes")
    done = 0.0
    with atomic(output) as part, ExitStack() as stack:
        writer: Writer = WRITERS[output.suffix](part)
        stack.callback(writer.close)
        for chunk in _chunks(source, encoding, model.ledger):
            items = [model.tokenizer.encode(text) for text in chunk]
            if unit == "piece":
                items = [as_pieces(item, model.tokenizer) for item in items]
            for text, item, vectors in zip(chunk, items, _vectors(model, items, chosen, unit, exact), strict=True):
                words, unknown = words + len(item.words), unknown + int((~known_words(item, model.tokenizer)).sum())
                writer.write(lines, text, [] if unit == "sentence" else item.words, vectors)
                lines += 1
                done += len(text.encode("utf-8", "surrogatepass")) + 1
            reporter.advance(done, f"{words:,} words")
    reporter.stop()
    model.ledger.add("read", "lines", lines)
    if unknown:
        model.ledger.add("unknown", "words without a vector", unknown)
    return EmbedResult(str(output), lines, unit, words, unknown, int(dim), _how(model, chosen, unit), model.ledger)


def _how(model: Model, layer: Layer, unit: Unit) -> str:
    if unit == "sentence" and layer == "last" and model.pooling is not None:
        return f"pooled as sentence-transformers does: {model.pooling.mode}{', normalised' * model.pooling.normalize}"
    return {"word": "mean of its pieces", "piece": "its state", "sentence": "mean of its known words"}[unit]


def _vectors(
    model: Model, items: Sequence[Tokens], layer: Layer, unit: Unit, exact: bool
) -> Iterator[NDArray[np.float32]]:
    """What is written of each text."""
    if unit == "sentence" and layer == "last":
        yield from model.sentences(items, exact=exact)
        return
    for item, state in zip(items, model.states(items, pooling="mean", exact=exact), strict=True):
        if layer == "all":
            vectors = state
        elif isinstance(layer, int):
            vectors = state[layer]
        else:
            vectors = state[-1] if layer == "last" else state.mean(0)
        yield mean_known(vectors, known_words(item, model.tokenizer)) if unit == "sentence" else vectors


def _layer(layer: str) -> Layer:
    if layer in ("last", "mean", "all"):
        return cast(Layer, layer)
    try:
        return int(layer)
    except ValueError:
        raise InputError(f"unknown layer {layer!r}", do="Use last, mean, all or a number.") from None


def _chunks(source: Path, encoding: str, ledger: Ledger) -> Iterator[list[str]]:
    chunk: list[str] = []
    for _, text in read_lines(source, encoding=encoding, ledger=ledger):
        chunk.append(text)
        if len(chunk) == LINES_A_CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
