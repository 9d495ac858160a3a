"""Python's operators on tensors: `x + y`, `x < y`, `x @ y`, their reflected and in-place forms.

An operator is a lean variant of an op's function, generated from the same template: no keywords, and NotImplemented for
operands that are not its own, so that their reflected methods get their turn.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _codegen, _forward
from ._op import LATE, NAMESPACE, Op, materialize, replace_code, stub
from ._tensor import Tensor

_NUMBERS = (int, float, complex, np.number, np.bool_)


def operator(name: str, op: Op, function: Callable[..., Any] | None = None) -> types.FunctionType:
    """The method `name`: the fast paths of `op`; what those do not take goes to `function` (the op's own unless given)."""
    made = stub(name, name)
    LATE[name] = lambda: _materialize(made, op, function or op.function)
    return made


def _materialize(made: types.FunctionType, op: Op, function: Callable[..., Any]) -> types.FunctionType:
    if f"S_{op.ident}" not in NAMESPACE:
        materialize(op)
    form = copy.copy(op)
    form.python_name, form.has_out, form.fast_when = made.__name__, False, {}
    form.fixed = {a.python_name: a.default for a in op.schema.arguments if a.has_default}
    NAMESPACE[f"O_{made.__name__}"] = or_not_implemented(function, op.takes_numbers or bool(op.promotes))
    replace_code(made, _codegen.compile_function(_forward.forward_source(form, recorded=False), made.__name__))
    return made


def or_not_implemented(function: Callable[..., Any], numbers: bool = True) -> Callable[..., Any]:
    """`function` for tensors (and numbers), NotImplemented for any other operand."""
    operands = (Tensor, *_NUMBERS) if numbers else (Tensor,)

    def method(self: Any, *other: Any) -> Any:
        for value in other:
            if not isinstance(value, operands) and not hasattr(type(value), "__torch_function__"):
                return NotImplemented
        return function(self, *other)

    method.__name__ = method.__qualname__ = getattr(function, "__name__", "operator")
    return method
