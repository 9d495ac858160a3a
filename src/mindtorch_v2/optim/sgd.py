"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from . import arrays, noted
from .foreach import TensorLists
from .optimizer import Optimizer, check_fused, check_options, gradients, is_asked, number, setting, with_gradients
from .per_parameter import decayed


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
        check_fused(fused, foreach, differentiable)

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
        params = with_gradients(self, group)
        if arrays.sgd(params, self.state, group, rate, decay):
            return
        grads = gradients(params, group)
        if group["foreach"] and params:
            self._update_foreach(params, grads, group)
            return
        states = [self.state[p] for p in params] if momentum != 0 else [{} for _ in params]
        if noted.step(self._step_one, params, grads, states, group):
            return
        for p, gradient, state in zip(params, grads, states, strict=True):
            self._step_one(p, gradient, state, group)

    def _step_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        gradient = decayed(p, gradient, group, by_tensor=True)
        if group["momentum"] != 0:
            gradient = self._with_momentum(gradient, state, group)
        rate = setting(group["lr"])
        if is_asked(rate):
            p.addcmul_(gradient, rate, value=-1)
        else:
            p.add_(gradient, alpha=-rate)

    def _step_sparse(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["fused"]:
            raise RuntimeError("`_fused_sgd` does not support sparse gradients")
        self._step_one(p, gradient, state, group)

    def _update_foreach(self, params: list[Any], grads: list[Any], group: dict[str, Any]) -> None:
        p = TensorLists(params)
        gradient = decayed(p, TensorLists(grads), group)
        if group["momentum"] != 0:
            gradient = self._with_momentum_foreach(params, gradient, group)
        p.add_(gradient, alpha=-number(group["lr"]))

    def _with_momentum_foreach(self, params: list[Any], gradient: Any, group: dict[str, Any]) -> Any:
        states = [self.state[p] for p in params]
        if any(state.get("momentum_buffer") is None for state in states):  # those that begin have no list to go with
            mixed = zip(params, gradient.tensors, strict=True)
            return TensorLists(self._with_momentum(g, self.state[p], group) for p, g in mixed)
        buffer = TensorLists(state["momentum_buffer"] for state in states)
        buffer.mul_(group["momentum"]).add_(gradient, alpha=1 - group["dampening"])
        return gradient.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer

    def _with_momentum(self, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> Any:
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = gradient.detach().clone()
        else:
            buffer.mul_(group["momentum"]).add_(gradient, alpha=1 - group["dampening"])
        return gradient.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
