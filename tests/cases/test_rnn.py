"""Cases RNN: recurrent nets and sequences without words."""

from __future__ import annotations

import pytest
import torch

from polysemy.nn.recurrent import Packing, ProjectedLSTM


@pytest.mark.parametrize("training", [True, False])
def test_rnn_01_an_empty_sequence_gives_zeros_and_keeps_its_state(training: bool) -> None:
    torch.manual_seed(0)
    layer = ProjectedLSTM(4, 6, 3)
    x, mask = torch.randn(2, 3, 4), torch.tensor([[True, True, True], [False, False, False]])
    state = (torch.randn(2, 2, 3), torch.randn(2, 2, 6))
    packing = Packing.of(mask)
    with torch.set_grad_enabled(training):
        y, after = layer(packing.pack(x), packing, state)
        out = packing.unpack(y)
    assert not out[1].any()
    assert out[0].abs().min() > 0
    for part, initial in zip(after, state, strict=True):
        assert torch.equal(part[:, 1], initial[:, 1])
        assert not torch.equal(part[:, 0], initial[:, 0])
