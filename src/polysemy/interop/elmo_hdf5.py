"""biLM files of bilm-tf and AllenNLP: ``options.json`` and HDF5 weights (needs the extra ``polysemy[elmo]``).

What the files hold, and where it differs from ours:

* ``char_embed`` has 261 rows; ours has a row of zeros before them, whatever ``n_characters`` says (261 or 262).
* ``CNN/W_cnn_i`` is (1, width, char_dim, count), ours (width * char_dim, count).
* A highway is relu(x W_transform) where sigmoid(x W_carry) is 1, and its input where it is 0.
* ``W_0`` stacks the matrices of the input and of the state; gates stand in our order, i, j, f, o.
* ``RNN_0`` reads forward and ``RNN_1`` backward; ours are two lanes of one tensor.
* A projection between equal sizes was left out by the original; ours is then the identity.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.systems.elmo import ELMoConfig

if TYPE_CHECKING:
    import h5py  # type: ignore[import-untyped]

MOST = 1 << 20  # no size in an options file is larger; a larger one is damage
CELL = "RNN_{lane}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"


def load_elmo(options_path: Path, weights_path: Path) -> tuple[ELMoConfig, dict[str, Tensor], Ledger]:
    """Configuration, state for ``ELMo(config).load_state_dict`` and what became of every tensor in the file.

    The softmax is not part of such files: ``vocab_size`` is 0.  Raises InputError that names file and key.
    """
    config = read_options(options_path)
    ledger = Ledger()
    with _open(weights_path) as file:
        reader = _Reader(file, weights_path, ledger)
        state = {**_words(reader, config), **_layers(reader, config)}
        reader.finish()
    return config, state, ledger


def read_options(path: Path) -> ELMoConfig:
    """The configuration that an options file describes.  Raises InputError that names the key."""
    try:
        data = json.loads(path.read_bytes().decode("utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"not a readable options file: {error}", where=str(path)) from error
    options = _Options(data, path)
    if options.get("bidirectional", True) is False:
        raise options.wrong("bidirectional", "is false", "Only biLMs of two directions are ELMo.")
    if options.get("char_cnn") is None:
        raise options.wrong("char_cnn", "is missing", "A biLM over whole words is not supported.")
    activation = options.get("char_cnn.activation")
    if activation not in ("relu", "tanh"):
        raise options.wrong("char_cnn.activation", f"is {activation!r}", "Known: relu, tanh.")
    rows = options.size("char_cnn.n_characters")
    if rows not in (261, 262):
        raise options.wrong("char_cnn.n_characters", f"is {rows}", "ELMo's table has 261 rows, 262 with padding.")
    filters, slots = options.filters("char_cnn.filters"), options.size("char_cnn.max_characters_per_token")
    if max(width for width, _ in filters) > slots:
        raise options.wrong("char_cnn.filters", f"are wider than a word of {slots} characters", None)
    return ELMoConfig(
        vocab_size=0,
        filters=filters,
        char_dim=options.size("char_cnn.embedding.dim"),
        characters=262,
        slots=slots,
        num_highways=options.size("char_cnn.n_highway", absent=0, least=0),
        activation=activation,
        hidden_size=options.size("lstm.dim"),
        proj_size=options.size("lstm.projection_dim"),
        num_layers=options.size("lstm.n_layers"),
        skip=bool(options.get("lstm.use_skip_connections", False)),
        cell_clip=options.clip("lstm.cell_clip"),
        proj_clip=options.clip("lstm.proj_clip"),
    )


class _Options:
    """Values by dotted key, checked."""

    def __init__(self, data: Any, path: Path) -> None:
        self.data, self.path = data, path

    def get(self, key: str, absent: Any = None) -> Any:
        value = self.data
        for name in key.split("."):
            if not isinstance(value, Mapping):
                raise self.wrong(key, "is missing", "It is not an options file of a biLM.")
            value = value.get(name)
        return absent if value is None else value

    def size(self, key: str, absent: int | None = None, least: int = 1) -> int:
        value = self.get(key, absent)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
            raise self.wrong(key, f"is {str(value)[:40]!r}, not a whole number from {least} to {MOST}", None)
        return value

    def clip(self, key: str) -> float | None:
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise self.wrong(key, f"is {str(value)[:40]!r}, not a positive number", None)
        return float(value) or None  # the original takes 0 for no clipping

    def filters(self, key: str) -> tuple[tuple[int, int], ...]:
        value = self.get(key)
        pairs = [tuple(pair) for pair in value if isinstance(pair, list)] if isinstance(value, list) else []
        sound = all(len(pair) == 2 and all(type(n) is int and 0 < n <= MOST for n in pair) for pair in pairs)
        if not pairs or not sound or len(pairs) != len(value):
            raise self.wrong(key, "is not a list of [width, count] pairs", None)
        return tuple((width, count) for width, count in pairs)

    def wrong(self, key: str, what: str, do: str | None) -> InputError:
        return InputError(f"{key} {what}", where=str(self.path), do=do)


def _open(path: Path) -> h5py.File:
    try:
        import h5py
    except ImportError as error:
        raise InputError("h5py is not installed", do="pip install polysemy[elmo]") from error
    if not path.is_file():
        raise InputError("no such file", where=str(path))
    try:
        return h5py.File(path, "r")
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"not an HDF5 file that can be read: {error}", where=str(path)) from error


class _Reader:
    """Datasets by key, with the shape that the options promise; counts them in the ledger."""

    def __init__(self, file: h5py.File, path: Path, ledger: Ledger) -> None:
        self.file, self.path, self.ledger = file, path, ledger
        self.read: set[str] = set()

    def has(self, key: str) -> bool:
        return key in self.file

    def tensor(self, key: str, *shapes: tuple[int, ...]) -> Tensor:
        """fp32 numbers of ``key``, which must have one of ``shapes``."""
        import h5py

        try:
            if not isinstance(self.file.get(key, getlink=True), h5py.HardLink):
                raise self.wrong(key, "is missing" if key not in self.file else "is a link, not numbers")
            found = self.file[key]
            if not isinstance(found, h5py.Dataset) or found.dtype.kind != "f" or found.external or found.is_virtual:
                raise self.wrong(key, "does not hold floating-point numbers of this file")
            if found.shape not in shapes:
                raise self.wrong(key, f"has shape {found.shape}, the options say {' or '.join(map(str, shapes))}")
            numbers = np.asarray(found[...], dtype=np.float32)
        except (OSError, KeyError, ValueError, RuntimeError, TypeError, OverflowError) as error:
            raise self.wrong(key, f"cannot be read: {error}") from error
        if not np.isfinite(numbers).all():
            raise self.wrong(key, "holds numbers that are not finite")
        self.read.add(key)
        self.ledger.add("loaded", "tensors", place=key)
        self.ledger.add("renamed", "tensors of the biLM file", place=key)
        return torch.from_numpy(numbers)

    def finish(self) -> None:
        """What stands in the file and was not asked for goes into the ledger."""
        import h5py

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and name not in self.read:
                self.ledger.add("ignored", "tensors that ELMo does not use", place=name)

        try:
            self.file.visititems(visit)
        except (OSError, KeyError, ValueError, RuntimeError) as error:
            raise InputError(f"damaged HDF5 file: {error}", where=str(self.path)) from error

    def wrong(self, key: str, what: str) -> InputError:
        return InputError(f"{key} {what}", where=str(self.path))


def _words(reader: _Reader, c: ELMoConfig) -> dict[str, Tensor]:
    """The character network."""
    table = reader.tensor("char_embed", (261, c.char_dim), (262, c.char_dim))
    if len(table) == 261:
        table = torch.cat([torch.zeros(1, c.char_dim), table])
    elif table[0].any():
        reader.ledger.add("repaired", "padding row of the character table set to zeros", place="char_embed")
        table[0] = 0.0
    state = {"words.embedding.weight": table}
    biases = []
    for i, (width, count) in enumerate(c.filters):
        state[f"words.weights.{i}"] = reader.tensor(f"CNN/W_cnn_{i}", (1, width, c.char_dim, count)).reshape(-1, count)
        biases.append(reader.tensor(f"CNN/b_cnn_{i}", (count,)))
    state["words.bias"] = torch.cat(biases)
    total = len(state["words.bias"])
    for i in range(c.num_highways):
        matrices = [reader.tensor(f"CNN_high_{i}/W_{part}", (total, total)) for part in ("transform", "carry")]
        offsets = [reader.tensor(f"CNN_high_{i}/b_{part}", (total,)) for part in ("transform", "carry")]
        state[f"words.highways.{i}.both.weight"] = torch.cat(matrices, 1).t().contiguous()
        state[f"words.highways.{i}.both.bias"] = torch.cat(offsets)
    if total == c.proj_size and not reader.has("CNN_proj"):
        reader.ledger.add("repaired", "no projection after the filters: identity", place="CNN_proj")
        matrix, offset = torch.eye(total), torch.zeros(total)
    else:
        matrix, offset = (
            reader.tensor("CNN_proj/W_proj", (total, c.proj_size)),
            reader.tensor("CNN_proj/b_proj", (c.proj_size,)),
        )
    state["words.projection.weight"], state["words.projection.bias"] = matrix.t().contiguous(), offset
    return state


def _layers(reader: _Reader, c: ELMoConfig) -> dict[str, Tensor]:
    """The LSTMs, the two directions as lanes."""
    state = {}
    for layer in range(c.num_layers):
        kernels, biases, projections = [], [], []
        for lane in range(2):
            cell = CELL.format(lane=lane, layer=layer)
            kernels.append(reader.tensor(cell + "W_0", (2 * c.proj_size, 4 * c.hidden_size)))
            biases.append(reader.tensor(cell + "B", (4 * c.hidden_size,)))
            if c.hidden_size == c.proj_size and not reader.has(cell + "W_P_0"):
                reader.ledger.add("repaired", "no projection of the state: identity", place=cell + "W_P_0")
                projections.append(torch.eye(c.proj_size))
            else:
                projections.append(reader.tensor(cell + "W_P_0", (c.hidden_size, c.proj_size)))
        kernel = torch.stack(kernels)
        state[f"layers.{layer}.input"] = kernel[:, : c.proj_size].contiguous()
        state[f"layers.{layer}.state"] = kernel[:, c.proj_size :].contiguous()
        state[f"layers.{layer}.bias"] = torch.cat(biases)
        state[f"layers.{layer}.projection"] = torch.stack(projections)
    return state
