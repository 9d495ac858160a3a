"""Rows of arithmetic: addition to division, remainders, powers, roots, signs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dtype import combine, number_type
from ...core.tensor import Tensor
from ...dispatch.compute import operand_rank
from ...dispatch.front import front
from ...dispatch.inside import inside
from ...dispatch.op import OPS, Op, binary, composite, in_place, unary
from ...kernels import result_layout
from ...kernels.compiled import stand_in
from ...kernels.pointwise import arithmetic as kernels
from .. import flops
from ..creation.fill import _scalar_tensor, empty_inside, zeros, zeros_like
from ..meta import shapes


def numel(inputs: Any) -> int:
    """torch counts one operation per element of the first input."""
    return math.prod(inputs.shapes[0])


def _by_number(name: str, ufunc: np.ufunc, formula: Callable[..., Any], **options: Any) -> Op:
    """The overload that gradient formulas and composites use on a number, as ATen's do: its nodes have a name of their
    own. What users write (`x * 2`) is the overload of two tensors, in torch too."""
    return binary(
        f"_{name}_number.Tensor",
        ufunc,
        scalar="Scalar",
        event=f"aten::{name}",
        node=f"{name.title()}Backward1",
        out=False,
        method=False,
        self=formula,
        **options,
    )


times = _by_number("mul", np.multiply, lambda g, other: times(g, conj_of(other)), flops=numel).function
minus = _by_number("sub", np.subtract, lambda g: g).function
over = _by_number("div", np.true_divide, lambda g, other: over(g, conj_of(other)), rule="float").function
_plus = _by_number("add", np.add, lambda g: g, flops=numel)
plus, plus_ = _plus.function, in_place(_plus, event="aten::add_").function


def conj_of(value: Any) -> Any:
    """The conjugate of a tensor or number, itself where that is real."""
    if isinstance(value, Tensor):
        return value if value._a.dtype.kind != "c" else value.conj()
    return value.conjugate()


def kept(g: Any, mask: Any) -> Any:
    """`g` where `mask` holds, else 0."""
    return OPS["where.self"].function(mask, g, _scalar_tensor.function(0, dtype=g.dtype))


def dropped(g: Any, mask: Any) -> Any:
    """0 where `mask` holds, else `g`."""
    return OPS["where.self"].function(mask, _scalar_tensor.function(0, dtype=g.dtype), g)


def no_gradient(g: Any) -> Any:
    """The gradient of an input that changes nothing."""
    return zeros(g.shape, dtype=g.dtype, device=g.device)


def refuse(name: str) -> Callable[..., Any]:
    """The gradient formula of an op that torch cannot differentiate."""

    def formula(g: Any) -> Any:
        raise NotImplementedError(f"derivative for aten::{name} is not implemented")

    return formula


def through_out(row: Op, result: Callable[[Tensor], Any] | None = None) -> Op:
    """Let a row record what ATen does: the op runs its `out=` form, which is an event of its own. Where `result` says
    the dtype of the result for a tensor, that form gets an empty tensor, whose memory it finds itself, as in ATen."""
    schema = row.schema.text
    arguments = schema[schema.index("(") : schema.rindex(")")]
    options: dict[str, Any] = {"event": f"aten::{row.schema.name}", "out": False, "method": False}
    inner = Op(
        f"_{row.schema.name}_out{arguments}) -> Tensor",
        row.kernel,
        rule=row.rule,
        ufunc=row.ufunc,
        fast_when=row.fast_when,
        takes=row.takes,
        label=row.label,
        widen=row.widen,
        check=row.check,
        promotes=row.promotes,
        **options,
    )
    row.calls = inner.function if result is None else _writing(row, inner, result, arguments, options)
    return row


def _writing(row: Op, inner: Op, result: Callable[[Tensor], Any], arguments: str, options: dict[str, Any]) -> Any:
    ufunc: Any = row.ufunc
    writer = Op(
        f"_{row.schema.name}_into{arguments}, Tensor out) -> Tensor",
        lambda *arrays: ufunc(*arrays[:-1]),  # in the layout of its operands
        meta=shapes.by_kernel,
        **options,
    )
    write = inside(writer)

    def call(*given: Any) -> Any:
        if not all(type(t) is Tensor and t._a.dtype.kind == "f" for t in given):
            return inner.function(*given)
        try:
            return write(*given, empty_inside((0,), result(given[0]), None, None, False, None))
        except ValueError:
            return inner.function(*given)  # which says what does not fit

    return call


@front("result_type")
def result_type(tensor1: Any, tensor2: Any) -> Any:
    """The dtype that arithmetic on two tensors or numbers has."""
    return combine(operand_rank(v) for v in (tensor1, tensor2))


# --- sums -------------------------------------------------------------------------------------------------------------


def _scaled(ufunc: Any, scaled: Any) -> Any:
    """`ufunc(a, alpha * b)`."""

    def kernel(a: Any, b: Any, alpha: Any, out: Any = None) -> Any:
        return ufunc(a, b, out=out) if alpha == 1 else scaled(a, b, alpha, out=out)

    return kernel


def _kinds(*operands: Any) -> list[int]:
    """0 bool, 1 integer, 2 floating point, 3 complex."""
    return [operand_rank(v)[1].category for v in operands]


def _check_alpha(self: Any, other: Any, alpha: Any) -> None:
    category = max(_kinds(self, other))
    given = number_type(alpha).category
    if given == 0 and category != 0:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if given >= 2 and category < 2:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if given == 3 and category < 3:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")


_check_alpha.by_types = True  # type: ignore[attr-defined]  # the same for all operands of the same types


def _check_sub(self: Any, other: Any, alpha: Any) -> None:
    kinds = _kinds(self, other)
    if kinds == [0, 0]:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
            "operator instead."
        )
    if 0 in kinds:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use "
            "the `~` or `logical_not()` operator instead."
        )
    _check_alpha(self, other, alpha)


_check_sub.by_types = True  # type: ignore[attr-defined]

_FLOATS_SCALED = (
    "(type(alpha) is float or type(alpha) is int) and input._a.dtype is other._a.dtype"
    " and (input._a.dtype is F32 or input._a.dtype is F64)"
)
# Integers have no gradient, but those that backward kept may have a place in the graph.
_BY_INTEGER = "input._a.dtype is I64 and input._ag is None and type({0}) is int and 0 {1} {0} < 0x80000000"

add = binary(
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    np.add,
    all_flops=flops.scaled_sum,
    kernel=_scaled(stand_in(np.add), kernels.add_scaled),
    fast_when={"alpha": 1},
    fast=(_FLOATS_SCALED, kernels.add_scaled),
    check=_check_alpha,
    flops=numel,
    self=lambda g: g,
    other=lambda g, alpha: g if alpha == 1 else times(g, conj_of(alpha)),
)
add_ = in_place(add)
sub = binary(
    "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    np.subtract,
    all_flops=flops.scaled_sum,
    kernel=_scaled(stand_in(np.subtract), kernels.subtract_scaled),
    fast_when={"alpha": 1},
    fast=(_FLOATS_SCALED, kernels.subtract_scaled),
    check=_check_sub,
    self=lambda g: g,
    other=lambda g, alpha: -g if alpha == 1 else times(-g, conj_of(alpha)),
)
sub_ = in_place(sub)


def _reversed(a: Any, b: Any, alpha: Any) -> Any:
    return np.subtract(b, a if alpha == 1 else np.multiply(a, np.asarray(alpha).astype(a.dtype)))


rsub_tensor = binary(
    "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    lambda a, b: np.subtract(b, a),
    all_flops=flops.scaled_sum,
    kernel=_reversed,
    fast_when={"alpha": 1},
    number_fast=False,
    out=False,
    layout=result_layout.second_first,
    check=lambda self, other, alpha: _check_sub(other, self, alpha),
    calls=lambda self, other, alpha: sub.function(other, self, alpha=alpha),
    inner=(sub, ("other", "input", "alpha")),
    self=lambda g, alpha: -g if alpha == 1 else times(-g, conj_of(alpha)),
    other=lambda g: g,
)
rsub_scalar = Op(
    "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    _reversed,
    rule="same",
    promotes=("other",),
    out=False,
    node="RsubBackward1",
    check=lambda self, other, alpha: _check_sub(other, self, alpha),
    calls=lambda self, other, alpha: sub.function(other, self, alpha=alpha),
    inner=(sub, ("other", "input", "alpha")),
    formulas={"self": lambda g, alpha: -g if alpha == 1 else times(-g, conj_of(alpha))},
)


@front("rsub")
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """`other - alpha * input`"""
    return (rsub_tensor if isinstance(other, Tensor) else rsub_scalar).function(input, other, alpha=alpha)


# --- products ---------------------------------------------------------------------------------------------------------

mul = binary(
    "mul.Tensor",
    np.multiply,
    all_flops=flops.each(1, 2),
    flops=numel,
    self=lambda g, other: g * other if g._a.dtype.kind != "c" else g * conj_of(other),
    other=lambda g, self: g * self if g._a.dtype.kind != "c" else g * conj_of(self),
)
mul_ = in_place(mul)


def _div_other(g: Any, self: Any, other: Any) -> Any:
    quotient = conj_of((self / other) / other)
    return -g * quotient


div = binary(
    "div.Tensor",
    np.true_divide,
    "float",
    all_flops=flops.each(1, 2),
    self=lambda g, other: g / conj_of(other),
    other=_div_other,
)
div_ = in_place(div)


def _divide(a: Any, b: Any, rounding_mode: Any) -> Any:
    return (kernels.floor_divide if rounding_mode == "floor" else kernels.trunc_divide)(a, b)


div_mode = Op(
    "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
    _divide,
    out_overload="out_mode",
    rule="same",
    takes="if",
    label="div_floor_cpu",
    node="DivBackward2",
    formulas={"self": lambda g: zeros_like(g), "other": lambda g: zeros_like(g)},
)
div_mode_ = in_place(div_mode)


def _with_mode(plain: Op, rounded: Op) -> Any:
    def divide(input: Any, other: Any, *, rounding_mode: Any = None, **out: Any) -> Any:
        if rounding_mode is None:
            return plain.function(input, other, **out)
        if rounding_mode not in ("floor", "trunc"):
            raise RuntimeError(
                f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}"
            )
        return rounded.function(input, other, rounding_mode=rounding_mode, **out)

    divide.__name__ = divide.__qualname__ = plain.name
    return divide


divide = front("div")(_with_mode(div, div_mode))
divide_ = front("div_")(_with_mode(div_, div_mode_))

floor_divide = binary(
    "floor_divide",
    kernels.floor_divide,
    all_flops=flops.each(1, 2),
    takes="if",
    label="div_floor_cpu",
    node="NotImplemented",
    self=refuse("floor_divide"),
    other=refuse("floor_divide"),
)
floor_divide_ = in_place(floor_divide, overload="Tensor", self=refuse("floor_divide_"), other=refuse("floor_divide_"))


def _remainder_rows(name: str, kernel: Any, mode: str, fast: Any = None) -> tuple[Op, Op]:
    """`remainder` and `fmod`: what division leaves that is rounded down, or towards zero."""
    title = name.title()
    tensor = binary(
        f"{name}.Tensor",
        kernel,
        out_overload="Tensor_out",
        all_flops=flops.each(1, 2),
        takes="if",
        label=f"{name}_cpu",
        number_fast=False,
        node=f"{title}Backward1",
        self=lambda g: g,
        other=lambda g, self, other: -g * div_mode.function(self, other, rounding_mode=mode),
    )
    scalar = Op(
        f"{name}.Scalar(Tensor self, Scalar other) -> Tensor",
        kernel,
        rule="same",
        takes="if",
        label=f"{name}_cpu",
        promotes=("other",),
        fast=fast,
        node=f"{title}Backward0",
        formulas={"self": lambda g: g},
    )
    return tensor, scalar


def _number_kernel(kernel: Any) -> Any:
    """A kernel of two arrays that also takes a Python number as the second."""

    def with_number(a: Any, b: Any, out: Any = None) -> Any:
        return kernel(a, b if isinstance(b, np.ndarray) else np.asarray(b, a.dtype), out=out)

    return with_number


_OF_INTEGERS = _BY_INTEGER.format("other", "<"), kernels.remainder_by
remainder_tensor, remainder_scalar = _remainder_rows(
    "remainder", _number_kernel(kernels.remainder), "floor", _OF_INTEGERS
)
fmod_tensor, fmod_scalar = _remainder_rows("fmod", _number_kernel(kernels.fmod), "trunc")
remainder_tensor_, remainder_scalar_ = in_place(remainder_tensor), in_place(remainder_scalar)
fmod_tensor_, fmod_scalar_ = in_place(fmod_tensor), in_place(fmod_scalar)
remainder_of_number = Op(
    "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
    lambda a, b: kernels.remainder(a if isinstance(a, np.ndarray) else np.asarray(a, b.dtype), b),
    rule="same",
    takes="if",
    promotes=("self",),
    method=False,
    node="NotImplemented",
    formulas={"other": refuse("remainder")},
)


def by_operand(name: str, tensor: Op, scalar: Op, reflected: Op | None = None) -> Any:
    """The public function of a name whose overloads differ in whether an operand is a tensor or a number."""
    of_tensor, of_number = tensor.function, scalar.function
    second = tensor.schema.arguments[1].name

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        other = args[0] if args else kwargs.get(second)
        if reflected is not None and not isinstance(input, Tensor) and isinstance(other, Tensor):
            return reflected.function(input, *args, **kwargs)
        if isinstance(other, Tensor) or not isinstance(other, (int, float, complex, np.number, np.bool_)):
            return of_tensor(input, *args, **kwargs)
        return of_number(input, *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    return front(name)(function)


remainder = by_operand("remainder", remainder_tensor, remainder_scalar, remainder_of_number)
remainder_ = by_operand("remainder_", remainder_tensor_, remainder_scalar_)
fmod = by_operand("fmod", fmod_tensor, fmod_scalar)
fmod_ = by_operand("fmod_", fmod_tensor_, fmod_scalar_)

# --- powers and roots -------------------------------------------------------------------------------------------------


def _pow_self(g: Any, self: Any, exponent: Any) -> Any:
    by_tensor = isinstance(exponent, Tensor)
    if not by_tensor and exponent == 0:
        return zeros_like(g)
    if not by_tensor:
        return g * conj_of(times(self.pow(exponent - 1), exponent))
    return dropped(g * conj_of(exponent * self.pow(minus(exponent, 1))), exponent == 0)


def _pow_exponent(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    real = exponent.real if exponent.is_complex() else exponent
    vanishes = (self == 0).logical_and(real >= 0)
    return g * dropped(conj_of(result * self.log()), vanishes)


def _number_base(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    if self == 0:
        real = exponent.real if exponent.is_complex() else exponent
        return zeros_like(g).where(real >= 0, float("nan"))
    log = np.log(self + 0j) if isinstance(self, complex) or self < 0 else math.log(self)
    return g * conj_of(times(result, complex(log) if isinstance(log, complex) else log))


def _check_pow(self: Any, exponent: Any) -> None:
    kinds = _kinds(self, exponent)
    if max(kinds) == 1 and not isinstance(exponent, Tensor) and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")


pow_tensor = binary(
    "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    kernels.power,
    all_flops=flops.each(1, 2),
    takes="ifc",
    label="pow",
    number_fast=False,
    node="PowBackward1",
    self=_pow_self,
    exponent=_pow_exponent,
)
pow_scalar = Op(
    "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
    kernels.power_of_number,
    rule="same",
    takes="ifc",
    label="pow",
    promotes=("exponent",),
    layout=result_layout.of_first_alone,
    check=_check_pow,
    fast=(_BY_INTEGER.format("exponent", "<="), kernels.power_of_integers),
    formulas={"self": _pow_self},
)
pow_of_number = Op(
    "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
    lambda a, b: kernels.power(a if isinstance(a, np.ndarray) else np.asarray(a, b.dtype), b),
    rule="same",
    takes="ifc",
    label="pow",
    promotes=("self",),
    layout=result_layout.plain,
    method=False,
    node="PowBackward2",
    formulas={"exponent": _number_base},
)
through_out(pow_of_number)
pow_tensor_, pow_scalar_ = in_place(pow_tensor, overload="Tensor"), in_place(pow_scalar, overload="Scalar")


@front("pow")
def pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """`input ** exponent`"""
    if type(exponent) is int or type(exponent) is float:
        return pow_scalar.function(input, exponent, out=out)
    if isinstance(exponent, Tensor):
        return (pow_tensor if isinstance(input, Tensor) else pow_of_number).function(input, exponent, out=out)
    return pow_scalar.function(input, exponent, out=out)


pow_ = by_operand("pow_", pow_tensor_, pow_scalar_)


@composite("square(Tensor self) -> Tensor", out=True)
def square(self: Any, out: Any = None) -> Any:
    return pow_scalar.function(self, 2, out=out)


@composite("square_(Tensor self) -> Tensor")
def square_(self: Any) -> Any:
    return pow_scalar_.function(self, 2)


sqrt = unary("sqrt", np.sqrt, all_flops=flops.each(1, 1), self=lambda g, result: g / times(conj_of(result), 2))
rsqrt = unary(
    "rsqrt", kernels.rsqrt, all_flops=flops.each(1, 1), self=lambda g, result: -0.5 * g * conj_of(result.pow(3))
)
reciprocal = unary(
    "reciprocal", np.reciprocal, all_flops=flops.each(1, 1), self=lambda g, result: -g * conj_of(result * result)
)
sqrt_, rsqrt_, reciprocal_ = in_place(sqrt), in_place(rsqrt), in_place(reciprocal)

# --- signs ------------------------------------------------------------------------------------------------------------


def _check_neg(self: Any) -> None:
    if self._a.dtype.kind == "b":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the "
            "`~` or `logical_not()` operator instead."
        )


def _check_sign(self: Any) -> None:
    if self._a.dtype.kind == "c":
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
        )


def _sgn_self(g: Any, self: Any, result: Any) -> Any:
    if not self.is_complex():
        return zeros_like(g)
    gradient = (g - (g.conj() * result) * result) / (2 * self.abs())
    return gradient.masked_fill(self == 0, 0)


neg = unary("neg", np.negative, "same", all_flops=flops.each(1, 1), check=_check_neg, self=lambda g: -g)
abs = unary("abs", np.absolute, "same", all_flops=flops.each(1, 1), takes="ifc", self=lambda g, self: g * self.sgn())
sign = unary("sign", kernels.sign, "same", all_flops=flops.each(1, 1), check=_check_sign, self=lambda g: zeros_like(g))
sgn = unary("sgn", kernels.sgn, "same", all_flops=flops.each(1, 1), self=_sgn_self)
through_out(abs, lambda t: t.dtype)
neg_, abs_, sign_, sgn_ = in_place(neg), in_place(abs), in_place(sign), in_place(sgn)


@composite("positive(Tensor self) -> Tensor", all_flops=flops.each(1, 1))
def positive(self: Any) -> Any:
    if self._a.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self
