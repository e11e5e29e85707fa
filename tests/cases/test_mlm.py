"""Cases MLM: what is masked, and what is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from polysemy.data.batch import Batch
from polysemy.objectives.masked import Masked
from polysemy.systems.bert import BERT, BERTConfig
from polysemy.text.tokens import Special

SPECIAL = Special(pad=0, unk=1, begin=2, end=3, mask=4)
FOUR = Batch(size=1, ids=torch.tensor([[2, 10, 11, 12, 13, 3]]), words=torch.tensor([[-1, 0, 1, 2, 3, -1]]))


def tiny() -> BERT:
    torch.manual_seed(0)
    return BERT(BERTConfig(vocab_size=20, dim=8, num_layers=1, num_heads=2, ffn_dim=8, max_length=8, dropout=0.1))


def test_mlm_01_something_is_always_masked_and_nothing_is_nan() -> None:
    model, objective, generator = tiny().train(), Masked(SPECIAL, 20), torch.Generator().manual_seed(0)
    specials_only = Batch(size=1, ids=torch.tensor([[2, 3]]))
    for draw in range(1000):
        batch = objective.corrupt(FOUR if draw % 10 else specials_only, generator)
        loss = objective.loss(model, batch)
        model.zero_grad()
        loss.total.backward()
        assert loss.count == (1 if draw % 10 else 0)
        assert loss.count or float(loss.total.detach()) == 0.0
        assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())


def test_mlm_02_words_are_whole_in_any_tokenizer() -> None:
    """``<s> ▁mask ing ▁me </s>``: no piece says by its spelling which word it continues."""
    batch = Batch(size=1, ids=torch.tensor([[2, 10, 11, 12, 3]]), words=torch.tensor([[-1, 0, 0, 1, -1]]))
    objective, generator = Masked(SPECIAL, 20, whole_words=True), torch.Generator().manual_seed(0)
    seen = set()
    for _ in range(1000):
        masked = objective.corrupt(batch, generator)
        assert masked.target_ids is not None
        begin, mask, ing, me, end = (masked.target_ids[0] >= 0).tolist()
        assert not begin
        assert not end
        assert mask == ing
        seen.add((mask, me))
    assert seen == {(True, False), (False, True)}
    with pytest.raises(ValueError, match="words"):
        objective.corrupt(replace(batch, words=None), generator)


def test_mlm_04_only_masked_positions_count() -> None:
    """Labels are left for all five tokens; the loss is that of the one that is masked, and says so."""
    model, objective = tiny().eval(), Masked(SPECIAL, 20)
    ids = torch.tensor([[10, 11, 12, 13, 14]])
    batch = objective.corrupt(Batch(size=1, ids=ids, target_ids=ids), torch.Generator().manual_seed(0))
    assert batch.ids is not None
    assert batch.target_ids is not None
    (at,) = (batch.target_ids[0] >= 0).nonzero()[:, 0].tolist()
    loss = objective.loss(model, batch)
    alone = F.cross_entropy(model.masked_lm(model(batch.ids).last[0, at]), ids[0, at])
    assert loss.count == 1
    assert loss.parts["masked"] == (pytest.approx(float(alone.detach())), 1)
    torch.testing.assert_close(loss.total, alone)
    stray = batch.ids.clone()
    stray[0, (at + 1) % 5] = 4
    with pytest.raises(ValueError, match="mask symbol"):
        objective.loss(model, replace(batch, ids=stray))
