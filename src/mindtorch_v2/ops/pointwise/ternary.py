"""Rows of arithmetic on three operands, bounds, and the rarer functions of two: copysign, hypot, gcd, ldexp."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

import numpy as np

from ...core.dtype import FROM_NUMPY, complex128, float64
from ...core.tensor import Tensor
from ...dispatch.compute import operand_rank
from ...dispatch.front import front
from ...dispatch.inplace import type_name
from ...dispatch.op import Op, binary, composite, in_place, op
from ...kernels import result_layout
from ...kernels.pointwise import arithmetic as kernels
from .. import flops
from ..creation.convert import to_dtype
from ..meta import shapes
from .arithmetic import by_operand, conj_of, div, kept, no_gradient, pow, pow_, refuse, sub, times

# --- fused forms ------------------------------------------------------------------------------------------------------


def _check_addcdiv(self: Any, tensor1: Any, tensor2: Any, value: Any) -> None:
    if max(operand_rank(t)[1].category for t in (tensor1, tensor2)) < 2:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true "
            "division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * "
            "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "
            "tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * "
            "tensor1 / tensor2), for all dtypes."
        )


addcmul = Op(
    "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    kernels.addcmul,
    all_flops=flops.scaled_product_sum,
    rule="same",
    takes="ifc",
    label="addcmul_cpu_out",
    formulas={
        "self": lambda g: g,
        "tensor1": lambda g, tensor2, value: g * conj_of(times(tensor2, value)),
        "tensor2": lambda g, tensor1, value: g * conj_of(times(tensor1, value)),
    },
)
addcmul_ = in_place(addcmul)
addcdiv = Op(
    "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    kernels.addcdiv,
    all_flops=flops.scaled_product_sum,
    rule="same",
    check=_check_addcdiv,
    formulas={
        "self": lambda g: g,
        "tensor1": lambda g, tensor2, value: g * conj_of(div.function(value, tensor2)),
        "tensor2": lambda g, tensor1, tensor2, value: -g * conj_of(times(tensor1, value) / (tensor2 * tensor2)),
    },
)
addcdiv_ = in_place(addcdiv)


def _check_lerp(self: Any, end: Any, weight: Any) -> None:
    want = FROM_NUMPY[self._a.dtype]
    for name, value in (("end", end), ("weight", weight)):
        if isinstance(value, Tensor) and value.dtype is not want and not (name == "weight" and value._a.ndim == 0):
            raise RuntimeError(f"expected dtype {want.cpp_name} for `{name}` but got dtype {value.dtype.cpp_name}")


lerp_tensor = Op(
    "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
    kernels.lerp_by,
    out_overload="Tensor_out",
    all_flops=flops.each(3, 3),
    rule="same",
    takes="fc",
    label="lerp_kernel_tensor",
    check=_check_lerp,
    node="LerpBackward1",
    formulas={
        "self": lambda g, weight: g * conj_of(sub.function(1, weight)),
        "end": lambda g, weight: g * conj_of(weight),
        "weight": lambda g, self, end: g * conj_of(end - self),
    },
)
lerp_scalar = Op(
    "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
    kernels.lerp,
    rule="same",
    takes="fc",
    label="lerp_kernel_scalar",
    number_fast=False,
    check=_check_lerp,
    formulas={
        "self": lambda g, weight: g * conj_of(1 - weight),
        "end": lambda g, weight: g * conj_of(weight),
    },
)
lerp_tensor_, lerp_scalar_ = in_place(lerp_tensor), in_place(lerp_scalar)


def _lerp(name: str, tensor: Op, scalar: Op) -> Any:
    def function(input: Any, end: Any, weight: Any, **out: Any) -> Any:
        return (tensor if isinstance(weight, Tensor) else scalar).function(input, end, weight, **out)

    function.__name__ = function.__qualname__ = name
    return front(name)(function)


lerp = _lerp("lerp", lerp_tensor, lerp_scalar)
lerp_ = _lerp("lerp_", lerp_tensor_, lerp_scalar_)

# --- bounds -----------------------------------------------------------------------------------------------------------


def _within(self: Any, min: Any, max: Any) -> Any:
    """Where a value stays as it is."""
    if min is None:
        return self <= max
    return self >= min if max is None else (self >= min).logical_and_(self <= max)


def _clamp_bounds(g: Any, self: Any, min: Any, max: Any, needs: Any) -> Any:
    """Gradients of the tensor and of both bounds, each where it decides the value."""
    mine = low = high = None
    if needs[0]:
        mine = kept(g, _within(self, min, max)) if min is not None or max is not None else g
    if needs[1]:
        low = kept(g, self < min if max is None else (self < min).logical_and_(min < max))
    if needs[2]:
        high = kept(g, self > max if min is None else (self > max).logical_or_(max < min))
    return mine, low, high


def _check_clamp(self: Any, *bounds: Any) -> None:
    if all(b is None for b in bounds):
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if any(operand_rank(b)[1].category == 3 for b in (self, *bounds) if b is not None):
        raise NotImplementedError("clamp is not supported for complex types")


_check_clamp.by_types = True  # type: ignore[attr-defined]

_BETWEEN_INTEGERS = "input._a.dtype is I64 and input._ag is None and (min is None or type(min) is int) and (max is None or type(max) is int)"
clamp_scalar = Op(
    "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    kernels.clamp,
    all_flops=flops.each(1, 3),
    rule="same",
    takes="if",
    label="clamp",
    promotes=("min", "max"),
    layout=result_layout.of_first_alone,
    check=_check_clamp,
    fast=(_BETWEEN_INTEGERS, kernels.clamp_integers),
    node="ClampBackward1",
    formulas={"self": lambda g, self, min, max: kept(g, _within(self, min, max))},
)
clamp_tensor = Op(
    "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    kernels.clamp,
    out_overload="Tensor_out",
    rule="same",
    takes="if",
    label="clamp",
    check=_check_clamp,
    formulas={"self min max": _clamp_bounds},
)
clamp_scalar_, clamp_tensor_ = in_place(clamp_scalar), in_place(clamp_tensor)


_PLAIN = frozenset((int, float, type(None)))


def _clamp(name: str, scalar: Op, tensor: Op) -> Any:
    of_numbers = scalar.function

    def function(input: Any, min: Any = None, max: Any = None, **out: Any) -> Any:
        if not out and type(min) in _PLAIN and type(max) in _PLAIN:
            return of_numbers(input, min, max)
        if isinstance(min, Tensor) or isinstance(max, Tensor):
            if isinstance(min, Number) or isinstance(max, Number):
                min, max = _number(min), _number(max)
                if not (isinstance(min, Tensor) or isinstance(max, Tensor)):
                    return scalar.function(input, min, max, **out)
            return tensor.function(input, _bound(min, input), _bound(max, input), **out)
        return scalar.function(input, min, max, **out)

    function.__name__ = function.__qualname__ = name
    return front(name)(function)


def _number(bound: Any) -> Any:
    """A tensor that can stand where a number is asked for, as that number."""
    stands = isinstance(bound, Tensor) and bound.dim() == 0 and not bound.requires_grad
    return bound.item() if stands else bound


def _bound(bound: Any, like: Any) -> Any:
    """A bound as the tensor overload takes it."""
    if bound is None or isinstance(bound, Tensor):
        return bound
    raise TypeError(
        f"clamp() received an invalid combination of arguments - min and max must both be numbers or both be tensors, "
        f"got {type(bound).__name__} beside a Tensor"
    )


clamp = _clamp("clamp", clamp_scalar, clamp_tensor)
clamp_ = _clamp("clamp_", clamp_scalar_, clamp_tensor_)


def _bound_rows(name: str, kernel: Any, keep: str, cut: str) -> tuple[Op, Op]:
    """`clamp_min` or `clamp_max`: of a number, of a tensor."""
    title = "".join(w.title() for w in name.split("_"))
    bound = name[-3:]

    def stays(self: Any, other: Any) -> Any:
        return getattr(self, keep)(other)

    def own(g: Any, self: Any, other: Any) -> Any:
        return kept(g, stays(self, other))

    scalar = Op(
        f"{name}(Tensor self, Scalar {bound}) -> Tensor",
        kernel,
        all_flops=flops.each(1, 2),
        rule="same",
        takes="bif",
        label="clamp",
        promotes=(bound,),
        layout=result_layout.of_first_alone,
        check=_check_clamp,
        formulas={
            "self": (lambda g, self, min: own(g, self, min))
            if bound == "min"
            else (lambda g, self, max: own(g, self, max))
        },
    )
    tensor = Op(
        f"{name}.Tensor(Tensor self, Tensor {bound}) -> Tensor",
        kernel,
        out_overload="Tensor_out",
        rule="same",
        takes="bif",
        label="clamp",
        number_fast=False,
        check=_check_clamp,
        node=f"{title}Backward1",
        formulas=_bound_formulas(bound, own, cut),
    )
    return scalar, tensor


def _bound_formulas(bound: str, own: Any, cut: str) -> dict[str, Any]:
    def of_bound(g: Any, self: Any, other: Any) -> Any:
        return kept(g, getattr(self, cut)(other))

    if bound == "min":
        return {"self": lambda g, self, min: own(g, self, min), "min": lambda g, self, min: of_bound(g, self, min)}
    return {"self": lambda g, self, max: own(g, self, max), "max": lambda g, self, max: of_bound(g, self, max)}


clamp_min_scalar, clamp_min_tensor = _bound_rows(
    "clamp_min", lambda a, low, out=None: kernels.clamp(a, low, None, out), "ge", "lt"
)
clamp_max_scalar, clamp_max_tensor = _bound_rows(
    "clamp_max", lambda a, high, out=None: kernels.clamp(a, None, high, out), "le", "gt"
)
clamp_min = by_operand("clamp_min", clamp_min_tensor, clamp_min_scalar)
clamp_max = by_operand("clamp_max", clamp_max_tensor, clamp_max_scalar)
clamp_min_scalar_ = in_place(clamp_min_scalar)
clamp_min_ = by_operand("clamp_min_", in_place(clamp_min_tensor), clamp_min_scalar_)
clamp_max_ = by_operand("clamp_max_", in_place(clamp_max_tensor), in_place(clamp_max_scalar))

# --- other functions of two -------------------------------------------------------------------------------------------

hypot = binary(
    "hypot",
    np.hypot,
    all_flops=flops.each(1, 2),
    takes="f",
    number_fast=False,
    self=lambda g, self, result: g * (self / result),
    other=lambda g, other, result: g * (other / result),
)
hypot_ = in_place(hypot)


def _copysign_self(g: Any, self: Any, result: Any) -> Any:
    return g * (result / self).masked_fill_(self == 0, 0)


copysign_tensor = binary(
    "copysign.Tensor",
    np.copysign,
    "float",
    all_flops=flops.each(1, 2),
    takes="bif",
    number_fast=False,
    self=_copysign_self,
    other=no_gradient,
)
copysign_scalar = Op(
    "copysign.Scalar(Tensor self, Scalar other) -> Tensor",
    lambda a, b, out=None: np.copysign(a, np.asarray(b, a.dtype), out=out),
    rule="float",
    takes="bif",
    promotes=("other",),
    node="CopysignBackward1",
    formulas={"self": _copysign_self},
)
copysign = by_operand("copysign", copysign_tensor, copysign_scalar)
copysign_ = by_operand("copysign_", in_place(copysign_tensor), in_place(copysign_scalar))


def _check_heaviside(self: Any, values: Any) -> None:
    if self._a.dtype.kind == "c" or values._a.dtype.kind == "c":
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if self._a.dtype != values._a.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


heaviside = binary(
    "heaviside(Tensor self, Tensor values) -> Tensor",
    kernels.heaviside,
    all_flops=flops.each(1, 2),
    number_fast=False,
    check=_check_heaviside,
    node="NotImplemented",
    self=refuse("heaviside"),
    values=refuse("heaviside"),
)
heaviside_ = in_place(heaviside, self=refuse("heaviside_"), values=refuse("heaviside_"))
gcd = binary("gcd", np.gcd, all_flops=flops.each(1, 2), takes="i", number_fast=False)
lcm = binary("lcm", np.lcm, all_flops=flops.each(1, 2), takes="i", number_fast=False)
gcd_, lcm_ = in_place(gcd), in_place(lcm)
nextafter = binary(
    "nextafter",
    np.nextafter,
    all_flops=flops.each(1, 2),
    takes="f",
    widen=False,
    number_fast=False,
    self=lambda g, self, other: g.where(self != other, 0),
    other=no_gradient,
)
nextafter_ = in_place(nextafter)


def _ldexp_other(g: Any, other: Any, result: Any) -> Any:
    return g * conj_of(result * math.log(2)) if operand_rank(other)[1].category > 1 else None


ldexp = binary(
    "ldexp.Tensor",
    kernels.ldexp,
    "float",
    all_flops=flops.each(1, 2),
    number_fast=False,
    self=lambda g, other: g * conj_of(2**other),
    other=_ldexp_other,
    layout=lambda made, a, b, *rest: result_layout.elementwise(made, a, np.empty(b.shape)),  # a power of 2 is plain
)


ldexp_ = in_place(ldexp, overload="", calls=lambda self, other: self.copy_(ldexp.function(self, other)))


@op(
    "frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    out_overload="Tensor_out",
    meta=shapes.two_of_same_shape,
    layout=result_layout.elementwise,
    nondiff=(1,),
    self=lambda grads, result1: None if grads[0] is None else grads[0] / result1.exp2(),
)
def frexp(a: Any) -> Any:
    if a.dtype.kind != "f" and FROM_NUMPY[a.dtype].category != 2:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return kernels.frexp(a)


def _doubled(value: Any) -> Any:
    wanted = complex128 if operand_rank(value)[1].category == 3 else float64
    return to_dtype(value, wanted) if isinstance(value, Tensor) else value


@composite("float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", out=True)
def float_power_tensor(self: Any, exponent: Any, out: Any = None) -> Any:
    return _float_power(self, exponent, out)


@composite("float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", out=True)
def float_power_scalar(self: Any, exponent: Any, out: Any = None) -> Any:
    return _float_power(self, exponent, out)


@composite("float_power.Scalar(Scalar self, Tensor exponent) -> Tensor", out=True, method=False)
def float_power_of_number(self: Any, exponent: Any, out: Any = None) -> Any:
    return _float_power(self, exponent, out)


def _float_power(base: Any, exponent: Any, out: Any) -> Any:
    base, exponent = _doubled(base), _doubled(exponent)
    if isinstance(exponent, int):
        exponent = float(exponent)
    return pow(base, exponent, out=out)


float_power = by_operand("float_power", float_power_tensor, float_power_scalar, float_power_of_number)


def _float_power_(self: Any, exponent: Any) -> Any:
    complex_ = max(operand_rank(v)[1].category for v in (self, exponent)) == 3
    wanted = complex128 if complex_ else float64
    if self.dtype is not wanted:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {type_name(self.dtype)} but the operation's result requires dtype "
            f"{type_name(wanted)}"
        )
    return pow_(self, _doubled(exponent))


float_power_ = by_operand(
    "float_power_",
    composite("float_power_.Tensor(Tensor self, Tensor exponent) -> Tensor")(_float_power_),
    composite("float_power_.Scalar(Tensor self, Scalar exponent) -> Tensor")(_float_power_),
)
