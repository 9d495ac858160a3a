"""Rows of comparison and logic: orderings, tests for special values, closeness, logical connectives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dtype import bool_, float64
from ...core.tensor import Tensor
from ...dispatch.inplace import type_name
from ...dispatch.op import Op, binary, composite, in_place, unary, value
from ...kernels.compiled import C, stand_in
from .. import flops
from ..creation.fill import ones_like, zeros_like
from .arithmetic import no_gradient, through_out

# --- orderings --------------------------------------------------------------------------------------------------------


def _comparison(name: str, ufunc: np.ufunc, takes: str = "bif") -> Op:
    def check(self: Any, other: Any) -> None:
        if not isinstance(self, Tensor):
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(self).__name__}")

    row = binary(
        f"{name}.Tensor",
        ufunc,
        "compare",
        out_overload="Tensor_out",
        all_flops=flops.each(1, 2),
        takes=takes,
        scalar="Scalar",
        check=check,
    )
    in_place(
        row,
        node=f"{name.title()}Backward1",
        self=no_gradient,
        other=no_gradient,
    )
    return row


eq = _comparison("eq", np.equal, "bifc")
ne = _comparison("ne", np.not_equal, "bifc")
lt = _comparison("lt", np.less)
le = _comparison("le", np.less_equal)
gt = _comparison("gt", np.greater)
ge = _comparison("ge", np.greater_equal)

# --- special values ---------------------------------------------------------------------------------------------------


def _no_complex(name: str) -> Any:
    def check(self: Any) -> None:
        if self._a.dtype.kind == "c":
            raise RuntimeError(f"{name} does not support complex inputs.")

    return check


@composite("isnan(Tensor self) -> Tensor")
def isnan(self: Any) -> Any:
    return ne.function(self, self)


@composite("isinf(Tensor self) -> Tensor")
def isinf(self: Any) -> Any:
    dtype = self.dtype
    if dtype.is_complex:
        return self.real.isinf().logical_or(self.imag.isinf())
    if not dtype.is_floating_point:
        return zeros_like(self, dtype=bool_)
    return eq.function(self.abs(), float("inf"))


@composite("isfinite(Tensor self) -> Tensor")
def isfinite(self: Any) -> Any:
    dtype = self.dtype
    if dtype.is_complex:
        return self.real.isfinite().__iand__(self.imag.isfinite())
    if not dtype.is_floating_point:
        return ones_like(self, dtype=bool_)
    return eq.function(self, self) * ne.function(self.abs(), float("inf"))


@composite("isreal(Tensor self) -> Tensor")
def isreal(self: Any) -> Any:
    if self.dtype.is_complex:
        return eq.function(self.imag, 0)
    return ones_like(self, dtype=bool_)


def _is_infinity(sign: int) -> Any:
    def kernel(a: Any, out: Any = None) -> Any:
        return np.equal(a, sign * np.inf, out=out) if a.dtype.kind not in "biu" else np.zeros(a.shape, bool)

    return kernel


isposinf = unary("isposinf", _is_infinity(1), "compare", all_flops=flops.each(1, 1), check=_no_complex("isposinf"))
isneginf = unary("isneginf", _is_infinity(-1), "compare", all_flops=flops.each(1, 1), check=_no_complex("isneginf"))


def _check_signbit(self: Any) -> None:
    if self._a.dtype.kind == "c":
        raise NotImplementedError("signbit is not implemented for complex tensors.")


signbit = unary(
    "signbit",
    lambda a: np.signbit(a) if a.dtype.kind not in "biu" else np.less(a, 0),
    "compare",
    check=_check_signbit,
)

# --- closeness --------------------------------------------------------------------------------------------------------


@composite("isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor")
def isclose(self: Any, other: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    if self.dtype is not other.dtype:
        raise RuntimeError(f"{type_name(self.dtype)} did not match {type_name(other.dtype)}")
    if rtol < 0:
        raise RuntimeError(f"rtol must be greater than or equal to zero, but got {rtol:g}")
    if atol < 0:
        raise RuntimeError(f"atol must be greater than or equal to zero, but got {atol:g}")
    close = eq.function(self, other)
    inexact = self.is_floating_point() or self.is_complex()
    if equal_nan and inexact:
        close.__ior__(isnan.function(self).__iand__(isnan.function(other)))
    if rtol == 0 and atol == 0:
        return close
    if not inexact:
        self = self.to(float64)
        other = other.to(float64)
    allowed = atol + (rtol * other).abs()
    error = (self - other).abs()
    close.__ior__(isfinite.function(error).__iand__(error <= allowed))
    return close


@composite(
    "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool", out=False
)
def allclose(self: Any, other: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    return isclose.function(self, other, rtol, atol, equal_nan).all().item()


@value("is_same_size(Tensor self, Tensor other) -> bool")
def is_same_size(a: Any, b: Any) -> bool:
    return bool(a.shape == b.shape)


_equal = stand_in(np.equal)


def _few_equal(self: Any, other: Any) -> bool:
    a, b = self._a, other._a
    same = None if C is None else C.same(a, b)
    return bool(np.count_nonzero(_equal(a, b)) == a.size) if same is None else same


@composite(
    "equal(Tensor self, Tensor other) -> bool",
    out=False,
    fast=("input._a.shape == other._a.shape and input._a.size <= 4096", lambda self, other: _few_equal(self, other)),
)
def equal(self: Any, other: Any) -> bool:
    return is_same_size.function(self, other) and bool(np.equal(self._a, other._a).all())


# --- logic ------------------------------------------------------------------------------------------------------------


def _logical(name: str, ufunc: np.ufunc) -> Op:
    return through_out(binary(name, ufunc, "compare", number_fast=False), lambda t: bool_)


logical_and = _logical("logical_and", np.logical_and)
logical_or = _logical("logical_or", np.logical_or)
logical_xor = _logical("logical_xor", np.logical_xor)
logical_not = through_out(unary("logical_not", np.logical_not, "compare"), lambda t: bool_)
logical_and_, logical_or_, logical_xor_, logical_not_ = (
    in_place(row, calls=lambda *args, row=row: args[0].copy_(row.calls(*args)))
    for row in (logical_and, logical_or, logical_xor, logical_not)
)
