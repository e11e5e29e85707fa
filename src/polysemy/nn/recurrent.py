"""Long short-term memory with a projection and clipping (Sak et al. 2014; Peters et al. 2018), several side by side.

    z = x W_x + h W_h + b                                  the gates i, j (candidate), f, o, in this order
    c' = clip(σ(f + 1) ∘ c + σ(i) ∘ tanh(j))               cell
    h' = clip((σ(o) ∘ tanh(c')) W_p)                       state and output

Only ``h W_h`` and what follows it runs step by step.  Sequences are laid out time step after time step, longest
first, so that no step computes padding; gradients through time are written out by hand, in one autograd node a layer.
Shapes use l: lanes (networks side by side, as the two directions are), b: sequences, r: rows (tokens of the batch,
padding left out), p: proj_size, h: hidden_size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from polysemy.nn.precision import product_dtype, sum_dtype

State = tuple[Tensor, Tensor]  # (l, b, p) state and (l, b, h) cell, in the order of the batch
Weights = tuple[Tensor, Tensor, Tensor, Tensor]  # W_x, W_h, b, W_p
Clips = tuple[float | None, float | None]  # of the cell and of the projection

FORGET_BIAS = 1.0  # added in the sum and not kept in b, as in the original files
GATES_HELD = 1 << 22  # numbers held at once where no gradient is asked for (16 MB): long texts cost no more memory


class Packing(NamedTuple):
    """Where the tokens of a padded batch stand when laid out time step after time step, longest sequence first."""

    shape: tuple[int, int]  # b, n of the padded batch
    order: Tensor  # (b,) the sequence at each place, by falling length
    sizes: list[int]  # sequences alive at each step; their sum is r
    rows: Tensor  # (2, r) positions in the flattened (b * n): in reading order, and backward from each end

    @classmethod
    def of(cls, mask: Tensor) -> Packing:
        """``mask`` (b, n) is True on the first tokens of each sequence; a sequence may be empty.

        Raises ValueError where a token follows padding.
        """
        b, n = mask.shape
        if (mask[:, 1:] & ~mask[:, :-1]).any():
            raise ValueError("a token stands after padding: recurrent nets need the padding at the end")
        lengths, order = mask.sum(1).sort(descending=True, stable=True)
        step = torch.arange(n, device=mask.device)[:, None]
        alive = step < lengths  # (n, b)
        steps, places = alive.nonzero(as_tuple=True)
        first = order[places] * n
        rows = torch.stack([first + steps, first + lengths[places] - 1 - steps])
        return cls((b, n), order, [size for size in alive.sum(1).tolist() if size], rows)

    def pack(self, x: Tensor) -> Tensor:
        """(b, n, dim) -> (2, r, dim)"""
        return F.embedding(self.rows, x.flatten(0, 1))

    def unpack(self, lanes: Tensor) -> Tensor:
        """(2, r, dim) -> (b, n, 2 dim) as [forward; backward], zeros in the padding"""
        (b, n), dim = self.shape, lanes.size(-1)
        padded = [lanes.new_zeros(b * n, dim).index_copy(0, self.rows[i], lanes[i]) for i in range(2)]
        return torch.cat(padded, -1).view(b, n, 2 * dim)


class ProjectedLSTM(nn.Module):
    """One layer of ``lanes`` independent LSTMs.  Clips are magnitudes; None leaves values as they are."""

    def __init__(
        self,
        input_dim: int,
        hidden_size: int,
        proj_size: int,
        *,
        lanes: int = 2,
        cell_clip: float | None = 3.0,
        proj_clip: float | None = 3.0,
    ) -> None:
        super().__init__()
        self.hidden_size, self.proj_size, self.clips = hidden_size, proj_size, (cell_clip, proj_clip)
        self.input = nn.Parameter(torch.empty(lanes, input_dim, 4 * hidden_size))  # W_x
        self.state = nn.Parameter(torch.empty(lanes, proj_size, 4 * hidden_size))  # W_h
        self.bias = nn.Parameter(torch.zeros(lanes * 4 * hidden_size))  # flat: a matrix would be decayed
        self.projection = nn.Parameter(torch.empty(lanes, hidden_size, proj_size))  # W_p
        limit = (6 / (input_dim + proj_size + 4 * hidden_size)) ** 0.5  # Glorot and Bengio 2010, of [W_x; W_h]
        nn.init.uniform_(self.input, -limit, limit)
        nn.init.uniform_(self.state, -limit, limit)
        limit = (6 / (hidden_size + proj_size)) ** 0.5
        nn.init.uniform_(self.projection, -limit, limit)

    def start(self, batch: int) -> State:
        """The state before the first token: zeros."""
        lanes = len(self.input)
        return self.bias.new_zeros(lanes, batch, self.proj_size), self.bias.new_zeros(lanes, batch, self.hidden_size)

    def forward(self, x: Tensor, packing: Packing, state: State | None = None) -> tuple[Tensor, State]:
        """``x`` (l, r, input_dim) laid out by ``packing`` -> (l, r, p), and the state after each sequence's last step.

        A sequence of length 0 keeps the state that it was given.
        """
        h, c = (part.index_select(1, packing.order) for part in state or self.start(packing.shape[0]))
        run = _Recurrence.apply if torch.is_grad_enabled() else _infer
        bias = self.bias.view(len(x), -1)
        y, h, c = run(x, self.input, self.state, bias, self.projection, h, c, packing.sizes, self.clips)
        place = packing.order.argsort()
        return y, (h.index_select(1, place), c.index_select(1, place))

    def step(self, x: Tensor, state: State) -> State:
        """One step as the equations have it: ``x`` (l, b, input_dim) -> (h', c').  ``forward`` is tested against it."""
        h, c = state
        i, j, f, o = (x @ self.input + h @ self.state + self.bias.view(len(x), 1, -1)).chunk(4, -1)
        c = _clip((f + FORGET_BIAS).sigmoid() * c + i.sigmoid() * j.tanh(), self.clips[0])
        return _clip((o.sigmoid() * c.tanh()) @ self.projection, self.clips[1]), c


def _clip(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)


def _product(x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """(l, r, k) by (l, k, m) -> (l, r, m) as ``dtype``, multiplied in the precision of ``weight``."""
    return torch.bmm(x.to(weight.dtype), weight).to(dtype)


class _Steps(NamedTuple):
    """What a run over consecutive steps leaves behind; gates are kept after their nonlinearity."""

    gates: Tensor  # (l, r, 4h)
    cells: Tensor  # (l, r, h)
    squashed: Tensor  # (l, r, h) tanh of the cells
    hidden: Tensor  # (l, r, h) before the projection
    y: Tensor  # (l, r, p)


def _run(x: Tensor, weights: Weights, h: Tensor, c: Tensor, sizes: Sequence[int], clips: Clips) -> _Steps:
    """Run the steps.  ``h`` and ``c`` change in place; those of a finished sequence keep their last value."""
    w_x, w_h, bias, w_p = weights
    dtype, hidden_size = h.dtype, w_p.size(1)
    gates = _product(x, w_x, dtype).add_(bias[:, None])
    gates[..., 2 * hidden_size : 3 * hidden_size] += FORGET_BIAS
    cells, squashed, hidden = (gates.new_empty(*gates.shape[:2], hidden_size) for _ in range(3))
    y = gates.new_empty(*gates.shape[:2], w_p.size(2))
    first = 0
    for size in sizes:
        here = slice(first, first + size)
        z, cell, tanh_cell, out = gates[:, here], cells[:, here], squashed[:, here], hidden[:, here]
        if w_h.dtype == dtype:
            z.baddbmm_(h[:, :size], w_h)
        else:
            z += torch.bmm(h[:, :size].to(w_h.dtype), w_h)
        i, j, f, o = z.chunk(4, -1)
        j *= 2
        z.sigmoid_()
        j.mul_(2).sub_(1)  # tanh(j) = 2 σ(2j) − 1: torch's σ takes a sixth of the time of its tanh on a CPU
        torch.mul(f, c[:, :size], out=cell).addcmul_(i, j)
        if clips[0] is not None:
            cell.clamp_(-clips[0], clips[0])
        torch.mul(cell, 2, out=tanh_cell).sigmoid_().mul_(2).sub_(1)
        torch.mul(o, tanh_cell, out=out)
        y_here = _product(out, w_p, dtype)
        if clips[1] is not None:
            y_here.clamp_(-clips[1], clips[1])
        y[:, here], h[:, :size], c[:, :size] = y_here, y_here, cell
        first += size
    return _Steps(gates, cells, squashed, hidden, y)


def _infer(
    x: Tensor,
    w_x: Tensor,
    w_h: Tensor,
    bias: Tensor,
    w_p: Tensor,
    h: Tensor,
    c: Tensor,
    sizes: list[int],
    clips: Clips,
) -> tuple[Tensor, Tensor, Tensor]:
    """Without gradients: a few steps at a time, of which only the output is kept."""
    low, dtype = product_dtype(x, bias), sum_dtype(bias)
    weights = (w_x.to(low), w_h.to(low), bias.to(dtype), w_p.to(low))
    h, c = h.to(dtype, copy=True), c.to(dtype, copy=True)
    y = x.new_empty(*x.shape[:2], w_p.size(2), dtype=bias.dtype)
    most = max(GATES_HELD // bias.numel(), 1)
    begin = first = 0
    with torch.autocast(x.device.type, enabled=False):
        while begin < len(sizes):
            end, rows = begin + 1, sizes[begin]
            while end < len(sizes) and rows + sizes[end] <= most:
                rows += sizes[end]
                end += 1
            y[:, first : first + rows] = _run(x[:, first : first + rows], weights, h, c, sizes[begin:end], clips).y
            begin, first = end, first + rows
    return y, h.to(bias.dtype), c.to(bias.dtype)


class _Recurrence(torch.autograd.Function):
    """All steps of a layer as one node: half the time of one node an operation, and of torch's own LSTM."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w_x: Tensor,
        w_h: Tensor,
        bias: Tensor,
        w_p: Tensor,
        h: Tensor,
        c: Tensor,
        sizes: list[int],
        clips: Clips,
    ) -> tuple[Tensor, Tensor, Tensor]:
        low, dtype = product_dtype(x, bias), sum_dtype(bias)
        weights = (w_x.to(low), w_h.to(low), bias.to(dtype), w_p.to(low))
        last_h, last_c = h.to(dtype, copy=True), c.to(dtype, copy=True)
        with torch.autocast(x.device.type, enabled=False):
            steps = _run(x, weights, last_h, last_c, sizes, clips)
        ctx.save_for_backward(x, *weights, h, c, *steps)
        ctx.sizes, ctx.clips, ctx.dtype = sizes, clips, bias.dtype
        return steps.y.to(bias.dtype), last_h.to(bias.dtype), last_c.to(bias.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, w_x, w_h, bias, w_p, h, c, *kept = ctx.saved_tensors
        steps = _Steps(*kept)
        d_y, d_h, d_c = (grad.to(bias.dtype, copy=True) for grad in grads)
        before_h, before_c = (_before(start, rows, ctx.sizes) for start, rows in ((h, steps.y), (c, steps.cells)))
        with torch.autocast(x.device.type, enabled=False):
            d_z = _back(steps, before_c, (w_h, w_p), (d_y, d_h, d_c), ctx.sizes, ctx.clips)
            low = d_z.to(w_x.dtype)
            transposed = [part.to(w_x.dtype).transpose(1, 2) for part in (x, before_h, steps.hidden)]
            d_x = torch.bmm(low, w_x.transpose(1, 2)).to(x.dtype)
            d_weights = (torch.bmm(transposed[0], low), torch.bmm(transposed[1], low), d_z.sum(1))
            d_projection = torch.bmm(transposed[2], d_y.to(w_x.dtype))
        out = (d_x, *(part.to(ctx.dtype) for part in (*d_weights, d_projection, d_h, d_c)))
        return *out, None, None


def _before(start: Tensor, rows: Tensor, sizes: Sequence[int]) -> Tensor:
    """For each row the value of its sequence one step earlier: ``start`` (l, b, k), ``rows`` (l, r, k) -> (l, r, k)"""
    out = torch.empty_like(rows)
    previous, first = start, 0
    for size in sizes:
        out[:, first : first + size] = previous[:, :size]
        previous = rows[:, first : first + size]
        first += size
    return out


def _back(
    steps: _Steps,
    before_c: Tensor,
    weights: tuple[Tensor, Tensor],
    grads: tuple[Tensor, Tensor, Tensor],
    sizes: Sequence[int],
    clips: Clips,
) -> Tensor:
    """Gradient of z, last step first.  ``grads`` of y, h and c are completed in place.

    All that does not depend on a later step is computed for the whole batch before the loop.
    """
    w_h, w_p = (weight.transpose(1, 2) for weight in weights)
    d_y, d_h, d_c = grads
    i, j, f, o = steps.gates.chunk(4, -1)
    d_z = torch.addcmul(steps.gates, steps.gates, steps.gates, value=-1)  # σ' = σ (1 − σ) of all gates
    slope_i, slope_j, slope_f, slope_o = d_z.chunk(4, -1)
    slope_i *= j
    torch.mul(j, j, out=slope_j).neg_().add_(1).mul_(i)  # tanh' = 1 − tanh², of the candidate
    slope_f *= before_c
    slope_o *= steps.squashed
    through = torch.addcmul(o, steps.hidden, steps.squashed, value=-1)  # σ(o) tanh'(c)
    inside_c, inside_y = (_inside(part, limit) for part, limit in zip((steps.cells, steps.y), clips, strict=True))
    first = len(d_y[0])
    for size in reversed(sizes):
        first -= size
        here = slice(first, first + size)
        dy, dc, dz = d_y[:, here], d_c[:, :size], d_z[:, here]
        dy += d_h[:, :size]
        if inside_y is not None:
            dy *= inside_y[:, here]
        d_hidden = _product(dy, w_p, dy.dtype)
        dc.addcmul_(d_hidden, through[:, here])
        if inside_c is not None:
            dc *= inside_c[:, here]
        by_gate = dz.view(*dz.shape[:2], 4, -1)
        by_gate[:, :, :3] *= dc[:, :, None]
        by_gate[:, :, 3] *= d_hidden
        dc *= f[:, here]
        d_h[:, :size] = torch.bmm(dz.to(w_h.dtype), w_h)
    return d_z


def _inside(x: Tensor, limit: float | None) -> Tensor | None:
    """1 where a value was not clipped and 0 where it was; None when none was, which is the rule."""
    if limit is None or not x.numel():
        return None
    low, high = x.aminmax()
    return (x.abs() < limit).to(x.dtype) if max(-low.item(), high.item()) >= limit else None
