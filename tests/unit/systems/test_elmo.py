"""ELMo's sizes and costs follow from its configuration; state in and out; what its layers are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, baddbmm_flop

from polysemy.systems.elmo import SIZES, ELMo, ELMoConfig, flops_per_token, parameters

SMALL = ELMoConfig(vocab_size=30, filters=((1, 6), (3, 6)), num_highways=2, hidden_size=10, proj_size=4, num_layers=3)


def inputs(lengths: tuple[int, ...], slots: int = 50, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    types = torch.randint(1, 20, mask.shape, generator=draw).masked_fill(~mask, 0)
    return types, torch.randint(1, 262, (20, slots), generator=draw), mask


@pytest.mark.parametrize("config", [ELMoConfig(**SIZES["tiny"]), SMALL, ELMoConfig(**SIZES["small"], vocab_size=0)])
def test_parameters_are_those_of_the_built_model(config: ELMoConfig) -> None:
    with torch.device("meta"):
        model = ELMo(config)
    assert parameters(config) == sum(p.numel() for p in model.parameters())


def test_original_size_is_the_published_one() -> None:
    assert round(parameters(ELMoConfig(**SIZES["original"], vocab_size=0)) / 1e6, 1) == 93.6


@torch.no_grad()
def test_flops_are_those_of_the_built_model() -> None:
    model = ELMo(SMALL).eval()
    types = torch.arange(1, 20).view(1, -1)  # every token another word, and every slot filled
    _, characters, _ = inputs((19,))
    # torch counts the form that is not in place only
    in_place = {torch.ops.aten.baddbmm_: lambda c, a, b, **_: baddbmm_flop(c, a, b)}
    with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
        model(types, characters)
    assert counter.get_total_flops() == 19 * flops_per_token(SMALL)


def test_sizes_are_those_of_the_design() -> None:
    sizes = {name: (c.hidden_size, c.proj_size, sum(n for _, n in c.filters), c.num_highways)
             for name, c in ((name, ELMoConfig(**fields)) for name, fields in SIZES.items())}  # fmt: skip
    assert sizes == {
        "tiny": (256, 64, 512, 1), "small": (1024, 128, 2048, 1),
        "medium": (2048, 256, 2048, 1), "original": (4096, 512, 2048, 2),
    }  # fmt: skip


@torch.no_grad()
def test_layer_0_is_the_word_twice_and_directions_do_not_meet() -> None:
    model, (types, characters, mask) = ELMo(SMALL).eval(), inputs((6,))
    before = model(types, characters, mask).layers
    assert len(before) == 4
    forward, backward = before[0].chunk(2, -1)
    assert torch.equal(forward, backward)
    changed = characters.clone()
    changed[types[0, 3]] = characters[types[0, 3]].flip(0)
    types = types.clone()
    types[0, 3] = 0
    changed[0] = torch.arange(1, 51)  # the fourth word, and no other, is another one
    after = model(types, torch.cat([changed[:1], characters[1:]]), mask).layers
    for low, high in zip(before[1:], after[1:], strict=True):
        differs = (low - high).abs().amax(0) > 1e-7
        assert not differs[:3, :4].any()
        assert differs[3:, :4].any(1).all()
        assert not differs[4:, 4:].any()
        assert differs[:4, 4:].any(1).all()


@torch.no_grad()
def test_skip_connections_add_a_layers_input_above_the_first() -> None:
    torch.manual_seed(0)
    model, given = ELMo(SMALL).eval(), inputs((6,))
    for layer in model.layers[1:]:
        layer.projection.zero_()
    layers = model(*given).layers
    assert torch.equal(layers[1], layers[2])
    assert torch.equal(layers[2], layers[3])
    plain = ELMo(ELMoConfig(**{**SMALL.__dict__, "skip": False})).eval()
    plain.load_state_dict(model.state_dict())
    assert torch.equal(plain(*given).layers[1], layers[1])
    assert not plain(*given).layers[2].any()


@torch.no_grad()
def test_state_waits_for_rows_that_a_batch_does_not_have() -> None:
    model = ELMo(SMALL).eval()
    big, small = inputs((5, 4, 3)), inputs((4,), seed=1)
    _, state = model.encode_stateful(*big)
    _, after = model.encode_stateful(*small, state)
    for (h, c), (was_h, was_c) in zip(after, state, strict=True):
        assert h.shape == was_h.shape
        assert torch.equal(h[:, 1:], was_h[:, 1:])
        assert torch.equal(c[:, 1:], was_c[:, 1:])
        assert not torch.equal(c[:, 0], was_c[:, 0])
    grown, _ = model.encode_stateful(*big, model.encode_stateful(*small)[1])
    fresh = model(*big)
    assert torch.equal(grown.last[1:], fresh.last[1:])  # new rows start from zeros
    assert not torch.allclose(grown.last[0], fresh.last[0], atol=1e-4)


@pytest.mark.parametrize("training", [True, False])
def test_batches_without_any_word(training: bool) -> None:
    model, (types, characters, mask) = ELMo(SMALL).eval(), inputs((3, 2))
    with torch.set_grad_enabled(training):
        encoded = model(types, characters, torch.zeros_like(mask))
    assert all(not layer.any() for layer in encoded.layers)
    with torch.set_grad_enabled(training):
        assert model(types[:, :0], characters, mask[:, :0]).last.shape == (2, 0, 8)


def test_a_word_of_many_places_is_computed_once() -> None:
    model, seen = ELMo(SMALL).eval(), []
    model.words.register_forward_hook(lambda module, given, out: seen.append(len(given[0])))
    types = torch.tensor([[3, 4, 3, 3], [4, 3, 0, 0]])
    model(types, inputs((4, 2))[1], types > 0)
    assert seen == [2]
