"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from . import arrays
from .optimizer import Optimizer, check_options, number, with_gradients


class SGD(Optimizer):
    """SGD, optionally with momentum, Nesterov's or plain."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(
            learning_rate=(lr, lambda v: v >= 0),
            momentum_value=(momentum, lambda v: v >= 0),
            weight_decay_value=(weight_decay, lambda v: v >= 0),
        )
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                "nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable,
                "fused": fused,
            },
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in (
                ("nesterov", False),
                ("maximize", False),
                ("foreach", None),
                ("differentiable", False),
                ("fused", None),
            ):
                group.setdefault(name, value)

    def _update(self, group: dict[str, Any]) -> None:
        rate, momentum, decay = -number(group["lr"]), group["momentum"], number(group["weight_decay"])
        params = with_gradients(group)
        if arrays.sgd(params, self.state, group, rate, decay):
            return
        for p in params:
            gradient = p.grad.neg() if group["maximize"] else p.grad
            if decay != 0:
                gradient = gradient.add(p, alpha=decay)
            if momentum != 0:
                gradient = self._with_momentum(p, gradient, group)
            p.add_(gradient, alpha=rate)

    def _with_momentum(self, p: Any, gradient: Any, group: dict[str, Any]) -> Any:
        state = self.state[p]
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = gradient.detach().clone()
        else:
            buffer.mul_(group["momentum"]).add_(gradient, alpha=1 - group["dampening"])
        return gradient.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
