"""Writes the public function of an op: the fast paths, plain and recorded, and the way to the slow path.

What is recorded, what is not and operators come from one template, so they cannot drift.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _tap
from ._codegen import (
    COMPUTED_IN_OUT,
    Lines,
    array_of,
    finish_list,
    finish_many,
    finish_single,
    finish_view,
    guards,
    literal,
    number,
    plain,
    requires_dtype,
    signature,
)
from ._recorded import close_event, close_inner, open_event, open_inner, run_ahead, see_view

ALL_KINDS = "bifc"  # bool, integer, floating point, complex


def takes_out(function: Callable[..., Any] | None) -> bool:
    """Whether a kernel can write its result into an array it is given."""
    if function is None or isinstance(function, np.ufunc):
        return function is not None
    return "out" in inspect.signature(function).parameters


def _slow(op: Any) -> str:
    """The call of the slow path; an operator asks first whether it can take its operands at all."""
    names = [signature(op, defaults=False), *op.aliases]
    return f"{_aside('S' if op.seen else 'L', op)}({', '.join(n for n in names if n)})"


def _aside(letter: str, op: Any) -> str:
    return f"{letter}_{op.ident}" if op.fixed is None else f"O_{op.python_name}"


def _evaluate(op: Any) -> str:
    """The call that goes on without fast paths once an event is open: promotion, and errors in torch's words."""
    return f"E_{op.ident}({', '.join(a.python_name for a in op.schema.arguments)})"


def _guarded(op: Any, call: str) -> list[str]:
    tried = ["try:", "    " + call, "except (TypeError, ValueError):", f"    return {_evaluate(op)}", *_NO_MEMORY]
    # Division, logarithms, roots: infinities and nan are results like others.
    if op.rule != "float" or not op.quiet or not call:
        return tried
    return ["fp = FP_ENTER(FP_QUIET)", *tried, "finally:", "    FP_LEAVE(fp)"]


_NO_MEMORY = ["except MemoryError as error:", "    raise NO_MEMORY(error) from None"]


def _without_graph(op: Any, target: str = "") -> list[str]:
    """The body of an op, run while no graph is built."""
    given = ", ".join(a.python_name for a in op.schema.arguments)
    if _tap.HELPER is not None:
        return [f"{target}UNGRAPHED(V_{op.ident}, {given})"]
    call = f"{target}V_{op.ident}({given})"
    # Switched inside of `try`: an interrupt comes after the call that switches, and must not leave it so.
    switched = ["try:", "    GRAD_SET(False)", "    " + call, "finally:", "    GRAD_SET(True)"]
    return ["if GRAD():", *("    " + line for line in switched), "else:", "    " + call]


def _compute(op: Any, recorded: bool, lines: Lines) -> None:
    """Lines that leave the results in `r0`, `r1`, … (or `rs`)."""
    count = len(op.schema.returns)
    target = "rs" if op.schema.returns_list else ", ".join(f"r{i}" for i in range(count))
    if op.calls is not None and (op.kernel is None or (recorded and op.ahead is None)):
        lines.add(*_without_graph(op, "got = "))
        single = count == 1 and not op.schema.returns_list
        lines.add("r0 = got._a" if single else f"{target} = [x._a for x in got]")
        return
    arrays = [array_of(a) for a in op.schema.arguments]
    if recorded and op.dense:
        lines.add(f"dense_ = {_laid_out(op)}")
        arrays[0] = "dense_._a"
    given = ", ".join(arrays)
    call = [f"{target} = K_{op.ident}({given})"]
    if op.kind == "kernel" and op.takes_tensors and op.quiet:
        call = ["fp = FP_ENTER(FP_QUIET)", "try:", "    " + call[0], "finally:", "    FP_LEAVE(fp)"]
    if op.asked is not None:
        call = [f"{target} = A_{op.ident}({given})", f"if {target} is None:", *_indented(call)]
    lines.add("try:", *_indented(call), *_NO_MEMORY)
    if recorded and op.dense:
        lines.add("del dense_")  # a copy goes while the event lasts


def _laid_out(op: Any) -> str:
    """The first argument as the kernel of a recorded op gets it."""
    first = op.schema.arguments[0].python_name
    fits = f"{first}._a.flags.c_contiguous" if op.dense is True else f"W_{op.ident}({first}._a)"
    return f"{first} if {fits} else DENSE({first})"


def _indented(rows: list[str]) -> list[str]:
    return ["    " + row for row in rows]


def _case(
    lines: Lines, op: Any, flags: int, recorded: bool, compute: list[str], numbers: frozenset[str] = frozenset()
) -> None:
    """One fast path: [event] compute, wrap, return."""
    if recorded:
        open_event(lines, op, flags, numbers)
    if recorded and op.ahead is not None:
        run_ahead(lines, op, flags)
    if recorded and op.inner is not None:
        open_inner(lines, op, flags)
        lines.add(*compute) if compute else _compute(op, False, lines)
        close_inner(lines, op, flags)
    elif compute and not (recorded and op.calls is not None):
        lines.add(*compute)
    else:
        _compute(op, recorded, lines)
    live_flags = flags if recorded else 0
    if op.schema.returns_list:
        finish_list(lines, op, live_flags)
    elif op.kind == "view":
        finish_view(lines, op, live_flags)
    elif len(op.schema.returns) > 1:
        finish_many(lines, op, live_flags)
    else:
        finish_single(lines, op, live_flags, numbers)
    if recorded:
        close_event(lines, op, flags)


# --- elementwise ------------------------------------------------------------------------------------------------------


def _kernel_call(op: Any, last: str = "", out: str = "") -> str:
    """The call of an elementwise op's kernel on `a0`, `a1`, …; `last` stands in for the second array."""
    arrays = iter(["a0", last or "a1", "a2", "a3"])
    if op.ufunc is not None:
        count = sum(a.is_tensor for a in op.schema.arguments)
        return f"U_{op.ident}({', '.join(next(arrays) for _ in range(count))}{out})"
    values = (next(arrays) if a.is_tensor else a.python_name for a in op.schema.arguments)
    return f"K_{op.ident}({', '.join(values)}{out})"


def _number_guards(op: Any) -> list[str]:
    """Conditions on the arguments beside the tensors: what a ufunc needs at its default, numbers for a kernel."""
    if op.ufunc is not None:
        return [f"{name} == {literal(value)}" for name, value in op.fast_when.items()]
    conditions = []
    for argument in op.schema.arguments:
        if argument.type in ("Scalar", "float"):
            conditions.append(number(argument.python_name))
        elif argument.type in ("Scalar?", "float?"):
            conditions.append(f"({argument.python_name} is None or {number(argument.python_name)})")
    return conditions


def _dtype_guard(op: Any) -> str:
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


def takes_int64(op: Any) -> bool:
    """Whether the fast path may see integers: its kernel is that of the slow path, and nothing is checked there."""
    if op.rule == "float" or "i" not in op.takes or op.promotes:
        return False
    one_kernel = op.kernel is None or op.ufunc is None
    if isinstance(op.ufunc, np.ufunc) and (op.takes == ALL_KINDS or op.rule == "compare"):
        return True
    return one_kernel and op.check is None


def _elementwise(lines: Lines, op: Any, flags: int, recorded: bool) -> None:
    """Fast paths of an elementwise op: tensors of one dtype, or (binary ops) a tensor and a Python number."""
    tensors = [a for a in op.schema.arguments if a.is_tensor]
    if any(a.type == "Tensor?" for a in tensors):
        return
    names = [a.python_name for a in tensors]
    extra = [*_number_guards(op), *(["out is None"] if op.has_out else [])]
    fits = _dtype_guard(op)
    lines.add(f"if {' and '.join([plain(names[0]), *extra])}:")
    lines.depth += 1
    lines.add(f"a0 = {names[0]}._a")
    if len(names) > 1:
        lines.add(f"if {' and '.join(plain(n) for n in names[1:])}:")
        lines.depth += 1
        lines.add(*(f"a{i} = {n}._a" for i, n in enumerate(names[1:], 1)))
    tests = [f"a{i}.dtype is a0.dtype" for i in range(1, len(names))]
    if len(names) == 2 and isinstance(op.ufunc, np.ufunc):
        mixed = "MIXED" if op.check is None else "MIXED_NUMBERS"
        lines.add("if a1.dtype is not a0.dtype:", f"    a0, a1 = {mixed}(a0, a1)")
        tests = ["a0 is not None"]
    same = " and ".join([*tests, *([fits] if fits else [])])
    if same:
        lines.add(f"if {same}:")
        lines.depth += 1
    _case(lines, op, flags, recorded, _guarded(op, "r0 = " + _kernel_call(op)))
    lines.depth -= 1 if same else 0
    lines.depth -= 1 if len(names) > 1 else 0
    if len(names) == 2 and op.takes_numbers:
        _number_case(lines, op, flags, recorded, names[1], tensors[1].name)
    lines.depth -= 1
    if op.fast is not None:
        _quick(lines, op, flags, recorded)
    if op.has_out and not recorded:
        _into_given(lines, op, names, fits)


def _into_given(lines: Lines, op: Any, names: list[str], fits: str) -> None:
    """`out=` of the shape and dtype of the result, written by the kernel itself, where nobody builds a graph. Arrays that
    own their memory share none, or are one and the same, which elementwise kernels may write as they read."""
    kernel = op.ufunc if op.ufunc is not None else op.kernel
    if op.strict_out or not takes_out(kernel):
        return
    alone = [f"{n}._ag is None and {n}._view is None" for n in [*names, "out"]]
    lines.add(f"if type(out) is Tensor and {' and '.join([*(plain(n) for n in names), *_number_guards(op), *alone])}:")
    lines.depth += 1
    lines.add("o = out._a", *(f"a{i} = {n}._a" for i, n in enumerate(names)))
    arrays = [f"a{i}" for i in range(len(names))]
    same = ["o.dtype is BOOL" if op.rule == "compare" else "o.dtype is a0.dtype"]
    same += [f"{a}.dtype is a0.dtype" for a in arrays[1:]] + ([fits] if fits else [])
    same += [f"{a}.shape == o.shape" for a in arrays] + [f"{a}.base is None" for a in ["o", *arrays]]
    lines.add(f"if {' and '.join(same)}:")
    lines.depth += 1
    call = _kernel_call(op, out=", out=o")
    tried = ["try:", "    " + call, "except (TypeError, ValueError):", f"    return {_slow(op)}"]
    loud = op.rule != "float" or not op.quiet
    lines.add(*(tried if loud else ["fp = FP_ENTER(FP_QUIET)", *tried, "finally:", "    FP_LEAVE(fp)"]))
    lines.add(*_next_version("out"), "return out")
    lines.depth -= 2
    if len(names) == 2 and op.takes_numbers and op.rule != "compare" and "f" in op.takes:
        _number_into_given(lines, op, names)


def _number_into_given(lines: Lines, op: Any, names: list[str]) -> None:
    """The same for a tensor of floats and a Python number."""
    tests = [plain(names[0]), number(names[1]), *_number_guards(op)]
    tests += [f"{n}._ag is None and {n}._view is None and {n}._a.base is None" for n in (names[0], "out")]
    lines.add(f"if type(out) is Tensor and {' and '.join(tests)}:")
    lines.depth += 1
    lines.add(
        f"o, a0 = out._a, {names[0]}._a",
        "if (a0.dtype is F32 or a0.dtype is F64) and o.dtype is a0.dtype and o.shape == a0.shape:",
    )
    lines.depth += 1
    lines.add(f"a1 = F32_NUMBERS[{names[1]}] if a0.dtype is F32 else F64_NUMBERS[{names[1]}]")
    lines.add("fp = FP_ENTER(FP_QUIET)", "try:", "    " + _kernel_call(op, out=", out=o"))
    lines.add("finally:", "    FP_LEAVE(fp)", *_next_version("out"), "return out")
    lines.depth -= 2


def _next_version(tensor: str) -> list[str]:
    return [
        f"v = {tensor}._v",
        f"if v is None: v = {tensor}._v = STORAGE()",
        "v.version = v.version + 1 if type(v) is STORAGE else NEXT_VERSION(v)",
    ]


def _number_case(lines: Lines, op: Any, flags: int, recorded: bool, other: str, name: str) -> None:
    """A tensor and a Python number, which becomes a 0-dim array of the tensor's dtype."""
    lines.add(f"elif {number(other)}:")
    lines.depth += 1
    lines.add("if a0.dtype is F32:", f"    c = F32_NUMBERS[{other}]", "elif a0.dtype is F64:")
    lines.add(f"    c = F64_NUMBERS[{other}]")
    if takes_int64(op):
        lines.add(f"elif a0.dtype is I64 and type({other}) is int:", f"    c = I64_NUMBERS[{other}]")
    if isinstance(op.ufunc, np.ufunc) and op.rule != "compare" and op.takes == ALL_KINDS:
        convert = "AS_NUMBERS" if op.check is None and op.rule == "same" else "AS_FLOATS"
        lines.add("else:", f"    a0, c = {convert}(a0, {other})", f"    if c is None: return {_slow(op)}")
    else:
        lines.add("else:", f"    return {_slow(op)}")
    form = copy.copy(op)
    form.event = op.number_event
    _case(lines, form, flags, recorded, _guarded(op, "r0 = " + _kernel_call(op, "c")), frozenset((name,)))
    lines.depth -= 1


# --- in place ---------------------------------------------------------------------------------------------------------


def _mutating(lines: Lines, op: Any, flags: int, recorded: bool) -> None:
    """Fast paths of an in-place op: when no graph is built, or for an elementwise op on a tensor that is no view."""
    tensors = [a for a in op.schema.arguments if a.is_tensor]
    first = tensors[0].python_name
    quiet = " and ".join(_quiet(t.python_name) for t in tensors if t.type == "Tensor")
    if op.base is None:  # the kernel itself changes its first argument
        lines.add(f"if {' and '.join(guards(op))} and (not GRAD() or ({quiet})):")
        arguments = ", ".join(array_of(a) for a in op.schema.arguments)
        _mutating_case(lines, op, flags, recorded, [f"K_{op.ident}({arguments})"])
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
    fits = "a0.dtype is BOOL" if base.rule == "compare" else _dtype_guard(base)  # which then holds the truth values
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
    obstacles = [f"0 in {first}._a.strides", *(together if op.base.rule is not None else [])]
    given = [f"{a.python_name}={a.python_name}" if a.kwarg_only else a.python_name for a in op.schema.arguments]
    if op.base.varargs or any(a.type == "Tensor?" or a.is_tensor_list for a in op.schema.arguments):
        return
    lines.add(f"if {' and '.join(guards(op))} and (not GRAD() or ({quiet})) and not ({' or '.join(obstacles)}):")
    lines.depth += 1
    lines.add("try:", f"    r0 = P_{op.base.ident}({', '.join(given)})._a")
    lines.add("except (TypeError, ValueError, RuntimeError, IndexError):", f"    return {_slow(op)}")
    lines.add(f"if PUT({first}._a, r0):")
    lines.add(*("    " + line for line in (*_next_version(first), f"return {first}")))
    lines.depth -= 1


def _quiet(name: str) -> str:
    """The condition that a tensor takes no part in a graph."""
    return f"{name}._ag is None and ({name}._view is None or UNTRACKED({name}))"


def _find_graph(lines: Lines, op: Any, quiet: str, others: list[str]) -> None:
    """Set `graph`: whether the change takes part in one. Views, leaves and shared memory are left to the slow path; the
    tensor itself may be an operand, as kernels write each element after they have read it for the last time."""
    first = op.schema.arguments[0].python_name
    lines.add(f"graph = GRAD() and not ({quiet})")
    obstacles = [f"{first}._view is not None", f"type({first}._ag) is LEAF"]
    obstacles += [f"{n} is {first}" for n in others]
    condition = f"graph and ({' or '.join(obstacles)})" if op.differentiable else "graph"
    together = [f"{n}._v is not None and {n}._v is {first}._v and {n} is not {first}" for n in others]
    # Whether several of its elements lie at one place; only a view of other memory can be so.
    spread = f"{first}._v is not None and {first}._a.base is not None and 0 in {first}._a.strides"
    lines.add(f"if {' or '.join([condition, *together, spread])}: return {_slow(op)}")


def _keeps_first(op: Any, names: list[str]) -> str:
    """The condition that backward needs the tensor as it was before the change."""
    first = op.schema.arguments[0].name
    users = {u for target, parameters in op.formula_parameters.items() if first in parameters for u in target.split()}
    tensors = [op.arguments[u].python_name for u in users]
    return " or ".join(f"EDGE({t}) is not None" for t in sorted(tensors) if t in names)


def _in_place_guards(base: Any) -> list[str]:
    """As `_number_guards`, but where the kernel can write in place any number will do."""
    if base.ufunc is not None and base.fast_when and takes_out(base.kernel):
        return [number(name) for name in base.fast_when]
    return _number_guards(base)


def _write_call(base: Any, last: str = "") -> list[str]:
    """Compute into `a0`: by the ufunc where its conditions hold, else by the kernel."""
    call = _kernel_call(base, last, ", out=a0")
    if base.ufunc is not None and base.fast_when and takes_out(base.kernel):
        conditions = " and ".join(_number_guards(base))
        form = copy.copy(base)
        form.ufunc = None
        slow_call = _kernel_call(form, last, ", out=a0")
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
    if recorded and op.calls is not None and not inside:
        compute = _without_graph(op)
    elif op.base is not None:
        compute = ["try:", *("    " + line for line in compute), *_guarded(op, "")[2:]]
    build = bool(tracked and op.differentiable)
    if build:
        take = "CLONED" if recorded else "BEFORE"
        lines.add(f"if graph: w = {take}({first}, {_keeps_first(op, list(tracked)) or 'False'})")
    if inside:
        open_inner(lines, op, flags)
    lines.add(*compute)
    if inside:
        close_inner(lines, op, flags)
    lines.add(*_next_version(first))
    if build:
        rest = [a.python_name for a in op.schema.arguments[1:]]
        lines.add(f"if graph: {first}._ag = N_{op.ident}({', '.join(['w', *rest, first])})")
    lines.add(f"return {first}")
    if recorded:
        close_event(lines, form, flags)
    lines.depth -= 1


# --- the whole function -----------------------------------------------------------------------------------------------


def _unpack_varargs(lines: Lines, op: Any) -> None:
    """`x.view(2, 3)` and `x.view((2, 3))` are the same."""
    if op.varargs:
        name = op.arguments[op.varargs].python_name
        lines.add(f"if {name} is MISSING:")
        lines.add(f"    {name} = {name}_[0] if len({name}_) == 1 and type({name}_[0]) is not int else {name}_")


def _quick(lines: Lines, op: Any, flags: int, recorded: bool) -> None:
    """The case that a row names for a kernel of its own; what that refuses takes the slow path."""
    lines.add(f"if {' and '.join([*guards(op), op.fast[0]])}:")
    lines.depth += 1
    target = ", ".join(f"r{i}" for i in range(len(op.schema.returns)))
    call = f"{target} = Q_{op.ident}({', '.join(array_of(a) for a in op.schema.arguments)})"
    otherwise = _evaluate(op) if recorded else _slow(op)
    tried = ["try:", "    " + call, "except (ValueError, OverflowError):", f"    return {otherwise}"]
    _case(lines, op, flags, recorded, tried)
    lines.depth -= 1


def _general(lines: Lines, op: Any, flags: int, recorded: bool) -> None:
    """The fast path of every other kind of op: arguments of the right types."""
    if op.fast is not None and op.kind == "composite":
        # One call instead of two, for what comes to the same without events and without rules for the ops inside.
        if not recorded and op.seen:
            given = ", ".join(a.python_name for a in op.schema.arguments)
            lines.add(f"if {' and '.join([*guards(op), op.fast[0]])}: return Q_{op.ident}({given})")
    elif op.fast is not None:
        _quick(lines, op, flags, recorded)
    lines.add(f"if {' and '.join(guards(op)) or 'True'}:")
    lines.depth += 1
    if op.kind in ("composite", "value"):
        if recorded:
            open_event(lines, op, flags)
        name = {"composite": lambda a: a.python_name, "value": array_of}[op.kind]
        lines.add(f"return K_{op.ident}({', '.join(name(a) for a in op.schema.arguments)})")
        if recorded:
            close_event(lines, op, flags)
    else:
        if recorded and op.kind == "view":
            see_view(lines, op)
        _case(lines, op, flags, recorded, [])
    lines.depth -= 1
    if op.has_out and not recorded:
        _copied_to_given(lines, op)


def _copied_to_given(lines: Lines, op: Any) -> None:
    """`out=` where nobody builds a graph and no memory is shared: the result of the call without it is put there."""
    several = len(op.schema.returns) != 1 or op.schema.returns_list
    if several or op.varargs or op.kind not in ("kernel", "composite"):
        return
    conditions = ["type(out) is Tensor", *(c for c in guards(op) if c != "out is None")]
    conditions.append("out._ag is None and out._view is None and out._a.base is None")
    if op.name in COMPUTED_IN_OUT:  # where that is the dtype it computes in anyway
        conditions.append(f"out._a.dtype is {op.schema.arguments[0].python_name}._a.dtype in (F32, F64, I64)")
    for argument in op.schema.arguments:
        name = argument.python_name
        alone = f"{name}._ag is None and {name}._view is None and {name}._a.base is None and {name}._a is not out._a"
        apart = f"({alone} or APART(({name},), out))"
        if argument.type == "Tensor":
            conditions.append(apart)
        elif argument.type == "Tensor?":
            conditions.append(f"({name} is None or {apart})")
        elif argument.is_tensor_list:
            conditions.append(f"APART({name}, out)")
        elif argument.type in ("Scalar", "Scalar?"):
            conditions.append(f"type({name}) in NUMBERS")
    given = [f"{a.python_name}={a.python_name}" if a.kwarg_only else a.python_name for a in op.schema.arguments]
    lines.add(f"if {' and '.join(conditions)}:")
    lines.depth += 1
    lines.add(f"t0_ = P_{op.ident}({', '.join(given)})", "if PUT(out._a, t0_._a):")
    lines.add(*("    " + line for line in (*_next_version("out"), "return out")))
    lines.add(f"return INTO(out, t0_, {requires_dtype(op)})")
    lines.depth -= 1


def forward_source(op: Any, flags: int | None = None) -> str:
    """The text of the public function of an op. With `flags` it can record, as a recorder with these flags wants it."""
    lines = Lines()
    lines.add(f"def {op.python_name}({signature(op)}):")
    lines.depth += 1
    if op.differentiable:
        lines.add("global SEQ")
    _unpack_varargs(lines, op)
    # NumPy's spellings stand for torch's from here on, so that both are as fast.
    for name, spelling in zip(op.aliased, op.aliases):
        lines.add(f"if {spelling} is not MISSING: {name}, {spelling} = {spelling}, MISSING")
    for name in (a.python_name for a in op.schema.arguments if a.type in ("ScalarType", "ScalarType?")):
        lines.add(f"if type({name}) is type: {name} = AS_DTYPE({name})")
    if flags is None or not op.records:
        lines.add(f"if HOOK: return {_slow(op)}")
    else:
        lines.add("if HOOK:")
        lines.depth += 1
        # Where the interpreter lets it, C evaluates the function untraced; operators are called from C anyway.
        hushed = _tap.HELPER is not None and not _tap.HELPER.OPS_ARE_UNSEEN and flags & _tap.STACKS and op.fixed is None
        if hushed:
            lines.add("HUSH()", "try:")
            lines.depth += 1
        lines.add(f"if not RECORDING: return {_slow(op)}")
        _paths(lines, op, flags, recorded=True)
        if hushed:
            lines.depth -= 1
            lines.add("finally:", "    SPEAK()")
        lines.depth -= 1
    _paths(lines, op, 0, recorded=False)
    return lines.text()


def unseen_source(op: Any) -> str:
    """The text of an op's function for arguments as the slow path has them, which nobody is offered any more."""
    form = copy.copy(op)
    form.seen = False
    lines = Lines()
    parameters = [a.python_name for a in op.schema.arguments] + (["out=None"] if op.has_out else [])
    lines.add(f"def {op.python_name}({', '.join([*parameters, *(f'{a}=MISSING' for a in op.aliases)])}):")
    lines.depth += 1
    if op.differentiable:
        lines.add("global SEQ")
    _paths(lines, form, 0, recorded=False)
    return lines.text()


def _paths(lines: Lines, op: Any, flags: int, recorded: bool) -> None:
    lines.add(*(f"{name} = {literal(value)}" for name, value in (op.fixed or {}).items()))
    if op.kind == "mutate":
        _mutating(lines, op, flags, recorded)
    elif op.rule is not None:
        _elementwise(lines, op, flags, recorded)
    else:
        _general(lines, op, flags, recorded)
    lines.add(f"return {_slow(op)}")
