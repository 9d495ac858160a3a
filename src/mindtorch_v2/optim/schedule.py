"""What every learning rate schedule is: rates that follow a count of steps, set on an optimizer's groups."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from .optimizer import Optimizer


def set_option(group: dict[str, Any], value: Any, name: str = "lr") -> None:
    """Give a group a rate; one that is a tensor keeps its identity."""
    if isinstance(group[name], Tensor):
        group[name].fill_(value)
    else:
        group[name] = value


def plain(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


class LRScheduler:
    """Base of schedules that are stepped once an epoch (or batch); subclasses write `get_lr`."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", plain(group["lr"]))
        else:
            for position, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(
                        f"param 'initial_lr' is not specified in param_groups[{position}] when resuming an optimizer"
                    )
        self.base_lrs: list[Any] = [plain(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._watch_steps()
        self._initial_step()

    def _watch_steps(self) -> None:
        """Count the optimizer's steps, to warn about a wrong order of calls."""
        step: Any = self.optimizer.step
        if hasattr(step, "_wrapped_by_lr_sched"):
            return
        reference = weakref.ref(self.optimizer)
        function = step.__func__

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            optimizer = reference()
            assert optimizer is not None
            optimizer._opt_called = True  # type: ignore[attr-defined]
            return function.__get__(optimizer, type(optimizer))(*args, **kwargs)

        counted._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        self.optimizer.step = counted  # type: ignore[method-assign]

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates set by the last step."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch (or to a given one)."""
        if self._step_count == 1 and not self._is_initial and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to "
                "do this will result in PyTorch skipping the first value of the learning rate schedule. See more "
                "details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            values = self.get_lr()
        else:
            warnings.warn(
                "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
                "Please use `scheduler.step()` to step the scheduler.",
                UserWarning,
                stacklevel=2,
            )
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            values = closed() if closed is not None else self.get_lr()
        self._apply(values)

    def _apply(self, values: Iterable[Any]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_option(group, value)
        self._last_lr = [plain(group["lr"]) for group in self.optimizer.param_groups]

    def _current(self) -> list[Any]:
        return [group["lr"] for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """The old name."""


def per_group(value: Any, optimizer: Optimizer, name: str) -> list[Any]:
    """One entry per parameter group."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"Expected {count} {name}, but got {len(value)}")
    return list(value)
