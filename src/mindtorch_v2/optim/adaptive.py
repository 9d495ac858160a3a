"""Optimizers that scale each step by past gradients: Adagrad, Adadelta, RMSprop, Rprop, ASGD."""

from __future__ import annotations

from typing import Any

from ..ops.creation.convert import as_tensor, tensor
from ..ops.creation.fill import full_like, ones, zeros, zeros_like
from .optimizer import check_fused, check_options, fixed
from .per_parameter import PerParameter, decayed, kept, with_eps


class Adagrad(PerParameter):
    """Adagrad."""

    def __init__(self, params: Any, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: bool | None = None) -> None:  # fmt: skip
        check_options(
            learning_rate=(lr, lambda v: v >= 0), lr_decay_value=(lr_decay, lambda v: v >= 0),
            weight_decay_value=(weight_decay, lambda v: v >= 0), epsilon_value=(eps, lambda v: v >= 0),
            initial_accumulator_value_value=(initial_accumulator_value, lambda v: v >= 0),
        )  # fmt: skip
        super().__init__(
            params,
            {
                "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "fused": fused,
            },
        )  # fmt: skip
        check_fused(fused, foreach, differentiable)
        for group in self.param_groups:
            for p in group["params"]:
                self._start(p, self.state[p], group)

    def _start(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = tensor(0.0)
        state["sum"] = full_like(p, group["initial_accumulator_value"])

    def _update_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = state["step"].item()
        gradient = decayed(p, gradient, group)
        rate = fixed(group["lr"]) / (1 + (step - 1) * group["lr_decay"])
        state["sum"].addcmul_(gradient, gradient, value=1)
        p.addcdiv_(gradient, with_eps(state["sum"].sqrt(), group), value=-rate)

    def _step_sparse(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """The same on the rows that the gradient has values for; the others rest."""
        if group["fused"]:
            raise RuntimeError("`fused` does not support sparse grad or complex param")
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        state["step"].add_(1)
        rate = fixed(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        gradient = gradient.coalesce()
        values = gradient.values()
        state["sum"].add_(gradient.with_values(values.pow(2)))
        root = with_eps(state["sum"].sparse_mask(gradient).values().sqrt_(), group)
        p.add_(gradient.with_values(values / root), alpha=-rate)


class Adadelta(PerParameter):
    """Adadelta."""

    def __init__(self, params: Any, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
                 foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False,
                 differentiable: bool = False) -> None:  # fmt: skip
        check_options(
            learning_rate=(lr, lambda v: v >= 0), rho_value=(rho, lambda v: 0 <= v <= 1),
            epsilon_value=(eps, lambda v: v >= 0), weight_decay_value=(weight_decay, lambda v: v >= 0),
        )  # fmt: skip
        super().__init__(
            params,
            {
                "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
            },
        )  # fmt: skip

    def _start(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state.update(step=zeros(()), square_avg=zeros_like(p), acc_delta=zeros_like(p))

    def _update_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        rho, eps = group["rho"], group["eps"]
        gradient = decayed(p, gradient, group)
        square, moved = state["square_avg"], state["acc_delta"]
        square.mul_(rho).addcmul_(gradient, gradient, value=1 - rho)
        scale = square.add(eps).sqrt_()
        delta = kept(moved.add(eps).sqrt_(), group).div_(scale).mul_(gradient)
        moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-fixed(group["lr"]))


class RMSprop(PerParameter):
    """RMSprop, optionally centred and with momentum."""

    def __init__(self, params: Any, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
                 momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:  # fmt: skip
        check_options(
            learning_rate=(lr, lambda v: v >= 0), epsilon_value=(eps, lambda v: v >= 0),
            momentum_value=(momentum, lambda v: v >= 0), weight_decay_value=(weight_decay, lambda v: v >= 0),
            alpha_value=(alpha, lambda v: v >= 0),
        )  # fmt: skip
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable,
            },
        )  # fmt: skip

    def _start(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = zeros(())
        state["square_avg"] = zeros_like(p)
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = zeros_like(p)

    def _update_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        alpha, rate = group["alpha"], fixed(group["lr"])
        gradient = decayed(p, gradient, group)
        square = state["square_avg"]
        square.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"]
            mean.lerp_(gradient, 1 - alpha)
            center = kept(mean, group)
            average = square.addcmul(center, center, value=-1).sqrt_()
        else:
            average = square.sqrt()
        average = with_eps(average, group)
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"]
            buffer.mul_(group["momentum"]).addcdiv_(gradient, average)
            p.add_(buffer, alpha=-rate)
        else:
            p.addcdiv_(gradient, average, value=-rate)


class Rprop(PerParameter):
    """Resilient backpropagation: step sizes grow or shrink by the signs of successive gradients."""

    joins = False

    def __init__(self, params: Any, lr: Any = 1e-2, etas: Any = (0.5, 1.2), step_sizes: Any = (1e-6, 50), *,
                 capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False) -> None:  # fmt: skip
        check_options(learning_rate=(lr, lambda v: v >= 0))
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(
            params,
            {
                "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def _start(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        rate = fixed(group["lr"])
        state.update(step=zeros(()), prev=zeros_like(p))
        state["step_size"] = full_like(p.grad, complex(rate, rate) if p.is_complex() else rate)

    def _update_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        shrink, grow = group["etas"]
        # Each sign becomes its factor in place; 1 < grow and 0 < shrink < 1, so none is taken for another sign.
        factor = gradient.mul(state["prev"]).sign()
        factor[factor.gt(0)] = grow
        factor[factor.lt(0)] = shrink
        factor[factor.eq(0)] = 1
        state["step_size"].mul_(factor).clamp_(*group["step_sizes"])
        gradient = gradient.clone()
        gradient[factor.eq(shrink)] = 0
        p.addcmul_(gradient.sign(), kept(state["step_size"], group), value=-1)
        state["prev"].copy_(gradient)


class ASGD(PerParameter):
    """Averaged stochastic gradient descent."""

    joins = False

    def __init__(self, params: Any, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
                 weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:  # fmt: skip
        check_options(learning_rate=(lr, lambda v: v >= 0), weight_decay_value=(weight_decay, lambda v: v >= 0))
        super().__init__(
            params,
            {
                "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
                "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def _start(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = zeros(())
        state["eta"] = as_tensor(float(fixed(group["lr"]))).clone().detach()
        state["mu"] = ones(())
        state["ax"] = zeros_like(p)

    def _update_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        rate, lambd = fixed(group["lr"]), group["lambd"]
        gradient = decayed(p, gradient, group)
        eta = state["eta"].item()
        p.mul_(1 - lambd * eta)
        p.add_(gradient, alpha=-eta)
        mean, mu = state["ax"], state["mu"].item()
        if mu != 1:
            mean.add_(p.sub(mean).mul_(mu))
        else:
            mean.copy_(p)
        step = state["step"].item()
        state["eta"].copy_(as_tensor(rate / ((1 + lambd * rate * step) ** group["alpha"])))
        state["mu"].copy_(as_tensor(1 / max(1, step - group["t0"])))
