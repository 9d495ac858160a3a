"""Writes the pieces that the generated functions of an op are made of: signatures, nodes, results, backward.

`recording` writes what is around a recorded op, and `forward` puts all together into an op's public function and its
recorded twin. The text is compiled when an op is first called and can be read in tracebacks (`linecache`) or by
`source(op)`. Names in generated code: `K` kernel, `A` what is asked before it, `Q` kernel of the quick case, `U` ufunc,
`W` whether an array is dense, `X` what a view op is to the helper, `S` slow path, `P` public function, `E` the op
without its fast paths, `R` recorded twin, `C` node class, `F` gradient formula, `O` what an operator does with operands
that are not tensors, each followed by the op's identifier.
"""

from __future__ import annotations

import linecache
import math
from typing import Any

from ..core import tap
from ..kernels.result_layout import elementwise, second_first
from ..kernels.result_layout import plain as plain_order
from .schema import Argument

NAMESPACE = tap.NAMESPACE
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<required>", "__slots__": ()})()
NAMESPACE.update(MISSING=MISSING, INF=math.inf, NUMBERS=frozenset((int, float, bool, complex, type(None))))

ALIASES = {"dim": "axis", "keepdim": "keepdims"}


def requires_dtype(op: Any) -> bool:
    """Whether `out=` has to be of the dtype of the result."""
    return bool(op.kind == "kernel" and (op.strict_out == "exact" or (op.rule is None and op.out_dtype is None)))


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


def _fits(op: Any, argument: Argument) -> str:
    """The condition that an argument beside the tensors is what its type says; "" where nothing has to be asked. Lists are
    looked at where they are unpacked, and whole numbers by what makes a view of them."""
    name, kind = argument.python_name, argument.type.rstrip("?")
    if kind == "bool":
        fits = f"{name} is False or {name} is True"
    elif kind == "int" and op.kind != "view":
        fits = f"type({name}) is int"
    elif kind in ("Scalar", "float"):  # the likely one first
        likely, other = ("int", "float") if type(argument.default) is int else ("float", "int")
        fits = f"type({name}) is {likely} or type({name}) is {other}"
    else:
        return ""
    return f"({name} is None or {fits})" if argument.type.endswith("?") else f"({fits})"


def guards(op: Any) -> list[str]:
    """Conditions under which arguments are what the fast path expects; the slow one says what is wrong with others."""
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
        elif fits := _fits(op, argument):
            conditions.append(fits)
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


# The kinds of saved items that are tensors; once they are freed, backward cannot run again.
TENSORS_SAVED = frozenset(("input", "list", "result"))


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
            if tap.HELPER is not None and argument.type == "Tensor[]":
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


def _make_node(
    lines: Lines, op: Any, shape: str, dtype: str, numbers_possible: bool = False, kind: str | None = None
) -> None:
    if tap.HELPER is not None:
        parts = f"{_edges(op)}, {_saved_tuple(op, numbers_possible)}, SEQ, {shape}, {dtype}"
        lines.add(f"n_ = NODE({kind or f'C_{op.ident}'}, {parts})", "SEQ += 1", "if SAVING: SAVING(n_)")
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


# What CountedStorage does; the end of the event notes it.
TOKEN = ["token_ = NEW(COUNTED)", "token_.version = 0", "token_.nbytes = r0.nbytes"]


def _no_layout(tensor: str, flags: int) -> list[str]:
    """A new tensor whose layout nobody has looked up; the helper does not keep them."""
    return [f"{tensor}._k = None"] if flags & tap.SHAPES and tap.HELPER is None else []


def made_by_body(op: Any) -> bool:
    """Whether the ops of a body make the result of a recorded op, and count its memory."""
    return op.calls is not None and op.ahead is None


def _taken_over(made: str) -> list[str]:
    """Leave in `v` the memory of what a body has made, for the op's own result. That is new, however often the ops of the
    body have written to it."""
    return [f"v = {made}._v", "if type(v) is COUNTED: v.version = 0", "elif type(v) is not INFERENCE: v = None"]


def lays_out(op: Any) -> bool:
    """Whether generated code lays out the result of a kernel; with several, kernels do so themselves."""
    return op.layout is not None and op.takes_tensors and len(op.schema.returns) == 1 and not op.schema.returns_list


def _lay_out(lines: Lines, op: Any, flags: int, numbers: frozenset[str]) -> str:
    """Lines that lay out `r0` by the op's rule; the call that wraps it."""
    # A number in place of a tensor is `c`, an array without dimensions.
    args = ", ".join("c" if a.name in numbers else a.python_name for a in op.schema.arguments)
    if tap.HELPER is not None:
        args = "r0" if op.layout is plain_order else f"r0, LAY_{op.ident}, {args}"
        name = "PLAIN" if op.layout is plain_order else "LAID"
        if not flags & tap.MEMORY:
            return f"WRAP_{name}({args})"
        lines.add(f"r0 = {'LAY' if name == 'LAID' else 'LAY_PLAIN'}({args})")
        return "WRAP(r0)"
    arrays = [(a, "c" if a.name in numbers else array_of(a)) for a in op.schema.arguments]
    tensors = [(a, array) for a, array in arrays if (a.is_tensor or a.is_tensor_list) and a.name not in numbers]
    sure = [array for a, array in tensors if a.type == "Tensor"]
    lists = [f"ROW_MAJOR_ALL({a.python_name})" for a, _ in tensors if a.type != "Tensor"]
    if op.layout is plain_order:
        settled = _row_major("r0")
    elif sure and op.layout in (elementwise, second_first):
        # A dimension of one element in an operand alone is spread, and then its stride counts for nothing.
        settled = " and ".join([*lists, _row_major(*sure, sizes="r0")])
    else:
        settled = " and ".join([*lists, *map(_row_major, sure)])
    lines.add(f"if not ({settled}): r0 = LAY_{op.ident}(r0, {', '.join(array for _, array in arrays)})")
    return ""


def _row_major(*arrays: str, sizes: str = "") -> str:
    """The condition that arrays have row-major strides; those of dimensions of one element count if `sizes` has such."""
    in_order = " and ".join(f"{array}.flags.c_contiguous" for array in arrays)
    strictly = " and ".join(f"ROW_MAJOR({array})" for array in arrays)
    return f"({in_order} and (1 not in {sizes or arrays[0]}.shape or ({strictly})))"


def finish_single(lines: Lines, op: Any, flags: int, numbers: frozenset[str] = frozenset(), laid: bool = False) -> None:
    """Wrap `r0` into a tensor, with its node if one is needed, and return it; laid out first unless it is already."""
    if not op.takes_tensors:  # a factory, whose result may live on meta
        if flags & tap.MEMORY and op.calls is not None:
            # A body of ops has made its tensor already; another one would count its memory twice.
            lines.add(*_taken_over("got"), "return got")
        elif tap.HELPER is not None and not flags & tap.MEMORY:
            lines.add("return WRAP(r0) if type(r0) is ndarray and not INFERRING else MAKE(r0)")
        else:
            lines.add("return MAKE(r0)")
        return
    lines.add("if type(r0) is not ndarray: r0 = FIX(r0)")
    counts = flags & tap.MEMORY and op.inner is None and not made_by_body(op)
    wrap = "WRAP(r0)" if laid or not lays_out(op) else _lay_out(lines, op, flags, numbers)
    if tap.HELPER is not None:
        lines.add("t0_ = WRAP_COUNTED(r0)" if counts else f"t0_ = {wrap}")
    else:
        lines.add("t0_ = NEW(Tensor)", "t0_._a = r0", "t0_._view = None", "t0_._ag = None")
        lines.add(*_no_layout("t0_", flags))
    if flags & tap.MEMORY and op.inner is not None:
        lines.add("t0_._v = token_")
    elif flags & tap.MEMORY and made_by_body(op):
        lines.add(*_taken_over("got"), "t0_._v = v")
    elif tap.HELPER is None:
        lines.add(*([*TOKEN, "t0_._v = token_"] if counts else ["t0_._v = None"]))
    lines.add("if INFERRING: MARK(t0_)")
    if op.differentiable:
        need = _load_edges(lines, op, numbers)
        if need:
            # Integers take no part in a graph; only where a dtype is asked for can they come of what does.
            chosen = [a for a in op.schema.arguments if a.type.startswith("ScalarType")]
            requested = " and ".join(f"{a.python_name} is None" for a in chosen if a.type.endswith("?"))
            floats = (
                f" and ({requested + ' or ' if requested else ''}r0.dtype.kind not in NO_GRADIENT)" if chosen else ""
            )
            lines.add(f"if ({need}) and GRAD(){floats}:")
            lines.depth += 1
            for name in numbers:
                if name in op.differentiable:
                    lines.add(f"ag_{_python_name(op, name)} = None")
            if any(kind == "result" for kind, _ in saved_items(op)):
                lines.add("if t0_._v is None: t0_._v = STORAGE()")
                if wrap.startswith(("WRAP_LAID", "WRAP_PLAIN")):
                    lines.add("r0 = t0_._a")
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
        f"    w.replay = None if b.replay is None else COMPOSED(b.replay, t0_, {first})",
        "w.version = v.version if type(v) is STORAGE else VIEW_VERSION(v)",
    )


def finish_view(lines: Lines, op: Any, flags: int) -> None:
    """Wrap `r0`, a view of the first argument, into a tensor that shares its storage."""
    first = op.schema.arguments[0].python_name
    if tap.HELPER is not None:
        # A tensor that is no view and has no place in a graph gets none; a view may have to find its place again.
        watched = "" if op.replay is not None else f"({first}._ag is not None or {first}._view is not None) and "
        lines.add(f"t0_ = LOOK({first}, r0)", f"if {watched}GRAD():")
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
    if tap.HELPER is None:
        lines.add(f"else: UNWATCHED(t0_, {first})")
    lines.add("return t0_")


def finish_many(lines: Lines, op: Any, flags: int) -> None:
    """Wrap several results; integer and bool ones take no part in autograd."""
    count = len(op.schema.returns)
    names = [f"t{i}_" for i in range(count)]
    for i in range(count):
        memory = f"COUNTED(r{i})" if flags & tap.MEMORY else "None"
        if flags & tap.MEMORY and made_by_body(op):
            lines.add(*_taken_over(f"got[{i}]"))
            memory = "v"
        lines.add(f"if type(r{i}) is not ndarray: r{i} = FIX(r{i})")
        if tap.HELPER is None:
            lines.add(f"t{i}_ = NEW(Tensor)", f"t{i}_._a = r{i}", f"t{i}_._view = None", f"t{i}_._v = {memory}")
            lines.add(f"t{i}_._ag = None", *_no_layout(f"t{i}_", flags))
        else:
            lines.add(f"t{i}_ = WRAP(r{i})")
            if flags & tap.MEMORY:
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
    first = op.schema.arguments[0]
    if tap.HELPER is not None and op.kind == "view" and op.differentiable == [first.name]:
        py = first.python_name
        lines.add("if rs and type(rs[0]) is ndarray:")
        lines.depth += 1
        lines.add("watched = GRAD()")
        lines.add(f"ts = LOOK_AT_PARTS({py}, rs, ONE_OF_MANY if watched or {py}._ag is not None else None)")
        lines.add(f"if {_load_edges(lines, op)} and watched:")
        lines.depth += 1
        _make_node(lines, op, "rs[0].shape", "rs[0].dtype", kind=f"SIZED[C_{op.ident}, len(rs)]")
        lines.add("OUTPUTS(n_, ts)")
        lines.depth -= 1
        lines.add("return ts")
        lines.depth -= 1
    lines.add(f"return MANY_{op.ident}(rs, {signature(op, defaults=False)})")


def backward_source(op: Any) -> str:
    """The text of the function that runs an op's gradient formulas."""
    lines = Lines()
    lines.add("def backward(node, grads, e=None):")
    lines.depth += 1
    lines.add(
        "s = node.saved", "if s is None: raise RuntimeError(FREED)", "if e is None: e = node.edges", "g = grads[0]"
    )
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
    args = ", ".join(a.python_name for a in op.schema.arguments)
    outputs = ", ".join(f"t{i}_" for i in range(count))
    lines.add(f"def make_node({args}{', ' if args else ''}{outputs}):")
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
