"""Gives the op table its public names: `torch.x`, `Tensor.x`, `x_`, operators, and one function for several overloads.

A name with one row is that row's function. A name with several rows is a hand-written front (`@front`), or else a
resolver that takes the first overload the arguments fit.
"""

from __future__ import annotations

import functools
import numbers
from typing import Any

import numpy as np

from ..autograd import overrides
from ..core.tensor import Tensor
from ..dispatch.front import FRONTS, front
from ..dispatch.op import OPS, Op
from ..dispatch.schema import Argument


def _fits_type(argument: Argument, value: Any, takes_numbers: bool) -> bool:
    kind = argument.type.rstrip("?")
    if value is None:
        return argument.type.endswith("?") or (argument.has_default and argument.default is None)
    if kind == "Tensor":
        if isinstance(value, Tensor) or hasattr(type(value), "__torch_function__"):
            return True
        return takes_numbers and isinstance(value, numbers.Number)
    if kind in ("Tensor[]", "Tensor?[]"):
        return isinstance(value, (list, tuple))
    if kind == "Scalar":
        return isinstance(value, (numbers.Number, np.generic)) or (isinstance(value, Tensor) and value._a.ndim == 0)
    if kind == "float":
        return isinstance(value, (int, float, np.floating, np.integer))
    if kind == "int":
        return isinstance(value, (int, np.integer)) or (isinstance(value, Tensor) and value._a.ndim == 0)
    if kind == "bool":
        return isinstance(value, (bool, np.bool_))
    if kind in ("int[]", "float[]"):
        return isinstance(value, (list, tuple, int, np.integer))
    if kind == "str":
        return isinstance(value, str)
    return True


def matches(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call fits an overload."""
    positional = [a for a in op.schema.arguments if not a.kwarg_only]
    if op.varargs and len(args) > len(positional):
        args = (*args[: len(positional) - 1], args[len(positional) - 1 :])
    if len(args) > len(positional):
        return False
    given = dict(zip((a.python_name for a in positional), args, strict=False))
    for name, value in kwargs.items():
        name = {"axis": "dim", "keepdims": "keepdim"}.get(name, name)
        if name in given or (name not in {a.python_name for a in op.schema.arguments} and name != "out"):
            return False
        given[name] = value
    for argument in op.schema.arguments:
        if argument.python_name not in given:
            if not argument.has_default:
                return False
        elif not _fits_type(argument, given[argument.python_name], op.takes_numbers):
            return False
    return True


def resolver(name: str, overloads: list[Op]) -> Any:
    """One function for several overloads, tried in the order of their rows."""

    def resolve(*args: Any, **kwargs: Any) -> Any:
        for op in overloads:
            if matches(op, args, kwargs):
                return op.function(*args, **kwargs)
        takers = overrides.overloaded((*args, *kwargs.values()))
        if takers:
            return overrides.offer(resolve, takers, args, kwargs)
        got = ", ".join([type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()])
        accepted = "\n".join(f" * {op.schema.text}" for op in overloads)
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({got}), but expected one of:\n{accepted}"
        )

    resolve.__name__ = resolve.__qualname__ = name
    resolve.__module__ = "mindtorch_v2"
    return resolve


@functools.cache
def public_functions() -> dict[str, Any]:
    """Every public operator by name."""
    grouped: dict[str, list[Op]] = {}
    for op in OPS.values():
        grouped.setdefault(op.name, []).append(op)
    table = {name: ops[0].function if len(ops) == 1 else resolver(name, ops) for name, ops in grouped.items()}
    table.update(FRONTS)
    for name, ops in grouped.items():
        for op in ops if len(ops) > 1 else ():  # a front of one row may have a signature of its own
            op.public = table[name]
    return table


def bind_methods(functions: dict[str, Any]) -> None:
    """Attach operators that take a tensor first to Tensor (what is there already stays)."""
    rows = {op.name for op in OPS.values()}
    methods = {op.name for op in OPS.values() if op.method and op.takes_self}
    for name, function in functions.items():
        if (name in methods or name not in rows) and name not in Tensor.__dict__:
            setattr(Tensor, name, function)


__all__ = ["bind_methods", "front", "matches", "public_functions"]
