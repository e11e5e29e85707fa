"""biLM files that are damaged or unusual: one message that names file and key, or the numbers that are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polysemy.core.errors import InputError
from polysemy.interop.elmo_hdf5 import load_elmo
from polysemy.systems.elmo import ELMo

h5py = pytest.importorskip("h5py")

OPTIONS: dict[str, Any] = {
    "lstm": {"dim": 6, "projection_dim": 4, "n_layers": 1, "cell_clip": 3, "proj_clip": 3, "use_skip_connections": True},
    "char_cnn": {
        "embedding": {"dim": 3}, "filters": [[1, 2], [2, 3]], "n_highway": 1, "n_characters": 262,
        "max_characters_per_token": 50, "activation": "tanh",
    },
}  # fmt: skip
SHAPES = {
    "char_embed": (261, 3),
    "CNN/W_cnn_0": (1, 1, 3, 2), "CNN/b_cnn_0": (2,), "CNN/W_cnn_1": (1, 2, 3, 3), "CNN/b_cnn_1": (3,),
    "CNN_high_0/W_carry": (5, 5), "CNN_high_0/b_carry": (5,),
    "CNN_high_0/W_transform": (5, 5), "CNN_high_0/b_transform": (5,),
    "CNN_proj/W_proj": (5, 4), "CNN_proj/b_proj": (4,),
    **{f"RNN_{lane}/RNN/MultiRNNCell/Cell0/LSTMCell/{name}": shape
       for lane in (0, 1) for name, shape in (("W_0", (8, 24)), ("B", (24,)), ("W_P_0", (6, 4)))},
}  # fmt: skip


def changed(path: str, value: Any) -> dict[str, Any]:
    """The options with one value changed, or removed where it is ``...``."""
    options = json.loads(json.dumps(OPTIONS))
    *parents, last = path.split(".")
    place = options
    for name in parents:
        place = place[name]
    place[last] = value
    if value is ...:
        del place[last]
    return options


def write(folder: Path, options: Any = OPTIONS, shapes: dict[str, tuple[int, ...]] = SHAPES) -> tuple[Path, Path]:
    paths = folder / "options.json", folder / "weights.hdf5"
    paths[0].write_text(json.dumps(options), "utf-8")
    draw = np.random.default_rng(0)
    with h5py.File(paths[1], "w") as file:
        for key, shape in shapes.items():
            file[key] = draw.standard_normal(shape).astype(np.float32)
    return paths


def refused(paths: tuple[Path, Path], *parts: str) -> None:
    with pytest.raises(InputError) as caught:
        load_elmo(*paths)
    for part in parts:
        assert part in str(caught.value)


def test_a_sound_pair_loads_and_everything_is_accounted_for(tmp_path: Path) -> None:
    paths = write(tmp_path, shapes={**SHAPES, "extra/thing": (2,)})
    config, state, ledger = load_elmo(*paths)
    ELMo(config).load_state_dict(state)
    assert (config.activation, config.vocab_size, config.skip) == ("tanh", 0, True)
    assert ledger.count("loaded") == ledger.count("renamed") == len(SHAPES)
    assert ledger.to_json()["ignored"]["tensors that ELMo does not use"] == {"count": 1, "first": ["extra/thing"]}
    with h5py.File(paths[1]) as file:
        gates = file["RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"][...]
    assert np.array_equal(state["layers.0.input"][1].numpy(), gates[:4])
    assert np.array_equal(state["layers.0.state"][1].numpy(), gates[4:])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("lstm", ...), ("lstm.dim", ...), ("lstm.dim", 0), ("lstm.dim", "6"), ("lstm.dim", True), ("lstm.dim", 2**40),
        ("lstm.n_layers", 1.5), ("lstm.cell_clip", -1), ("lstm.proj_clip", "three"), ("char_cnn", ...),
        ("char_cnn.activation", "gelu"), ("char_cnn.n_characters", 256), ("char_cnn.filters", []),
        ("char_cnn.filters", [[1, 2, 3]]), ("char_cnn.filters", [[1, 2], 5]), ("char_cnn.filters", [[60, 2]]),
        ("char_cnn.filters", {"1": 2}), ("char_cnn.embedding", 4), ("bidirectional", False),
    ],
)  # fmt: skip
def test_wrong_options_name_file_and_key(path: str, value: Any, tmp_path: Path) -> None:
    refused(write(tmp_path, changed(path, value)), "options.json", path)


@pytest.mark.parametrize("text", ["", "[1, 2", "[]", "3", '"lstm"', "\ufeff{}"])
def test_options_that_are_no_options(text: str, tmp_path: Path) -> None:
    paths = write(tmp_path)
    paths[0].write_text(text, "utf-8")
    refused(paths, "options.json")


@pytest.mark.parametrize("key", SHAPES)
def test_missing_misshapen_and_spoilt_tensors_name_file_and_key(key: str, tmp_path: Path) -> None:
    refused(write(tmp_path, shapes={k: s for k, s in SHAPES.items() if k != key}), "weights.hdf5", key, "is missing")
    wrong = (*SHAPES[key][:-1], SHAPES[key][-1] + 1)
    refused(write(tmp_path, shapes={**SHAPES, key: wrong}), "weights.hdf5", key, str(wrong), str(SHAPES[key]))
    paths = write(tmp_path)
    with h5py.File(paths[1], "r+") as file:
        file[key][...] = np.nan
    refused(paths, "weights.hdf5", key, "not finite")


def test_links_groups_and_integers_are_not_numbers(tmp_path: Path) -> None:
    for item in (h5py.SoftLink("/CNN/b_cnn_0"), h5py.ExternalLink("other.hdf5", "/x"), np.ones(4, np.int32), None):
        paths = write(tmp_path)
        with h5py.File(paths[1], "r+") as file:
            del file["CNN_proj/b_proj"]
            if item is None:
                file.create_group("CNN_proj/b_proj")
            else:
                file["CNN_proj/b_proj"] = item
        refused(paths, "weights.hdf5", "CNN_proj/b_proj")


def test_numbers_kept_in_another_file_are_refused(tmp_path: Path) -> None:
    paths = write(tmp_path)
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(16))
    with h5py.File(paths[1], "r+") as file:
        del file["CNN_proj/b_proj"]
        file.create_dataset("CNN_proj/b_proj", (4,), np.float32, external=[(str(secret), 0, 16)])
    refused(paths, "CNN_proj/b_proj")


def test_files_that_are_no_hdf5(tmp_path: Path) -> None:
    paths = write(tmp_path)
    whole = paths[1].read_bytes()
    for data in (b"", b"\x80\x04\x95 pickle", whole[: len(whole) // 2]):
        paths[1].write_bytes(data)
        refused(paths, "weights.hdf5")
    paths[1].unlink()
    refused(paths, "weights.hdf5", "no such file")


def test_table_of_262_rows_keeps_its_numbering(tmp_path: Path) -> None:
    _, state, ledger = load_elmo(*write(tmp_path, shapes={**SHAPES, "char_embed": (262, 3)}))
    table = state["words.embedding.weight"]
    assert table.shape == (262, 3)
    assert not table[0].any()
    assert ledger.count("repaired") == 1


def test_projections_between_equal_sizes_were_left_out_by_the_original(tmp_path: Path) -> None:
    options = changed("lstm.projection_dim", 5)
    options["lstm"]["dim"] = 5
    cell = {key: (10, 20) if key.endswith("W_0") else (20,) for key in SHAPES if key.endswith(("W_0", "/B"))}
    shapes = {k: s for k, s in SHAPES.items() if "RNN" not in k and "proj" not in k}
    config, state, ledger = load_elmo(*write(tmp_path, options, {**shapes, **cell}))
    ELMo(config).load_state_dict(state)
    assert torch.equal(state["words.projection.weight"], torch.eye(5))
    assert torch.equal(state["layers.0.projection"][1], torch.eye(5))
    assert ledger.count("repaired") == 3


def test_older_options_without_clips_highways_or_skips(tmp_path: Path) -> None:
    options = changed("char_cnn.n_highway", ...)
    for name in ("cell_clip", "proj_clip", "use_skip_connections"):
        del options["lstm"][name]
    config, _, ledger = load_elmo(*write(tmp_path, options))
    assert (config.num_highways, config.cell_clip, config.proj_clip, config.skip) == (0, None, None, False)
    assert ledger.count("ignored") == 4
