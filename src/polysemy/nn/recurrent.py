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


class _Steps(NamedTuple):
    """What a run over consecutive steps leaves behind.

    torch's σ takes a sixth of the time of its tanh on a CPU, so tanh(z) is 2 σ(2z) − 1 everywhere: the gates are kept
    as σ(i), σ(2j), σ(f), σ(o), cells doubled, and hidden vectors halved.  Rows of cells and outputs stand behind the b
    rows of the state before the first step.
    """

    gates: Tensor  # (l, r, 4h)
    cells: Tensor  # (l, b + r, h) 2c
    squashed: Tensor  # (l, r, h) σ(2c)
    hidden: Tensor  # (l, r, h) σ(o) ∘ tanh(c) / 2, in the format of matrix products
    y: Tensor  # (l, b + r, p), in the format of matrix products


def _run(x: Tensor, weights: Weights, state: State, sizes: list[int], clips: Clips) -> _Steps:
    """Run the steps from ``state``.  ``weights``: matrices in the format of products, the bias in that of sums."""
    w_x, w_h, bias, w_p = weights
    h, c = state
    (lanes, rows, _), (batch, hidden_size) = x.shape, c.shape[1:]
    gates = torch.bmm(x.to(w_x.dtype), w_x).to(bias.dtype).add_(bias[:, None])
    gates[..., 2 * hidden_size : 3 * hidden_size] += FORGET_BIAS
    cells = gates.new_empty(lanes, batch + rows, hidden_size)
    squashed, hidden = cells.new_empty(lanes, rows, hidden_size), w_p.new_empty(lanes, rows, hidden_size)
    y = w_p.new_empty(lanes, batch + rows, w_p.size(2))
    torch.mul(c, 2, out=cells[:, :batch])
    y[:, :batch] = h
    single = [gates, *gates.view(lanes, rows, 4, hidden_size).unbind(2), squashed, hidden]
    steps = zip(*(torch.split(part, sizes, 1) for part in single), strict=True)
    cell_blocks, y_blocks = (torch.split(part, [batch, *sizes], 1) for part in (cells, y))
    for t, (z, i, j, f, o, s, out) in enumerate(steps):
        size = sizes[t]
        cell, y_now, h_before = cell_blocks[t + 1], y_blocks[t + 1], y_blocks[t][:, :size]
        if w_h.dtype == z.dtype:
            z.baddbmm_(h_before, w_h)
        else:
            z += torch.bmm(h_before, w_h)
        j *= 2
        z.sigmoid_()
        torch.mul(f, cell_blocks[t][:, :size], out=cell).sub_(i, alpha=2).addcmul_(i, j, value=4)
        if clips[0] is not None:
            cell.clamp_(-2 * clips[0], 2 * clips[0])
        torch.sigmoid(cell, out=s)
        torch.mul(s - 0.5, o, out=out)
        y_now.baddbmm_(out, w_p, beta=0, alpha=2)
        if clips[1] is not None:
            y_now.clamp_(-clips[1], clips[1])
    return _Steps(gates, cells, squashed, hidden, y)


def _last_rows(sizes: list[int], batch: int, device: torch.device) -> Tensor:
    """(b,) where the last step of each sequence stands, behind ``batch`` rows of the state before the first."""
    place = torch.arange(batch, device=device)
    steps = torch.tensor(sizes, dtype=torch.long, device=device)
    alive = (steps[:, None] > place).sum(0)
    first = torch.cat([steps.new_zeros(1), steps.cumsum(0)])
    return torch.where(alive > 0, batch + first[(alive - 1).clamp(min=0)] + place, place)


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
    weights, state = (w_x.to(low), w_h.to(low), bias.to(dtype), w_p.to(low)), (h, c.to(dtype))
    batch, out, most = h.size(1), [], max(GATES_HELD // bias.numel(), 1)
    begin = first = 0
    with torch.autocast(x.device.type, enabled=False):
        while begin < len(sizes):
            end, rows = begin + 1, sizes[begin]
            while end < len(sizes) and rows + sizes[end] <= most:
                rows, end = rows + sizes[end], end + 1
            steps = _run(x[:, first : first + rows], weights, state, sizes[begin:end], clips)
            last = _last_rows(sizes[begin:end], batch, x.device)
            state = steps.y.index_select(1, last), steps.cells.index_select(1, last).div_(2)
            out.append(steps.y[:, batch:])
            begin, first = end, first + rows
    y = torch.cat(out, 1) if out else x.new_empty(len(x), 0, w_p.size(2))
    return y.to(bias.dtype), state[0].to(bias.dtype), state[1].to(bias.dtype)


class _Recurrence(torch.autograd.Function):
    """All steps of a layer as one node: half the time of a node an operation, and of torch's own projected LSTM."""

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
        with torch.autocast(x.device.type, enabled=False):
            steps = _run(x, weights, (h, c.to(dtype)), sizes, clips)
        batch, last = h.size(1), _last_rows(sizes, h.size(1), x.device)
        ctx.save_for_backward(x, *weights, last, *steps)
        ctx.sizes, ctx.clips, ctx.dtype = sizes, clips, bias.dtype
        last_h, last_c = steps.y.index_select(1, last), steps.cells.index_select(1, last).div_(2)
        return steps.y[:, batch:].to(ctx.dtype, copy=True), last_h.to(ctx.dtype), last_c.to(ctx.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, w_x, w_h, bias, w_p, last, *kept = ctx.saved_tensors
        steps, batch = _Steps(*kept), len(last)
        grad_y, grad_h, grad_c = (grad.to(bias.dtype) for grad in grads)
        d_y = torch.cat([torch.zeros_like(grad_h), grad_y], 1).index_add_(1, last, grad_h)  # of the rows of steps.y
        inside = _inside(steps.cells, 2 * ctx.clips[0] if ctx.clips[0] else None, free=batch)
        d_c = grad_c.clone() if inside is None else grad_c * inside.index_select(1, last)
        slopes = _slopes(steps, ctx.sizes, inside)
        with torch.autocast(x.device.type, enabled=False):
            d_z, low = _back(slopes, _inside(steps.y, ctx.clips[1], free=batch), (w_h, w_p), d_y, d_c, ctx.sizes)
            d_x = torch.bmm(low, w_x.transpose(1, 2)).to(x.dtype)
            before = _before(steps.y, ctx.sizes)
            d_input, d_state = (torch.bmm(part.to(low.dtype).transpose(1, 2), low) for part in (x, before))
            d_projection = torch.bmm(steps.hidden.transpose(1, 2), d_y[:, batch:].to(low.dtype)).mul_(2)
        others = (d_input, d_state, d_z.sum(1), d_projection, d_y[:, :batch], d_c)
        return d_x, *(part.to(ctx.dtype) for part in others), None, None


Slopes = tuple[Tensor, Tensor, Tensor]


def _back(
    slopes: Slopes, inside: Tensor | None, weights: tuple[Tensor, Tensor], d_y: Tensor, d_c: Tensor, sizes: list[int]
) -> tuple[Tensor, Tensor]:
    """Gradient of z, as it is and in the format of matrix products, last step first; the slopes of z become it.

    ``d_y`` (l, b + r, p) and ``d_c`` (l, b, h), of the last cells, are completed in place; in the end they hold the
    gradients of the state before the first step.
    """
    w_h, w_p = (weight.transpose(1, 2) for weight in weights)
    d_z, through, carry = slopes
    batch, lanes = d_c.size(1), len(d_c)
    low = d_z if w_h.dtype == d_z.dtype else torch.empty_like(d_z, dtype=w_h.dtype)
    by_gate = d_z.view(lanes, -1, 4, d_c.size(2))
    single = [d_z, low, by_gate[:, :, :3], by_gate[:, :, 3], through, carry]
    views = list(zip(*(torch.split(part, sizes, 1) for part in single), strict=True))
    y_blocks = torch.split(d_y, [batch, *sizes], 1)
    inside_blocks = None if inside is None else torch.split(inside, [batch, *sizes], 1)
    for t in reversed(range(len(sizes))):
        dz, dz_low, dz_cell, dz_o, onward, back = views[t]
        dy, dc, dh = y_blocks[t + 1], d_c[:, : sizes[t]], y_blocks[t][:, : sizes[t]]
        if inside_blocks is not None:
            dy *= inside_blocks[t + 1]
        d_hidden = torch.bmm(dy.to(w_p.dtype), w_p).to(dy.dtype)
        dc.addcmul_(d_hidden, onward)
        dz_cell *= dc[:, :, None]
        dz_o *= d_hidden
        dc *= back
        if low is d_z:
            dh.baddbmm_(dz, w_h)
        else:
            dh += torch.bmm(dz_low.copy_(dz), w_h)
    return d_z, low


def _slopes(steps: _Steps, sizes: list[int], inside: Tensor | None) -> Slopes:
    """What gradients are multiplied with on their way, for the whole batch at once: from c (gates i, j, f) and from h
    (gate o) to z, from h to c, and from c to the c before.  ``inside``: 0 where a cell was clipped."""
    i, j, f, o = steps.gates.chunk(4, -1)
    batch = steps.cells.size(1) - steps.gates.size(1)
    slopes = torch.addcmul(steps.gates, steps.gates, steps.gates, value=-1)  # σ' = σ (1 − σ)
    slope_i, slope_j, slope_f, slope_o = slopes.chunk(4, -1)
    slope_i.mul_(j * 2 - 1)
    slope_j.mul_(i).mul_(4)  # tanh'(z) = 4 σ'(2z)
    slope_f.mul_(_before(steps.cells, sizes)).mul_(0.5)
    slope_o.mul_(steps.squashed * 2 - 1)
    through = torch.addcmul(steps.squashed, steps.squashed, steps.squashed, value=-1).mul_(o).mul_(4)
    if inside is not None:
        through *= inside[:, batch:]
        f = f * _before(inside, sizes)
    return slopes, through, f


def _before(rows: Tensor, sizes: list[int]) -> Tensor:
    """Rows (l, b + r, k) with the state in front -> (l, r, k): for each its sequence's row one step earlier."""
    batch = rows.size(1) - sum(sizes)
    blocks = torch.split(rows, [batch, *sizes], 1)
    return torch.cat([block[:, :size] for block, size in zip(blocks, sizes, strict=False)], 1)


def _inside(x: Tensor, limit: float | None, *, free: int) -> Tensor | None:
    """1 where a value was not clipped and 0 where it was; None when none was.  The first ``free`` rows never are."""
    if limit is None or x.size(1) == free:
        return None
    low, high = x[:, free:].aminmax()
    if max(-low.item(), high.item()) < limit:
        return None
    inside = (x.abs() < limit).to(x.dtype)
    inside[:, :free] = 1.0
    return inside
