"""Rows of exponentials, logarithms, trigonometry, rounding and the sigmoid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.front import front
from ...dispatch.op import OPS, Op, binary, composite, in_place, unary
from ...kernels import compiled, special
from ...kernels.pointwise import smooth as kernels
from .. import flops
from ..creation.fill import zeros_like
from .arithmetic import conj_of, dropped, through_out

LN2, LN10 = math.log(2), math.log(10)


def smooth_row(name: str, ufunc: Any, formula: Any, **options: Any) -> Op:
    """The row of a function that turns integers into floats, and its in-place row."""
    row = unary(name, ufunc, all_flops=flops.each(1, 1), self=formula, **options)
    in_place(row)
    return row


# --- exponentials and logarithms --------------------------------------------------------------------------------------

exp = smooth_row("exp", compiled.exp, lambda g, result: g * conj_of(result), quiet=False)
exp2 = smooth_row("exp2", np.exp2, lambda g, result: g * conj_of(result) * LN2)
expm1 = smooth_row("expm1", kernels.expm1, lambda g, result: g * (conj_of(result) + 1))
log = smooth_row("log", np.log, lambda g, self: g / conj_of(self))
log2 = smooth_row("log2", np.log2, lambda g, self: g / (conj_of(self) * LN2))
log10 = smooth_row("log10", np.log10, lambda g, self: g / (conj_of(self) * LN10))
log1p = smooth_row("log1p", kernels.log1p, lambda g, self: g / conj_of(self + 1), node="Log1PBackward0")

# --- trigonometry -----------------------------------------------------------------------------------------------------

sin = smooth_row("sin", np.sin, lambda g, self: g * conj_of(self.cos()), quiet=False)
cos = smooth_row("cos", np.cos, lambda g, self: g * conj_of(-self.sin()), quiet=False)
tan = smooth_row("tan", np.tan, lambda g, result: g * conj_of(result.pow(2) + 1))
asin = smooth_row("asin", np.arcsin, lambda g, self: g * conj_of((-self * self + 1).rsqrt()))
acos = smooth_row("acos", np.arccos, lambda g, self: g * conj_of(-(-self * self + 1).rsqrt()))
atan = smooth_row("atan", np.arctan, lambda g, self: g / conj_of(self * self + 1))
sinh = smooth_row("sinh", np.sinh, lambda g, self: g * conj_of(self.cosh()))
cosh = smooth_row("cosh", np.cosh, lambda g, self: g * conj_of(self.sinh()))
tanh = smooth_row("tanh", compiled.tanh, lambda g, result: tanh_backward.function(g, result), quiet=False)
asinh = smooth_row("asinh", np.arcsinh, lambda g, self: g * conj_of((self.pow(2) + 1).rsqrt()))
atanh = smooth_row("atanh", np.arctanh, lambda g, self: g / conj_of(1 - self.pow(2)))


def _acosh_self(g: Any, self: Any) -> Any:
    if self.is_complex():
        return g * conj_of((self + 1).rsqrt() * (self - 1).rsqrt())
    return g * (self * self - 1).rsqrt()


acosh = smooth_row("acosh", np.arccosh, _acosh_self)


tanh_backward = binary(
    "tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
    kernels.tanh_backward,
    all_flops=flops.each(3, 1),
    takes="fc",
    number_fast=False,
    method=False,
    grad_output=lambda g, output: tanh_backward.function(g, conj_of(output)),
    output=lambda g, grad_output, output: conj_of(g) * (-2 * conj_of(output) * grad_output),
)


def _atan2(g: Any, self: Any, other: Any, needs: Any) -> Any:
    factor = (self * self + other * other).reciprocal()
    at_origin = factor == math.inf
    factor = factor.masked_fill(at_origin, 0) if factor.requires_grad else factor.masked_fill_(at_origin, 0)
    return (
        g * other * factor if needs[0] else None,
        g * -self * factor if needs[1] else None,
    )


atan2 = binary(
    "atan2", np.arctan2, "float", all_flops=flops.each(1, 2), takes="bif", number_fast=False, self__other=_atan2
)
atan2_ = in_place(atan2)


def _converter(name: str, factor: float, node: str) -> Op:
    """Degrees to radians or back; ATen multiplies inside its `out=` form."""

    def scaled(a: Any, out: Any = None) -> Any:
        return np.multiply(a, a.dtype.type(factor), out=out)

    def check(self: Any) -> None:
        if self.is_complex():
            raise RuntimeError(f"{name} is not supported for complex tensors.")

    row = unary(
        name, scaled, all_flops=flops.each(1, 1), takes="bif", node=node, check=check, self=lambda g: g * factor
    )
    inner = composite(f"_{name}_out(Tensor self) -> Tensor", event=f"aten::{name}", method=False)(
        lambda self: self * factor
    )
    row.calls = inner.function
    in_place(row, calls=lambda self: self.copy_(inner.function(self)))
    return row


deg2rad = _converter("deg2rad", math.pi / 180, "Deg2RadBackward0")
rad2deg = _converter("rad2deg", 180 / math.pi, "Rad2DegBackward0")

# --- rounding ---------------------------------------------------------------------------------------------------------


def _check_real(name: str) -> Any:
    def check(self: Any) -> None:
        if self._a.dtype.kind == "c":
            raise NotImplementedError(f"{name} is not supported for complex inputs")

    return check


def _of_floats(ufunc: np.ufunc) -> Any:
    """A rounding function that leaves integers alone."""

    def kernel(a: Any, out: Any = None) -> Any:
        return ufunc(a, out=out) if a.dtype.kind not in "iu" else np.positive(a, out=out)

    return kernel


def _rounding(name: str, ufunc: np.ufunc) -> Op:
    row = unary(
        name,
        ufunc,
        "same",
        all_flops=flops.each(1, 1),
        kernel=_of_floats(ufunc),
        takes="if",
        label=f"{name}_vml_cpu",
        check=_check_real(name),
        self=lambda g: zeros_like(g),
    )
    in_place(row)
    return row


ceil = _rounding("ceil", np.ceil)
floor = _rounding("floor", np.floor)
trunc = _rounding("trunc", np.trunc)
round_plain = _rounding("round", np.rint)
round_decimals = Op(
    "round.decimals(Tensor self, *, int decimals) -> Tensor",
    kernels.round_to,
    rule="same",
    takes="f",
    label="round_cpu",
    node="RoundBackward1",
    formulas={"self": lambda g: zeros_like(g)},
)
round_decimals_ = in_place(round_decimals)
frac = unary("frac", kernels.frac, "same", all_flops=flops.each(1, 1), takes="f", self=lambda g: g)
frac_ = in_place(frac)


def _round(name: str, plain: Op, decimal: Op) -> Any:
    def function(input: Any, *, decimals: int | None = None, **out: Any) -> Any:
        return plain.function(input, **out) if decimals is None else decimal.function(input, decimals=decimals, **out)

    function.__name__ = function.__qualname__ = name
    return front(name)(function)


round = _round("round", round_plain, round_decimals)
round_ = _round("round_", OPS["round_"], round_decimals_)

# --- sigmoid and its inverse ------------------------------------------------------------------------------------------

sigmoid = smooth_row("sigmoid", kernels.sigmoid, lambda g, result: sigmoid_backward.function(g, result), quiet=False)


sigmoid_backward = binary(
    "sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
    kernels.sigmoid_backward,
    all_flops=flops.each(3, 1),
    takes="fc",
    number_fast=False,
    method=False,
    grad_output=lambda g, output: sigmoid_backward.function(g, conj_of(output)),
    output=lambda g, grad_output, output: conj_of(g) * grad_output * (-2 * conj_of(output) + 1),
)
logit = Op(
    "logit(Tensor self, float? eps=None) -> Tensor",
    lambda x, eps: special.logit(x, eps),
    all_flops=flops.each(3, 1),
    rule="float",
    takes="bif",
    formulas={"self": lambda g, self, eps: logit_backward.function(g, self, eps)},
)
logit_ = in_place(logit, calls=lambda self, eps: self.copy_(logit.function(self, eps)))


def _logit_backward_self(g: Any, grad_output: Any, self: Any, eps: Any) -> Any:
    slope = logit_backward.function(g, self, eps)
    return grad_output * slope * (2 * self - 1) / (self * (1 - self))


logit_backward = Op(
    "logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor",
    lambda g, x, eps: g * kernels.logit_slope(x, eps),
    all_flops=flops.each(3, 1),
    rule="same",
    takes="f",
    method=False,
    number_fast=False,
    formulas={
        "grad_output": lambda g, self, eps: logit_backward.function(g, self, eps),
        "self": _logit_backward_self,
    },
)

# --- logarithms of sums and products ----------------------------------------------------------------------------------

logaddexp = binary(
    "logaddexp",
    kernels.logaddexp,
    all_flops=flops.each(1, 2),
    takes="fc",
    number_fast=False,
    self=lambda g, self, other: g / conj_of((other - self).exp() + 1),
    other=lambda g, self, other: g / conj_of((self - other).exp() + 1),
)
logaddexp2 = binary(
    "logaddexp2",
    np.logaddexp2,
    all_flops=flops.each(1, 2),
    takes="f",
    number_fast=False,
    self=lambda g, self, other: g / (2 ** (other - self) + 1),
    other=lambda g, self, other: g / (2 ** (self - other) + 1),
)

# --- other ------------------------------------------------------------------------------------------------------------


def _sinc_self(g: Any, self: Any) -> Any:
    scaled = self * math.pi
    slope = (scaled.cos() * scaled - scaled.sin()) / (self * self * math.pi)
    return dropped(g * conj_of(slope), self == 0)


sinc = smooth_row("sinc", kernels.sinc, _sinc_self)
nan_to_num = Op(
    "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    kernels.nan_to_num,
    all_flops=flops.each(1, 1),
    rule="same",
    widen=False,  # the greatest number is that of its type
    formulas={"self": lambda g, self: g * self.isfinite()},
)
_nan_to_num_out: Any = through_out(nan_to_num).calls
nan_to_num_ = in_place(
    nan_to_num, calls=lambda self, nan, posinf, neginf: self.copy_(_nan_to_num_out(self, nan, posinf, neginf))
)
