"""Rows of activation functions. Their gradients are rows too, so that they can be differentiated again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dtype import FROM_NUMPY
from ...dispatch.inplace import type_name
from ...dispatch.op import Op, composite, in_place, unary
from ...kernels import result_layout
from ...kernels.pointwise import activation as kernels
from .. import flops
from ..creation.fill import zeros_like
from ..pointwise.arithmetic import kept
from ..pointwise.ternary import clamp_min_, clamp_min_scalar, clamp_min_scalar_, clamp_scalar


def _row(schema: str, kernel: Callable[..., Any], formula: Any, takes: str = "f", **options: Any) -> Op:
    """An activation function: no promotion, and a row of `torch.nn.functional` rather than a method."""
    options = {"method": False, **options}
    return Op(schema, kernel, rule="same", takes=takes, formulas={"self": formula}, **options)


def _slope_row(schema: str, kernel: Callable[..., Any], own: Any, of_input: Any, **options: Any) -> Op:
    """The gradient of an activation function. It is linear in `grad_output`, hence there its own derivative."""
    options = {"takes": "f", "method": False, "number_fast": False, **options}
    first = "grad_out" if "grad_out," in schema else "grad_output"
    return Op(schema, kernel, rule="same", formulas={first: own, "self": of_input}, **options)


def _nothing(g: Any) -> Any:
    return zeros_like(g)


# --- the rectifier ----------------------------------------------------------------------------------------------------


def _check_relu(self: Any) -> None:
    if self._a.dtype.kind == "b":
        raise RuntimeError("Boolean inputs not supported for relu")
    if self._a.dtype.kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")


relu = unary(
    "relu",
    kernels.relu,
    "same",
    all_flops=flops.each(1, 1),
    takes="if",
    check=_check_relu,
    out=False,
    calls=lambda self: clamp_min_scalar.function(self, 0),
    inner=(clamp_min_scalar, ("input", "0")),
    self=lambda g, result: threshold_backward.function(g, result, 0),
)
relu_ = in_place(relu, calls=lambda self: clamp_min_(self, 0), inner=(clamp_min_scalar_, ("input", "0")))
threshold_backward = _slope_row(
    "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
    kernels.threshold_backward,
    lambda g, self, threshold: threshold_backward.function(g, self, threshold),
    _nothing,
    all_flops=flops.each(1, 1),
    takes="if",
    layout=result_layout.second_first,
)
threshold = _row(
    "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
    kernels.threshold,
    lambda g, self, threshold: threshold_backward.function(g, self, threshold),
    all_flops=flops.each(1, 1),
    takes="if",
)
threshold_ = in_place(threshold, node="ThresholdBackward1")

leaky_relu = _row(
    "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
    kernels.leaky_relu,
    lambda g, self, negative_slope: leaky_relu_backward.function(g, self, negative_slope, False),
    all_flops=flops.each(2, 1),
)
leaky_relu_ = in_place(
    leaky_relu,
    node="LeakyReluBackward1",
    self=lambda g, result, negative_slope: leaky_relu_backward.function(g, result, negative_slope, True),
)
leaky_relu_backward = _slope_row(
    "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor",
    lambda g, x, slope, is_result, out=None: kernels.leaky_relu_backward(g, x, slope, out=out),
    lambda g, self, negative_slope: leaky_relu_backward.function(g, self, negative_slope, False),
    _nothing,
    all_flops=flops.each(2, 1),
    layout=result_layout.second_first,
)


def _check_hardtanh(self: Any, min_val: Any, max_val: Any) -> None:
    if self._a.dtype.kind == "b":
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if self._a.dtype.kind == "u" and (min_val < 0 or max_val < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")


hardtanh = _row(
    "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
    kernels.hardtanh,
    lambda g, self, min_val, max_val: hardtanh_backward.function(g, self, min_val, max_val),
    all_flops=flops.each(1, 1),
    takes="if",
    check=_check_hardtanh,
)


@composite("_hardtanh_out(Tensor self, Scalar min_val, Scalar max_val) -> Tensor", event="aten::hardtanh", method=False)
def _hardtanh_out(self: Any, min_val: Any, max_val: Any) -> Any:
    _check_hardtanh(self, min_val, max_val)
    if self._a.dtype.kind in "iu":  # which are not to become floats
        min_val, max_val = int(min_val), int(max_val)
    return clamp_scalar.function(self, min_val, max_val)


hardtanh.calls = _hardtanh_out.function
hardtanh_ = in_place(
    hardtanh, calls=lambda self, min_val, max_val: self.copy_(_hardtanh_out.function(self, min_val, max_val))
)
hardtanh_backward = _slope_row(
    "hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
    kernels.hardtanh_backward,
    lambda g, self, min_val, max_val: hardtanh_backward.function(g, self, min_val, max_val),
    _nothing,
    all_flops=flops.each(1, 1),
)


@composite("relu6(Tensor self) -> Tensor", method=False)
def relu6(self: Any) -> Any:
    if self._a.dtype.kind == "b":
        raise RuntimeError("Bool inputs not supported for hardtanh")
    return hardtanh.function(self, 0, 6)


@composite("relu6_(Tensor self) -> Tensor", method=False)
def relu6_(self: Any) -> Any:
    return hardtanh_.function(self, 0, 6)


hardsigmoid = _row(
    "hardsigmoid(Tensor self) -> Tensor",
    kernels.hardsigmoid,
    lambda g, self: hardsigmoid_backward.function(g, self),
    all_flops=flops.each(3, 1),
)
hardsigmoid_ = in_place(hardsigmoid)
hardsigmoid_backward = _slope_row(
    "hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor",
    kernels.hardsigmoid_backward,
    lambda g, self: hardsigmoid_backward.function(g, self),
    _nothing,
    all_flops=flops.each(2, 1),
)
hardswish = _row(
    "hardswish(Tensor self) -> Tensor",
    kernels.hardswish,
    lambda g, self: hardswish_backward.function(g, self),
    all_flops=flops.each(4, 1),
    out=True,
)
hardswish_ = in_place(hardswish)
hardswish_backward = _slope_row(
    "hardswish_backward(Tensor grad_output, Tensor self) -> Tensor",
    kernels.hardswish_backward,
    lambda g, self: hardswish_backward.function(g, self),
    lambda g, grad_output, self: kept(g * grad_output / 3, (self > -3) & (self < 3)),
    all_flops=flops.each(4, 1),
    out_overload="out",
)

# --- shrinkage --------------------------------------------------------------------------------------------------------

hardshrink = _row(
    "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    kernels.hardshrink,
    lambda g, self, lambd: hardshrink_backward.function(g, self, lambd),
    all_flops=flops.each(1, 1),
    method=True,
)
hardshrink_backward = _slope_row(
    "hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor",
    kernels.hardshrink_backward,
    lambda g, self, lambd: hardshrink_backward.function(g, self, lambd),
    _nothing,
    all_flops=flops.each(1, 1),
)


def _softshrink(x: Any, lambd: Any, out: Any = None) -> Any:
    if lambd < 0:
        raise RuntimeError(
            f"lambda must be in range [0, {np.finfo(x.dtype).max:g}] for input dtype {type_name(FROM_NUMPY[x.dtype])}, but "
            f"found {lambd}"
        )
    return kernels.softshrink(x, lambd, out=out)


softshrink = _row(
    "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    _softshrink,
    lambda g, self, lambd: softshrink_backward.function(g, self, lambd),
    all_flops=flops.each(2, 1),
)
softshrink_backward = _slope_row(
    "softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
    kernels.hardshrink_backward,
    lambda g, self, lambd: softshrink_backward.function(g, self, lambd),
    _nothing,
    all_flops=flops.each(1, 1),
)

# --- exponential ------------------------------------------------------------------------------------------------------

elu = _row(
    "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
    kernels.elu,
    lambda g, self, alpha, scale, input_scale: elu_backward.function(g, alpha, scale, input_scale, False, self),
    all_flops=flops.each(3, 1),
)


def _check_elu_in_place(alpha: float) -> None:
    if alpha < 0:
        raise RuntimeError(
            "In-place elu backward calculation is triggered with a negative slope which is not supported. This is caused "
            "by calling in-place forward function with a negative slope, please call out-of-place version instead."
        )


def _elu_from_result(g: Any, result: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    _check_elu_in_place(alpha)
    return elu_backward.function(g, alpha, scale, input_scale, True, result)


elu_ = in_place(elu, node="EluBackward1", self=_elu_from_result)


def _elu_twice(
    g: Any, grad_output: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self_or_result: Any
) -> Any:
    """The slope changes below zero only: there it is linear in the result, exponential in the input."""
    below = self_or_result <= 0
    product = g * grad_output
    if is_result:
        return kept(product * input_scale, below)
    return kept(product * (self_or_result * input_scale).exp() * (alpha * scale * input_scale**2), below)


elu_backward = Op(
    "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, "
    "Tensor self_or_result) -> Tensor",
    lambda g, alpha, scale, input_scale, is_result, x: kernels.elu_backward(g, x, alpha, scale, input_scale, is_result),
    all_flops=flops.each(4, 1),
    rule="same",
    takes="f",
    method=False,
    number_fast=False,
    formulas={
        "grad_output": lambda g, alpha, scale, input_scale, is_result, self_or_result: elu_backward.function(
            g, alpha, scale, input_scale, is_result, self_or_result
        ),
        "self_or_result": _elu_twice,
    },
)

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@composite("selu(Tensor self) -> Tensor", method=False)
def selu(self: Any) -> Any:
    return elu.function(self, SELU_ALPHA, SELU_SCALE)


@composite("selu_(Tensor self) -> Tensor", method=False)
def selu_(self: Any) -> Any:
    return elu_.function(self, SELU_ALPHA, SELU_SCALE)


def _check_celu(self: Any, alpha: Any) -> None:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")


def _celu_scale(alpha: Any) -> Any:
    _check_celu(None, alpha)
    return 1 / alpha


def _celu(x: Any, alpha: Any, out: Any = None) -> Any:
    if alpha == 0:
        raise ValueError("no scale")  # the slow path says it in torch's words
    return kernels.elu(x, alpha, 1.0, 1 / alpha, out=out)


celu = _row(
    "celu(Tensor self, Scalar alpha=1.0) -> Tensor",
    _celu,
    lambda g, self, alpha: elu_backward.function(g, alpha, 1, 1 / alpha, False, self),
    all_flops=flops.each(3, 1),
    label="elu_cpu",
    check=_check_celu,
    out=False,
    calls=lambda self, alpha: elu.function(self, alpha, 1, _celu_scale(alpha)),
)
celu_ = in_place(
    celu,
    node="CeluBackward1",
    calls=lambda self, alpha: elu_.function(self, alpha, 1, _celu_scale(alpha)),
    self=lambda g, result, alpha: _elu_from_result(g, result, alpha, 1, 1 / alpha),
)


def _softplus_twice(g: Any, grad_output: Any, self: Any, beta: Any, threshold: Any) -> Any:
    s = (self * beta).sigmoid()
    return kept(g * grad_output * (s * (1 - s) * beta), self * beta <= threshold)


softplus = _row(
    "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
    kernels.softplus,
    lambda g, self, beta, threshold: softplus_backward.function(g, self, beta, threshold),
    all_flops=flops.each(5, 1),
)
softplus_backward = _slope_row(
    "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
    kernels.softplus_backward,
    lambda g, self, beta, threshold: softplus_backward.function(g, self, beta, threshold),
    _softplus_twice,
    all_flops=flops.each(6, 1),
)


def _silu_twice(g: Any, grad_output: Any, self: Any) -> Any:
    s = self.sigmoid()
    return g * grad_output * (s * (1 - s) * (2 + self * (1 - 2 * s)))


silu = _row(
    "silu(Tensor self) -> Tensor",
    kernels.silu,
    lambda g, self: silu_backward.function(g, self),
    all_flops=flops.each(2, 1),
    takes="fc",
)
silu_ = in_place(silu)
silu_backward = _slope_row(
    "silu_backward(Tensor grad_output, Tensor self) -> Tensor",
    kernels.silu_backward,
    lambda g, self: silu_backward.function(g, self.conj()),
    _silu_twice,
    all_flops=flops.each(6, 1),
    takes="fc",
)


def _mish_twice(g: Any, grad_output: Any, self: Any) -> Any:
    s, t = self.sigmoid(), softplus.function(self).tanh()
    rise = 1 - t * t  # tanh' of softplus
    inner = 2 * s * rise + self * (s * (1 - s) * rise - 2 * s * s * t * rise)
    return g * grad_output * inner


mish = _row(
    "mish(Tensor self) -> Tensor",
    kernels.mish,
    lambda g, self: mish_backward.function(g, self),
    all_flops=flops.each(4, 1),
)
mish_ = in_place(mish)
mish_backward = _slope_row(
    "mish_backward(Tensor grad_output, Tensor self) -> Tensor",
    kernels.mish_backward,
    lambda g, self: mish_backward.function(g, self),
    _mish_twice,
    all_flops=flops.each(10, 1),
)

# --- gelu -------------------------------------------------------------------------------------------------------------


def _check_gelu(*arguments: Any) -> None:
    if arguments[-1] not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")


def _gelu(x: Any, approximate: str, out: Any = None) -> Any:
    if approximate not in ("none", "tanh"):
        raise TypeError
    return (kernels.gelu if approximate == "none" else kernels.gelu_tanh)(x, out=out)


def _gelu_slope(g: Any, x: Any, approximate: str) -> Any:
    return (kernels.gelu_backward if approximate == "none" else kernels.gelu_tanh_backward)(g, x)


def _gelu_twice(g: Any, grad_output: Any, self: Any, approximate: str) -> Any:
    product = g * grad_output
    square = self * self
    if approximate == "none":
        return product * ((square * -0.5).exp() * (2 - square)) * (1 / math.sqrt(2 * math.pi))
    scale, cube = math.sqrt(2 / math.pi), 0.044715
    t = (scale * (self + cube * square * self)).tanh()
    rise, slope = 1 - t * t, scale * (1 + 3 * cube * square)
    curve = slope * rise + 0.5 * self * rise * (6 * cube * scale * self - 2 * t * slope * slope)
    return product * curve


gelu = _row(
    "gelu(Tensor self, *, str approximate='none') -> Tensor",
    _gelu,
    lambda g, self, approximate: gelu_backward.function(g, self, approximate=approximate),
    all_flops=flops.each(5, 1),
    label="GeluKernelImpl",
    check=_check_gelu,
)
gelu_ = in_place(gelu)
gelu_backward = Op(
    "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
    _gelu_slope,
    all_flops=flops.each(11, 1),
    rule="same",
    takes="f",
    method=False,
    number_fast=False,
    formulas={
        "grad_output": lambda g, self, approximate: gelu_backward.function(g, self, approximate=approximate),
        "self": _gelu_twice,
    },
)
