"""Python's operators on tensors: `x + y`, `x < y`, `x @ y`, their reflected and in-place forms.

An operator is a lean variant of an op's function, generated from the same template: no keywords, and NotImplemented for
operands that are not its own, so that their reflected methods get their turn.
"""

from __future__ import annotations

import copy
import copyreg
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.device import CPU
from ..core.dtype import FROM_NUMPY
from ..core.size import Size
from ..core.storage import OwnVersion
from ..core.tap import HELPER, NAMESPACE
from ..core.tensor import Tensor
from ..dispatch.functions import LATE, install, materialize, stub
from ..dispatch.op import OPS, Op
from ..ops.pointwise import arithmetic, bitwise, special

_NUMBERS = (int, float, complex, np.number, np.bool_)


def operator(
    name: str, op: Op, function: Callable[..., Any] | None = None, numbers: bool = False
) -> types.FunctionType:
    """The method `name`: the fast paths of `op`; what they do not take goes to `function` (by default the op's own), which
    may take numbers where the row itself does not."""
    made = stub(name, name)
    LATE[name] = lambda: _materialize(made, op, function or op.function, numbers)
    return made


def _materialize(made: types.FunctionType, op: Op, function: Callable[..., Any], numbers: bool) -> types.FunctionType:
    if f"S_{op.ident}" not in NAMESPACE:
        materialize(op)
    form = copy.copy(op)
    form.python_name, form.has_out, form.fast_when = made.__name__, False, {}
    form.fixed = {a.python_name: a.default for a in op.schema.arguments if a.has_default}
    form.records = function is op.function
    NAMESPACE[f"O_{made.__name__}"] = or_not_implemented(function, numbers or op.takes_numbers or bool(op.promotes))
    install(form, made, made.__name__)
    return made


def or_not_implemented(function: Callable[..., Any], numbers: bool = True) -> Callable[..., Any]:
    """`function` for tensors (and numbers), NotImplemented for any other operand."""
    operands = (Tensor, *_NUMBERS) if numbers else (Tensor,)

    def method(self: Any, *other: Any) -> Any:
        if not isinstance(self, Tensor):
            raise TypeError(f"an operator of Tensor was called on a {type(self).__name__}")
        for value in other:
            if numbers and isinstance(value, np.number):
                return function(self, value.item())
            if not isinstance(value, operands) and not hasattr(type(value), "__torch_function__"):
                return NotImplemented
        return function(self, *other)

    method.__name__ = method.__qualname__ = getattr(function, "__name__", "operator")
    return method


# --- arithmetic -------------------------------------------------------------------------------------------------------

_HOT = {
    "__add__": "add.Tensor", "__radd__": "add.Tensor", "__sub__": "sub.Tensor", "__mul__": "mul.Tensor",
    "__rmul__": "mul.Tensor", "__truediv__": "div.Tensor", "__floordiv__": "floor_divide", "__matmul__": "matmul",
    "__eq__": "eq.Tensor", "__ne__": "ne.Tensor", "__lt__": "lt.Tensor", "__le__": "le.Tensor", "__gt__": "gt.Tensor",
    "__ge__": "ge.Tensor", "__neg__": "neg", "__abs__": "abs", "__pos__": "positive",
}  # fmt: skip
_IN_PLACE = {
    "__iadd__": "add_.Tensor", "__isub__": "sub_.Tensor", "__imul__": "mul_.Tensor", "__itruediv__": "div_.Tensor",
    "__ifloordiv__": "floor_divide_.Tensor",
}  # fmt: skip


def _reciprocal_times(self: Any, other: Any) -> Any:
    return arithmetic.reciprocal.function(self) * other


def _floor_of(self: Any, other: Any) -> Any:
    return arithmetic.floor_divide.function(other, self)


def _remainder_of(self: Any, other: Any) -> Any:
    return arithmetic.remainder(other, self)


def _power_of(self: Any, other: Any) -> Any:
    return arithmetic.pow(other, self)


def _matmul_of(self: Any, other: Any) -> Any:
    return OPS["matmul"].function(other, self)


def _invert(self: Any) -> Any:
    if self._a.dtype.kind not in "biu":
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise.bitwise_not.function(self)


def _swapped(row: Op) -> Callable[..., Any]:
    return lambda self, other: row.function(other, self)


_PLAIN: dict[str, Callable[..., Any]] = {
    "__rtruediv__": _reciprocal_times,
    "__rfloordiv__": _floor_of,
    "__rmod__": _remainder_of,
    "__rpow__": _power_of,
    "__rand__": bitwise.bitwise_and.function,
    "__ror__": bitwise.bitwise_or.function,
    "__rxor__": bitwise.bitwise_xor.function,
    "__lshift__": bitwise.lshift.function,
    "__rshift__": bitwise.rshift.function,
    "__rlshift__": _swapped(bitwise.bitwise_left_shift),
    "__rrshift__": _swapped(bitwise.bitwise_right_shift),
}


def _looked_up(method: Any) -> tuple[Any, ...]:
    """How an operator is copied and pickled: it is always the same one."""
    name = next((name for name, held in vars(Tensor).items() if held is method), None)
    if name is None:
        raise TypeError(f"an operator that Tensor no longer has cannot be copied or pickled: {method.__name__}")
    return getattr, (Tensor, name)


def _read_untraced() -> None:
    """Have what tensors have as attributes, and methods that are like them, found as operators are: their functions are
    not traced."""
    for name, held in list(vars(Tensor).items()):
        if type(held) is property:
            written = held.fset and HELPER.writer(name, held.fset)
            deleted = held.fdel and HELPER.operator(held.fdel)
            setattr(Tensor, name, property(HELPER.reader(name, held.fget), written, deleted))
    for name in "size dim numel element_size stride is_contiguous contiguous data_ptr storage_offset".split():
        setattr(Tensor, name, HELPER.reader(name, vars(Tensor)[name]))
    Tensor.ndimension, Tensor.nelement = vars(Tensor)["dim"], vars(Tensor)["numel"]


def bind_operators() -> None:
    """Attach every operator to Tensor."""
    methods: dict[str, Any] = {name: operator(name, OPS[row]) for name, row in _HOT.items()}
    methods["__pow__"] = operator("__pow__", arithmetic.pow_scalar, arithmetic.pow)
    for name in ("and", "or", "xor"):
        function = getattr(bitwise, f"{name}_operator")
        methods[f"__{name}__"] = operator(f"__{name}__", OPS[f"__{name}__.Tensor"], function, numbers=True)
    methods["__mod__"] = operator("__mod__", arithmetic.remainder_scalar, arithmetic.remainder)
    methods["__rsub__"] = operator("__rsub__", arithmetic.rsub_scalar, arithmetic.rsub)
    methods["__rmatmul__"] = or_not_implemented(_matmul_of, numbers=False)
    methods["__invert__"] = _invert
    methods.update({name: or_not_implemented(function) for name, function in _PLAIN.items()})
    methods["__rdiv__"] = lambda self, other: self.reciprocal() * other
    methods.update({name: OPS[row].function for name, row in _IN_PLACE.items()})
    methods["__ipow__"], methods["__imod__"] = arithmetic.pow_, arithmetic.remainder_
    methods["__div__"], methods["__idiv__"] = methods["__truediv__"], methods["__itruediv__"]
    for name in ("__iand__", "__ior__", "__ixor__"):
        methods[name] = getattr(bitwise, name.strip("_") + "_operator")
    methods["__ilshift__"], methods["__irshift__"] = bitwise.ilshift.function, bitwise.irshift.function
    for name, method in methods.items():
        setattr(Tensor, name, method if HELPER is None else HELPER.operator(method))
    if HELPER is not None:
        copyreg.pickle(type(Tensor.__dict__["__add__"]), _looked_up)
        HELPER.connect_readers(Size, FROM_NUMPY, CPU, OwnVersion)
        _read_untraced()
    Tensor.polygamma = lambda self, n: special.polygamma.function(n, self)  # type: ignore[attr-defined]
