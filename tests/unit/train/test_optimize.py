"""Groups of parameters, decay, and rows of sparse gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from polysemy.train.optimize import Optimizer, sparse_names
from polysemy.train.settings import TrainSettings


def model():
    torch.manual_seed(0)
    return nn.ModuleDict({"embed": nn.Embedding(6, 4), "norm": nn.LayerNorm(4), "top": nn.Linear(4, 4)})


def step(m, optimizer, factor=1.0, scale=1.0):
    for p in m.parameters():
        p.grad = torch.full_like(p, scale)
    optimizer.step(factor)


def test_it_is_adamw_without_decay_of_vectors():
    mine, theirs = model(), model()
    s = TrainSettings(10, lr=0.1, weight_decay=0.5, betas=(0.8, 0.9), eps=1e-6)
    optimizer = Optimizer(mine, s)
    decayed = [p for p in theirs.parameters() if p.ndim > 1]
    rest = [p for p in theirs.parameters() if p.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 0.5}, {"params": rest, "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, 0.1, (0.8, 0.9), 1e-6, foreach=False)
    for factor in (1.0, 0.5, 0.25):
        step(mine, optimizer, factor)
        for p in theirs.parameters():
            p.grad = torch.ones_like(p)
        for group in reference.param_groups:
            group["lr"] = 0.1 * factor
        reference.step()
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-7)
        assert one.grad is None


def test_groups_scale_the_rate_by_the_first_predicate_that_takes_a_name():
    m = model()
    before = {name: p.detach().clone() for name, p in m.named_parameters()}
    groups = [(lambda name: name.startswith("embed"), 0.0), (lambda name: "embed" in name or "norm" in name, 0.5)]
    step(m, Optimizer(m, TrainSettings(10, lr=0.1, weight_decay=0.0), groups))
    moved = {name: float((before[name] - p.detach()).abs().max()) for name, p in m.named_parameters()}
    assert moved["embed.weight"] == 0
    assert moved["norm.weight"] == pytest.approx(0.05, rel=1e-4)
    assert moved["top.weight"] == pytest.approx(0.1, rel=1e-4)


def test_frozen_parameters_are_left_out():
    m = model()
    m["embed"].requires_grad_(False)
    assert not any(name.startswith("embed") for name, _ in Optimizer(m, TrainSettings(1)).named)


def test_a_loaded_state_goes_on_as_if_nothing_had_happened():
    one, other = model(), model()
    s = TrainSettings(10, lr=0.1)
    first, second = Optimizer(one, s), Optimizer(other, s)
    for scale in (1.0, -3.0):
        step(one, first, scale=scale)
    other.load_state_dict(one.state_dict())
    second.load(first.tensors())
    assert set(first.tensors()) == {f"{n}.{slot}" for n, _ in first.named for slot in ("step", "exp_avg", "exp_avg_sq")}
    step(one, first, scale=2.0)
    step(other, second, scale=2.0)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


class Rows(nn.Module):
    sparse_parameters = ("table",)

    def __init__(self):
        super().__init__()
        self.table, self.plain = nn.Parameter(torch.ones(5, 2)), nn.Parameter(torch.ones(2))
        self.embed = nn.Embedding(5, 2, sparse=True)


def test_sparse_rows_are_those_of_the_module_or_of_its_declaration():
    outer = nn.ModuleDict({"a": Rows()})
    assert sparse_names(outer) == {"a.table", "a.embed.weight"}
    optimizer = Optimizer(outer, TrainSettings(10, lr=0.1))
    before = outer["a"].table.detach().clone()
    for _ in range(2):
        for p in (outer["a"].table, outer["a"].embed.weight):
            p.grad = torch.sparse_coo_tensor([[1, 3]], torch.ones(2, 2), p.shape, check_invariants=True)
        outer["a"].plain.grad = torch.ones(2)
        optimizer.step(1.0)
    moved = (outer["a"].table - before).abs().sum(1) > 0
    assert moved.tolist() == [False, True, False, True, False]
    assert (outer["a"].plain < 1).all()
