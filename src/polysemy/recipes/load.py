"""MODEL -> a system, its tokenizer and what was found on the way.  The only place that knows every kind of MODEL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
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
from polysemy.nn.encoded import Encoded
from polysemy.systems import Entry, configure, find, resolve
from polysemy.text.tokenizer import load_tokenizer
from polysemy.text.tokens import Tokenizer, Tokens
from polysemy.train.checkpoint import read_tensors, write_tensors

FORMAT = 1
BATCH_TOKENS = 4096  # padded pieces a batch when nothing is trained
Pooling = Literal["first", "mean"]


@dataclass(frozen=True)
class Embedded:
    """One text: a vector a word, whatever the system."""

    words: list[str]
    vectors: NDArray[np.float32]  # (words, dim) of the chosen layer
    layers: NDArray[np.float32]  # (layers, words, dim)
    sentence: NDArray[np.float32]  # (dim,), mean over the known words
    known: NDArray[np.bool_]  # (words,), False where the system has no vector (zeros)


@dataclass
class Model:
    """A system ready for use, in evaluation mode."""

    name: str  # "bert"
    system: nn.Module
    tokenizer: Tokenizer
    source: str  # what the user named
    ledger: Ledger = field(default_factory=Ledger)

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
        self.system.eval()
        cut = [(i, window) for i, item in enumerate(items) for window in windows(item, self.limit)]
        for _, window in cut:
            if window.tokens.truncated:
                self.ledger.add("truncated", "words of more pieces than the model's limit", window.tokens.truncated)
        out: list[NDArray[np.float32] | None] = [None] * len(items)
        for plan in plan_batches([len(w.tokens.ids) for _, w in cut], 1 if exact else BATCH_TOKENS):
            batch = collate([cut[j][1].tokens for j in plan], self.tokenizer).to(self.device)
            pooled = pool_words(self.forward(batch), batch, pooling)  # (b, layers, w, dim)
            for row, j in enumerate(plan):
                i, window = cut[j]
                place_window(out, i, len(items[i].words), window, pooled[row].float().cpu().numpy())
        return [state for state in out if state is not None]

    def embed(
        self,
        texts: Iterable[str | Sequence[str]],
        *,
        layer: Literal["last", "mean"] | int = "last",
        pooling: Pooling = "mean",
        exact: bool = False,
    ) -> list[Embedded]:
        """One item a text, in order; a text is a string or a list of words.  ``layer``: the last, the mean of all, or
        a number (0 is the lowest)."""
        items = [self.tokenizer.encode(text) for text in texts]
        return [
            embedded(item, state, self.tokenizer, layer)
            for item, state in zip(items, self.states(items, pooling=pooling, exact=exact), strict=True)
        ]


def embedded(
    item: Tokens, state: NDArray[np.float32], tokenizer: Tokenizer, layer: Literal["last", "mean"] | int
) -> Embedded:
    """Choose a layer and the mean over known words (all zeros where no word is known)."""
    known = np.zeros(len(item.words), dtype=bool)
    static = tokenizer.kind == "words"
    known[[w for w, i in zip(item.word_of, item.ids, strict=True) if not (static and i == tokenizer.special.unk)]] = True
    if isinstance(layer, int):
        if not -len(state) <= layer < len(state):
            raise InputError(f"layer {layer} does not exist", do=f"The model has layers 0 to {len(state) - 1}.")
        vectors = state[layer]
    else:
        vectors = state[-1] if layer == "last" else state.mean(0)
    sentence = vectors[known].mean(0) if known.any() else np.zeros(vectors.shape[-1], dtype=np.float32)
    return Embedded(item.words, vectors, state, sentence, known)


def run_system(system: nn.Module, inputs: Sequence[str], batch: Batch) -> Encoded:
    """Call ``system`` with the named fields of ``batch``."""
    encoded: Encoded = system(**{name: getattr(batch, name) for name in inputs})
    return encoded


def pool_words(encoded: Encoded, batch: Batch, pooling: Pooling) -> Tensor:
    """(b, layers, w, dim) vectors of words; zeros for a word without pieces and for padding."""
    stacked = torch.stack(encoded.layers, 1)  # (b, layers, n, dim)
    assert batch.word_positions is not None and batch.words is not None
    if pooling == "first":
        index = batch.word_positions.clamp(min=0)[:, None, :, None].expand(-1, stacked.size(1), -1, stacked.size(3))
        return stacked.gather(2, index).masked_fill((batch.word_positions < 0)[:, None, :, None], 0.0)
    width = batch.word_positions.size(1)
    target = batch.words.masked_fill(batch.words < 0, width)  # specials and padding fall into a column cut off below
    index = target[:, None, :, None].expand_as(stacked)
    sums = stacked.new_zeros(stacked.size(0), stacked.size(1), width + 1, stacked.size(3)).scatter_add(2, index, stacked)
    counts = target.new_zeros(len(target), width + 1).scatter_add(1, target, torch.ones_like(target))
    return (sums / counts.clamp(min=1)[:, None, :, None])[:, :, :width]


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


def save(folder: Path, name: str, system: nn.Module, tokenizer: Tokenizer, extra: Mapping[str, Any] | None = None) -> None:
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
    raise InputError(f"no such model: {ref}", do="Name a run directory, a Hugging Face directory or a word-vector file.")


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
        raise InputError("no such file", where=str(path), do="The run did not finish: run its command again.") from error
    except (SafetensorError, RuntimeError) as error:
        raise InputError(f"not the weights of this model: {' '.join(str(error).split())[:300]}", where=str(path)) from error


def _load_huggingface(path: Path, config: dict[str, Any]) -> Model:
    from polysemy.interop.huggingface_bert import load_bert
    from polysemy.text.subwords import SubwordTokenizer

    kind = config.get("model_type")
    if kind != "bert":
        raise InputError(f"model_type {kind!r} is not read yet", where=str(path / "config.json"), do="Readable: bert.")
    bert_config, state, ledger = load_bert(path)
    system = build("bert", asdict(bert_config), 0, str(path / "config.json"))
    system.load_state_dict(state, strict=False)
    return Model("bert", system.eval(), SubwordTokenizer.from_huggingface(path), str(path), ledger)


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
