"""What every loop-trained system of the table keeps to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from polysemy.data.batch import Batch
from polysemy.nn.attend import record_attention
from polysemy.systems import SYSTEMS, find, module_of, resolve
from polysemy.train.checkpoint import read_tensors, write_tensors
from polysemy.train.optimize import Optimizer
from polysemy.train.settings import TrainSettings
from tests.contract.cases import CASES, build, make_batch, row, states

pytestmark = pytest.mark.parametrize(
    "name", [name for name, entry in SYSTEMS.items() if entry.trained == "loop" and name in CASES]
)
LENGTHS = [9, 4, 12, 3]


def loss_of(name: str, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
    """Total and count of the objective, always with the same corruption."""
    objective = CASES[name].objective()
    loss = objective.loss(model, objective.corrupt(batch, torch.Generator().manual_seed(5)))
    return loss.total, loss.count


def test_shapes(name: str) -> None:
    batch = make_batch(LENGTHS)
    model = build(name)
    layers = states(name, model, batch)
    assert {layer.shape[:2] for layer in layers} == {(4, 12)}
    assert all(layer.isfinite().all() for layer in layers)
    assert len(states(name, model, row(batch, 1))) == len(layers)


def test_neither_neighbours_nor_padding_nor_order_change_a_state(name: str) -> None:
    model, batch = build(name), make_batch(LENGTHS)
    together = states(name, model, batch)
    backward = batch.split(4)[::-1]
    reordered = states(name, model, replace(batch, **{
        field: torch.cat([getattr(part, field) for part in backward]) for field in ("ids", "mask", "segments", "types")
    }))  # fmt: skip
    for i, length in enumerate(LENGTHS):
        for all_, turned, alone in zip(together, reordered, states(name, model, row(batch, i)), strict=True):
            torch.testing.assert_close(all_[i, :length], alone[0], atol=1e-5, rtol=0)
            torch.testing.assert_close(turned[3 - i, :length], alone[0], atol=1e-5, rtol=0)


def test_a_row_of_padding_alone_changes_nothing_and_stays_finite(name: str) -> None:
    model, batch = build(name), make_batch([9, 4, 12])
    full = states(name, model, batch)
    assert batch.mask is not None
    empty = replace(batch, mask=batch.mask & torch.tensor([True, False, True])[:, None])
    for before, after in zip(full, states(name, model, empty), strict=True):
        assert after.isfinite().all()
        torch.testing.assert_close(after[[0, 2]], before[[0, 2]], atol=1e-5, rtol=0)
    total, count = loss_of(name, model, empty)
    total.backward()
    assert count > 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_a_batch_of_padding_alone_has_no_loss(name: str) -> None:
    batch = make_batch([4, 4])
    assert batch.mask is not None
    total, count = loss_of(name, build(name), replace(batch, mask=torch.zeros_like(batch.mask), labels=None))
    assert (float(total.detach()), count) == (0.0, 0)


def test_a_call_leaves_nothing_behind(name: str) -> None:
    model, batch = build(name), make_batch(LENGTHS)
    before = states(name, model, batch)
    states(name, model, make_batch([5, 12], seed=9))
    assert all(torch.equal(a, b) for a, b in zip(before, states(name, model, batch), strict=True))


def test_recorded_attention_is_the_attention_that_is_used(name: str) -> None:
    model, batch = build(name), make_batch(LENGTHS)
    with record_attention() as tape:
        recorded = states(name, model, batch)
    for a, b in zip(states(name, model, batch), recorded, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=0)
    assert len(tape) == CASES[name].attentions
    for weights in tape:
        assert batch.mask is not None
        assert weights.masked_select(~batch.mask[:, None, None]).abs().sum() == 0
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_nan_at_a_masked_position_stays_there(name: str) -> None:
    model, batch = build(name), make_batch(LENGTHS)
    assert batch.mask is not None
    before = states(name, model, batch)
    with torch.no_grad():
        CASES[name].poison(model, batch)
    after = states(name, model, batch)
    for a, b in zip(before, after, strict=True):
        torch.testing.assert_close(a[batch.mask], b[batch.mask], atol=1e-6, rtol=0)
    sum(layer[batch.mask].square().sum() for layer in after).backward()  # type: ignore[union-attr]
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_a_position_sees_what_its_system_claims(name: str) -> None:
    model, batch, at = build(name), make_batch([12]), 5
    assert batch.ids is not None
    assert batch.types is not None
    other = replace(batch, ids=batch.ids.clone(), types=batch.types.clone())
    for field in (other.ids, other.types):
        field[0, at] = 5 + (field[0, at] - 4) % 30  # type: ignore[index,operator]
    changed = [
        (a - b)[0].abs() > 1e-6
        for a, b in zip(states(name, model, batch)[1:], states(name, model, other)[1:], strict=True)
    ]
    for layer in changed:
        half = layer.size(1) // 2
        if CASES[name].sees == "both":
            assert layer.any(1).all()
        elif CASES[name].sees == "halves":
            assert not layer[:at, :half].any()
            assert layer[at:, :half].any(1).all()
            assert not layer[at + 1 :, half:].any()
            assert layer[: at + 1, half:].any(1).all()
        else:
            assert not layer[:at].any()
            assert layer[at:].any(1).all()


def test_saved_and_loaded_it_is_the_same(name: str, tmp_path: Path) -> None:
    model, batch, path = build(name), make_batch(LENGTHS), tmp_path / "model.safetensors"
    write_tensors(path, model.state_dict(), {})
    other = type(model)(model.config).eval()
    other.load_state_dict(read_tensors(path)[0])
    assert all(torch.equal(a, b) for a, b in zip(states(name, model, batch), states(name, other, batch), strict=True))
    assert torch.equal(loss_of(name, model, batch)[0], loss_of(name, other, batch)[0])
    assert tied(other) == tied(model)


def tied(model: nn.Module) -> set[frozenset[str]]:
    """Names that share one tensor."""
    groups: dict[int, set[str]] = {}
    for parameter, tensor in model.state_dict().items():
        groups.setdefault(tensor.data_ptr(), set()).add(parameter)
    return {frozenset(group) for group in groups.values() if len(group) > 1}


def test_every_parameter_learns(name: str) -> None:
    model = build(name).train()
    loss_of(name, model, make_batch(LENGTHS * 4))[0].backward()
    idle = {
        n for n, p in model.named_parameters() if p.grad is None or not bool((p.grad.to_dense().abs() > 1e-7).any())
    }
    assert idle == {n for n, _ in model.named_parameters() if n.endswith(CASES[name].still or ("-",))}


def test_it_overfits_one_batch(name: str) -> None:
    objective = CASES[name].objective()
    corrupted = objective.corrupt(make_batch(LENGTHS), torch.Generator().manual_seed(5))
    model = build(name, dropout=0.0).train()
    optimizer = Optimizer(model, TrainSettings(steps=80, lr=0.02, weight_decay=0.0))
    losses = []
    for _ in range(80):
        loss = objective.loss(model, corrupted)
        (loss.total / loss.count).backward()
        optimizer.step(1.0)
        losses.append(float(loss.total.detach() / loss.count))
    assert losses[-1] < 0.1 * losses[0]


def test_dropout_follows_the_seed(name: str) -> None:
    model, batch = build(name, dropout=0.5).train(), make_batch(LENGTHS)
    first, same, other = (torch.manual_seed(s) and loss_of(name, model, batch)[0] for s in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_a_loss_is_the_sum_over_the_parts_of_a_batch(name: str) -> None:
    model, batch = build(name), make_batch(LENGTHS)
    objective = CASES[name].objective()
    corrupted = objective.corrupt(batch, torch.Generator().manual_seed(5))
    losses = []
    for part in (corrupted, *corrupted.split(3)):
        torch.manual_seed(0)
        losses.append(objective.loss(model, part))
    whole, *parts = losses
    assert whole.count == sum(part.count for part in parts)
    torch.testing.assert_close(whole.total, sum(part.total for part in parts), rtol=1e-5, atol=1e-4)


def test_bf16_is_finite_and_near(name: str) -> None:
    model, batch = build(name), make_batch(LENGTHS)
    assert batch.mask is not None
    exact = states(name, model, batch)[-1][batch.mask]
    with torch.autocast("cpu", torch.bfloat16):
        rounded = states(name, model, batch)[-1][batch.mask].float()
        total, _ = loss_of(name, model.train(), batch)
    total.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert (rounded - exact).norm() < 0.05 * exact.norm()


def test_size_follows_from_the_configuration(name: str) -> None:
    for fields in ({}, {"vocab_size": 41}):
        model = build(name, **fields)
        assert module_of(name).parameters(model.config) == sum(p.numel() for p in model.parameters())


def test_sizes_rise(name: str) -> None:
    module, config = module_of(name), resolve(find(name).model).Config
    sizes = [module.parameters(config(**fields)) for fields in module.SIZES.values()]
    assert sizes == sorted(sizes)


def test_too_long_a_text_is_an_error_that_names_the_limit(name: str) -> None:
    model = build(name)
    limit = getattr(model.config, "max_length", None)
    if limit is None:  # no limit: it must take any length
        assert states(name, model, make_batch([300]))[-1].shape[1] == 300
        return
    with pytest.raises(ValueError, match=f"13.*{limit}"):
        states(name, model, make_batch([13]))
