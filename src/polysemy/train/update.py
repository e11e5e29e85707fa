"""One step of training: how a batch changes a model.  The loop knows nothing else of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from polysemy.core.seeds import derive
from polysemy.data.batch import Batch
from polysemy.objectives.loss import Loss
from polysemy.train.optimize import Groups, Optimizer
from polysemy.train.parallel import Group, start_group
from polysemy.train.precision import LossScale, autocast, choose_device, choose_precision
from polysemy.train.schedule import factor
from polysemy.train.settings import TrainSettings


class NotFiniteError(Exception):
    """The loss or the gradient of a step is infinite or NaN.  ``applied``: whether the weights saw it already."""

    def __init__(self, lr: float, *, applied: bool) -> None:
        self.lr, self.applied = lr, applied
        super().__init__(f"not finite at learning rate {lr:g}")


class Update(Protocol):
    """What the loop asks of whatever it trains."""

    group: Group
    figures: dict[str, float]  # of the last step: lr, grad_norm

    @property
    def model(self) -> nn.Module:
        """The model, for switching its mode around an evaluation."""

    def step(self, batch: Any, step: int) -> Loss:
        """Change the weights; the loss before the change.  Raises NotFiniteError."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors (the model's under ``model.``) and plain values that ``load`` takes back."""

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Go back to a state; without optimizer tensors, the optimizer starts anew."""


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The weights, under ``model.``"""
    return {f"model.{name}": tensor for name, tensor in model.state_dict().items()}


def load_model(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy weights that ``model_tensors`` gave into ``model``, in place."""
    model.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})


class GradientUpdate:
    """Gradient descent on ``objective.loss(model, objective.corrupt(batch, generator))``.

    The losses of all parts of the batch (micro-batches, processes) are summed, and their gradient is divided once by
    the count of all: no result depends on how the batch was cut.  Corruption sees the whole batch, before it is cut.
    Every random number follows from (seed, step).  ``groups`` as in ``Optimizer``.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Any,
        settings: TrainSettings,
        groups: Groups | None = None,
    ) -> None:
        self.group = start_group()
        self.device = self.group.device or choose_device(settings.device)
        self.dtype = choose_precision(settings.precision, self.device)
        self.model, self.objective, self.settings = model.to(self.device).train(), objective, settings
        self.optimizer = Optimizer(model, settings, groups)
        self.scale = LossScale(1024.0 if self.dtype == torch.float16 else 1.0)
        self.figures: dict[str, float] = {}

    def step(self, batch: Batch, step: int) -> Loss:
        """The loss summed over the whole batch and all processes, in float64; see ``Update``."""
        s = self.settings
        rate = factor(s.schedule, step, s.steps, s.warmup_steps)
        generator = torch.Generator().manual_seed(derive(s.seed, "corrupt", step))
        whole = self.objective.corrupt(batch, generator).to(self.device)
        losses = []
        for number, part in enumerate(whole.split(s.accumulate * self.group.size)):
            if number % self.group.size == self.group.rank:
                torch.manual_seed(derive(s.seed, f"dropout/{number}", step))
                losses.append(self._backward(part))
        loss = add_losses([each for losses in self.group.gather(losses) for each in losses])
        self.group.sum_gradients(self.optimizer.parameters)
        self.figures = {"lr": s.lr * rate, "grad_norm": self._apply(loss, rate)}
        return loss

    def _backward(self, part: Batch) -> Loss:
        with autocast(self.device, self.dtype):
            loss: Loss = self.objective.loss(self.model, part)
        if loss.total.requires_grad:
            (loss.total * self.scale.value).backward()
        return Loss(loss.total.detach().double().cpu(), loss.count, dict(loss.parts))

    def _apply(self, loss: Loss, rate: float) -> float:
        """Divide, clip, check, update; the norm of the gradient before clipping.  Nothing is changed unless finite."""
        if not math.isfinite(loss.total):
            self.optimizer.clear()
            raise NotFiniteError(self.settings.lr * rate, applied=False)
        updated = [p for p in self.optimizer.parameters if p.grad is not None]
        if not loss.count or not updated:
            self.optimizer.clear()
            return 0.0
        for p in updated:
            if p.grad is not None and p.grad.is_sparse:
                p.grad = touched_rows(p.grad)
        grads = [p.grad for p in updated if p.grad is not None]
        share = 1.0 / (loss.count * self.scale.value)
        norm = float(nn.utils.get_total_norm([g.values() if g.is_sparse else g for g in grads])) * share
        if not math.isfinite(norm):
            self.optimizer.clear()
            if self.dtype == torch.float16 and self.scale.down():
                return norm
            raise NotFiniteError(self.settings.lr * rate, applied=False)
        clip = self.settings.clip
        coefficient = share * (clip / norm if clip and norm > clip else 1.0)
        for grad in grads:
            grad.mul_(coefficient)
        self.optimizer.step(rate)
        if self.dtype == torch.float16:
            self.scale.up()
        return norm

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """See ``Update``."""
        slots = {f"optimizer.{name}": tensor for name, tensor in self.optimizer.tensors().items()}
        return {**model_tensors(self.model), **slots}, {"scale": self.scale.value, "good": self.scale.good}

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """See ``Update``."""
        load_model(self.model, tensors)
        self.optimizer.load({k.removeprefix("optimizer."): v for k, v in tensors.items() if k.startswith("optimizer.")})
        self.scale = LossScale(values["scale"], values["good"])


class KernelUpdate:
    """A model that trains itself in place, block by block: ``model.fit_block(block, progress, seed) -> Loss``."""

    def __init__(self, model: nn.Module, settings: TrainSettings) -> None:
        self.model, self.settings = model, settings
        self.lr: float = getattr(getattr(model, "config", None), "lr", settings.lr)  # kernels have their own
        self.group = Group()
        self.figures: dict[str, float] = {}

    def step(self, batch: Any, step: int) -> Loss:
        """See ``Update``; ``progress`` is the part of the run that is done, from 0 to below 1."""
        seed = derive(self.settings.seed, "kernel", step)
        loss: Loss = self.model.fit_block(batch, step / self.settings.steps, seed)  # type: ignore[operator]
        if not math.isfinite(loss.total):
            raise NotFiniteError(self.lr, applied=True)
        return Loss(torch.tensor(float(loss.total), dtype=torch.float64), loss.count, dict(loss.parts))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """See ``Update``."""
        return model_tensors(self.model), {}

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """See ``Update``."""
        load_model(self.model, tensors)


def touched_rows(gradient: Tensor) -> Tensor:
    """A sparse gradient without rows of zeros, which are there or not by how the batch was cut."""
    gradient = gradient.coalesce()
    rows, values = gradient.indices(), gradient.values()
    kept = values.flatten(1).any(1)
    return torch.sparse_coo_tensor(
        rows[:, kept], values[kept], gradient.shape, is_coalesced=True, check_invariants=False
    )


def add_losses(losses: list[Loss]) -> Loss:
    """The loss of a batch from the losses of its parts."""
    parts: dict[str, tuple[float, int]] = {}
    for loss in losses:
        for name, (total, count) in loss.parts.items():
            before = parts.get(name, (0.0, 0))
            parts[name] = (before[0] + float(total), before[1] + count)
    total = sum(float(loss.total) for loss in losses)
    return Loss(torch.tensor(total, dtype=torch.float64), sum(loss.count for loss in losses), parts)
