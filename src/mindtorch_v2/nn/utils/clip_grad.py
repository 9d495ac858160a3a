"""Gradients scaled down to a norm, or cut off at a value."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable
from typing import Any

from ...autograd.grad_mode import no_grad
from ...core import tap
from ...core.tensor import Tensor
from ...dispatch.op import OPS
from ...ops.creation.convert import tensor
from ...ops.shape.join import stack


def _as_list(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _grouped(tensors: list[Any]) -> Iterable[list[Any]]:
    """Tensors by device and dtype, in the order they come."""
    groups: dict[Any, list[Any]] = {}
    for t in tensors:
        groups.setdefault((t.is_meta, t._a.dtype), []).append(t)
    return groups.values()


@no_grad()
def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Any:
    """The norm of all tensors as if they were one vector."""
    tensors, norm_type = _as_list(tensors), float(norm_type)
    if not tensors:
        return tensor(0.0)
    norms: list[Any] = []
    vector_norm = OPS["linalg_vector_norm"].function
    for group in _grouped(tensors):
        if foreach is False:
            norms.extend(vector_norm(t, norm_type) for t in group)
        else:
            norms.extend(OPS["_foreach_norm.Scalar"].function(group, norm_type))
    total = vector_norm(stack([n.to(tensors[0].device) for n in norms]), norm_type)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None) -> None:
    """Scale gradients so that a norm of `total_norm` becomes `max_norm`, where it is larger."""
    grads = [gradient for p in _as_list(parameters) if (gradient := p.grad) is not None]
    if not grads:
        return
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for group in _grouped(grads):
        if foreach is False:
            for g in group:
                g.mul_(factor)
        else:
            OPS["_foreach_mul_.Tensor"].function(group, factor.to(group[0].device))


@no_grad()
def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:  # fmt: skip
    """Scale the gradients of parameters, in place, so that their total norm is at most `max_norm`; that norm before."""
    generator = isinstance(parameters, types.GeneratorType)
    parameters = _as_list(parameters)
    if generator and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    grads = [gradient for p in parameters if (gradient := p.grad) is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:  # fmt: skip
    """`clip_grad_norm_` by its old name."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Cut the gradients of parameters off, in place, outside [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    for group in _grouped([gradient for p in _as_list(parameters) if (gradient := p.grad) is not None]):
        if foreach is False or not tap.NAMESPACE["HOOK"]:  # one pass instead of two that nobody sees
            for g in group:
                g.clamp_(min=-clip_value, max=clip_value)
        else:
            OPS["_foreach_clamp_min_.Scalar"].function(group, -clip_value)
            OPS["_foreach_clamp_max_.Scalar"].function(group, clip_value)


_get_total_norm, _clip_grads_with_norm_ = get_total_norm, clip_grads_with_norm_

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]
