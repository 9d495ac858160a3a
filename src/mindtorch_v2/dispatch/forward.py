"""Writes the public function of an op: the fast paths, plain and recorded, and the way to the slow path.

What is recorded, what is not and operators come from one template, so they cannot drift.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..core import tap
from ..kernels.result_layout import lays_itself
from .codegen import (
    Lines,
    array_of,
    finish_list,
    finish_many,
    finish_single,
    finish_view,
    guards,
    literal,
    made_by_body,
    number,
    plain,
    requires_dtype,
    signature,
)
from .fast_inplace import mutating
from .fast_parts import (
    ALL_KINDS,
    NO_MEMORY,
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
from .recording import close_event, close_inner, open_event, open_inner, run_ahead, see_view


def _compute(op: Any, recorded: bool, lines: Lines) -> None:
    """Lines that leave the results in `r0`, `r1`, … (or `rs`)."""
    count = len(op.schema.returns)
    target = "rs" if op.schema.returns_list else ", ".join(f"r{i}" for i in range(count))
    if op.calls is not None and (op.kernel is None or (recorded and op.ahead is None)):
        lines.add(*without_graph(op, "got = "))
        single = count == 1 and not op.schema.returns_list
        lines.add("r0 = got._a" if single else f"{target} = [x._a for x in got]")
        if op.layout is not None and not single and not op.schema.returns_list:
            args = ", ".join(a.python_name for a in op.schema.arguments)
            lines.add(f"{target} = LAY_ALL(LAY_{op.ident}, [{target}], {args})")
        return
    arrays = [array_of(a) for a in op.schema.arguments]
    if op.dense:
        lines.add(f"dense_ = {_laid_out(op, recorded)}")
        arrays[0] = "dense_._a" if recorded else "dense_"
    args = ", ".join(arrays)
    call = [f"{target} = K_{op.ident}({args})"]
    if op.kind == "kernel" and op.takes_tensors and op.quiet:
        call = ["fp = FP_ENTER(FP_QUIET)", "try:", "    " + call[0], "finally:", "    FP_LEAVE(fp)"]
    if op.asked is not None:
        call = [f"{target} = A_{op.ident}({args})", f"if {target} is None:", *indented(call)]
    by_ops = op.calls is not None and not recorded
    # What the kernel refuses is left to the ops that it stands for, which say what is wrong.
    refused = ["except REFUSALS:", "    refused = True", "else:", "    refused = False"] if by_ops else []
    lines.add("try:", *indented(call), *NO_MEMORY, *refused)
    if by_ops:
        single = count == 1 and not op.schema.returns_list
        lines.add("if refused:", *indented(without_graph(op, "got = ")))
        lines.add("    r0 = got._a" if single else f"    {target} = [x._a for x in got]")
    if recorded and op.dense:
        lines.add("del dense_")  # a copy goes while the event lasts


def _laid_out(op: Any, recorded: bool) -> str:
    """The first argument as the kernel gets it: laid out by an op where that is seen, by NumPy where it is not."""
    first = op.schema.arguments[0].python_name
    fits = f"{first}._a.flags.c_contiguous" if op.dense is True else f"W_{op.ident}({first}._a)"
    return f"{first} if {fits} else DENSE({first})" if recorded else f"{first}._a if {fits} else IN_ORDER({first}._a)"


def _case(
    lines: Lines, op: Any, flags: int, recorded: bool, compute: list[str], numbers: frozenset[str] = frozenset(),
    laid: bool = False,
) -> None:  # fmt: skip
    """One fast path: [event] compute, wrap, return; `laid` where what computes lays out its result."""
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
        finish_single(lines, op, live_flags, numbers, laid and not (recorded and made_by_body(op)))
    if recorded:
        close_event(lines, op, flags)


# --- elementwise ------------------------------------------------------------------------------------------------------


def _lays_itself(op: Any) -> bool:
    """Whether what `kernel_call` calls lays out its result."""
    return op.ufunc is not None and lays_itself(op.ufunc, op.layout)


def _elementwise(lines: Lines, op: Any, flags: int, recorded: bool) -> None:
    """Fast paths of an elementwise op: tensors of one dtype, or (binary ops) a tensor and a Python number."""
    tensors = [a for a in op.schema.arguments if a.is_tensor]
    if any(a.type == "Tensor?" for a in tensors):
        return
    names = [a.python_name for a in tensors]
    extra = [*number_guards(op), *(["out is None"] if op.has_out else [])]
    fits = dtype_guard(op)
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
    _case(lines, op, flags, recorded, guarded(op, "r0 = " + kernel_call(op)), laid=_lays_itself(op))
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
    lines.add(f"if type(out) is Tensor and {' and '.join([*(plain(n) for n in names), *number_guards(op), *alone])}:")
    lines.depth += 1
    lines.add("o = out._a", *(f"a{i} = {n}._a" for i, n in enumerate(names)))
    arrays = [f"a{i}" for i in range(len(names))]
    same = ["o.dtype is BOOL" if op.rule == "compare" else "o.dtype is a0.dtype"]
    same += [f"{a}.dtype is a0.dtype" for a in arrays[1:]] + ([fits] if fits else [])
    same += [f"{a}.shape == o.shape" for a in arrays] + [f"{a}.base is None" for a in ["o", *arrays]]
    lines.add(f"if {' and '.join(same)}:")
    lines.depth += 1
    call = kernel_call(op, out=", out=o")
    tried = ["try:", "    " + call, "except (TypeError, ValueError):", f"    return {slow(op)}"]
    loud = op.rule != "float" or not op.quiet
    lines.add(*(tried if loud else ["fp = FP_ENTER(FP_QUIET)", *tried, "finally:", "    FP_LEAVE(fp)"]))
    lines.add(*next_version("out"), "return out")
    lines.depth -= 2
    if len(names) == 2 and op.takes_numbers and op.rule != "compare" and "f" in op.takes:
        _number_into_given(lines, op, names)


def _number_into_given(lines: Lines, op: Any, names: list[str]) -> None:
    """The same for a tensor of floats and a Python number."""
    tests = [plain(names[0]), number(names[1]), *number_guards(op)]
    tests += [f"{n}._ag is None and {n}._view is None and {n}._a.base is None" for n in (names[0], "out")]
    lines.add(f"if type(out) is Tensor and {' and '.join(tests)}:")
    lines.depth += 1
    lines.add(
        f"o, a0 = out._a, {names[0]}._a",
        "if (a0.dtype is F32 or a0.dtype is F64) and o.dtype is a0.dtype and o.shape == a0.shape:",
    )
    lines.depth += 1
    lines.add(f"a1 = F32_NUMBERS[{names[1]}] if a0.dtype is F32 else F64_NUMBERS[{names[1]}]")
    lines.add("fp = FP_ENTER(FP_QUIET)", "try:", "    " + kernel_call(op, out=", out=o"))
    lines.add("finally:", "    FP_LEAVE(fp)", *next_version("out"), "return out")
    lines.depth -= 2


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
        lines.add("else:", f"    a0, c = {convert}(a0, {other})", f"    if c is None: return {slow(op)}")
    else:
        lines.add("else:", f"    return {slow(op)}")
    form = copy.copy(op)
    form.event = op.number_event
    _case(lines, form, flags, recorded, guarded(op, "r0 = " + kernel_call(op, "c")), frozenset((name,)),
          _lays_itself(op))  # fmt: skip
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
    otherwise = evaluate(op) if recorded else slow(op)
    tried = ["try:", "    " + call, "except (ValueError, OverflowError):", f"    return {otherwise}"]
    _case(lines, op, flags, recorded, tried)
    lines.depth -= 1


def quick_source(op: Any) -> str:
    """The text of a function that gives what the fast paths give for arrays of their own, in the order they are tried in:
    by the kernel for a case that the row names, by a compiled function; None where neither takes the arguments."""
    lines = Lines()
    lines.add(f"def quickly({', '.join(a.python_name for a in op.schema.arguments)}):")
    lines.depth += 1
    args = ", ".join(array_of(a) for a in op.schema.arguments)
    if op.fast is not None:
        lines.add(f"if {op.fast[0]}:", "    try:", f"        return Q_{op.ident}({args})")
        lines.add("    except (ValueError, OverflowError):", "        pass")
    lines.add("return None" if op.asked is None else f"return A_{op.ident}({args})")
    return lines.text()


def _general(lines: Lines, op: Any, flags: int, recorded: bool) -> None:
    """The fast path of every other kind of op: arguments of the right types."""
    if op.fast is not None and op.kind == "composite":
        # One call instead of two, for what comes to the same without events and without rules for the ops inside.
        if not recorded and op.seen:
            args = ", ".join(a.python_name for a in op.schema.arguments)
            lines.add(f"if {' and '.join([*guards(op), op.fast[0]])}: return Q_{op.ident}({args})")
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
    if op.out_dtype == "compute":  # where that is the dtype it computes in anyway
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
    args = [f"{a.python_name}={a.python_name}" if a.kwarg_only else a.python_name for a in op.schema.arguments]
    lines.add(f"if {' and '.join(conditions)}:")
    lines.depth += 1
    lines.add(f"t0_ = P_{op.ident}({', '.join(args)})", "if PUT(out._a, t0_._a):")
    lines.add(*("    " + line for line in (*next_version("out"), "return out")))
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
        lines.add(f"if HOOK: return {slow(op)}")
    else:
        lines.add("if HOOK:")
        lines.depth += 1
        # Where the interpreter lets it, C evaluates the function untraced; operators are called from C anyway.
        suspended = tap.HELPER is not None and not tap.HELPER.OPS_ARE_UNSEEN and flags & tap.STACKS and op.fixed is None
        if suspended:
            lines.add("SUSPEND()", "try:")
            lines.depth += 1
        lines.add(f"if not RECORDING: return {slow(op)}")
        _paths(lines, op, flags, recorded=True)
        if suspended:
            lines.depth -= 1
            lines.add("finally:", "    RESUME()")
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
        mutating(lines, op, flags, recorded)
    elif op.rule is not None:
        _elementwise(lines, op, flags, recorded)
    else:
        _general(lines, op, flags, recorded)
    lines.add(f"return {slow(op)}")
