"""What the fast paths of an op's function are made of: calls of its kernel, its body and its slow path, and conditions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import tap
from ..kernels.result_layout import Laid
from .codegen import literal, number, signature

ALL_KINDS = "bifc"  # bool, integer, floating point, complex


def takes_out(function: Callable[..., Any] | None) -> bool:
    """Whether a kernel can write its result into an array it is given."""
    if function is None or isinstance(function, np.ufunc):
        return function is not None
    function = function.kernel if isinstance(function, Laid) else function
    return "out" in inspect.signature(function).parameters


def takes_int64(op: Any) -> bool:
    """Whether the fast path may see integers: its kernel is that of the slow path, and nothing is checked there."""
    if op.rule == "float" or "i" not in op.takes or op.promotes:
        return False
    one_kernel = op.kernel is None or op.ufunc is None
    if isinstance(op.ufunc, np.ufunc) and (op.takes == ALL_KINDS or op.rule == "compare"):
        return True
    return one_kernel and op.check is None


def slow(op: Any) -> str:
    """The call of the slow path; an operator asks first whether it can take its operands at all."""
    names = [signature(op, defaults=False), *op.aliases]
    return f"{_aside('S' if op.seen else 'L', op)}({', '.join(n for n in names if n)})"


def _aside(letter: str, op: Any) -> str:
    return f"{letter}_{op.ident}" if op.fixed is None else f"O_{op.python_name}"


def evaluate(op: Any) -> str:
    """The call that goes on without fast paths once an event is open: promotion, and errors in torch's words."""
    return f"E_{op.ident}({', '.join(a.python_name for a in op.schema.arguments)})"


NO_MEMORY = ["except MemoryError as error:", "    raise NO_MEMORY(error) from None"]


def guarded(op: Any, call: str) -> list[str]:
    tried = ["try:", "    " + call, "except (TypeError, ValueError):", f"    return {evaluate(op)}", *NO_MEMORY]
    # Division, logarithms, roots: infinities and nan are results like others.
    if op.rule != "float" or not op.quiet or not call:
        return tried
    return ["fp = FP_ENTER(FP_QUIET)", *tried, "finally:", "    FP_LEAVE(fp)"]


def without_graph(op: Any, target: str = "") -> list[str]:
    """The body of an op, run while no graph is built."""
    args = ", ".join(a.python_name for a in op.schema.arguments)
    if not op.seen:  # while autocast is on, which this knows
        return [f"{target}RUN_BODY(V_{op.ident}, {args})"]
    if tap.HELPER is not None:
        return [f"{target}UNGRAPHED(V_{op.ident}, {args})"]
    call = f"{target}V_{op.ident}({args})"
    # As `grad_mode.within` does it, written out to save two calls.
    back = [
        "    try:",
        "        GRAD_SET(True)",
        "    except BaseException:",
        "        GRAD_SET(True)",
        "        raise",
    ]
    switched = ["try:", "    GRAD_SET(False)", "    " + call, "finally:", *back]
    return ["if GRAD():", *("    " + line for line in switched), "else:", "    " + call]


def indented(rows: list[str]) -> list[str]:
    return ["    " + row for row in rows]


def kernel_call(op: Any, last: str = "", out: str = "") -> str:
    """The call of an elementwise op's kernel on `a0`, `a1`, …; `last` stands in for the second array."""
    arrays = iter(["a0", last or "a1", "a2", "a3"])
    if op.ufunc is not None:
        count = sum(a.is_tensor for a in op.schema.arguments)
        return f"U_{op.ident}({', '.join(next(arrays) for _ in range(count))}{out})"
    values = (next(arrays) if a.is_tensor else a.python_name for a in op.schema.arguments)
    return f"K_{op.ident}({', '.join(values)}{out})"


def number_guards(op: Any) -> list[str]:
    """Conditions on the arguments beside the tensors: what a ufunc needs at its default, numbers for a kernel."""
    if op.ufunc is not None:  # True is no number here, though it is equal to one
        return [f"{name} == {literal(value)} and {name} is not True" for name, value in op.fast_when.items()]
    conditions = []
    for argument in op.schema.arguments:
        if argument.type in ("Scalar", "float"):
            conditions.append(number(argument.python_name))
        elif argument.type in ("Scalar?", "float?"):
            conditions.append(f"({argument.python_name} is None or {number(argument.python_name)})")
    return conditions


def dtype_guard(op: Any) -> str:
    """The condition on the dtype of `a0` under which the kernel needs no promotion; "" where it takes all."""
    kernel = op.ufunc if op.ufunc is not None else op.kernel
    if isinstance(kernel, np.ufunc) and op.rule != "float" and op.takes == ALL_KINDS:
        return ""
    fits = ["a0.dtype is F32", "a0.dtype is F64"] if "f" in op.takes else []
    if takes_int64(op):
        fits.append("a0.dtype is I64")
        if "b" in op.takes and isinstance(kernel, np.ufunc):
            fits.append("a0.dtype is BOOL")
    return f"({' or '.join(fits)})"


def next_version(tensor: str) -> list[str]:
    return [
        f"v = {tensor}._v",
        f"if v is None: v = {tensor}._v = STORAGE()",
        "v.version = v.version + 1 if type(v) is STORAGE else NEXT_VERSION(v)",
    ]
