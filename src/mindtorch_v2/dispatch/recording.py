"""Writes what goes before and after an op in the functions that run while something records: events, inputs, stacks,
allocations.

It does not know what the op does in between.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ..core import tap
from .codegen import NAMESPACE, TOKEN, Lines, made_by_body, plain
from .schema import Argument

# The flags with which a row has inputs or a stack.
_WIDE = tap.SHAPES | tap.STACKS


def _inputs_key(lines: Lines, op: Any, numbers: frozenset[str] | None) -> str:
    """Source of the parts of the tuple that stands for a call's inputs; tensors in it are ids of their layouts.

    `numbers` names the tensor arguments that are numbers in this case; None where that is not known.
    """
    if tap.HELPER is not None:  # which looks at the arguments itself
        return ", ".join(argument.python_name for argument in op.schema.arguments)
    parts = []
    for argument in op.schema.arguments:
        name = argument.python_name
        # Numbers are told apart by type too: 1, 1.0 and True are one key of a dict.
        value = f'("value", type({name}), {name})'
        other = f"{value} if type({name}) in NUMBERS else INPUT({name})"
        if name in (op.fixed or {}):
            constant = f"D_{op.ident}_{name}"
            NAMESPACE[constant] = ("value", type(op.fixed[name]), op.fixed[name])
            parts.append(constant)
        elif argument.type == "Tensor" and op.takes_numbers and numbers is None:
            parts.append(f"(LAYOUT({name}) if {plain(name)} else {other})")
        elif argument.type == "Tensor" and not (numbers and argument.name in numbers):
            lines.add("try:", f"    k_{name} = {name}._k", "except AttributeError:", f"    k_{name} = None")
            lines.add(f"if k_{name} is None: k_{name} = LAYOUT({name})")
            parts.append(f"k_{name}")
        elif argument.type == "Tensor":
            parts.append(value)
        elif argument.type in ("int", "bool", "str", "float"):
            parts.append(name)  # what is told apart by the schema
        else:
            parts.append(f"({other})")
    return ", ".join(parts)


def open_event(lines: Lines, op: Any, flags: int, numbers: frozenset[str] | None = None) -> None:
    """What is recorded before the op itself; leaves the lines inside a `try`."""
    if tap.HELPER is not None:
        begin = ["SEQ" if op.numbered else "-1"]
        if flags & tap.SHAPES and op.schema.arguments:
            begin.append(_inputs_key(lines, op, numbers))
        lines.add(f"{'BEGIN' if len(begin) == 1 else 'BEGIN_WITH'}({', '.join(begin)})", "try:")
        lines.depth += 1
        return
    # Underscores keep locals apart from arguments, some of which are called key or out.
    if flags & tap.SHAPES:
        key = _inputs_key(lines, op, numbers)
        lines.add(f"key_ = ({key}{',' if key else ''})", "try:", "    ins = INPUT_IDS[key_]")
        lines.add("except KeyError:", "    ins = INTERN(key_)", "except TypeError:", "    ins = INTERN(FREEZE(key_))")
    if _counts_result(op, flags):
        lines.add("token_ = None")
    if flags & tap.STACKS:
        # Whatever happens from here on, who traced before traces again.
        lines.add("lane_ = HOME if UNSEEN_AT_HOME() else LANE()", "tracer_ = lane_.active", "t0 = None", "try:")
        lines.depth += 1
        lines.add(*_FIND_STACK)
    _find_lane(lines, op, flags)
    lines.add("t0 = clock()")
    if not flags & tap.STACKS:
        lines.add("try:")
        lines.depth += 1


def _find_lane(lines: Lines, op: Any, flags: int) -> None:
    """Where the calling thread's rows and marks go, and whether it builds graphs."""
    needed = [("out_", "HOME_OUT", "lane_.out") if flags & _WIDE else ("out_", "HOME_LEAN", "lane_.lean_out")]
    if flags & tap.MEMORY:
        needed.append(("marks_", "HOME_MARKS", "lane_.marks"))
    if op.numbered:
        needed.append(("seq", "SEQ if HOME_GRAD else -1", "SEQ if lane_.grad else -1"))
    if flags & tap.STACKS:
        lines.add(*(f"{name} = {elsewhere}" for name, _, elsewhere in needed))
    else:
        lines.add("if AT_HOME():", *(f"    {name} = {at_home}" for name, at_home, _ in needed))
        lines.add("else:", "    lane_ = LANE()", *(f"    {name} = {elsewhere}" for name, _, elsewhere in needed))
    if not op.numbered:
        lines.add("seq = -1")


# Nothing in an op is traced. The frame that calls it is looked up once for each of its instructions, as long as nothing
# else has been called or has returned.
_FIND_STACK = [
    "if tracer_ is None:",
    "    stack = STACK(lane_, GETFRAME(1), False)",
    "else:",
    "    TRACE_NOTHING()",
    "    lane_.active = None",
    "    try:",
    "        stack = lane_.here[GETFRAME(1).f_lasti]",
    "    except KeyError:",
    "        stack = STACK(lane_, GETFRAME(1), True)",
]


def close_event(lines: Lines, op: Any, flags: int) -> None:
    lines.depth -= 1
    if tap.HELPER is not None:
        lines.add("finally:", f"    END({op.event})")
        return
    inputs = "ins" if flags & tap.SHAPES else "0"
    stack = "stack" if flags & tap.STACKS else "0"
    row = f"{op.event}, seq, {inputs}, {stack}" if flags & _WIDE else f"{op.event}, seq"
    lines.add("finally:")
    lines.depth += 1
    if flags & tap.STACKS:
        lines.add("if t0 is not None:")
        lines.depth += 1
    if _counts_result(op, flags):
        # The result is there by now; one look at the clock serves both.
        lines.add("now_ = clock()", f"out_ += (t0, now_, {row})", *_NOTED)
    else:
        lines.add(f"out_ += (t0, clock(), {row})")
    if flags & tap.STACKS:
        lines.depth -= 1
        lines.add("if tracer_ is not None:", "    lane_.active = tracer_", "    TRACE_AGAIN(tracer_)")
    lines.depth -= 1


def see_view(lines: Lines, op: Any) -> None:
    """All of a view op where no graph takes part, by the helper; else it goes on as usual."""
    if tap.HELPER is None or op.asked is None:  # a kernel in Python is quicker called from there
        return
    NAMESPACE[f"X_{op.ident}"] = in_helper(op, op.asked, op.kernel, VIEWS, None)
    names = [argument.python_name for argument in op.schema.arguments]
    lines.add(f"if {names[0]}._ag is None:")  # or else it does not pay to ask
    lines.add(f"    t0_ = X_{op.ident}({', '.join(names)})", "    if t0_ is not None: return t0_")


# What the helper does with an op: it makes a tensor, a view, changes the first argument, calls other ops.
MAKES, VIEWS, CHANGES, CALLS = range(4)


def in_helper(
    op: Any, asked: Any, work: Any, kind: int, otherwise: Any, *, needs_no_graph: bool = True, quiet: bool = False
) -> Any:
    """An op run by the helper where a recorder is all that watches, tensors are plain and no graph leads through it; what it
    is `otherwise` is called with the same arguments."""
    inner = None if op.inner is None else op.inner[0]
    settings = (op, asked, work, kind, needs_no_graph, quiet, otherwise, inner)
    return tap.HELPER.inside(*settings, lambda: _beside_matrix(op))


def _beside_matrix(op: Any) -> tuple[Any, ...]:
    """What the op inside of a view is given beside a matrix."""
    first, *rest = op.inner[1]
    matrix = SimpleNamespace(_a=np.empty((0, 0)))
    return tuple(eval(text, {first: matrix}) for text in rest)


def open_inner(lines: Lines, op: Any, flags: int) -> None:
    """Begin the event of the op as which the kernel is recorded inside the op's own; leaves the lines inside a `try`."""
    row, args = op.inner
    _begin_inside(lines, op, row, args, flags, _counts_inner(op, flags))


def run_ahead(lines: Lines, op: Any, flags: int) -> None:
    """The op that is run ahead of the kernel, in an event of its own inside the op's; nobody needs its result."""
    row, args, needed = op.ahead
    lines.add(f"if {needed}:")
    lines.depth += 1
    _begin_inside(lines, op, row, args, flags, False)
    arrays = (f"{name}._a" if a.is_tensor else name for a, name in zip(row.schema.arguments, args, strict=True))
    call = f"{row.ident}({', '.join(arrays)})"
    lines.add(f"K_{call}" if row.asked is None else f"if A_{call} is None: K_{call}")
    _end_inside(lines, row.event, flags)
    lines.depth -= 1


def _begin_inside(lines: Lines, op: Any, row: Any, args: tuple[str, ...], flags: int, counts: bool) -> None:
    if tap.HELPER is not None:
        lines.add(f"BEGIN_WITH(-1, {', '.join(args)})" if flags & tap.SHAPES else "BEGIN(-1)", "try:")
    else:
        if flags & tap.SHAPES:
            tensors = [a.python_name for a in op.schema.arguments if a.is_tensor]
            key = ", ".join(_inner_key(a, name, tensors) for a, name in zip(row.schema.arguments, args, strict=True))
            lines.add(f"key_ = ({key},)", "inner_ins = INPUT_IDS.get(key_) or INTERN(key_)")
        lines.add(*(["token_ = None"] if counts else []), "inner_t0 = clock()", "try:")
    lines.depth += 1


def _inner_key(argument: Argument, args: str, tensors: list[str]) -> str:
    """What stands for an argument of the inner op: one of the op's own tensors, or a number."""
    if args in tensors:
        return f"k_{args}"
    if argument.type.endswith("[]"):
        return f"INPUT({args})"
    return args if argument.type in ("int", "bool") else f'("value", type({args}), {args})'


def close_inner(lines: Lines, op: Any, flags: int) -> None:
    """End it, with the result `r0` and its memory in it."""
    event = op.inner[0].event
    if _counts_inner(op, flags):
        lines.add("if type(r0) is not ndarray: r0 = FIX(r0)")
        lines.add(*(["token_ = COUNT(r0)"] if tap.HELPER is not None else TOKEN))
    _end_inside(lines, event, flags)
    if _counts_inner(op, flags) and tap.HELPER is None:
        lines.add(*("    " + line for line in _NOTED))


def _end_inside(lines: Lines, event: int, flags: int) -> None:
    lines.depth -= 1
    lines.add("finally:")
    if tap.HELPER is not None:
        lines.add(f"    END({event})")
        return
    # No frame of the user's lies between the two.
    details = f", {'inner_ins' if flags & tap.SHAPES else 0}, {'stack' if flags & tap.STACKS else 0}"
    lines.add("    now_ = clock()", f"    out_ += (inner_t0, now_, {event}, -1{details if flags & _WIDE else ''})")


def _counts_inner(op: Any, flags: int) -> bool:
    return bool(flags & tap.MEMORY) and op.kind == "kernel"


_NOTED = ["if token_ is not None:", "    marks_ += (now_, token_.nbytes, id(token_))"]


def _counts_result(op: Any, flags: int) -> bool:
    """Whether the op itself says what memory its result takes, as opposed to ops it calls or a function it uses."""
    if not flags & tap.MEMORY or op.kind != "kernel" or not op.takes_tensors or made_by_body(op):
        return False
    return len(op.schema.returns) == 1 and not op.schema.returns_list
