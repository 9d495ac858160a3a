"""Optimizers of matrices: Adafactor, which keeps second moments by row and column, and Muon, whose steps are
orthogonal.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.dtype import bfloat16, finfo
from ..ops.creation.convert import tensor
from ..ops.creation.fill import zeros_like
from ..ops.linalg.products import addmm
from .optimizer import Optimizer, fixed, gradients, number, with_gradients


def _at_least(limit: float, **values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not limit <= number(value):
            raise ValueError(f"{name.replace('_', ' ')} should be >= {limit:g} but is: {value}")


class Adafactor(Optimizer):
    """Adafactor: the second moment of a matrix is the product of its rows' and its columns'."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: Any = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        _at_least(0, Learning_rate=lr, epsilon1=eps[0], epsilon2=eps[1], weight_decay=weight_decay)
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        _at_least(1, Clipping_threshold_d=d)
        super().__init__(
            params,
            {
                "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
                "foreach": foreach, "maximize": maximize,
            },
        )  # fmt: skip

    @staticmethod
    def _start(p: Any, state: dict[str, Any]) -> None:
        state["step"] = tensor(0.0)
        if p.grad.dim() > 1:
            shape = list(p.grad.shape)
            state["row_var"] = p.grad.new_zeros([*shape[:-1], 1])
            state["col_var"] = p.grad.new_zeros([*shape[:-2], 1, shape[-1]])
        else:
            state["variance"] = zeros_like(p.grad)

    def _update(self, group: dict[str, Any]) -> None:
        params = with_gradients(self, group)
        for p in params:
            if p.is_complex():
                raise RuntimeError("Adafactor does not support complex parameters")
            if not self.state[p]:
                self._start(p, self.state[p])
        for p, gradient in zip(params, gradients(params, group), strict=True):
            self._update_one(p, gradient, self.state[p], group)

    def _update_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        rate, (tiny, smallest) = fixed(group["lr"]), group["eps"]
        tiny = finfo(p.dtype).eps if tiny is None else tiny
        state["step"].add_(1)
        step = state["step"].item()
        size = max(smallest, p.norm(2).item() / math.sqrt(p.numel())) * min(rate, 1 / math.sqrt(step))
        if group["weight_decay"] != 0:
            p.mul_(1 - rate * group["weight_decay"])
        variance = self._variance(gradient, state, step ** group["beta2_decay"], tiny)
        change = variance.clamp_(min=tiny * tiny).rsqrt_().mul_(gradient)
        clipped = max(1.0, change.norm(2).item() / (math.sqrt(change.numel()) * group["d"]))
        p.add_(change, alpha=-size / clipped)

    @staticmethod
    def _variance(gradient: Any, state: dict[str, Any], fresh: float, tiny: float) -> Any:
        """The second moment, `fresh` of it from this gradient."""
        if gradient.dim() == 1 or "variance" in state:
            return state["variance"].lerp_(gradient * gradient, fresh).clone()
        rows, columns = state["row_var"], state["col_var"]
        for means, dim in ((rows, -1), (columns, -2)):
            means.lerp_(gradient.norm(dim=dim, keepdim=True).square_().div_(gradient.size(dim)), fresh)
        return (rows @ columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=tiny))


def _orthogonal(matrix: Any, coefficients: Any, steps: int, eps: float) -> Any:
    """The nearest orthogonal matrix, roughly: Newton-Schulz iterations in bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    x = matrix.to(bfloat16)
    x = x.T if tall else x
    x.div_(x.norm().clamp(min=eps))
    for _ in range(steps):
        gram = x @ x.T
        x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


class Muon(Optimizer):
    """Momentum whose steps are made orthogonal; for matrices only."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: Any = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        _at_least(0, Learning_rate=lr, momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(
            params,
            {
                "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
            },
        )  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    def _update(self, group: dict[str, Any]) -> None:
        rate, momentum = fixed(group["lr"]), group["momentum"]
        for p in with_gradients(self, group):
            state = self.state[p]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = zeros_like(p.grad)
            buffer = state["momentum_buffer"].lerp_(p.grad, 1 - momentum)
            change = p.grad.lerp(buffer, momentum) if group["nesterov"] else buffer
            change = _orthogonal(change, group["ns_coefficients"], group["ns_steps"], group["eps"])
            rows, columns = p.shape
            scale = math.sqrt(max(1, rows / columns))
            if group["adjust_lr_fn"] == "match_rms_adamw":
                scale = 0.2 * math.sqrt(max(rows, columns))
            p.mul_(1 - rate * group["weight_decay"])
            p.add_(change, alpha=-rate * scale)
