"""Rows on bits: and, or, xor, not, shifts, and the operators Python has for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch.op import Op, binary, composite, in_place, unary
from .arithmetic import by_operand


def _bitwise(name: str, ufunc: np.ufunc) -> Op:
    """The row of a bitwise op, which takes numbers on either side."""
    return binary(name + ".Tensor", ufunc, out_overload="Tensor_out", takes="bi", label=f"{name}_cpu", scalar="Scalar")


bitwise_and = _bitwise("bitwise_and", np.bitwise_and)
bitwise_or = _bitwise("bitwise_or", np.bitwise_or)
bitwise_xor = _bitwise("bitwise_xor", np.bitwise_xor)
bitwise_and_, bitwise_or_, bitwise_xor_ = in_place(bitwise_and), in_place(bitwise_or), in_place(bitwise_xor)
bitwise_not = unary("bitwise_not", np.invert, "same", takes="bi")
bitwise_not_ = in_place(bitwise_not)


def _shift(ufunc: np.ufunc, past_the_end: Any) -> Any:
    """A shift whose result is defined for any distance: by the whole width or more, and by less than nothing."""

    def kernel(a: Any, b: Any, out: Any = None) -> Any:
        width = a.dtype.itemsize * 8
        inside = (b >= 0) & (b < width)
        if np.asarray(inside).all():
            return ufunc(a, b, out=out)
        safe = ufunc(a, np.where(inside, b, 0))
        return np.positive(np.where(inside, safe, past_the_end(a)).astype(a.dtype), out=out)

    return kernel


def _all_sign(a: Any) -> Any:
    return np.where(a < 0, -1, 0)


_left = _shift(np.left_shift, np.zeros_like)
_right = _shift(np.right_shift, _all_sign)
bitwise_left_shift = binary(
    "bitwise_left_shift.Tensor", _left, out_overload="Tensor_out", takes="i", label="lshift_cpu", scalar="Tensor_Scalar"
)
bitwise_right_shift = binary(
    "bitwise_right_shift.Tensor",
    _right,
    out_overload="Tensor_out",
    takes="i",
    label="rshift_cpu",
    scalar="Tensor_Scalar",
)
bitwise_left_shift_, bitwise_right_shift_ = in_place(bitwise_left_shift), in_place(bitwise_right_shift)
lshift = binary("__lshift__.Tensor", _left, takes="i", label="lshift_cpu", scalar="Scalar", out=False)
rshift = binary("__rshift__.Tensor", _right, takes="i", label="rshift_cpu", scalar="Scalar", out=False)


def _in_place_operator(row: Op, name: str) -> Op:
    """`x <<= y` as an event of its own name."""
    return Op(
        f"{name}.Tensor(Tensor self, Tensor other) -> Tensor",
        None,
        kind="mutate",
        rule=row.rule,
        ufunc=row.ufunc,
        takes=row.takes,
        scalar="Scalar",
        base=row,
        out=False,
    )


ilshift = _in_place_operator(lshift, "__ilshift__")
irshift = _in_place_operator(rshift, "__irshift__")


def _operator(name: str, row: Op) -> Any:
    """`x & y` is an event of its own that runs the bitwise op; so is `x &= y`."""

    def body(self: Any, other: Any) -> Any:
        return row.function(self, other)

    # Where nobody records, it is the bitwise op.
    tensor = composite(f"{name}.Tensor(Tensor self, Tensor other) -> Tensor", fast=("True", row.function))(body)
    scalar = composite(f"{name}.Scalar(Tensor self, Scalar other) -> Tensor")(body)
    return by_operand(name, tensor, scalar)


and_operator = _operator("__and__", bitwise_and)
or_operator = _operator("__or__", bitwise_or)
xor_operator = _operator("__xor__", bitwise_xor)
iand_operator = _operator("__iand__", bitwise_and_)
ior_operator = _operator("__ior__", bitwise_or_)
ixor_operator = _operator("__ixor__", bitwise_xor_)
