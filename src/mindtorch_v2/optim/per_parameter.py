"""Optimizers that update parameter by parameter: the round of a step, and what it shares between them.

It does not know how an optimizer moves a parameter.
"""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..ops.shape.resize import view_as_real
from . import flat, foreach, noted
from .optimizer import Optimizer, fixed, gradients, is_asked, setting, with_gradients


class PerParameter(Optimizer):
    """Makes the state of all parameters of a group, then updates one after the other, or all together."""

    joins = True  # whether the update of one is written in ops that lists of tensors have

    def _update(self, group: dict[str, Any]) -> None:
        params = with_gradients(self, group)
        states = [self.state[p] for p in params]
        for p, state in zip(params, states, strict=True):
            if not state:
                self._start(p, state, group)
        if self._update_arrays(params, states, group):
            return
        grads, at_once = gradients(params, group), group["foreach"] and self.joins
        if not at_once and noted.step(self._step_one, params, grads, states, group):
            return
        if any(p.is_complex() for p in params):
            params, grads, states = ([in_real_numbers(v) for v in values] for values in (params, grads, states))
        if at_once:
            if group["differentiable"]:
                raise AssertionError("_foreach ops don't support autograd")
            self._update_foreach(params, grads, states, group)
            return
        for p, gradient, state in zip(params, grads, states, strict=True):
            self._step_one(p, gradient, state, group)

    def _start(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Fill the state of a parameter before its first step; "step" among it."""
        raise NotImplementedError

    def _update_arrays(self, params: list[Any], states: list[dict[str, Any]], group: dict[str, Any]) -> bool:
        """Do the whole update without operators; False, with nothing changed, where that cannot be."""
        return flat.step(self._step_one, params, states, group)

    def _update_foreach(self, params: Any, grads: Any, states: list[dict[str, Any]], group: dict[str, Any]) -> None:
        foreach.update(self._step_one, params, grads, states, group)

    def _step_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"].add_(1)
        self._update_one(p, gradient, state, group)

    def _update_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Move one parameter, or several together, by its gradient; the step is counted already."""
        raise NotImplementedError


def in_real_numbers(value: Any) -> Any:
    """A complex tensor as pairs of real numbers, which optimizers scale each by its own; a state with all of its."""
    if isinstance(value, dict):
        return {name: in_real_numbers(held) for name, held in value.items()}
    return view_as_real(value.resolve_conj()) if isinstance(value, Tensor) and value.is_complex() else value


def decayed(p: Any, gradient: Any, group: dict[str, Any], by_tensor: bool = False) -> Any:
    """The gradient with weight decay in it; where that is decoupled, p decays here and the gradient stays. `by_tensor` says
    that the optimizer can be differentiated with respect to the decay where it is coupled."""
    decay = setting(group["weight_decay"])
    if decay == 0:
        return gradient
    if group.get("decoupled_weight_decay"):
        p.mul_(1 - setting(group["lr"]) * decay)
        return gradient
    if by_tensor and is_asked(decay):
        return gradient.addcmul(p.clone(), decay)
    return gradient.add(p, alpha=fixed(decay))


def kept(value: Any, group: dict[str, Any]) -> Any:
    """What backward will ask for: where the step is differentiable a copy, which later steps leave as it is."""
    return value.clone() if group["differentiable"] else value


def with_eps(root: Any, group: dict[str, Any]) -> Any:
    """A square root and eps, to divide by; not in place where backward will ask for the root."""
    return root.add(group["eps"]) if group["differentiable"] else root.add_(group["eps"])
