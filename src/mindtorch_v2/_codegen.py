"""Writes the pieces that the generated functions of an op are made of: signatures, events, nodes, results, backward.

`_forward` puts them together into an op's public function and its recorded twin. The text is compiled when an op is
first called and can be read in tracebacks (`linecache`) or by `source(op)`. Names in generated code: `K` kernel, `Q`
kernel of the quick case, `U` ufunc, `S` slow path, `E` the op without its fast paths, `R` recorded twin, `C` node
class, `F` gradient formula, `O` what an operator does with operands that are not tensors, each followed by the op's
identifier.
"""

from __future__ import annotations

import linecache
import math
from typing import Any

from . import _tap
from ._schema import Argument

NAMESPACE = _tap.NAMESPACE
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<required>", "__slots__": ()})()
NAMESPACE.update(MISSING=MISSING, INF=math.inf, NUMBERS=frozenset((int, float, bool, complex, type(None))))

# The flags with which a row has inputs or a stack.
_WIDE = _tap.SHAPES | _tap.STACKS

ALIASES = {"dim": "axis", "keepdim": "keepdims"}


class Lines:
    """Text under construction, with indentation."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.depth = 0

    def add(self, *rows: str) -> None:
        self.rows.extend("    " * self.depth + row for row in rows)

    def text(self) -> str:
        return "\n".join(self.rows) + "\n"


def literal(value: Any) -> str:
    """A default value as source text."""
    if isinstance(value, float) and math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return repr(value)


def signature(op: Any, defaults: bool = True) -> str:
    """The parameter list of the public function; without defaults, the argument list of an inner call."""
    parts: list[str] = []
    starred = False
    for argument in op.schema.arguments:
        name = argument.python_name
        if op.fixed is not None and name in op.fixed:
            continue
        if not defaults:
            parts.append(name)
            continue
        if op.varargs == argument.name:
            parts.append(f"*{name}_")
            starred = True
            parts.append(f"{name}=MISSING")
            continue
        if argument.kwarg_only and not starred:
            parts.extend(f"{a}=MISSING" for a in op.aliases)
            parts.append("*")
            starred = True
        if argument.has_default:
            parts.append(f"{name}={literal(argument.default)}")
        elif any(p.split("=")[-1] == "MISSING" or "=" in p for p in parts) or argument.name in op.aliased:
            parts.append(f"{name}=MISSING")
        else:
            parts.append(name)
    if defaults and (op.varargs or not starred):
        parts.extend(f"{a}=MISSING" for a in op.aliases)
    if op.has_out:
        parts.extend(([] if starred or not defaults else ["*"]) + (["out=None"] if defaults else ["out"]))
    return ", ".join(parts)


def plain(name: str) -> str:
    return f"(type({name}) is Tensor or type({name}) is Parameter)"


def number(name: str) -> str:
    return f"(type({name}) is float or type({name}) is int)"


def guards(op: Any) -> list[str]:
    """Conditions under which arguments are what the fast path expects."""
    conditions = []
    for argument in op.schema.arguments:
        name = argument.python_name
        if argument.type == "Tensor":
            conditions.append(plain(name))
        elif argument.type == "Tensor?":
            conditions.append(f"({name} is None or {plain(name)})")
        elif argument.is_tensor_list:
            conditions.append(f"{'ALL_PLAIN' if argument.type == 'Tensor[]' else 'PLAIN_OR_NONE'}({name})")
        elif argument.name in op.required_text:
            conditions.append(f"{name} is not MISSING")
    conditions.extend(f"{a} is MISSING" for a in op.aliases)
    if op.has_out:
        conditions.append("out is None")
    return conditions


def array_of(argument: Argument) -> str:
    """How an argument is passed to a kernel."""
    name = argument.python_name
    if argument.type == "Tensor":
        return f"{name}._a"
    if argument.type == "Tensor?":
        return f"(None if {name} is None else {name}._a)"
    if argument.type == "Tensor[]":
        return f"[x._a for x in {name}]"
    if argument.type == "Tensor?[]":
        return f"[None if x is None else x._a for x in {name}]"
    return name


def _inputs_key(lines: Lines, op: Any, numbers: frozenset[str] | None) -> str:
    """Source of the parts of the tuple that stands for a call's inputs; tensors in it are ids of their layouts.

    `numbers` names the tensor arguments that are numbers in this case; None where that is not known.
    """
    if _tap.HELPER is not None:  # which looks at the arguments itself
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
    if _tap.HELPER is not None:
        begin = ["SEQ" if op.numbered else "-1"]
        if flags & _tap.SHAPES and op.schema.arguments:
            begin.append(_inputs_key(lines, op, numbers))
        lines.add(f"{'BEGIN' if len(begin) == 1 else 'BEGIN_WITH'}({', '.join(begin)})", "try:")
        lines.depth += 1
        return
    # Underscores keep locals apart from arguments, some of which are called key or out.
    if flags & _tap.SHAPES:
        key = _inputs_key(lines, op, numbers)
        lines.add(f"key_ = ({key}{',' if key else ''})", "try:", "    ins = INPUT_IDS[key_]")
        lines.add("except KeyError:", "    ins = INTERN(key_)", "except TypeError:", "    ins = INTERN(FREEZE(key_))")
    _find_lane(lines, op, flags)
    if _counts_result(op, flags):
        lines.add("token_ = None")
    lines.add("t0 = clock()", "try:")
    lines.depth += 1


def _find_lane(lines: Lines, op: Any, flags: int) -> None:
    """Where the calling thread's rows and marks go, and whether it builds graphs."""
    needed = [("out_", "HOME_OUT", "lane_.out") if flags & _WIDE else ("out_", "HOME_LEAN", "lane_.lean_out")]
    if flags & _tap.MEMORY:
        needed.append(("marks_", "HOME_MARKS", "lane_.marks"))
    if op.numbered:
        needed.append(("seq", "SEQ if HOME_GRAD else -1", "SEQ if lane_.grad else -1"))
    if flags & _tap.STACKS:
        lines.add(*_FIND_STACK, *(f"{name} = {elsewhere}" for name, _, elsewhere in needed))
    else:
        lines.add("if AT_HOME():", *(f"    {name} = {at_home}" for name, at_home, _ in needed))
        lines.add("else:", "    lane_ = LANE()", *(f"    {name} = {elsewhere}" for name, _, elsewhere in needed))
    if not op.numbered:
        lines.add("seq = -1")


# Nothing in an op is traced. The frame that calls it is looked up once for each of its instructions, as long as nothing
# else has been called or has returned.
_FIND_STACK = [
    "lane_ = HOME if UNSEEN_AT_HOME() else LANE()",
    "tracer_ = lane_.active",
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
    if _tap.HELPER is not None:
        lines.add("finally:", f"    END({op.event})")
        return
    inputs = "ins" if flags & _tap.SHAPES else "0"
    stack = "stack" if flags & _tap.STACKS else "0"
    row = f"{op.event}, seq, {inputs}, {stack}" if flags & _WIDE else f"{op.event}, seq"
    if _counts_result(op, flags):
        # The result is there by now; one look at the clock serves both.
        lines.add("finally:", "    now_ = clock()", f"    out_ += (t0, now_, {row})")
        lines.add(*_NOTED)
    else:
        lines.add("finally:", f"    out_ += (t0, clock(), {row})")
    if flags & _tap.STACKS:
        lines.add("    if tracer_ is not None:", "        lane_.active = tracer_", "        TRACE_AGAIN(tracer_)")


def open_inner(lines: Lines, op: Any, flags: int) -> None:
    """Begin the event of the op as which the kernel is recorded inside the op's own; leaves the lines inside a `try`."""
    row, given = op.inner
    if _tap.HELPER is not None:
        lines.add(f"BEGIN_WITH(-1, {', '.join(given)})" if flags & _tap.SHAPES else "BEGIN(-1)", "try:")
    else:
        if flags & _tap.SHAPES:
            key = ", ".join(map(_inner_key, row.schema.arguments, given))
            lines.add(f"key_ = ({key},)", "inner_ins = INPUT_IDS.get(key_) or INTERN(key_)")
        lines.add(*(["token_ = None"] if _counts_inner(op, flags) else []), "inner_t0 = clock()", "try:")
    lines.depth += 1


def _inner_key(argument: Argument, given: str) -> str:
    """What stands for an argument of the inner op: a tensor of the op itself, or a number."""
    if argument.is_tensor:
        return f"k_{given}"
    return given if argument.type == "int" else f'("value", type({given}), {given})'


def close_inner(lines: Lines, op: Any, flags: int) -> None:
    """End it, with the result `r0` and its memory in it."""
    event = op.inner[0].event
    if _counts_inner(op, flags):
        lines.add("if type(r0) is not ndarray: r0 = FIX(r0)")
        lines.add(*(["token_ = COUNT(r0)"] if _tap.HELPER is not None else _TOKEN))
    lines.depth -= 1
    lines.add("finally:")
    if _tap.HELPER is not None:
        lines.add(f"    END({event})")
        return
    # No frame of the user's lies between the two.
    details = f", {'inner_ins' if flags & _tap.SHAPES else 0}, {'stack' if flags & _tap.STACKS else 0}"
    lines.add("    now_ = clock()", f"    out_ += (inner_t0, now_, {event}, -1{details if flags & _WIDE else ''})")
    if _counts_inner(op, flags):
        lines.add(*_NOTED)


def _counts_inner(op: Any, flags: int) -> bool:
    return bool(flags & _tap.MEMORY) and op.kind == "kernel"


# What CountedStorage does; the end of the event notes it.
_TOKEN = ["token_ = NEW(COUNTED)", "token_.version = 0", "token_.nbytes = r0.nbytes"]
_NOTED = [
    "    if token_ is not None:",
    "        marks_ += (now_, token_.nbytes, id(token_))",
]


def _counts_result(op: Any, flags: int) -> bool:
    """Whether the op itself says what memory its result takes, as opposed to ops it calls or a function it uses."""
    if not flags & _tap.MEMORY or op.kind != "kernel" or op.calls is not None or not op.takes_tensors:
        return False
    return len(op.schema.returns) == 1 and not op.schema.returns_list


def saved_items(op: Any) -> list[tuple[str, str]]:
    """What the formulas need, in saving order, as (kind, name); kinds: input, sizes, dtype, strides, geometry, value,
    result, list."""
    items: dict[tuple[str, str], None] = {}
    arguments = {a.name: a for a in op.schema.arguments}
    for parameters in op.formula_parameters.values():
        for p in parameters:
            if p in ("g", "grads", "needs"):
                continue
            if p == "result" or (p.startswith("result") and p[6:].isdigit()):
                items["result", p] = None
            elif p.endswith("_sizes") and p[:-6] in arguments:
                items["sizes", p[:-6]] = None
            elif p.endswith("_dtype") and p[:-6] in arguments:
                items["dtype", p[:-6]] = None
            elif p.endswith("_strides") and p[:-8] in arguments:
                items["strides", p[:-8]] = None
            elif p.endswith("_geometry") and p[:-9] in arguments:
                items["geometry", p[:-9]] = None
            elif p not in arguments:
                raise ValueError(f"row {op.qualified}: a gradient formula uses {p!r}, which is no argument")
            elif arguments[p].is_tensor:
                items["input", p] = None
            elif arguments[p].is_tensor_list:
                items["list", p] = None
            else:
                items["value", p] = None
    return list(items)


def _python_name(op: Any, name: str) -> str:
    for argument in op.schema.arguments:
        if argument.name == name:
            return str(argument.python_name)
    return name


def _users(op: Any, name: str) -> list[str]:
    """The differentiable inputs whose formulas use `name`."""
    return [target for target, parameters in op.formula_parameters.items() if name in parameters]


def _saved_tuple(op: Any, numbers_possible: bool) -> str:
    """Source of the `saved` tuple; expects locals named as the public parameters, `t`/`r` for results, `ag_X` for edges."""
    parts = []
    targets = op.differentiable
    for kind, name in saved_items(op):
        py = _python_name(op, name)
        if kind == "input":
            users = {t for u in _users(op, name) for t in u.split()}
            keep = "" if users >= set(targets) else " or ".join(f"ag_{_python_name(op, u)} is not None" for u in users)
            version = (
                f"VERSION({py})"
                if numbers_possible or op.optional(name)
                else (f"(0 if {py}._v is None else {py}._v.version)")
            )
            parts.append(f"({py} if {keep} else None)" if keep else py)
            parts.append(version)
        elif kind == "sizes":
            parts.append(f"SIZES({py})" if op.arguments[name].is_tensor_list or op.takes_numbers else f"{py}._a.shape")
        elif kind == "dtype":
            parts.append(f"{py}.dtype")
        elif kind == "strides":
            parts.append(f"{py}._a.strides")
        elif kind == "geometry":
            parts.append(f"GEOMETRY({py})")
        elif kind == "result":
            nr = name[6:] or "0"
            parts.append(f"r{nr}, t{nr}_._v, t{nr}_._v.version")
        elif kind == "list":
            parts.append(f"tuple({py}), tuple([VERSION(x) for x in {py}])")
        else:
            parts.append(py)
    return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"


def _edges(op: Any) -> str:
    parts = []
    for name in op.differentiable:
        argument = op.arguments[name]
        py = argument.python_name
        parts.append(f"*ag_{py}" if argument.is_tensor_list else f"ag_{py}")
    return "(" + ", ".join(parts) + ",)"


def _load_edges(lines: Lines, op: Any, numbers: frozenset[str] = frozenset()) -> str:
    """Read the inputs' places in the graph; the condition that a node is needed."""
    needs = []
    for name in op.differentiable:
        argument = op.arguments[name]
        py = argument.python_name
        if name in numbers:
            continue
        if argument.is_tensor_list:
            if _tap.HELPER is not None and argument.type == "Tensor[]":
                lines.add(f"ag_{py} = EDGES({py}) if WATCHED({py}) else ()")
            else:
                lines.add(f"ag_{py} = EDGES({py})")
            needs.append(f"ag_{py}.count(None) != len(ag_{py})")
            continue
        if argument.type == "Tensor?" or (op.takes_numbers and name in numbers):
            lines.add(f"ag_{py} = None if {py} is None else {py}._ag if {py}._view is None else LIVE({py})")
        else:
            lines.add(f"ag_{py} = {py}._ag", f"if {py}._view is not None: ag_{py} = LIVE({py})")
        needs.append(f"ag_{py} is not None")
    return " or ".join(needs)


def _make_node(lines: Lines, op: Any, shape: str, dtype: str, numbers_possible: bool = False) -> None:
    if _tap.HELPER is not None:
        parts = f"{_edges(op)}, {_saved_tuple(op, numbers_possible)}, SEQ, {shape}, {dtype}"
        lines.add(f"n_ = NODE(C_{op.ident}, {parts})", "SEQ += 1", "if SAVING: SAVING(n_)")
        return
    lines.add(
        f"n_ = NEW(C_{op.ident})",
        f"n_.edges = {_edges(op)}",
        f"n_.saved = {_saved_tuple(op, numbers_possible)}",
        "n_.seq = SEQ",
        "SEQ += 1",
        f"n_.shape = {shape}",
        f"n_.dtype = {dtype}",
        "n_.hooks = None",
        "if SAVING: SAVING(n_)",
    )


def _no_layout(tensor: str, flags: int) -> list[str]:
    """A new tensor whose layout nobody has looked up; the helper does not keep them."""
    return [f"{tensor}._k = None"] if flags & _tap.SHAPES and _tap.HELPER is None else []


def finish_single(lines: Lines, op: Any, flags: int, numbers: frozenset[str] = frozenset()) -> None:
    """Wrap `r0` into a tensor, with its node if one is needed, and return it."""
    if not op.takes_tensors:  # a factory, whose result may live on meta
        # A body of ops has made its tensor already; another one would count its memory twice.
        lines.add("return got" if flags & _tap.MEMORY and op.calls is not None else "return MAKE(r0)")
        return
    lines.add("if type(r0) is not ndarray: r0 = FIX(r0)")
    if _tap.HELPER is not None:
        lines.add("t0_ = WRAP(r0)")
    else:
        lines.add("t0_ = NEW(Tensor)", "t0_._a = r0", "t0_._view = None", "t0_._ag = None")
        lines.add(*_no_layout("t0_", flags))
    if flags & _tap.MEMORY and op.inner is not None:
        lines.add("t0_._v = token_")
    elif flags & _tap.MEMORY and op.calls is not None:
        # The ops of the body have counted the memory.
        lines.add("v = got._v", "t0_._v = v if type(v) is COUNTED else None")
    elif flags & _tap.MEMORY and _tap.HELPER is not None:
        lines.add("t0_._v = COUNT(r0)")
    elif flags & _tap.MEMORY:
        lines.add(*_TOKEN, "t0_._v = token_")
    elif _tap.HELPER is None:
        lines.add("t0_._v = None")
    lines.add("if INFERRING: MARK(t0_)")
    if op.differentiable:
        need = _load_edges(lines, op, numbers)
        if need:
            lines.add(f"if ({need}) and GRAD():")
            lines.depth += 1
            for name in numbers:
                if name in op.differentiable:
                    lines.add(f"ag_{_python_name(op, name)} = None")
            if any(kind == "result" for kind, _ in saved_items(op)):
                lines.add("if t0_._v is None: t0_._v = STORAGE()")
            _make_node(lines, op, "r0.shape", "r0.dtype", numbers_possible=bool(numbers))
            lines.add("t0_._ag = n_")
            lines.depth -= 1
    lines.add("return t0_")


def _look(lines: Lines, first: str, flags: int) -> None:
    """What the helper's `look` does; leaves the lines inside an `if` for views that are watched."""
    lines.add(
        "t0_ = NEW(Tensor)",
        "t0_._a = r0",
        f"v = {first}._v",
        f"if v is None: v = {first}._v = STORAGE()",
        "t0_._v = v",
        "t0_._ag = t0_._view = None",
        *_no_layout("t0_", flags),
        "if GRAD():",
    )
    lines.depth += 1
    lines.add(
        f"b = {first}._view",
        "if b is None:",
        "    w = t0_._view = NEW(View)",
        f"    w.base = {first}",
        "    w.replay = None",
        "else:",
        "    w = t0_._view = NEW(type(b))",
        "    w.base = b.base",
        "    w.replay = None if b.replay is None else COMPOSED(b.replay, t0_)",
        "w.version = v.version if type(v) is STORAGE else VIEW_VERSION(v)",
    )


def finish_view(lines: Lines, op: Any, flags: int) -> None:
    """Wrap `r0`, a view of the first argument, into a tensor that shares its storage."""
    first = op.schema.arguments[0].python_name
    if _tap.HELPER is not None:
        lines.add("watched = GRAD()", f"t0_ = LOOK({first}, r0, watched)", "if watched:")
        lines.depth += 1
    else:
        _look(lines, first, flags)
    if op.replay is not None:
        lines.add(f"t0_._view.replay = REPLAY_{op.ident}({first}._view, {signature(op, defaults=False)})")
    need = _load_edges(lines, op)
    if need:
        lines.add(f"if {need}:")
        lines.depth += 1
        _make_node(lines, op, "r0.shape", "r0.dtype")
        lines.add("t0_._ag = n_")
        lines.depth -= 1
    lines.depth -= 1
    if _tap.HELPER is None:
        lines.add(f"elif {first}._ag is not None: UNWATCHED(t0_, {first})")
    lines.add("return t0_")


def finish_many(lines: Lines, op: Any, flags: int) -> None:
    """Wrap several results; integer and bool ones take no part in autograd."""
    count = len(op.schema.returns)
    names = [f"t{i}_" for i in range(count)]
    for i in range(count):
        memory = f"COUNTED(r{i})" if flags & _tap.MEMORY else "None"
        lines.add(f"if type(r{i}) is not ndarray: r{i} = FIX(r{i})")
        if _tap.HELPER is None:
            lines.add(f"t{i}_ = NEW(Tensor)", f"t{i}_._a = r{i}", f"t{i}_._view = None", f"t{i}_._v = {memory}")
            lines.add(f"t{i}_._ag = None", *_no_layout(f"t{i}_", flags))
        else:
            lines.add(f"t{i}_ = WRAP(r{i})")
            if flags & _tap.MEMORY:
                lines.add(f"t{i}_._v = {memory}")
        lines.add(f"if INFERRING: MARK(t{i}_)")
    if op.differentiable:
        need = _load_edges(lines, op)
        lines.add(f"if ({need}) and GRAD():")
        lines.depth += 1
        for kind, name in saved_items(op):
            if kind == "result":
                lines.add(f"if t{name[6:]}_._v is None: t{name[6:]}_._v = STORAGE()")
        shapes = "(" + ", ".join(f"r{i}.shape" for i in range(count)) + ",)"
        dtypes = "(" + ", ".join(f"r{i}.dtype" for i in range(count)) + ",)"
        _make_node(lines, op, shapes, dtypes)
        lines.add(f"ATTACH(n_, ({', '.join(names)},), {op.nondiff!r})")
        lines.depth -= 1
    result = f"({', '.join(names)},)"
    lines.add(f"return {f'T_{op.ident}({result})' if op.schema.result_names else result}")


def finish_list(lines: Lines, op: Any, flags: int) -> None:
    """Wrap a list of views of (or fresh parts from) the first argument."""
    lines.add(f"return MANY_{op.ident}(rs, {signature(op, defaults=False)})")


def backward_source(op: Any) -> str:
    """The text of the function that runs an op's gradient formulas."""
    lines = Lines()
    lines.add("def backward(node, grads):")
    lines.depth += 1
    lines.add("s = node.saved", "if s is None: raise RuntimeError(FREED)", "e = node.edges", "g = grads[0]")
    position = 0
    for kind, name in saved_items(op):
        local = f"v_{name}"
        if kind == "input":
            lines.add(f"{local} = UNPACK(node, s[{position}], s[{position + 1}])")
            position += 2
        elif kind == "result":
            nr = name[6:] or "0"
            lines.add(f"{local} = UNPACK_RESULT(node, s[{position}], s[{position + 1}], s[{position + 2}], {nr})")
            position += 3
        elif kind == "list":
            lines.add(f"{local} = [UNPACK(node, x, y) for x, y in zip(s[{position}], s[{position + 1}])]")
            position += 2
        else:
            local += f"_{kind}" if kind in ("sizes", "dtype", "strides", "geometry") else ""
            lines.add(f"{local} = s[{position}]")
            position += 1
    results: list[str] = []
    index = 0
    for target, parameters in op.formula_parameters.items():
        names = target.split()
        call = ", ".join(p if p in ("g", "grads", "needs") else f"v_{p}" for p in parameters)
        slot = f"F_{op.ident}_{'_'.join(names)}"
        if op.arguments[names[0]].is_tensor_list:
            lines.add("needs = [x is not None for x in e]")
            return lines.text() + f"    return tuple({slot}({call}))\n"
        if len(names) > 1:
            lines.add(f"needs = tuple([x is not None for x in e[{index}:{index + len(names)}]])")
            joint = f"j{index}"
            lines.add(f"{joint} = {slot}({call}) if True in needs else (None,) * {len(names)}")
            results.extend(f"{joint}[{i}]" for i in range(len(names)))
        else:
            results.append(f"{slot}({call}) if e[{index}] is not None else None")
        index += len(names)
    lines.add(f"return ({', '.join(results)},)")
    return lines.text()


def node_source(op: Any) -> str:
    """The text of a function that makes the node of a call whose result is `t` (in-place ops and slow paths)."""
    lines = Lines()
    count = len(op.schema.returns)
    given = ", ".join(a.python_name for a in op.schema.arguments)
    outputs = ", ".join(f"t{i}_" for i in range(count))
    lines.add(f"def make_node({given}{', ' if given else ''}{outputs}):")
    lines.depth += 1
    lines.add("global SEQ")
    for i in range(count):
        lines.add(f"r{i} = t{i}_._a", f"if t{i}_._v is None: t{i}_._v = STORAGE()")
    for name in op.differentiable:
        py = op.arguments[name].python_name
        lines.add(
            f"ag_{py} = [EDGE(x) for x in {py}]" if op.arguments[name].is_tensor_list else f"ag_{py} = EDGE({py})"
        )
    if count == 1:
        _make_node(lines, op, "r0.shape", "r0.dtype", numbers_possible=True)
    else:
        shapes = "(" + ", ".join(f"r{i}.shape" for i in range(count)) + ",)"
        dtypes = "(" + ", ".join(f"r{i}.dtype" for i in range(count)) + ",)"
        _make_node(lines, op, shapes, dtypes, numbers_possible=True)
    lines.add("return n_")
    return lines.text()


def compile_function(source: str, label: str) -> Any:
    """Compile generated text; the function it defines is returned and not left in the namespace."""
    filename = f"<mindtorch_v2 {label}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    local: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), NAMESPACE, local)
    return next(iter(local.values()))
