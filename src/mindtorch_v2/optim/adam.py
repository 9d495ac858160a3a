"""Adam and the optimizers that keep running means of gradients and their squares as it does."""

from __future__ import annotations

import math
from typing import Any

from ..ops.creation.convert import tensor
from ..ops.creation.fill import zeros_like
from . import arrays
from .foreach import TensorLists, maximum_
from .optimizer import check_fused, check_options, fixed, is_asked, number, setting
from .per_parameter import PerParameter, decayed, kept, with_eps


def _checked(**options: Any) -> dict[str, Any]:
    """Options of the family, each within its range."""
    check_options(learning_rate=(options["lr"], lambda v: v >= 0), epsilon_value=(options["eps"], lambda v: v >= 0))
    for position, beta in enumerate(options["betas"]):
        if not 0.0 <= number(beta) < 1.0:
            raise ValueError(f"Invalid beta parameter at index {position}: {beta}")
    check_options(
        weight_decay_value=(options["weight_decay"], lambda v: v >= 0),
        momentum_decay_value=(options.get("momentum_decay", 0), lambda v: v >= 0),
    )
    return options


class _Moments(PerParameter):
    """Shared by the Adam family: first and second moments per parameter, with a step counter."""

    def _start(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state.update(step=tensor(0.0), exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))


class Adam(_Moments):
    """Adam, optionally with AMSGrad or decoupled weight decay."""

    def __init__(self, params: Any, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None, decoupled_weight_decay: bool = False) -> None:  # fmt: skip
        super().__init__(
            params,
            _checked(
                lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize,
                foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused,
                decoupled_weight_decay=decoupled_weight_decay,
            ),
        )  # fmt: skip
        check_fused(fused, foreach, differentiable)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("amsgrad", False)
            group.setdefault("maximize", False)
            group.setdefault("decoupled_weight_decay", False)

    def _start(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        super()._start(p, state, group)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(p)

    def _update_arrays(self, params: list[Any], states: list[dict[str, Any]], group: dict[str, Any]) -> bool:
        betas = [number(b) for b in group["betas"]]
        done = arrays.adam(params, states, group, number(group["lr"]), betas)
        return done or super()._update_arrays(params, states, group)

    def _step_sparse(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")

    def _update_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        gradient = decayed(p, gradient, group, by_tensor=True)
        if any(map(is_asked, (group["lr"], *group["betas"]))):
            self._update_by_tensors(p, gradient, state, group)
            return
        beta1, beta2 = (number(b) for b in group["betas"])
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        step = state["step"].item()
        if group["amsgrad"]:
            maximum_(state["max_exp_avg_sq"], square)
            square = state["max_exp_avg_sq"]
        denominator = (square.sqrt() / math.sqrt(1 - beta2**step)).add_(group["eps"])
        p.addcdiv_(kept(mean, group), denominator, value=-(number(group["lr"]) / (1 - beta1**step)))

    def _update_by_tensors(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """The same in tensors throughout, so that it is differentiable with respect to the rate and the betas."""
        beta1, beta2 = map(setting, group["betas"])
        mean, square, step = state["exp_avg"], state["exp_avg_sq"], state["step"].clone()
        mean.lerp_(gradient, 1 - beta1)
        if is_asked(beta2):
            square.lerp_(gradient.square(), 1 - beta2)
        else:
            square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = state["max_exp_avg_sq"].maximum(square)
        scale = -(setting(group["lr"]) / (1 - beta1**step))
        denominator = square.sqrt() / ((1 - beta2**step).sqrt() * scale) + group["eps"] / scale
        p.addcdiv_(mean.clone(), denominator)

    def _update_foreach(self, params: Any, grads: Any, states: list[dict[str, Any]], group: dict[str, Any]) -> None:
        """With corrections of each parameter's own step, all parameters go together."""
        beta1, beta2 = (number(b) for b in group["betas"])
        p, rate = TensorLists(params), number(group["lr"])
        names = ("step", "exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))
        step, mean, square, *top = (TensorLists(state[name] for state in states) for name in names)
        step.add_(tensor(1.0), alpha=1.0)
        gradient = decayed(p, TensorLists(grads), group)
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2)
        scales = [-(rate / (1 - beta1 ** s.item())) for s in step.tensors]
        roots = [math.sqrt(1 - beta2 ** s.item()) for s in step.tensors]
        for largest in top:
            square = largest.maximum_(square)
        p.addcdiv_(mean, square.sqrt().div_(roots).add_(group["eps"]), scales)


class AdamW(Adam):
    """Adam with decoupled weight decay."""

    def __init__(self, params: Any, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class Adamax(_Moments):
    """Adam with the infinity norm in place of the second moment."""

    def __init__(self, params: Any, lr: Any = 2e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:  # fmt: skip
        super().__init__(
            params,
            _checked(
                lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach, maximize=maximize,
                differentiable=differentiable, capturable=capturable,
            ),
        )  # fmt: skip

    def _start(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state.update(step=tensor(0.0), exp_avg=zeros_like(p), exp_inf=zeros_like(p))

    def _update_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        gradient = decayed(p, gradient, group)
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        largest = state["exp_inf"]
        maximum_(largest.mul_(beta2), gradient.abs().add_(group["eps"]))
        correction = 1 - beta1 ** state["step"].item()
        p.addcdiv_(kept(state["exp_avg"], group), kept(largest, group), value=-(fixed(group["lr"]) / correction))


class NAdam(_Moments):
    """Adam with Nesterov momentum."""

    def __init__(self, params: Any, lr: Any = 2e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:  # fmt: skip
        super().__init__(
            params,
            _checked(
                lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
                decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, foreach=foreach,
                capturable=capturable, differentiable=differentiable,
            ),
        )  # fmt: skip

    def _start(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state.update(step=tensor(0.0), mu_product=tensor(1.0), exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))

    def _update_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        rate, step = fixed(group["lr"]), state["step"].item()
        gradient = decayed(p, gradient, group)
        mu = beta1 * (1.0 - 0.5 * (0.96 ** (step * group["momentum_decay"])))
        following = beta1 * (1.0 - 0.5 * (0.96 ** ((step + 1) * group["momentum_decay"])))
        state["mu_product"].mul_(mu)
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        root = state["exp_avg_sq"].div(1 - beta2**step).sqrt()
        product = state["mu_product"].item()
        denominator = with_eps(root, group)
        next_product = state["mu_product"].item() * following
        p.addcdiv_(gradient, denominator, value=-rate * (1.0 - mu) / (1.0 - product))
        p.addcdiv_(kept(state["exp_avg"], group), denominator, value=-rate * following / (1.0 - next_product))


class RAdam(_Moments):
    """Adam with its early variance rectified."""

    def __init__(self, params: Any, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False) -> None:  # fmt: skip
        super().__init__(
            params,
            _checked(
                lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize, foreach=foreach,
                capturable=capturable, decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable,
            ),
        )  # fmt: skip

    def _update_one(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        rate, step = setting(group["lr"]), state["step"].item()
        gradient = decayed(p, gradient, group)
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        corrected = state["exp_avg"] / (1 - beta1**step)
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * (beta2**step) / (1 - beta2**step)
        if length > 5.0:
            rectified = math.sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))
            adaptive = math.sqrt(1 - beta2**step) / with_eps(state["exp_avg_sq"].sqrt(), group)
            p.add_(corrected * rate * adaptive * rectified, alpha=-1.0)
        else:
            p.add_(corrected * rate, alpha=-1.0)
