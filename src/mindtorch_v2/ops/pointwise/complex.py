"""Rows of complex numbers: conjugates, angles, and complex tensors made of two real ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import graph
from ...core.dtype import FROM_NUMPY
from ...core.tensor import PLAIN, Conjugated, Negated, make_lazy
from ...dispatch.front import front
from ...dispatch.inplace import type_name
from ...dispatch.op import Op, composite, op, unary, view
from ...kernels.pointwise import smooth as kernels
from .. import flops
from ..creation.fill import zeros_like
from ..meta import shapes
from ..shape.copies import clone
from .arithmetic import dropped, through_out

# --- conjugates -------------------------------------------------------------------------------------------------------


@view("_conj(Tensor(a) self) -> Tensor(a)", replay=graph.replaying(lambda base: conj(base)), self=lambda g: conj_now(g))
def _conj(a: Any) -> Any:
    """The memory itself: `conj` makes the tensor on it one that is still to be conjugated."""
    return a[...]


@front("conj")
def conj(input: Any) -> Any:
    """The conjugate of a complex tensor as a view, conjugated when it is used; a real tensor as it is."""
    if not input.is_complex():
        return input
    if type(input) not in PLAIN:
        return conj_physical.function(input)
    return make_lazy(_conj.function(input), None if type(input) is Conjugated else Conjugated)


@view("_neg_view(Tensor(a) self) -> Tensor(a)", replay=graph.replaying(lambda base: neg_view(base)), self=lambda g: -g)
def _neg_view(a: Any) -> Any:
    """The memory itself, as for `_conj`."""
    return a[...]


@front("_neg_view")
def neg_view(input: Any) -> Any:
    """The negative of a tensor as a view, negated when it is used."""
    return make_lazy(_neg_view.function(input), None if type(input) is Negated else Negated)


def conj_now(input: Any) -> Any:
    """The conjugate with its values computed."""
    return _conj_physical.function(input) if input.is_complex() else input


@op("_conj_physical(Tensor self) -> Tensor", meta=shapes.by_kernel, out=False, self=lambda g: g.conj_physical())
def _conj_physical(a: Any) -> Any:
    return np.conj(a)


@composite("conj_physical(Tensor self) -> Tensor", out=True)
def conj_physical(self: Any, out: Any = None) -> Any:
    result = _conj_physical.function(self) if self.is_complex() else self
    return result if out is None else out.copy_(result)


conj_physical_ = Op(
    "conj_physical_(Tensor self) -> Tensor",
    lambda a: np.conj(a, out=a) if a.dtype.kind == "c" else a,
    kind="mutate",
    node="ConjPhysicalBackward1",
    formulas={"self": lambda g: g.conj_physical()},
)


@composite("resolve_conj(Tensor self) -> Tensor")
def resolve_conj(self: Any) -> Any:
    return clone(self) if type(self) is Conjugated else self


@composite("resolve_neg(Tensor self) -> Tensor")
def resolve_neg(self: Any) -> Any:
    return clone(self) if type(self) is Negated else self


@front("is_conj")
def is_conj(input: Any) -> bool:
    """Whether the values in memory are still to be conjugated."""
    return type(input) is Conjugated


@front("is_neg")
def is_neg(input: Any) -> bool:
    """Whether the values in memory are still to be negated."""
    return type(input) is Negated


# --- angles -----------------------------------------------------------------------------------------------------------


def _angle_self(g: Any, self: Any) -> Any:
    if not self.is_complex():
        return zeros_like(g)
    return dropped(g * (1j * self) / self.abs().pow(2), self == 0)


angle = unary("angle", kernels.angle, all_flops=flops.each(1, 1), self=_angle_self)


# --- complex from real ------------------------------------------------------------------------------------------------


def _check_parts(first: Any, second: Any) -> None:
    names = [type_name(FROM_NUMPY[t._a.dtype]) for t in (first, second)]
    if any(name not in ("Half", "Float", "Double") for name in names):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {names[0]} and {names[1]}"
        )
    if names[0] != names[1]:
        raise RuntimeError(
            f"Expected object of scalar type {names[0]} but got scalar type {names[1]} for second argument"
        )


def _pair(a: Any, b: Any) -> Any:
    shape = np.broadcast_shapes(a.shape, b.shape)
    result = np.empty(shape, np.complex128 if a.dtype == np.float64 else np.complex64)
    result.real, result.imag = a, b
    return result


def _from_parts(schema: str, kernel: Any, formulas: dict[str, Any], **options: Any) -> Op:
    return through_out(
        Op(
            schema,
            kernel,
            rule="same",
            takes="f",
            number_fast=False,
            method=False,
            out="exact",
            check=_check_parts,
            formulas=formulas,
            **options,
        )
    )


complex = _from_parts(
    "complex(Tensor real, Tensor imag) -> Tensor",
    _pair,
    {"real": lambda g: g.real, "imag": lambda g: g.imag},
)


def _polar_parts(g: Any, result: Any, needs: Any) -> Any:
    turned = g.conj()
    return (
        (turned * result.sgn()).real if needs[0] else None,
        (turned * (result * 1j)).real if needs[1] else None,
    )


polar = _from_parts(
    "polar(Tensor abs, Tensor angle) -> Tensor",
    lambda length, angle: _pair(length * np.cos(angle), length * np.sin(angle)),
    {"abs angle": _polar_parts},
    all_flops=flops.each(4, 2),
    autocast="float32",
)
