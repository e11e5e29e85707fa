"""MODEL -> a system, its tokenizer and what was found on the way.  The only place that knows every kind of MODEL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor, nn

from polysemy.core.config import parse
from polysemy.core.errors import InputError
from polysemy.core.files import write_atomic
from polysemy.core.ledger import Ledger
from polysemy.core.seeds import derive
from polysemy.data.batch import Batch
from polysemy.data.collate import Window, collate, windows
from polysemy.interop.sentence_pooling import SentencePooling, read_pooling
from polysemy.nn.encoded import Encoded
from polysemy.nn.pool import mean_of_pieces, word_states
from polysemy.systems import Entry, configure, find, resolve
from polysemy.text.tokenizer import load_tokenizer
from polysemy.text.tokens import Tokenizer, Tokens
from polysemy.train.checkpoint import read_tensors, write_tensors

FORMAT = 1
BATCH_TOKENS = 4096  # padded pieces a batch when nothing is trained
READABLE = ("bert",)  # model_type of Hugging Face directories
Pooling = Literal["first", "mean"]
Layer = Literal["last", "mean"] | int


@dataclass(frozen=True)
class Embedded:
    """One text: a vector a word (or a piece, where pieces were asked for), whatever the system."""

    words: list[str]
    vectors: NDArray[np.float32]  # (words, dim) of the chosen layer
    layers: NDArray[np.float32]  # (layers, words, dim)
    sentence: NDArray[np.float32]  # (dim,), as in ``Model.sentences``
    known: NDArray[np.bool_]  # (words,), False where the system has no vector (zeros)


@dataclass
class Model:
    """A system ready for use, in evaluation mode."""

    name: str  # "bert"
    system: nn.Module
    tokenizer: Tokenizer
    source: str  # what the user named
    ledger: Ledger = field(default_factory=Ledger)
    pooling: SentencePooling | None = None  # how the model itself makes a vector of a text; None: mean of the words

    @property
    def entry(self) -> Entry:
        return find(self.name)

    @property
    def limit(self) -> int | None:
        """Pieces of text that fit into one sequence, specials not counted."""
        longest = getattr(self.system.config, "max_length", None)
        special = self.tokenizer.special
        return None if longest is None else longest - (special.begin is not None) - (special.end is not None)

    @property
    def device(self) -> torch.device:
        return next(self.system.parameters()).device

    def forward(self, batch: Batch) -> Encoded:
        """The system on a batch; takes the fields that its row of SYSTEMS names."""
        return run_system(self.system, self.entry.inputs, batch)

    @torch.inference_mode()
    def states(
        self, items: Sequence[Tokens], *, pooling: Pooling = "first", exact: bool = False
    ) -> list[NDArray[np.float32]]:
        """(layers, words, dim) of each text: a word's first piece, or the mean of its pieces; zeros where it has none.

        Long texts go through in windows.  ``exact`` runs one row at a time: bit-equal whatever stands beside it.
        """
        cut = [(i, window) for i, item in enumerate(items) for window in windows(item, self.limit)]
        for _, window in cut:
            if window.tokens.truncated:
                self.ledger.add("truncated", "words of more pieces than the model's limit", window.tokens.truncated)
        out: list[NDArray[np.float32] | None] = [None] * len(items)
        for plan, batch, encoded in self._batches([window.tokens for _, window in cut], exact):
            pooled = pool_words(encoded, batch, pooling)  # (b, layers, w, dim)
            for row, j in enumerate(plan):
                i, window = cut[j]
                place_window(out, i, len(items[i].words), window, pooled[row].float().cpu().numpy())
        return [state for state in out if state is not None]

    @torch.inference_mode()
    def sentences(self, items: Sequence[Tokens], *, exact: bool = False) -> list[NDArray[np.float32]]:
        """(dim,) of each text from the last layer: as the model's own files say (to 1e-5 what sentence-transformers
        gives), else the mean over its known words, zeros where none is."""
        if self.pooling is None:
            states = self.states(items, pooling="mean", exact=exact)
            return [mean_known(s[-1], known_words(item, self.tokenizer)) for item, s in zip(items, states, strict=True)]
        read = [self._beginning(item, self.pooling.max_length) for item in items]
        out: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)] * len(items)
        for plan, batch, encoded in self._batches(read, exact):
            assert batch.mask is not None
            vectors = self.pooling(encoded.last, batch.mask).float().cpu().numpy()
            for row, j in enumerate(plan):
                out[j] = vectors[row]
        return out

    def _batches(self, items: Sequence[Tokens], exact: bool) -> Iterator[tuple[list[int], Batch, Encoded]]:
        """Indices of ``items``, their batch, and the system's answer."""
        self.system.eval()
        for plan in plan_batches([len(item.ids) for item in items], 1 if exact else BATCH_TOKENS):
            batch = collate([items[j] for j in plan], self.tokenizer).to(self.device)
            yield plan, batch, self.forward(batch)

    def _beginning(self, item: Tokens, max_length: int | None) -> Tokens:
        """The pieces that fit into one sequence."""
        special = self.tokenizer.special
        limits = [] if self.limit is None else [self.limit]
        if max_length is not None:
            limits.append(max_length - (special.begin is not None) - (special.end is not None))
        keep = min(limits, default=len(item.ids))
        if len(item.ids) <= keep:
            return item
        self.ledger.add("truncated", f"texts of more than {keep} pieces, of which a sentence's vector reads the first")
        return replace(item, ids=item.ids[:keep], word_of=item.word_of[:keep], spans=item.spans[:keep])

    def embed(
        self,
        texts: Iterable[str | Sequence[str]],
        *,
        layer: Layer = "last",
        unit: Literal["word", "piece"] = "word",
        pooling: Pooling = "mean",
        exact: bool = False,
    ) -> list[Embedded]:
        """One item a text, in order; a text is a string or a list of words.  ``layer``: the last, the mean of all, or
        a number (0 is the lowest).  With ``unit="piece"`` the pieces take the place of the words."""
        items = [self.tokenizer.encode(text) for text in texts]
        read = [as_pieces(item, self.tokenizer) for item in items] if unit == "piece" else items
        states = self.states(read, pooling=pooling, exact=exact)
        found = [embedded(item, state, self.tokenizer, layer) for item, state in zip(read, states, strict=True)]
        if self.pooling is None or layer != "last":
            return found
        return [replace(f, sentence=s) for f, s in zip(found, self.sentences(items, exact=exact), strict=True)]


def as_pieces(item: Tokens, tokenizer: Tokenizer) -> Tokens:
    """The same text with its pieces for words: as the vocabulary writes them, or, where a piece is a word, the word."""
    whole = tokenizer.kind in ("words", "characters")
    names = [item.words[w] for w in item.word_of] if whole else [tokenizer.vocabulary[i] for i in item.ids]
    return replace(item, words=names, word_spans=item.spans, word_of=list(range(len(names))))


def known_words(item: Tokens, tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """(words,) whether the system has a vector: False for words without pieces, and for unknown words of a table."""
    missing = tokenizer.special.unk if tokenizer.kind == "words" else None
    found = np.zeros(len(item.words), dtype=bool)
    found[[w for w, i in zip(item.word_of, item.ids, strict=True) if i != missing]] = True
    return found


def mean_known(vectors: NDArray[np.float32], known: NDArray[np.bool_]) -> NDArray[np.float32]:
    """(..., words, dim) -> (..., dim), mean over the known words; zeros where none is."""
    kept = vectors[..., known, :]
    return kept.mean(-2) if known.any() else np.zeros((*vectors.shape[:-2], vectors.shape[-1]), dtype=np.float32)


def check_layer(layer: Layer | Literal["all"], count: int) -> None:
    """InputError where a model of ``count`` layers has no such layer."""
    if isinstance(layer, int) and not -count <= layer < count:
        raise InputError(f"layer {layer} does not exist", do=f"The model has layers 0 to {count - 1}.")


def embedded(item: Tokens, state: NDArray[np.float32], tokenizer: Tokenizer, layer: Layer) -> Embedded:
    """Choose a layer of ``state`` (layers, words, dim), and the mean over known words."""
    check_layer(layer, len(state))
    vectors = state[layer] if isinstance(layer, int) else state[-1] if layer == "last" else state.mean(0)
    known = known_words(item, tokenizer)
    return Embedded(item.words, vectors, state, mean_known(vectors, known), known)


def run_system(system: nn.Module, inputs: Sequence[str], batch: Batch) -> Encoded:
    """Call ``system`` with the named fields of ``batch``."""
    encoded: Encoded = system(**{name: getattr(batch, name) for name in inputs})
    return encoded


def pool_words(encoded: Encoded, batch: Batch, pooling: Pooling) -> Tensor:
    """(b, layers, w, dim) vectors of words; zeros for a word without pieces and for padding."""
    assert batch.word_positions is not None
    assert batch.words is not None
    if pooling == "first":
        return torch.stack([word_states(layer, batch.word_positions) for layer in encoded.layers], 1)
    width = batch.word_positions.size(1)
    return torch.stack([mean_of_pieces(layer, batch.words, width) for layer in encoded.layers], 1)


def plan_batches(lengths: Sequence[int], batch_tokens: int) -> Iterable[list[int]]:
    """Indices in batches of at most ``batch_tokens`` padded pieces (at least one text), longest first."""
    order = sorted(range(len(lengths)), key=lambda j: (-lengths[j], j))
    batch: list[int] = []
    for j in order:
        if batch and (len(batch) + 1) * max(lengths[batch[0]], 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(j)
    if batch:
        yield batch


def place_window(
    out: list[NDArray[np.float32] | None], i: int, num_words: int, window: Window, states: NDArray[np.float32]
) -> None:
    """Copy the words that ``window`` owns from ``states`` (layers, w, dim) into the whole text's array."""
    whole = out[i]
    if whole is None:
        whole = out[i] = np.zeros((states.shape[0], num_words, states.shape[2]), dtype=np.float32)
    low, high = window.own
    whole[:, low:high] = states[:, low - window.start : high - window.start]


def build(name: str, fields: Mapping[str, Any], seed: int, where: str = "") -> nn.Module:
    """A system with random weights drawn from ``seed`` alone."""
    system_class = resolve(find(name).model)
    config = parse(system_class.Config, dict(fields), where or name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "init"))
        system: nn.Module = system_class(config)
    return system


def save(
    folder: Path, name: str, system: nn.Module, tokenizer: Tokenizer, extra: Mapping[str, Any] | None = None
) -> None:
    """``config.json``, ``model.safetensors`` and ``tokenizer.json``, each whole or not at all."""
    tokenizer.save(folder / "tokenizer.json")
    write_tensors(folder / "model.safetensors", system.state_dict(), {"format": FORMAT, "system": name})
    config = {"format": FORMAT, "system": name, "config": asdict(system.config), **(extra or {})}
    write_atomic(folder / "config.json", json.dumps(config, indent=1, ensure_ascii=False) + "\n")


def load(ref: str | Path) -> Model:
    """A run directory, a Hugging Face directory, an ELMo folder, or a word-vector file.

    Raises InputError where ``ref`` is none of these.  ``SYSTEM:SIZE`` names random weights, which need a vocabulary:
    see ``random_model``.
    """
    path = Path(ref)
    if path.is_dir():
        if (path / "config.json").is_file():
            config = _read_json(path / "config.json")
            return _load_run(path, config) if "format" in config else _load_huggingface(path, config)
        raise InputError("no model here", where=str(path), do="A model folder holds config.json and model.safetensors.")
    if path.is_file():
        return _load_vectors(path)
    raise InputError(
        f"no such model: {ref}", do="Name a run directory, a Hugging Face directory or a word-vector file."
    )


def random_model(spec: str, tokenizer: Tokenizer, seed: int, fields: Mapping[str, Any] | None = None) -> Model:
    """``SYSTEM:SIZE`` with random weights over a given vocabulary."""
    name, size = configure(spec)
    system = build(name, {**size, **(fields or {}), "vocab_size": tokenizer.vocab_size}, seed, spec)
    model = Model(name, system.eval(), tokenizer, spec)
    model.ledger.add("random", f"parameters of {spec}", sum(p.numel() for p in system.parameters()))
    return model


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"not a JSON file: {error}", where=str(path)) from error
    if not isinstance(data, dict):
        raise InputError("expected a JSON object", where=str(path))
    return data


def _load_run(path: Path, config: dict[str, Any]) -> Model:
    if config["format"] != FORMAT:
        raise InputError(
            f"format {config['format']} is not {FORMAT}", where=str(path / "config.json"), do="Update polysemy."
        )
    system = build(config["system"], config["config"], 0, str(path / "config.json"))
    read_weights(path / "model.safetensors", system)
    model = Model(config["system"], system.eval(), load_tokenizer(path / "tokenizer.json"), str(path))
    model.ledger.add("loaded", f"parameters of {config['system']}", sum(p.numel() for p in system.parameters()))
    return model


def read_weights(path: Path, module: nn.Module) -> None:
    """Copy the tensors of ``path`` into ``module``; InputError where names or shapes are not its own."""
    try:
        tensors, _ = read_tensors(path)
        module.load_state_dict(tensors)
    except FileNotFoundError as error:
        raise InputError(
            "no such file", where=str(path), do="The run did not finish: run its command again."
        ) from error
    except (SafetensorError, RuntimeError) as error:
        raise InputError(
            f"not the weights of this model: {' '.join(str(error).split())[:300]}", where=str(path)
        ) from error


def _load_huggingface(path: Path, config: dict[str, Any]) -> Model:
    from polysemy.interop.huggingface_bert import load_bert
    from polysemy.text.huggingface import read_huggingface

    where = str(path / "config.json")
    kind = config.get("model_type", "bert" if "hidden_size" in config else None)  # early files do not name it
    if kind not in READABLE:
        what = f"model_type {kind!r} is not readable" if kind else "neither a run of polysemy nor a Hugging Face model"
        raise InputError(what, where=where, do=f"Readable model types: {', '.join(READABLE)}.")
    bert_config, state, ledger = load_bert(path)
    tokenizer = read_huggingface(path)
    if tokenizer.vocab_size > bert_config.vocab_size:
        raise InputError(
            f"the tokenizer has {tokenizer.vocab_size:,} symbols and the model vectors for {bert_config.vocab_size:,}",
            where=str(path), do="Take both from the same model.",
        )  # fmt: skip
    system = build("bert", asdict(bert_config), 0, where)
    system.load_state_dict(state, strict=False)  # what it lacks is named in the ledger
    return Model("bert", system.eval(), tokenizer, str(path), ledger, read_pooling(path, ledger))


def _load_vectors(path: Path) -> Model:
    from polysemy.interop.word_vectors import read_vectors
    from polysemy.text.vocabulary import WordTokenizer
    from polysemy.text.words import Segmenter

    vectors = read_vectors(path)
    tokenizer = WordTokenizer(vectors.words, Segmenter())
    dim = int(vectors.matrix.shape[1])
    system = build("word2vec", {"vocab_size": tokenizer.vocab_size, "dim": dim}, 0)
    with torch.no_grad():
        system.vectors[0] = 0.0
        system.vectors[1:] = torch.from_numpy(np.ascontiguousarray(vectors.matrix))
    return Model("word2vec", system.eval(), tokenizer, str(path), vectors.ledger)
