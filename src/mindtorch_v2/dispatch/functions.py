"""The functions of ops: stubs that compile themselves when first called, and the forms in which they record.

It owns which functions are in use. What their text is, `forward` and `codegen` decide.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..autograd.node import Node
from ..core import tap
from ..core.fork import free_in_children, one_at_a_time
from ..kernels.result_layout import laid_ufunc, lays_itself, rule_alone, unlaid
from . import codegen, forward
from .compute import list_wrapper, result_type
from .slow_path import evaluate, slow, the_long_way

if TYPE_CHECKING:
    from .op import Op

NAMESPACE = tap.NAMESPACE
# All rows by qualified name.
OPS: dict[str, Op] = {}


def _stub_template(*args: Any, **kwargs: Any) -> Any:
    return MATERIALIZE("NAME", *args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


_STUB_CODE = _stub_template.__code__


def stub(name: str, python_name: str) -> types.FunctionType:
    """The public function of an op. Its code is swapped for the generated one at the first call, so that everybody
    who took hold of it earlier calls the fast one from then on."""
    constants = tuple(name if c == "NAME" else c for c in _STUB_CODE.co_consts)
    code = _STUB_CODE.replace(co_consts=constants, co_name=python_name)
    function = types.FunctionType(code, NAMESPACE, python_name)
    function.__module__ = "mindtorch_v2"
    function.__qualname__ = python_name
    return function


# What compiles a stub that is not an op's own function, by name (operators).
LATE: dict[str, Callable[[], types.FunctionType]] = {}
# Functions are compiled by one thread at a time, and given another form by one: else one could call what another has half
# made, or miss the form that is wanted.
_making = free_in_children(threading.RLock())
# The stubs that have been compiled; threads that meet one at the same time all come here.
_made: dict[str, types.FunctionType] = {}


def materialize_and_call(name: str, *args: Any, **kwargs: Any) -> Any:
    return one_at_a_time(_making, _function_of, name)(*args, **kwargs)


def _function_of(name: str) -> types.FunctionType:
    found = _made.get(name)
    if found is None:
        found = _made[name] = LATE[name]() if name in LATE else materialize(OPS[name])
    return found


def _as_it_is(kernel: Any) -> Any:
    return kernel


def materialize(op: Op) -> types.FunctionType:
    """Compile an op's functions and put them in place."""
    return one_at_a_time(_making, _materialize, op)


def _materialize(op: Op) -> types.FunctionType:
    op.check_row()
    ident = op.ident
    for row in (op,) if op.base is None else (op, op.base):
        kernel = unlaid if codegen.lays_out(row) else _as_it_is
        if row.kernel is not None:
            NAMESPACE[f"K_{row.ident}"] = kernel(row.kernel)
        if row.ufunc is not None:
            NAMESPACE[f"U_{row.ident}"] = laid_ufunc(row.ufunc) if lays_itself(row.ufunc, row.layout) else row.ufunc
        if row.fast is not None:
            NAMESPACE[f"Q_{row.ident}"] = kernel(row.fast[1])
        if row.asked is not None:
            NAMESPACE[f"A_{row.ident}"] = kernel(row.asked)
        if row.layout is not None:
            NAMESPACE[f"LAY_{row.ident}"] = rule_alone(row.layout)
    if op.base is not None:
        NAMESPACE[f"P_{op.base.ident}"] = op.base.function
    if callable(op.dense):
        NAMESPACE[f"W_{ident}"] = op.dense
    if op.calls is not None:
        NAMESPACE[f"V_{ident}"] = op.calls
    if op.ahead is not None:
        NAMESPACE[f"K_{op.ahead[0].ident}"] = op.ahead[0].kernel
        NAMESPACE[f"A_{op.ahead[0].ident}"] = op.ahead[0].asked
    if op.replay is not None:
        NAMESPACE[f"REPLAY_{ident}"] = op.replay
    if op.schema.returns_list:
        NAMESPACE[f"MANY_{ident}"] = list_wrapper(op)
    if op.schema.result_names and len(op.schema.returns) > 1:
        NAMESPACE[f"T_{ident}"] = result_type(op)._make
    NAMESPACE[f"P_{ident}"] = op.function
    NAMESPACE[f"L_{ident}"] = lambda *args: the_long_way(op, args)
    NAMESPACE[f"E_{ident}"] = lambda *args: evaluate(op, args)
    if op.formulas:
        _materialize_backward(op)
    # By this one others see that all is there: after an interrupt it is made anew.
    NAMESPACE[f"S_{ident}"] = lambda *args: slow(op, args)
    _materialized.append(op)
    install(op, op.function, op.qualified)
    return op.function


def not_yet(op: Op) -> Callable[..., Any]:
    """Stands for the form of an op's function that offers a call to nobody, until the first call makes that."""

    def make() -> Callable[..., Any]:
        if f"S_{op.ident}" not in NAMESPACE:
            materialize(op)
        op.unseen = codegen.compile_function(forward.unseen_source(op), f"{op.qualified}, unseen")
        return op.unseen

    def unseen(*args: Any) -> Any:
        return one_at_a_time(_making, make)(*args)

    return unseen


def _materialize_backward(op: Op) -> None:
    for names, formula in op.formulas.items():
        NAMESPACE[f"F_{op.ident}_{'_'.join(names.split())}"] = formula
    run = codegen.compile_function(codegen.backward_source(op), f"{op.node_name} of {op.qualified}")
    outputs = len(op.schema.returns)
    body = {"__slots__": (), "run": run, "outputs": outputs, "__module__": "builtins", "op": op}
    body["nondiff"] = op.nondiff
    saves = body["saves"] = tuple(codegen.saved_items(op))
    if not any(kind in codegen.TENSORS_SAVED for kind, _ in saves):
        body["release"] = Node.keep
    NAMESPACE[f"C_{op.ident}"] = type(op.node_name, (Node,), body)
    made = codegen.compile_function(codegen.node_source(op), f"node of {op.qualified}")
    NAMESPACE[f"N_{op.ident}"] = made
    op.make_node = made  # last, as by this one others see that all is there


def replace_code(function: types.FunctionType, generated: types.FunctionType) -> None:
    """Turn a stub into the function that was generated for it."""
    function.__defaults__, function.__kwdefaults__ = generated.__defaults__, generated.__kwdefaults__
    function.__code__ = generated.__code__


_materialized: list[Op] = []
# Every generated function with what it was generated from and the label it goes by; and the code of its forms, by flags.
_installed: dict[str, tuple[Op, types.FunctionType]] = {}
_codes: dict[tuple[str, int | None], types.FunctionType] = {}
# How many of them have been searched for the ops they call.
_searched = [0]
# The flags functions were last made to record for; None before the first recording.
_flags: list[int | None] = [None]


def install(op: Op, function: types.FunctionType, label: str) -> None:
    """Generate the code of a function, in the form that is now wanted."""
    _installed[label] = op, function
    replace_code(function, _generated(op, label))


def _generated(op: Op, label: str) -> types.FunctionType:
    flags = _flags[0]
    found = _codes.get((label, flags))
    if found is None:
        name = label if flags is None else f"{label}, recording {flags}"
        found = _codes[label, flags] = codegen.compile_function(forward.forward_source(op, flags), name)
    return found


def _prepare(flags: int) -> None:
    """Give all functions in use, and those they call, their recording form, so that no recording times its making.

    They keep it afterwards: while nothing records it costs what the first form does.
    """
    one_at_a_time(_making, _prepare_alone, flags)


def _prepare_alone(flags: int) -> None:
    # Only what came since the last time is looked at, so that starting stays cheap.
    waiting = _materialized[_searched[0] :]
    done = {op.name for op in _materialized} if waiting else set()
    rows = _by_name() if waiting else {}
    while waiting:
        for name in _called_names(waiting.pop()) - done:
            done.add(name)
            for op in rows.get(name, ()):
                materialize(op)
                waiting.append(op)
    _searched[0] = len(_materialized)
    _record_with(flags & tap.OP_FLAGS)


def _record_with(flags: int) -> None:
    if _flags[0] != flags:
        _flags[0] = flags
        for label, (op, function) in list(_installed.items()):
            replace_code(function, _generated(op, label))


def _called_names(op: Op) -> set[str]:
    """Names that an op's body and gradient formulas call, in functions of their own module too."""
    names: set[str] = {"contiguous"} if op.dense else set()
    bodies = [
        f for f in (op.calls, op.kernel if op.kind == "composite" else None, *op.formulas.values()) if f is not None
    ]
    seen: set[Any] = set()
    while bodies:
        body = bodies.pop()
        code = getattr(body, "__code__", None)
        if code is None or code in seen:
            continue
        seen.add(code)
        names.update(code.co_names, (c for c in code.co_consts if isinstance(c, str)))
        space = body.__globals__
        held = [cell.cell_contents for cell in body.__closure__ or ()]
        held += [space.get(name) for name in code.co_names]
        names.update(OPS[f.qualified].name for f in held if getattr(f, "qualified", None) in OPS)
        bodies += [f for f in held if isinstance(f, types.FunctionType) and f.__globals__ is space]
    return names


def _by_name() -> dict[str, list[Op]]:
    found: dict[str, list[Op]] = {}
    for op in OPS.values():
        found.setdefault(op.name, []).append(op)
    return found


def _recorder_changed(flags: int) -> None:
    recorder = tap.SLOT.recorder
    if recorder is not None:
        NAMESPACE["STACK"] = recorder.stack_of_op
        one_at_a_time(_making, _record_with, flags & tap.OP_FLAGS)


tap.SLOT.listeners.append(_recorder_changed)
tap.SLOT.preparers.append(_prepare)


def source(op: Op, flags: int | None = None) -> str:
    """The generated text of an op, for reading."""
    return forward.forward_source(op, flags)
