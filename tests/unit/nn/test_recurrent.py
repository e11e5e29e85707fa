"""The projected LSTM: every path gives what its equations give, and nothing depends on padding or company."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from polysemy.nn import recurrent
from polysemy.nn.recurrent import Packing, ProjectedLSTM, State

LENGTHS = torch.tensor([3, 0, 6, 6, 1])
SIZES = {"input_dim": 5, "hidden_size": 7, "proj_size": 3}


def layer(clip: float | None = 3.0, **changes: int) -> ProjectedLSTM:
    torch.manual_seed(3)
    model = ProjectedLSTM(**{**SIZES, **changes}, cell_clip=clip, proj_clip=clip).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model


def mask_of(lengths: Tensor) -> Tensor:
    return torch.arange(int(lengths.max())) < lengths[:, None]


def inputs(lengths: Tensor = LENGTHS) -> tuple[Tensor, State]:
    draw = torch.Generator().manual_seed(5)
    b, n = len(lengths), int(lengths.max())
    shapes = ((b, n, 5), (2, b, 3), (2, b, 7))
    x, h, c = (torch.randn(shape, generator=draw, dtype=torch.double).requires_grad_() for shape in shapes)
    return x, (h, c)


def run(model: ProjectedLSTM, x: Tensor, state: State | None, lengths: Tensor = LENGTHS) -> tuple[Tensor, State]:
    packing = Packing.of(mask_of(lengths))
    y, after = model(packing.pack(x), packing, state)
    return packing.unpack(y), after


def by_the_equations(model: ProjectedLSTM, x: Tensor, state: State, lengths: Tensor = LENGTHS) -> tuple[Tensor, State]:
    """``step`` over one sequence and one direction at a time, padding never touched."""
    out = x.new_zeros(*x.shape[:2], 2 * model.proj_size)
    after = [part.clone() for part in state]
    for row, length in enumerate(lengths.tolist()):
        for lane, steps in enumerate((range(length), reversed(range(length)))):
            h, c = (part[:, row : row + 1] for part in state)
            for t in steps:
                h, c = model.step(x[None, row : row + 1, t].expand(2, -1, -1), (h, c))
                out[row, t, lane * model.proj_size : (lane + 1) * model.proj_size] = h[lane, 0]
            after[0][lane, row], after[1][lane, row] = h[lane, 0], c[lane, 0]
    return out, (after[0], after[1])


@pytest.mark.parametrize("clip", [3.0, 0.3, None])
def test_states_and_gradients_are_those_of_the_equations(clip: float | None) -> None:
    model = layer(clip)
    results = []
    for path in (run, by_the_equations):
        x, state = inputs()
        y, after = path(model, x, state)
        weights = [torch.linspace(-1, 2, part.numel(), dtype=torch.double).view_as(part) for part in (y, *after)]
        total = sum((part * weight).sum() for part, weight in zip((y, *after), weights, strict=True))
        grads = torch.autograd.grad(total, [x, *state, *model.parameters()])
        results.append((y, *after, *grads))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-10, rtol=1e-10)
    clipped = bool((results[0][2].abs() == clip).any()) if clip else False
    assert clipped is (clip == 0.3)  # the clip is met in the one case, so that its gradient is tested too


@pytest.mark.parametrize("held", [1, 60, 1 << 22])
def test_without_gradients_any_cut_into_runs_gives_the_same(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, (x, state) = layer(), inputs()
    expected, last = run(model, x, state)
    monkeypatch.setattr(recurrent, "GATES_HELD", held)
    with torch.no_grad():
        y, after = run(model, x, state)
    for ours, wanted in zip((y, *after), (expected, *last), strict=True):
        torch.testing.assert_close(ours, wanted, atol=1e-12, rtol=0)


def test_a_sequence_alone_in_company_and_padded_is_the_same() -> None:
    model, (x, _) = layer(), inputs()
    together, _ = run(model, x, None)
    for row, length in enumerate(LENGTHS.tolist()):
        if length:
            alone, _ = run(model, x[row : row + 1, :length], None, LENGTHS[row : row + 1])
            torch.testing.assert_close(together[row, :length], alone[0], atol=1e-12, rtol=0)
        assert not together[row, length:].any()


def test_state_in_and_out_continues_where_a_text_was_cut() -> None:
    """The forward lane of two halves with the state handed on is that of the whole; the backward lane is not."""
    model, (x, _) = layer(), inputs()
    whole, _ = run(model, x[2:4], None, LENGTHS[2:4])
    half = torch.tensor([3, 3])
    first, state = run(model, x[2:4, :3], None, half)
    second, _ = run(model, x[2:4, 3:], state, half)
    torch.testing.assert_close(torch.cat([first, second], 1)[..., :3], whole[..., :3], atol=1e-12, rtol=0)
    assert (first[..., 3:] - whole[:, :3, 3:]).abs().max() > 1e-3


def test_the_state_that_went_in_is_not_changed() -> None:
    model, (x, state) = layer(), inputs()
    before = [part.detach().clone() for part in state]
    with torch.no_grad():
        run(model, x, state)
    run(model, x, state)
    assert all(torch.equal(part, kept) for part, kept in zip(state, before, strict=True))


def test_nan_in_the_padding_stays_there() -> None:
    model, (x, state) = layer(), inputs()
    expected, _ = run(model, x, state)
    y, after = run(model, x.masked_fill(~mask_of(LENGTHS)[..., None], float("nan")), state)
    assert torch.equal(y, expected)
    assert all(part.isfinite().all() for part in after)


def test_a_batch_of_empty_sequences() -> None:
    model, (x, state) = layer(), inputs()
    y, after = run(model, x[:, :0], state, torch.zeros(5, dtype=torch.long))
    assert y.shape == (5, 0, 6)
    assert torch.equal(after[0], state[0])
    assert torch.equal(after[1], state[1])


@pytest.mark.parametrize("training", [True, False])
def test_bf16_is_close_to_fp32_under_autocast_and_as_weights(training: bool) -> None:
    model = layer().float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.3)
    x = inputs()[0].detach().float()
    with torch.set_grad_enabled(training):
        expected, _ = run(model, x, None)
        with torch.autocast("cpu", torch.bfloat16):
            low, _ = run(model, x, None)
        low_weights, _ = run(model.bfloat16(), x.bfloat16(), None)
    assert low.dtype == torch.float32  # the sums are
    assert low_weights.dtype == torch.bfloat16
    for other in (low, low_weights.float()):
        assert not torch.equal(other, expected)
        torch.testing.assert_close(other, expected, atol=0.02, rtol=0.05)


def test_padding_before_a_token_is_refused() -> None:
    with pytest.raises(ValueError, match="after padding"):
        Packing.of(torch.tensor([[True, False, True]]))


def test_order_of_the_packing_is_undone() -> None:
    lengths = torch.tensor([2, 4, 1])
    packing = Packing.of(mask_of(lengths))
    assert packing.sizes == [3, 2, 1, 1]
    assert packing.order.tolist() == [1, 0, 2]
    assert packing.rows.tolist() == [[4, 0, 8, 5, 1, 6, 7], [7, 1, 8, 6, 0, 5, 4]]
    x = torch.arange(12.0).view(3, 4, 1)
    both = packing.unpack(packing.pack(x))
    expected = x.masked_fill(~mask_of(lengths)[..., None], 0.0)
    assert torch.equal(both, torch.cat([expected, expected], -1))
