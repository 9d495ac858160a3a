"""Writes the fast paths of ops in place, for `forward`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from .codegen import Lines, array_of, guards, number, plain
from .fast_parts import (
    dtype_guard,
    evaluate,
    guarded,
    indented,
    kernel_call,
    next_version,
    number_guards,
    slow,
    takes_int64,
    takes_out,
    without_graph,
)
from .recording import close_event, close_inner, open_event, open_inner


def mutating(lines: Lines, op: Any, flags: int, recorded: bool) -> None:
    """Fast paths of an in-place op: when no graph is built, or for an elementwise op on a tensor that is no view."""
    tensors = [a for a in op.schema.arguments if a.is_tensor]
    first = tensors[0].python_name
    others = [t.python_name for t in tensors[1:] if t.type == "Tensor"]
    quiet = " and ".join([_quiet(first), *map(_apart, others)])
    if op.base is None:  # the kernel itself changes its first argument
        lines.add(f"if {' and '.join(guards(op))} and (not GRAD() or ({quiet})):")
        arguments = ", ".join(array_of(a) for a in op.schema.arguments)
        call = [f"K_{op.ident}({arguments})"]
        if op.calls is not None:
            call = ["try:", *indented(call), "except REFUSALS:", f"    return {evaluate(op)}"]
        _mutating_case(lines, op, flags, recorded, call)
        return
    base = op.base
    kernel = base.ufunc if base.ufunc is not None else base.kernel
    if base.rule is None or not takes_out(kernel) or any(a.type == "Tensor?" for a in tensors):
        if not recorded:
            _copied_back(lines, op, quiet)
        return
    names = [t.python_name for t in tensors]
    lines.add(f"if {' and '.join([plain(n) for n in names] + _in_place_guards(base))}:")
    lines.depth += 1
    _find_graph(lines, op, quiet, names[1:])
    lines.add(*(f"a{i} = {n}._a" for i, n in enumerate(names)))
    fits = "a0.dtype is BOOL" if base.rule == "compare" else dtype_guard(base)  # which then holds the truth values
    same = [f"a{i}.dtype is a0.dtype" for i in range(1, len(names))]
    shape = [f"(a{i}.shape == a0.shape or FITS(a{i}, a0))" for i in range(1, len(names))]
    lines.add(f"if {' and '.join([*same, *shape, *([fits] if fits else [])]) or 'True'}:")
    _mutating_case(lines, op, flags, recorded, _write_call(base), names)
    lines.depth -= 1
    if len(names) == 2 and base.takes_numbers and base.rule != "compare":
        other = names[1]
        tests = [plain(first), *_in_place_guards(base), number(other)]
        lines.add(f"elif {' and '.join(tests)}:")
        lines.depth += 1
        _find_graph(lines, op, _quiet(first), [])
        integer = f"I64_NUMBERS[{other}] if a0.dtype is I64 and type({other}) is int else "
        lines.add(
            f"a0 = {first}._a",
            f"c = F32_NUMBERS[{other}] if a0.dtype is F32 else F64_NUMBERS[{other}] if a0.dtype is F64 else "
            f"{integer if takes_int64(base) else ''}None",
            "if c is not None:",
        )
        _mutating_case(lines, op, flags, recorded, _write_call(base, "c"), [first], base.number_event != base.event)
        lines.depth -= 1


def _copied_back(lines: Lines, op: Any, quiet: str) -> None:
    """The result of the form that is not in place, put where the tensor is; nobody builds a graph. What cannot be put
    there as it is, is left to the slow path, errors included."""
    first, *others = (a.python_name for a in op.schema.arguments if a.is_tensor)
    together = [f"{n}._v is not None and {n}._v is {first}._v and {n} is not {first}" for n in others]
    obstacles = [f"0 in {first}._a.strides", *together]
    args = [f"{a.python_name}={a.python_name}" if a.kwarg_only else a.python_name for a in op.schema.arguments]
    if op.base.varargs or any(a.type == "Tensor?" or a.is_tensor_list for a in op.schema.arguments):
        return
    lines.add(f"if {' and '.join(guards(op))} and (not GRAD() or ({quiet})) and not ({' or '.join(obstacles)}):")
    lines.depth += 1
    lines.add("try:", f"    r0 = P_{op.base.ident}({', '.join(args)})._a")
    lines.add("except (TypeError, ValueError, RuntimeError, IndexError):", f"    return {slow(op)}")
    lines.add(f"if PUT({first}._a, r0):")
    lines.add(*("    " + line for line in (*next_version(first), f"return {first}")))
    lines.depth -= 1


def _quiet(name: str) -> str:
    """The condition that a tensor takes no part in a graph and can be changed without more ado."""
    return f"{name}._ag is None and ({name}._view is None or UNTRACKED({name}))"


def _apart(name: str) -> str:
    """The condition that a tensor which is only read takes no part in a graph."""
    return f"{name}._ag is None and ({name}._view is None or {name}._view.base._ag is None)"


def _find_graph(lines: Lines, op: Any, quiet: str, others: list[str]) -> None:
    """Set `graph`: whether the change takes part in one. Views, leaves and shared memory are left to the slow path; the
    tensor itself may be an operand, as kernels write each element after they have read it for the last time."""
    first = op.schema.arguments[0].python_name
    lines.add(f"graph = GRAD() and not ({quiet})")
    kept = f"({first}._ag is not None and {first}._ag.hooks is not None)"  # a gradient that goes along with the tensor
    obstacles = [f"{first}._view is not None", f"type({first}._ag) is LEAF", kept]
    obstacles += [f"{n} is {first}" for n in others]
    condition = f"graph and ({' or '.join(obstacles)})" if op.differentiable else "graph"
    together = [f"{n}._v is not None and {n}._v is {first}._v and {n} is not {first}" for n in others]
    # Whether several of its elements lie at one place; only a view of other memory can be so.
    spread = f"{first}._v is not None and {first}._a.base is not None and 0 in {first}._a.strides"
    lines.add(f"if {' or '.join([condition, *together, spread])}: return {slow(op)}")


def _keeps_first(op: Any, names: list[str]) -> str:
    """The condition that backward needs the tensor as it was before the change."""
    first = op.schema.arguments[0].name
    users = {u for target, parameters in op.formula_parameters.items() if first in parameters for u in target.split()}
    tensors = [op.arguments[u].python_name for u in users]
    return " or ".join(f"EDGE({t}) is not None" for t in sorted(tensors) if t in names)


def _in_place_guards(base: Any) -> list[str]:
    """As `number_guards`, but where the kernel can write in place any number will do."""
    if base.ufunc is not None and base.fast_when and takes_out(base.kernel):
        return [number(name) for name in base.fast_when]
    return number_guards(base)


def _write_call(base: Any, last: str = "") -> list[str]:
    """Compute into `a0`: by the ufunc where its conditions hold, else by the kernel."""
    call = kernel_call(base, last, ", out=a0")
    if base.ufunc is not None and base.fast_when and takes_out(base.kernel):
        conditions = " and ".join(number_guards(base))
        form = copy.copy(base)
        form.ufunc = None
        slow_call = kernel_call(form, last, ", out=a0")
        fits = "" if last else "a0.dtype is F32 or a0.dtype is F64"
        return [f"if {conditions}: {call}", f"elif {fits or 'True'}: {slow_call}", "else: raise TypeError"]
    return [call]


def _mutating_case(
    lines: Lines, op: Any, flags: int, recorded: bool, compute: list[str], tracked: Sequence[str] = (),
    by_number: bool = False,
) -> None:  # fmt: skip
    """Change the first argument; where `tracked` names the tensors of an elementwise op, give it its new node."""
    first = op.schema.arguments[0].python_name
    lines.depth += 1
    form = op
    if by_number:
        form = copy.copy(op)
        form.event = op.number_event
    if recorded:
        open_event(lines, form, flags)
    inside = recorded and op.inner is not None
    by_ops = recorded and op.calls is not None and not inside
    if by_ops:
        compute = [f"before_ = VERSION_BEFORE({first})", *without_graph(op), f"ONE_CHANGE({first}, before_)"]
    elif op.base is not None:
        compute = ["try:", *("    " + line for line in compute), *guarded(op, "")[2:]]
    build = bool(tracked and op.differentiable)
    if build:
        take = "CLONED" if recorded else "BEFORE"
        lines.add(f"if graph: w = {take}({first}, {_keeps_first(op, list(tracked)) or 'False'})")
    if inside:
        open_inner(lines, op, flags)
    lines.add(*compute)
    if inside:
        close_inner(lines, op, flags)
    if not by_ops:
        lines.add(*next_version(first))
    if build:
        rest = [a.python_name for a in op.schema.arguments[1:]]
        lines.add(f"if graph: {first}._ag = N_{op.ident}({', '.join(['w', *rest, first])})")
    lines.add(f"return {first}")
    if recorded:
        close_event(lines, form, flags)
    lines.depth -= 1
