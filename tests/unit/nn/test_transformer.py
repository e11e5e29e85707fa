"""The Transformer layer equals torch's own, in both orders of its norms."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import nn

from polysemy.nn.transformer import Attention, FeedForward, TransformerLayer

DIM, HEADS, FFN = 12, 3, 20


def layer(norm: Literal["pre", "post"], *, dropout: float = 0.0, attention_dropout: float = 0.0) -> TransformerLayer:
    torch.manual_seed(0)
    attention = Attention(DIM, HEADS, dropout=attention_dropout)
    return TransformerLayer(attention, FeedForward(DIM, FFN), DIM, norm=norm, dropout=dropout, eps=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_it_is_torchs_layer(norm: Literal["pre", "post"]) -> None:
    ours = layer(norm)
    theirs = nn.TransformerEncoderLayer(DIM, HEADS, FFN, 0.0, "gelu", batch_first=True, norm_first=norm == "pre")
    a, f = ours.attention, ours.feed_forward
    rows = {
        "self_attn.in_proj_": (a.query, a.key, a.value),
        "self_attn.out_proj.": (a.output,),
        "linear1.": (f.expand,),
        "linear2.": (f.contract,),
        "norm1.": (ours.attention_norm,),
        "norm2.": (ours.feed_forward_norm,),
    }
    state = {
        f"{name}{kind}": torch.cat([getattr(module, kind).detach() for module in modules])  # type: ignore[arg-type]
        for name, modules in rows.items()
        for kind in ("weight", "bias")
    }
    theirs.load_state_dict(state)
    x, mask = torch.randn(2, 6, DIM), torch.arange(6) < torch.tensor([6, 4])[:, None]
    expected = theirs(x, src_key_padding_mask=~mask)
    torch.testing.assert_close(ours(x, mask[:, None, None])[mask], expected[mask], atol=1e-5, rtol=0)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_memory_is_what_some_positions_look_at(norm: Literal["pre", "post"]) -> None:
    ours, x = layer(norm).eval(), torch.randn(2, 6, DIM)
    torch.testing.assert_close(ours(x[:, 1:3], None, x), ours(x)[:, 1:3])


@pytest.mark.parametrize("where", ["dropout", "attention_dropout"])
def test_both_dropouts_act_in_training_and_only_there(where: str) -> None:
    ours, x = layer("post", **{where: 0.5}), torch.randn(2, 6, DIM)
    assert not torch.equal(ours.train()(x), ours(x))
    assert torch.equal(ours.eval()(x), layer("post").eval()(x))


def test_causal_attention_has_no_future() -> None:
    torch.manual_seed(0)
    attention, x = Attention(DIM, HEADS, causal=True), torch.randn(1, 6, DIM)
    other = x.clone()
    other[:, 3] += 1.0
    changed = (attention(x) - attention(other)).abs().amax((0, 2)) > 1e-6
    assert changed.tolist() == [False] * 3 + [True] * 3
