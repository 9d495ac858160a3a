"""Rows of activations that need more than the input: a learned slope, random slopes, a gate, or a buffer of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.device import contiguous_format
from ...core.errors import wrap_dim
from ...core.layouts import elementwise
from ...core.meta import meta
from ...core.tensor import Tensor, make
from ...dispatch.op import Op, composite, explicit, op
from ...dispatch.overlap import guarded
from ...kernels import random, result_layout
from ...kernels.checks import is_float, not_implemented
from ...kernels.compiled import C
from ...kernels.pointwise import activation as kernels
from ...kernels.precision import widened
from .. import flops
from ..creation.fill import empty_like, zeros_like
from ..meta import network as shapes_network
from ..meta import shapes
from ..pointwise.arithmetic import kept
from ..shape import inner
from ..shape.join import cat
from .activation import leaky_relu, leaky_relu_backward

# --- log sigmoid ------------------------------------------------------------------------------------------------------


@composite(
    "log_sigmoid(Tensor self) -> Tensor",
    method=False,
    fast=(
        "(input._a.dtype is F32 or input._a.dtype is F64) and (not GRAD() or (input._ag is None and input._view is None))",
        lambda self: make(result_layout.plain(kernels.log_sigmoid(self._a))),  # without the buffer, which nobody sees
    ),
)
def log_sigmoid(self: Any) -> Any:
    return log_sigmoid_forward.function(self)[0]


@op(
    "log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)",
    all_flops=flops.each(6, 1),
    meta=shapes.result_rule(lambda a: (shapes.like(a), meta((0,), a.dtype))),
    node="LogSigmoidBackward0",
    nondiff=(1,),
    out=False,
    method=False,
    self=lambda g, self, result1: log_sigmoid_backward.function(g, self, result1),
)
@widened
def log_sigmoid_forward(x: Any) -> Any:
    """The buffer stays empty: the slope needs nothing but the input."""
    if not is_float(x.dtype):
        raise not_implemented("log_sigmoid_cpu", x.dtype)
    return kernels.log_sigmoid(x), np.empty(0, x.dtype)


def _log_sigmoid_twice(g: Any, grad_output: Any, self: Any) -> Any:
    s = self.sigmoid()
    return -(g * grad_output * (s * (1 - s)))


@op(
    "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
    all_flops=flops.each(6, 1),
    meta=shapes.like_nth(1),
    out=False,
    method=False,
    grad_output=lambda g, self, buffer: log_sigmoid_backward.function(g, self, buffer),
    self=_log_sigmoid_twice,
)
@widened
def log_sigmoid_backward(g: Any, x: Any, buffer: Any) -> Any:
    return kernels.log_sigmoid_backward(g, x)


# --- a learned slope --------------------------------------------------------------------------------------------------


def _prelu_small(self: Any, weight: Any) -> Any:
    """Few elements that nobody differentiates, in one compiled call where that takes them."""
    made = C.prelu(self._a, weight._a)
    return _prelu_of(self, weight) if made is None else make(made)


_FEW_ALONE = (
    "input._a.size <= 4096 and weight._a.ndim < 2 and (not GRAD() or "
    "(input._ag is None and input._view is None and weight._ag is None and weight._view is None))"
)


@composite(
    "prelu(Tensor self, Tensor weight) -> Tensor",
    autocast="lower_precision",
    fast=None if C is None else (_FEW_ALONE, _prelu_small),
)
def prelu(self: Any, weight: Any) -> Any:
    return _prelu_of(self, weight)


def _prelu_of(self: Any, weight: Any) -> Any:
    if self.dtype is not weight.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {self.dtype} and {weight.dtype}")
    count, ndim = weight.numel(), self.dim()
    if weight.dim() > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}")
    if count != 1:
        if ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = self.shape[1] if ndim > 1 else 1
        if channels != count:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} and channel "
                f"size = {channels}."
            )
    if weight.dim() != ndim:
        weight = weight.reshape([count if d == 1 and ndim > 1 else 1 for d in range(ndim)])
    return prelu_kernel.function(self, weight)


prelu_kernel = Op(
    "_prelu_kernel(Tensor self, Tensor weight) -> Tensor",
    kernels.prelu,
    all_flops=flops.each(2, 2),
    rule="same",
    takes="f",
    label="prelu_cpu",
    out=False,
    method=False,
    number_fast=False,
    formulas={"self weight": lambda g, self, weight, needs: prelu_kernel_backward.function(g, self, weight)},
)


def _prelu_twice(grads: Any, grad_output: Any, self: Any, weight: Any, needs: Any) -> Any:
    """Of the gradients of `self` and `weight`, which are linear in `grad_output`, `self` and `weight` each."""
    of_self, of_weight = grads
    below = self <= 0
    found: list[Any] = [None, None, None]
    if of_self is not None:
        found[0] = (of_self * weight).where(below, of_self)
        found[2] = kept(of_self * grad_output, below)
    if of_weight is not None:
        through = kept(of_weight * self, below)
        found[0] = through if found[0] is None else found[0] + through
        found[1] = kept(of_weight * grad_output, below)
    return tuple(found)


@op(
    "_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
    all_flops=flops.each(4, 1),
    meta=shapes.result_rule(
        lambda g, a, weight: (shapes.like(a), meta(shapes.broadcast(a.shape, weight.shape), a.dtype))
    ),
    out=False,
    layout=lambda made, g, x, weight: result_layout.elementwise(made, x, weight, g),
    method=False,
    grad_output__self__weight=_prelu_twice,
)
@widened
def prelu_kernel_backward(g: Any, x: Any, weight: Any) -> Any:
    return kernels.prelu_backward(g, x, weight)


# --- random slopes ----------------------------------------------------------------------------------------------------

_RRELU = "Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? generator=None"


def _check_rrelu(lower: float, upper: float) -> None:
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, but got {lower} and {upper}")


def _random_slopes(x: Any, noise: Any, lower: float, upper: float, generator: Any) -> Any:
    """Draw a slope for each element that is not positive, in their order; the others keep 1."""
    below = np.less_equal(x, 0)
    drawn = np.empty(int(np.count_nonzero(below)), np.float64)
    random.uniform_(drawn, lower, upper, generator)
    noise[...] = 1
    noise[below] = drawn.astype(noise.dtype)
    return np.asarray(np.multiply(x, noise))


def _rrelu(self: Any, noise: Any, lower: float, upper: float, training: bool, generator: Any) -> Any:
    if not is_float(self._a.dtype):
        raise not_implemented("rrelu_with_noise_out_cpu", self._a.dtype)
    _check_rrelu(lower, upper)
    if training and self.is_meta:
        return empty_like(self, memory_format=contiguous_format)
    if training:
        return make(result_layout.plain(_random_slopes(self._a, noise._a, lower, upper, generator)))
    return leaky_relu.function(self.contiguous(), (lower + upper) / 2)


rrelu_with_noise = explicit(
    f"rrelu_with_noise(Tensor self, Tensor noise, {_RRELU}) -> Tensor",
    all_flops=flops.each(2, 2),
    method=False,
    out=False,
    self=lambda g, self, noise, lower, upper, training: rrelu_with_noise_backward.function(
        g, self, noise, lower, upper, training, False
    ),
)(_rrelu)


def _rrelu_in_place(a: Any, noise: Any, lower: float, upper: float, training: bool, generator: Any) -> None:
    self = make(a)
    np.copyto(a, _rrelu(self, make(noise), lower, upper, training, generator)._a)


rrelu_with_noise_ = Op(
    f"rrelu_with_noise_(Tensor self, Tensor noise, {_RRELU}) -> Tensor",
    guarded(_rrelu_in_place, apart=False),
    kind="mutate",
    node="RreluWithNoiseBackward1",
    method=False,
    formulas={
        "self": lambda g, result, noise, lower, upper, training: rrelu_with_noise_backward.function(
            g, result, noise, lower, upper, training, True
        )
    },
)


@explicit(
    "rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, bool training, "
    "bool self_is_result) -> Tensor",
    all_flops=flops.each(2, 1),
    method=False,
    out=False,
    grad_output=lambda g, self, noise, lower, upper, training: rrelu_with_noise_backward.function(
        g, self, noise, lower, upper, training, False
    ),
    self=lambda g: zeros_like(g),
)
def rrelu_with_noise_backward(
    grad_output: Any, self: Any, noise: Any, lower: float, upper: float, training: bool, self_is_result: bool
) -> Any:
    if training and upper - lower > 1e-6:
        return noise * grad_output
    return leaky_relu_backward.function(grad_output, self, (lower + upper) / 2, self_is_result)


@composite(f"rrelu(Tensor self, {_RRELU}) -> Tensor", method=False)
def rrelu(self: Any, lower: Any, upper: Any, training: bool, generator: Any) -> Any:
    _check_rrelu(lower, upper)
    return rrelu_with_noise.function(self, empty_like(self), lower, upper, training, generator)


@composite(f"rrelu_(Tensor self, {_RRELU}) -> Tensor", method=False)
def rrelu_(self: Any, lower: Any, upper: Any, training: bool, generator: Any) -> Any:
    _check_rrelu(lower, upper)
    return rrelu_with_noise_.function(self, empty_like(self), lower, upper, training, generator)


# --- a gate -----------------------------------------------------------------------------------------------------------


def _halves(a: Any, dim: int) -> tuple[Any, Any]:
    """The two halves of an array along a dimension."""
    if a.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    dim = wrap_dim(dim, a.ndim)
    size = a.shape[dim]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    before = (slice(None),) * dim
    return a[(*before, slice(0, size // 2))], a[(*before, slice(size // 2, size))]


def _glu_by_parts(self: Tensor, dim: int) -> Tensor:
    if not is_float(self._a.dtype):
        raise not_implemented("glu_cpu", self._a.dtype)
    half = _halves(self._a, dim)[0].shape[dim]
    inner.narrow(self, dim, 0, half), inner.narrow(self, dim, half, half)  # as torch has it, for those who record
    return make(np.asarray(_glu_wide(self._a, dim)))


def _glu_of(x: Any, dim: int) -> Any:
    first, gate = _halves(x, dim)
    if C is not None and x.size <= _FEW:  # so that few elements have the same values whichever way they go
        made = C.glu(x, dim)
        if made is not None:
            return made
    return np.divide(first, 1 + np.exp(-gate))


_glu_wide = widened(_glu_of)
_FEW = 4096


def _glu_small(x: Any, dim: int) -> Any:
    """`_glu_of` in one compiled call; ValueError for what that does not take."""
    made = C.glu(x, dim)
    if made is None:
        raise ValueError
    return made


def _lay_out_half(made: Any, x: Any, dim: int) -> Any:
    """As the product of two halves."""
    half = made.shape, result_layout.strides_of(x)
    return result_layout.arranged(made, elementwise(made.shape, (half, half)))


@op(
    "glu(Tensor self, int dim=-1) -> Tensor",
    all_flops=flops.each(1, 1),
    meta=shapes.result_rule(lambda a, dim: meta(shapes_network.halved(a, dim), a.dtype)),
    layout=_lay_out_half,
    method=False,
    fast=None if C is None else (f"type(dim) is int and input._a.size <= {_FEW}", _glu_small),
    calls=_glu_by_parts,
    self=lambda g, self, dim: glu_backward.function(g, self, dim),
)
@widened
def glu(x: Any, dim: int) -> Any:
    if not is_float(x.dtype):
        raise not_implemented("glu_cpu", x.dtype)
    return _glu_of(x, dim)


def _glu_twice(g: Any, grad_output: Any, self: Any, dim: int) -> Any:
    half = self.size(dim) // 2
    first, gate = self.narrow(dim, 0, half), self.narrow(dim, half, half)
    of_first, of_gate = g.narrow(dim, 0, half), g.narrow(dim, half, half)
    s = gate.sigmoid()
    slope = s * (1 - s)
    into_gate = of_first * slope + of_gate * first * slope * (1 - 2 * s)
    return cat([grad_output * of_gate * slope, grad_output * into_gate], dim)


def _glu_output(g: Any, self: Any, dim: int) -> Any:
    half = self.size(dim) // 2
    first, gate = self.narrow(dim, 0, half), self.narrow(dim, half, half)
    s = gate.sigmoid()
    return g.narrow(dim, 0, half) * s + g.narrow(dim, half, half) * first * s * (1 - s)


@op(
    "glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor",
    all_flops=flops.each(6, 1),
    meta=shapes.like_nth(1),
    method=False,
    out=False,
    grad_output=_glu_output,
    self=_glu_twice,
)
@widened
def glu_backward(g: Any, x: Any, dim: int) -> Any:
    first, gate = _halves(x, dim)
    s = 1 / (1 + np.exp(-gate))
    of_first = g * s
    return np.concatenate([of_first, of_first * (1 - s) * first], wrap_dim(dim, x.ndim))
