"""Words a second through ELMo, against the original AllenNLP 0.9.0 code, on equal weights.

Claims, at the original size on two threads, batches of 32: fp32 with equal vectors at least 1.8 times the original given
sentences sorted by length and 3.5 times the original as its users call it; bf16 at least 4 times the sorted original with
cosine at least 0.9999.  All run in this process, in alternating runs; a ratio is the median of the ratios of neighbouring
runs.  Ours reads the sentences in the order given, sorts them itself, and computes each distinct word once; that is part
of the time.

    pip download --no-deps allennlp==0.9.0 && unzip allennlp-0.9.0-*.whl -d original
    python benchmarks/elmo_encoding.py --original original --sentences sentences.txt      # one sentence a line
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from polysemy.interop.elmo_hdf5 import CELL, load_elmo
from polysemy.systems.elmo import SIZES, ELMo, ELMoConfig
from polysemy.text.characters import SENTENCE_BEGIN, SENTENCE_END, character_ids

SLOTS = 50
Sentences = list[list[str]]
Run = Callable[[Sentences], list[Tensor]]  # the top layer (words, dim) of each sentence, in the order given


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--original", type=Path, required=True, help="folder of the unzipped allennlp 0.9.0 wheel")
    parser.add_argument("--sentences", type=Path, required=True, help="one sentence a line, words between spaces")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--size", choices=list(SIZES), default="original")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3, help="alternations of one run each")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def write_files(folder: Path, c: ELMoConfig) -> tuple[Path, Path]:
    """Options and random weights, about as large as trained ones, in the original's format."""
    options = {
        "lstm": {"dim": c.hidden_size, "projection_dim": c.proj_size, "n_layers": c.num_layers,
                 "cell_clip": c.cell_clip, "proj_clip": c.proj_clip, "use_skip_connections": c.skip},
        "char_cnn": {"embedding": {"dim": c.char_dim}, "filters": [list(pair) for pair in c.filters],
                     "n_highway": c.num_highways, "n_characters": 262, "max_characters_per_token": SLOTS,
                     "activation": c.activation},
    }  # fmt: skip
    total = sum(count for _, count in c.filters)
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, c.char_dim)}
    for i, (width, count) in enumerate(c.filters):
        shapes |= {f"CNN/W_cnn_{i}": (1, width, c.char_dim, count), f"CNN/b_cnn_{i}": (count,)}
    for i in range(c.num_highways):
        for part in ("carry", "transform"):
            shapes |= {f"CNN_high_{i}/W_{part}": (total, total), f"CNN_high_{i}/b_{part}": (total,)}
    shapes |= {"CNN_proj/W_proj": (total, c.proj_size), "CNN_proj/b_proj": (c.proj_size,)}
    for lane in range(2):
        for layer in range(c.num_layers):
            cell = CELL.format(lane=lane, layer=layer)
            shapes |= {cell + "W_0": (2 * c.proj_size, 4 * c.hidden_size), cell + "B": (4 * c.hidden_size,),
                       cell + "W_P_0": (c.hidden_size, c.proj_size)}  # fmt: skip
    draw = np.random.default_rng(0)
    paths = folder / "options.json", folder / "weights.hdf5"
    paths[0].write_text(json.dumps(options), "utf-8")
    with h5py.File(paths[1], "w") as file:
        for key, shape in shapes.items():
            scale = 1.0 if key == "char_embed" else 0.1 if len(shape) == 1 else float(np.prod(shape[:-1])) ** -0.5
            file[key] = draw.standard_normal(shape, dtype=np.float32) * np.float32(scale)
    return paths


def import_original(folder: Path) -> ModuleType:
    """Its elmo module as it is; what surrounds it (registries, downloads, data readers) is left out."""
    for name in ("allennlp", "allennlp.common", "allennlp.modules", "allennlp.nn", "allennlp.data"):
        module = sys.modules[name] = ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")))]

    def stand_in(name: str, **names: Any) -> None:
        module = sys.modules[name] = sys.modules.get(name) or ModuleType(name)
        module.__dict__.update(names)

    class Marks:
        beginning_of_sentence_characters = tuple(n - 1 for n in SENTENCE_BEGIN)
        end_of_sentence_characters = tuple(n - 1 for n in SENTENCE_END)
        bos_token, eos_token = "<S>", "</S>"

    class Embedding(torch.nn.Embedding):
        def __init__(self, size: int, dim: int, weight: Tensor, trainable: bool, padding_index: int) -> None:
            super().__init__(size, dim, padding_index, _weight=weight)
            self.weight.data[padding_index] = 0.0

    nothing = type("Nothing", (), {})
    stand_in("overrides", overrides=lambda function: function)
    stand_in("allennlp.common", Params=nothing, Registrable=nothing)
    stand_in("allennlp.common.params", Params=nothing)
    stand_in("allennlp.common.checks", ConfigurationError=ValueError)
    stand_in("allennlp.common.file_utils", cached_path=str)
    stand_in("allennlp.common.util", lazy_groups_of=groups)
    stand_in("allennlp.nn.initializers", block_orthogonal=lambda *_: None)  # the weights are read over it
    stand_in("allennlp.data", Token=nothing, Vocabulary=nothing, Instance=nothing)
    stand_in("allennlp.data.dataset", Batch=nothing)
    stand_in("allennlp.data.fields", TextField=nothing)
    stand_in("allennlp.data.token_indexers")
    stand_in("allennlp.data.token_indexers.elmo_indexer", ELMoCharacterMapper=Marks, ELMoTokenCharactersIndexer=nothing)
    stand_in("allennlp.modules.token_embedders", Embedding=Embedding)
    import allennlp.modules.elmo as module  # type: ignore[import-not-found]

    module.batch_to_ids = batch_to_ids
    found: ModuleType = module
    return found


def groups(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    group: list[Any] = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def word_row(word: str) -> list[int]:
    return {"<S>": SENTENCE_BEGIN, "</S>": SENTENCE_END}.get(word) or character_ids(word)


def batch_to_ids(batch: Sentences) -> Tensor:
    """(b, n, 50) as its function of that name makes them"""
    out = torch.zeros(len(batch), max(map(len, batch)), SLOTS, dtype=torch.long)
    for row, sentence in zip(out, batch, strict=True):
        row[: len(sentence)] = torch.tensor([word_row(word) for word in sentence])
    return out


class Original:
    """``_ElmoBiLm`` as its users call it; with sentences sorted, and with its cache of words, on request."""

    def __init__(self, model: Any, batch_size: int, *, is_sorted: bool, row: dict[str, int] | None = None) -> None:
        self.model, self.batch_size, self.is_sorted, self.row = model, batch_size, is_sorted, row

    def __call__(self, sentences: Sentences) -> list[Tensor]:
        order = range(len(sentences))
        if self.is_sorted:
            order = sorted(order, key=lambda i: len(sentences[i]))
        self.model._elmo_lstm._states = None  # so that each run is the same
        out: list[Tensor] = [torch.empty(0)] * len(sentences)
        for part in groups(iter(order), self.batch_size):
            batch = [sentences[i] for i in part]
            top = self._encode(batch)["activations"][-1]
            for i, states, sentence in zip(part, top, batch, strict=True):
                out[i] = states[1 : len(sentence) + 1]
        return out

    def _encode(self, batch: Sentences) -> Any:
        if self.row is None:
            return self.model(batch_to_ids(batch))
        ids = torch.zeros(len(batch), max(map(len, batch)), dtype=torch.long)
        for row, sentence in zip(ids, batch, strict=True):
            row[: len(sentence)] = torch.tensor([self.row[word] for word in sentence])
        return self.model(ids[..., None].expand(-1, -1, SLOTS), ids)


class Ours:
    def __init__(self, model: ELMo, batch_size: int, dtype: torch.dtype) -> None:
        self.model, self.batch_size, self.dtype = model, batch_size, dtype

    def __call__(self, sentences: Sentences) -> list[Tensor]:
        with torch.autocast("cpu", self.dtype, enabled=self.dtype != torch.float32):
            return self._encode(sentences)

    def _encode(self, sentences: Sentences) -> list[Tensor]:
        words = ["<S>", "</S>", *sorted({word for sentence in sentences for word in sentence})]
        place = {word: i for i, word in enumerate(words)}
        vectors = self.model.words(torch.tensor([word_row(word) for word in words])).float()
        out: list[Tensor] = [torch.empty(0)] * len(sentences)
        for part in groups(iter(sorted(range(len(sentences)), key=lambda i: len(sentences[i]))), self.batch_size):
            lengths = torch.tensor([len(sentences[i]) + 2 for i in part])
            types = torch.zeros(len(part), int(lengths.max()), dtype=torch.long)
            for row, i in zip(types, part, strict=True):
                row[: len(sentences[i]) + 2] = torch.tensor([0, *(place[word] for word in sentences[i]), 1])
            mask = torch.arange(types.size(1)) < lengths[:, None]
            top = self.model.encode_words(types, vectors, mask)[0].last
            for i, states in zip(part, top, strict=True):
                out[i] = states[1 : len(sentences[i]) + 1]
        return out


def stateless(model: Any) -> Any:
    """The original with the state that it carries from call to call dropped, for the comparison of vectors."""
    step = model.forward

    def forward(*given: Tensor) -> Any:
        model._elmo_lstm._states = None
        return step(*given)

    model.forward = forward
    return model


@torch.no_grad()
def main() -> None:
    a = arguments()
    torch.set_num_threads(a.threads)
    lines = (line.split() for line in a.sentences.read_text("utf-8").split("\n"))
    sentences = [line for line in lines if line][: a.count]
    words = sum(map(len, sentences))
    elmo = import_original(a.original)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(Path(folder), ELMoConfig(**SIZES[a.size], vocab_size=0))
        config, state, _ = load_elmo(*paths)
        model = ELMo(config).eval()
        model.load_state_dict(state)
        original = stateless(elmo._ElmoBiLm(*map(str, paths))).eval()
        types = ["@@PADDING@@", *sorted({word for sentence in sentences for word in sentence})]
        cached = stateless(elmo._ElmoBiLm(*map(str, paths), vocab_to_cache=types)).eval()
    row = {word: i for i, word in enumerate(types)}
    runs: dict[str, Run] = {
        "original as called": Original(original, a.batch_size, is_sorted=False),
        "original sorted": Original(original, a.batch_size, is_sorted=True),
        "original sorted, words cached before": Original(cached, a.batch_size, is_sorted=True, row=row),
        "ours fp32": Ours(model, a.batch_size, torch.float32),
        "ours bf16": Ours(model, a.batch_size, torch.bfloat16),
        "ours bf16, batches of 256": Ours(model, 256, torch.bfloat16),
    }
    report(a, runs, sentences, words)


def report(a: argparse.Namespace, runs: dict[str, Run], sentences: Sentences, words: int) -> None:
    machine = {"processor": platform.processor() or platform.machine(), "torch": torch.__version__}
    print(json.dumps({**machine, "size": a.size, "sentences": len(sentences), "words": words, "threads": a.threads}))
    states = {name: torch.cat(run(sentences[: 2 * a.batch_size])).float() for name, run in runs.items()}  # warms up too
    wanted = states["original sorted"]
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(a.rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            run(sentences)
            seconds[name].append(time.perf_counter() - began)
    for name in runs:
        ratios = {
            f"times {peer}": round(
                statistics.median(p / s for p, s in zip(seconds[peer], seconds[name], strict=True)), 2
            )
            for peer in ("original sorted", "original as called")
        }
        figures = {
            "run": name,
            "words_per_second": round(words / statistics.median(seconds[name])),
            **ratios,
            "largest_difference": float((states[name] - wanted).abs().max()),
            "least_cosine": float(torch.cosine_similarity(states[name], wanted, dim=1).min()),
        }
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
