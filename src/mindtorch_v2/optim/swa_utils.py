"""torch.optim.swa_utils: averages of a model's weights over training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from ..autograd.grad_mode import no_grad
from ..core.dtype import int64
from ..core.tensor import Tensor
from ..nn.modules.batchnorm import _BatchNorm
from ..nn.modules.module import Module
from ..ops.creation.convert import tensor
from .lr_scheduler import LRScheduler


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """The exponential moving average as a function of one parameter."""
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    def average(ema: Any, current: Any, count: Any) -> Any:
        return decay * ema + (1 - decay) * current

    return no_grad()(average)


def get_swa_avg_fn() -> Callable[..., Any]:
    """The plain mean as a function of one parameter."""

    def average(mean: Any, current: Any, count: Any) -> Any:
        return mean + (current - mean) / (count + 1)

    return no_grad()(average)


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """The exponential moving average of a list of parameters, in place."""
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    def average(means: list[Any], currents: list[Any], count: Any) -> None:
        for mean, current in zip(means, currents, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(current, 1 - decay)
            else:
                mean.copy_(mean * decay + current * (1 - decay))

    return no_grad()(average)


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """The plain mean of a list of parameters, in place."""

    def average(means: list[Any], currents: list[Any], count: Any) -> None:
        for mean, current in zip(means, currents, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(current, 1.0 / (float(count) + 1))
            else:
                mean.add_((current - mean) // (int(count) + 1))

    return no_grad()(average)


class AveragedModel(Module):
    """A copy of a model whose weights are the average of those it was updated with."""

    def __init__(self, model: Any, device: Any = None, avg_fn: Any = None, multi_avg_fn: Any = None,
                 use_buffers: bool = False) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Any) -> None:
        """Take the model's present weights into the average."""
        mine, theirs = ([*m.parameters(), *(m.buffers() if self.use_buffers else ())] for m in (self.module, model))
        pairs = [(a.detach(), b.detach()) for a, b in zip(mine, theirs, strict=True)]
        if self.n_averaged == 0:
            for a, b in pairs:
                a.copy_(b)
        elif self.avg_fn is not None:
            for a, b in pairs:
                a.copy_(self.avg_fn(a, b, self.n_averaged))
        else:
            average = self.multi_avg_fn or get_swa_multi_avg_fn()
            average([a for a, _ in pairs], [b for _, b in pairs], self.n_averaged)
        if not self.use_buffers:
            for a, b in zip(self.module.buffers(), model.buffers(), strict=True):
                a.detach().copy_(b.detach())
        self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Compute the running statistics of batch norms anew over a pass through data."""
    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for m in momenta:
        m.reset_running_stats()
        m.momentum = None
    with no_grad():
        for batch in loader:
            data = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(data.to(device) if device is not None and isinstance(data, Tensor) else data)
    for m, momentum in momenta.items():
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the rates to fixed values, where they stay."""

    def __init__(self, optimizer: Any, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos",
                 last_epoch: int = -1) -> None:  # fmt: skip
        rates = swa_lr if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2 if self._strategy == "cos" else t

    def get_lr(self) -> list[Any]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before = self._share(max(0, min(1, (step - 1) / max(1, self.anneal_epochs))))
        now = self._share(max(0, min(1, step / max(1, self.anneal_epochs))))
        rates = []
        for group in self.optimizer.param_groups:
            start = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates
