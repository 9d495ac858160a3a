"""How a row becomes an operator.

A row is a schema line, a kernel on NumPy arrays, and a gradient formula per input. From it this module derives the
public function, the in-place method, `out=`, the autograd node, the event of the profiler and the slow path that does
promotion, numbers, subclasses and modes. Rows live in `ops`; names reach users through `_bind`.
"""

from __future__ import annotations

import inspect
import re
import types
from collections import namedtuple
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np

from . import _codegen, _forward, _schema, _tap
from ._codegen import MISSING
from ._dtype import (
    FROM_NUMPY,
    SCALAR_TYPE_NUMBERS,
    bfloat16,
    can_cast,
    combine,
    dtype,
    float16,
    float32,
    get_default_dtype,
    number_type,
)
from ._errors import broadcast_error, no_memory, refuse_overlap, shape_text
from ._floating import quiet
from ._meta import SHAPES, MetaArray, meta
from ._schema import Argument
from ._storage import CountedStorage, Storage, View
from ._tensor import FAST, Parameter, Tensor, alias, as_array, bump, make, new, storage_of
from .autograd import grad_mode, graph, overrides
from .autograd.engine import door
from .autograd.node import FREED, AccumulateGrad, Node, Output, unpack, unpack_result
from .kernels.checks import not_implemented
from .kernels.passes import Numbers

NAMESPACE, EVENTS = _tap.NAMESPACE, _tap.EVENTS
OPS: dict[str, Op] = {}
_SELF = re.compile(r"\s*Tensor(\([^)]*\))? self\b")


class Op:
    """One row and everything derived from it."""

    def __init__(
        self,
        schema: str,
        kernel: Callable[..., Any] | None,
        *,
        kind: str = "kernel",  # kernel, view, mutate, composite, value
        rule: str | None = None,  # elementwise ops: same, float, compare
        ufunc: Callable[..., Any] | None = None,
        formulas: dict[str, Callable[..., Any]] | None = None,
        calls: Callable[..., Any] | None = None,
        node: str | None = None,
        flops: Callable[..., int] | None = None,
        all_flops: Callable[..., int] | None = None,
        fast_when: dict[str, Any] | None = None,
        number_fast: bool = True,
        quiet: bool = True,  # compute with floating point flags ignored; False where inf and nan are rare results
        spread: bool = True,  # whether the only list of ints may be given as several ints
        fast: tuple[str, Callable[..., Any]] | None = None,  # a condition in generated code, and the kernel for it
        takes: str = _forward.ALL_KINDS,
        label: str | None = None,
        check: Callable[..., None] | None = None,
        promotes: tuple[str, ...] = (),
        widen: bool = True,
        scalar: str | None = None,
        method: bool = True,
        nondiff: tuple[int, ...] = (),
        replay: Callable[..., Any] | None = None,
        out: bool | str | None = None,  # "apart": out= shares no memory with inputs; "exact": nor differs in dtype
        base: Op | None = None,
        event: str | None = None,
    ) -> None:
        head, _, rest = schema.partition("(")
        self.text, self.qualified = schema, head.strip()
        self.name, _, self.overload = self.qualified.partition(".")
        # Whether the op can be a method: its first argument is the tensor itself.
        self.takes_self = _SELF.match(rest) is not None
        self.kernel, self.kind, self.rule, self.calls, self.base = kernel, kind, rule, calls, base
        self.ufunc = ufunc
        self.ident = self.qualified.replace(".", "__")
        self.python_name = self.name
        self.fast_when = fast_when or {}
        self.number_fast = number_fast
        self.fast, self.spread, self.quiet = fast, spread, quiet
        self.takes, self.check, self.promotes, self.method = takes, check, promotes, method
        self.widen = widen and rule != "compare"  # 16-bit floats are computed in float32
        self.label = label or f"{self.name.removeprefix('special_')}_cpu"  # the kernel's name in messages
        self.fixed: dict[str, Any] | None = None  # operators: the arguments that keep their default
        self.records = True  # False for operators that stand for several ops, which record themselves
        self.nondiff = nondiff
        self.replay = replay
        self.formulas = formulas or {}
        self.differentiable = [name for names in self.formulas for name in names.split()]
        self.node_name = node or _node_name(self.name if base is None else base.name)
        self.make_node: Any = None
        self.function = stub(self.qualified, self.name)
        self.public: Any = self.function  # what users know it by, where it is one of several overloads
        self.scalar = scalar
        self.strict_out = out if isinstance(out, str) else ""
        self._out, self._event = (None if self.strict_out else out), (event or f"aten::{self.name}", flops, all_flops)
        if self.qualified in OPS:
            raise ValueError(f"row {self.qualified} is defined twice")
        OPS[self.qualified] = self

    # What follows is worked out when the row is first used: importing reads a thousand rows, a program uses fifty.

    @cached_property
    def schema(self) -> _schema.Schema:
        return _schema.parse(self.text)

    @cached_property
    def arguments(self) -> dict[str, Argument]:
        return {a.name: a for a in self.schema.arguments}

    @cached_property
    def takes_tensors(self) -> bool:
        return any(a.is_tensor or a.is_tensor_list for a in self.schema.arguments)

    @cached_property
    def takes_numbers(self) -> bool:
        tensors = sum(a.is_tensor for a in self.schema.arguments)
        return self.rule is not None and tensors > 1 and self.number_fast

    @cached_property
    def has_out(self) -> bool:
        if self._out is not None:
            return self._out
        return self.kind == "kernel" and all(kind == "Tensor" for kind, _ in self.schema.returns)

    @cached_property
    def formula_parameters(self) -> dict[str, list[str]]:
        return {name: _parameters(f) for name, f in self.formulas.items()}

    @cached_property
    def aliased(self) -> list[str]:
        """Arguments that may be given by NumPy's names."""
        return [old for old in _codegen.ALIASES if old in self.arguments and self.kind != "mutate"]

    @cached_property
    def aliases(self) -> list[str]:
        return [_codegen.ALIASES[old] for old in self.aliased]

    @cached_property
    def required_text(self) -> list[str]:
        return [a.name for a in self.schema.arguments if not a.has_default and a.name in self.aliased]

    @cached_property
    def event(self) -> int:
        name, flops, all_flops = self._event
        return _tap.register_event(name, self.overload, _tap.FUNCTION, self.describe, flops, all_flops)

    @cached_property
    def number_event(self) -> int:
        """The event of the overload that torch records when the second operand is a Python number."""
        if self.scalar is None:
            return self.event
        name, flops, all_flops = self._event
        return _tap.register_event(name, self.scalar, _tap.FUNCTION, self.describe_scalar, flops, all_flops)

    def check_row(self) -> None:
        """ValueError for a row that contradicts itself; called when it is first used, and by a test for all."""
        for name in self.differentiable:
            if name not in self.arguments:
                raise ValueError(f"row {self.qualified}: gradient for {name!r}, which is no argument")
        _codegen.saved_items(self)

    @cached_property
    def varargs(self) -> str:
        """The argument that may be given as several positional numbers: the only one after the tensor."""
        positional = [a for a in self.schema.arguments if not a.kwarg_only]
        rest = [a for a in positional if a.name != "self"]
        only = len(rest) == 1 and rest[0].type == "int[]" and not rest[0].has_default
        return rest[0].name if only and self.spread else ""

    def optional(self, name: str) -> bool:
        return self.arguments[name].type == "Tensor?"

    def describe(self, key: Any) -> _tap.InputRecord:
        return describe_inputs(self.schema.arguments, key)

    def describe_scalar(self, key: Any) -> _tap.InputRecord:
        """Inputs of a call whose second operand was a number."""
        first, second, *rest = self.schema.arguments
        return describe_inputs((first, second._replace(type="Scalar"), *rest), key)

    def __repr__(self) -> str:
        return f"<op {self.schema.text}>"


def _parameters(formula: Any) -> list[str]:
    code = formula.__code__
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _node_name(name: str) -> str:
    """`_log_softmax` -> `LogSoftmaxBackward0`, `max_pool2d` -> `MaxPool2DBackward0`."""
    return name.title().replace("_", "") + "Backward0"


# --- stubs: functions that compile themselves when first called -------------------------------------------------------


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


def _materialize_and_call(name: str, *args: Any, **kwargs: Any) -> Any:
    function = LATE[name]() if name in LATE else materialize(OPS[name])
    return function(*args, **kwargs)


def materialize(op: Op) -> types.FunctionType:
    """Compile an op's functions and put them in place."""
    op.check_row()
    ident = op.ident
    if op.kernel is not None:
        NAMESPACE[f"K_{ident}"] = op.kernel
    if op.ufunc is not None:
        NAMESPACE[f"U_{ident}"] = op.ufunc
    if op.base is not None and op.base.ufunc is not None:
        NAMESPACE[f"U_{op.base.ident}"] = op.base.ufunc
    if op.base is not None and op.base.kernel is not None:
        NAMESPACE[f"K_{op.base.ident}"] = op.base.kernel
    if op.fast is not None:
        NAMESPACE[f"Q_{ident}"] = op.fast[1]
    if op.calls is not None:
        NAMESPACE[f"V_{ident}"] = op.calls
    if op.replay is not None:
        NAMESPACE[f"REPLAY_{ident}"] = op.replay
    if op.schema.returns_list:
        NAMESPACE[f"MANY_{ident}"] = _list_wrapper(op)
    if op.schema.result_names and len(op.schema.returns) > 1:
        NAMESPACE[f"T_{ident}"] = result_type(op)._make
    NAMESPACE[f"S_{ident}"] = lambda *args: slow(op, args)
    NAMESPACE[f"E_{ident}"] = lambda *args: evaluate(op, args)
    if op.formulas:
        _materialize_backward(op)
    install(op, op.function, op.qualified)
    _materialized.append(op)
    return op.function


def _materialize_backward(op: Op) -> None:
    for names, formula in op.formulas.items():
        NAMESPACE[f"F_{op.ident}_{'_'.join(names.split())}"] = formula
    run = _codegen.compile_function(_codegen.backward_source(op), f"{op.node_name} of {op.qualified}")
    outputs = len(op.schema.returns)
    body = {"__slots__": (), "run": run, "outputs": outputs, "__module__": "mindtorch_v2.autograd", "op": op}
    NAMESPACE[f"C_{op.ident}"] = type(op.node_name, (Node,), body)
    op.make_node = _codegen.compile_function(_codegen.node_source(op), f"node of {op.qualified}")
    NAMESPACE[f"N_{op.ident}"] = op.make_node


def replace_code(function: types.FunctionType, generated: types.FunctionType) -> None:
    """Turn a stub into the function that was generated for it."""
    function.__defaults__, function.__kwdefaults__ = generated.__defaults__, generated.__kwdefaults__
    function.__code__ = generated.__code__


_materialized: list[Op] = []
# Every generated function with what it was generated from and the label it goes by; and the code of its forms, by flags.
_installed: dict[str, tuple[Op, types.FunctionType]] = {}
_codes: dict[tuple[str, int | None], types.FunctionType] = {}
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
        found = _codes[label, flags] = _codegen.compile_function(_forward.forward_source(op, flags), name)
    return found


def _prepare(flags: int) -> None:
    """Give all functions in use, and those they call, their recording form, so that no recording times its making.

    They keep it afterwards: while nothing records it costs what the first form does.
    """
    done = {op.name for op in _materialized}
    waiting, rows = list(_materialized), _by_name()
    while waiting:
        for name in _called_names(waiting.pop()) - done:
            done.add(name)
            for op in rows.get(name, ()):
                materialize(op)
                waiting.append(op)
    _record_with(flags & _tap.OP_FLAGS)


def _record_with(flags: int) -> None:
    if _flags[0] != flags:
        _flags[0] = flags
        for label, (op, function) in list(_installed.items()):
            replace_code(function, _generated(op, label))


def _called_names(op: Op) -> set[str]:
    """Names that an op's body and gradient formulas call, in functions of their own module too."""
    names: set[str] = set()
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
        names.update(f.name for f in held if isinstance(f, Op))
        bodies += [f for f in held if isinstance(f, types.FunctionType) and f.__globals__ is space]
    return names


def _by_name() -> dict[str, list[Op]]:
    found: dict[str, list[Op]] = {}
    for op in OPS.values():
        found.setdefault(op.name, []).append(op)
    return found


def _recorder_changed(flags: int) -> None:
    recorder = _tap.SLOT.recorder
    if recorder is not None:
        NAMESPACE["ENTER_OP"], NAMESPACE["LEAVE_OP"] = recorder.enter_op, recorder.leave_op
        _record_with(flags & _tap.OP_FLAGS)


_tap.SLOT.listeners.append(_recorder_changed)
_tap.SLOT.preparers.append(_prepare)


def source(op: Op, flags: int | None = None) -> str:
    """The generated text of an op, for reading."""
    return _forward.forward_source(op, flags)


# --- named results ----------------------------------------------------------------------------------------------------

RETURN_TYPES: dict[str, Any] = {}


def result_type(op: Op) -> Any:
    """The named tuple of an op with several named results, as `torch.return_types.max`."""
    name = op.name
    key = f"{name}:{','.join(op.schema.result_names)}"
    found = RETURN_TYPES.get(key)
    if found is None:
        base = namedtuple(name, op.schema.result_names)  # type: ignore[misc]

        def __repr__(self: Any) -> str:
            fields = ",\n".join(f"{f}={v!r}" for f, v in zip(self._fields, self, strict=True))
            return f"torch.return_types.{name}(\n{fields})"

        found = type(name, (base,), {"__repr__": __repr__, "__slots__": (), "__module__": "torch.return_types"})
        RETURN_TYPES[key] = found
        RETURN_TYPES.setdefault(name, found)
    return found


# --- the slow path ----------------------------------------------------------------------------------------------------


def slow(op: Op, args: tuple[Any, ...]) -> Any:
    """Everything the fast path does not handle: subclasses, modes, promotion, numbers, `out=`, graphs of in-place ops.

    `args` are the arguments in schema order, then the NumPy spellings, then `out` where the op has one.
    """
    args = _settle_aliases(op, args)
    if op.takes_tensors or NAMESPACE["MODES"]:
        given, out = _split_out(op, args)
        handled = overrides.dispatch(op.public, op.schema.arguments, given, out)
        if handled is not NotImplemented:
            return handled
    run = AUTOCAST.get(op.name, evaluate) if AUTOCAST else evaluate
    return run(op, args) if _tap.SLOT.recorder is None else _recorded_slow(op, args, run)


# While autocast is on anywhere: how the ops that it changes are run, by name.
AUTOCAST: dict[str, Callable[[Op, tuple[Any, ...]], Any]] = {}


def _settle_aliases(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Fold `axis=` into `dim` and `keepdims=` into `keepdim`, and complain about what is missing."""
    count = len(op.schema.arguments)
    has_out = 1 if op.has_out else 0
    values = list(args[:count])
    given = args[count + has_out :]
    for name, value in zip(op.aliased, given, strict=False):
        if value is not MISSING:
            values[[a.name for a in op.schema.arguments].index(name)] = value
    for argument, value in zip(op.schema.arguments, values, strict=True):
        if value is MISSING:
            raise TypeError(f'{op.name}() missing 1 required positional arguments: "{argument.python_name}"')
    return (*values, *args[count : count + has_out])


def _split_out(op: Op, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    count = len(op.schema.arguments)
    return args[:count], (args[count] if op.has_out and len(args) > count else None)


def _recorded_slow(op: Op, args: tuple[Any, ...], run: Callable[[Op, tuple[Any, ...]], Any]) -> Any:
    inputs = 0
    if _tap.SLOT.flags & _tap.SHAPES:
        inputs = _tap.intern_inputs(freeze(tuple(input_key(v) for v in args[: len(op.schema.arguments)])))
    seq = _tap.sequence_number(grad_mode.is_grad_enabled()) if op.takes_tensors else -1
    event = op.event
    if op.number_event != event and not isinstance(args[1], Tensor):
        event = op.number_event
    with _tap.region(event, seq, inputs):
        return run(op, args) if _tap.SLOT.watcher is None else _watched_slow(op, args, run, _tap.SLOT.watcher)


def _watched_slow(
    op: Op, args: tuple[Any, ...], run: Callable[[Op, tuple[Any, ...]], Any], watcher: _tap.Watcher
) -> Any:
    watcher.given(args[: len(op.schema.arguments)], f"aten::{op.text}")
    result = run(op, args)
    if op.schema.returns_list:
        watcher.made((list(result),))
    else:
        watcher.made(tuple(result) if len(op.schema.returns) > 1 else (result,))
    return result


def evaluate(op: Op, args: tuple[Any, ...]) -> Any:
    """Run an op on checked arguments, with its graph and `out=`."""
    given, out = _split_out(op, args)
    check_arguments(op, given)
    try:
        with quiet():
            return _evaluate_quietly(op, given, out)
    except MemoryError as error:
        raise no_memory(error) from None


def _evaluate_quietly(op: Op, given: tuple[Any, ...], out: Any) -> Any:
    if op.kind == "mutate":
        return _mutate(op, given)
    if op.kind == "composite":
        assert op.kernel is not None
        result = op.kernel(*given)
        return result if out is None else _composite_out(result, out)
    if out is not None:
        return _evaluate_out(op, given, out)
    results = _compute(op, given)
    if op.kind == "value":
        return results
    if op.schema.returns_list:
        return NAMESPACE[f"MANY_{op.ident}"](results, *given)
    if op.kind == "view":
        return _wrap_view(op, given, results)
    return _wrap(op, given, results)


def check_arguments(op: Op, given: tuple[Any, ...]) -> None:
    """TypeError, in torch's words, for what cannot be a tensor where one is needed."""
    for position, (argument, value) in enumerate(zip(op.schema.arguments, given, strict=True), 1):
        if argument.type == "Tensor" and not isinstance(value, Tensor):
            if op.takes_numbers and isinstance(value, (int, float, complex, bool, np.number, np.bool_)):
                continue
            raise TypeError(
                f"{op.name}(): argument '{argument.python_name}' (position {position}) must be Tensor, "
                f"not {type(value).__name__}"
            )
        if argument.is_tensor_list:
            if isinstance(value, Tensor) or not isinstance(value, Iterable):
                raise TypeError(
                    f"{op.name}(): argument '{argument.python_name}' (position {position}) must be tuple of "
                    f"Tensors, not {type(value).__name__}"
                )
            for i, element in enumerate(value):
                if not isinstance(element, Tensor) and not (element is None and argument.type == "Tensor?[]"):
                    raise TypeError(
                        f"expected Tensor as element {i} in argument {position - 1}, but got {type(element).__name__}"
                    )
    if op.takes_numbers and not any(isinstance(value, Tensor) for value in given):
        kinds = ", ".join(type(value).__name__ for value in given[:2])
        raise TypeError(
            f"{op.name}() received an invalid combination of arguments - got ({kinds}), but at least one of them must "
            "be a Tensor"
        )


_NUMBER_TYPES = frozenset(("Scalar", "Scalar?", "float", "float?"))


def plain_numbers(op: Op, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """NumPy numbers and one-element tensors, where a number is asked for, as Python numbers."""
    return tuple(
        (v._a.item() if isinstance(v, Tensor) else v.item())
        if a.type in _NUMBER_TYPES and isinstance(v, (Tensor, np.generic))
        else v
        for a, v in zip(op.schema.arguments, given, strict=True)
    )


def _compute(op: Op, given: tuple[Any, ...]) -> Any:
    """Arrays (or a plain value) from arguments."""
    if op.rule is None and op.kernel is not None and op.takes_tensors and op.kind != "value" and _on_meta(given):
        return _meta_results(op, given)
    if op.rule is not None and (op.calls is None or _tap.SLOT.recorder is None):
        return compute_elementwise(op, given)
    if (op.rule is None and op.kernel is None) or (op.calls is not None and _tap.SLOT.recorder is not None):
        token = grad_mode.set_enabled(False)
        try:
            assert op.calls is not None
            got = op.calls(*given)
        finally:
            grad_mode.reset_enabled(token)
        return got._a if isinstance(got, Tensor) else [t._a for t in got]
    assert op.kernel is not None
    return op.kernel(*[unwrap(v) for v in given])


def _on_meta(values: Iterable[Any]) -> bool:
    return any(
        type(v._a) is MetaArray if isinstance(v, Tensor) else isinstance(v, (list, tuple)) and _on_meta(v)
        for v in values
    )


def _meta_results(op: Op, given: tuple[Any, ...]) -> Any:
    """Shapes and dtypes of an op's results, as arrays without memory."""
    assert op.kernel is not None
    arrays = [unwrap(v) for v in given]
    by_argument = dict(zip(op.arguments, given, strict=True))
    if op.kind == "view" or by_argument.get("device") is not None:  # the kernel knows where its result is to live
        return op.kernel(*arrays)
    rule = SHAPES.get(op.qualified) or SHAPES.get(op.name)
    if rule is None:
        raise NotImplementedError(f"{op.name}() has no rule for shapes, so it cannot run on the meta device")
    return rule(op.kernel, *arrays)


def unwrap(value: Any) -> Any:
    """An argument as kernels take it."""
    if isinstance(value, Tensor):
        return value._a
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        return [unwrap(v) for v in value]
    return value


def operand_rank(value: Any) -> tuple[int, dtype]:
    """How an operand takes part in promotion."""
    if isinstance(value, Tensor):
        return (2 if value._a.ndim else 1), FROM_NUMPY[value._a.dtype]
    return 0, number_type(value)


def compute_elementwise(op: Op, given: tuple[Any, ...]) -> Any:
    """Promote the operands, compute, and give the result its dtype."""
    if op.check is not None:
        op.check(*given)
    pairs = list(zip(op.schema.arguments, given, strict=True))
    operands = [v for a, v in pairs if v is not None and (a.is_tensor or a.name in op.promotes)]
    common = combine(operand_rank(v) for v in operands)
    if _forward.ALL_KINDS[common.category] not in op.takes:
        raise not_implemented(op.label, common.np)
    result = get_default_dtype() if op.rule == "float" and common.category < 2 else common
    compute = float32 if op.widen and result in (float16, bfloat16) else result
    values = [_operand(v, compute) if a.is_tensor or a.name in op.promotes else v for a, v in pairs]
    r = _call_elementwise(op, values, common)
    return r.astype(result.np) if compute is not result and r.dtype == compute.np else r


def _call_elementwise(op: Op, values: list[Any], common: dtype) -> Any:
    kernel = op.kernel if op.kernel is not None else op.ufunc
    assert kernel is not None
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    try:
        if not isinstance(kernel, np.ufunc) and any(type(v) is MetaArray for v in arrays):
            return _meta_result(kernel, values)
        return as_array(kernel(*values))
    except TypeError as error:
        if isinstance(kernel, np.ufunc):
            raise not_implemented(op.label, common.np) from None
        raise error
    except ValueError:
        shapes = [v.shape for v in arrays if v.ndim] or [()]
        first = next((s for s in shapes[1:] if s != shapes[0]), shapes[0])
        if first == shapes[0]:
            raise
        raise broadcast_error(shapes[0], first) from None


def _meta_result(kernel: Callable[..., Any], values: list[Any]) -> Any:
    """The shape of the operands together, and the dtype the kernel gives on one element."""
    shape = np.broadcast_shapes(*(v.shape for v in values if isinstance(v, np.ndarray)))
    sample = kernel(*(np.ones((), v.dtype) if isinstance(v, np.ndarray) else v for v in values))
    return meta(shape, as_array(sample).dtype)


def _operand(value: Any, d: dtype) -> Any:
    if value is None:
        return None
    if isinstance(value, Tensor):
        a = value._a
        return a if a.dtype is d.np or a.dtype == d.np else a.astype(d.np)
    if d.category == 1 and not isinstance(value, (bool, np.bool_)):
        return np.asarray(int(value)).astype(d.np)  # wraps around as torch does
    return np.asarray(value).astype(d.np)


def _wrap(op: Op, given: tuple[Any, ...], results: Any) -> Any:
    """Fresh tensors from arrays, with their node."""
    arrays = [results] if len(op.schema.returns) == 1 else list(results)
    tensors = [make(as_array(a)) for a in arrays]
    attach_node(op, given, tensors)
    if len(tensors) == 1:
        return tensors[0]
    return result_type(op)(*tensors) if op.schema.result_names else tuple(tensors)


def attach_node(op: Op, given: tuple[Any, ...], tensors: list[Tensor]) -> None:
    """Join results to the graph if an input asks for it."""
    if op.differentiable and grad_mode.is_grad_enabled() and _any_edge(op, given):
        node = op.make_node(*given, *tensors)
        attach_outputs(node, tensors, op.nondiff)


def _any_edge(op: Op, given: tuple[Any, ...]) -> bool:
    for argument, value in zip(op.schema.arguments, given, strict=True):
        if argument.name in op.differentiable and value is not None:
            for v in value if argument.is_tensor_list else (value,):
                if graph.edge(v) is not None:
                    return True
    return False


def attach_outputs(node: Node, tensors: Iterable[Tensor], nondiff: tuple[int, ...] = ()) -> None:
    """Make tensors the outputs of a node; integer and bool ones take no part."""
    for nr, t in enumerate(tensors):
        if nr in nondiff or (t._a.dtype.kind in "iub"):
            continue
        t._ag = node if nr == 0 else Output(node, nr)


def _wrap_view(op: Op, given: tuple[Any, ...], array: Any) -> Tensor:
    first = given[0]
    t = alias(array, storage_of(first))
    if grad_mode.is_grad_enabled():
        graph.make_view(t, first, None if op.replay is None else op.replay(first._view, *given))
        if op.differentiable and _any_edge(op, given):
            t._ag = op.make_node(*given, t)
    elif first._ag is not None:
        graph.unwatched(t, first)
    return t


def _list_wrapper(op: Op) -> Callable[..., Any]:
    """Wraps a list of arrays: views of the first argument for view ops, fresh ones otherwise."""
    views = op.kind == "view"
    of_first = op.differentiable == [op.schema.arguments[0].name]

    def wrap_list(arrays: Any, *given: Any) -> Any:
        if not arrays:
            return ()
        tensors = graph.views_of(given[0], arrays) if views else [make(as_array(a)) for a in arrays]
        if of_first and graph.edge(given[0]) is None:
            return tuple(tensors)
        given = given[: len(op.schema.arguments)]
        if op.differentiable and grad_mode.is_grad_enabled() and _any_edge(op, given):
            node = _list_node(op, given, tensors)
            attach_outputs(node, tensors)
        return tuple(tensors)

    return wrap_list


def _list_node(op: Op, given: tuple[Any, ...], tensors: list[Tensor]) -> Node:
    """The node of an op with a list of results; its class knows how many there are."""
    node: Node = op.make_node(*given, tensors[0])
    cls = _sized_class(type(node), len(tensors))
    sized = new(cls)
    for slot in ("edges", "saved", "seq", "hooks"):
        setattr(sized, slot, getattr(node, slot))
    if len(tensors) == 1:
        sized.shape, sized.dtype = tensors[0]._a.shape, tensors[0]._a.dtype
    else:
        sized.shape = tuple(t._a.shape for t in tensors)
        sized.dtype = tuple(t._a.dtype for t in tensors)
    return sized


_sized: dict[tuple[type, int], type] = {}


def _sized_class(cls: type, count: int) -> type:
    found = _sized.get((cls, count))
    if found is None:
        found = _sized[cls, count] = type(cls.__name__, (cls,), {"__slots__": (), "outputs": count})
    return found


# --- out= -------------------------------------------------------------------------------------------------------------


def _evaluate_out(op: Op, given: tuple[Any, ...], out: Any) -> Any:
    outs = [out] if isinstance(out, Tensor) else list(out)
    for o in outs:
        if not isinstance(o, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(o).__name__}")
    if grad_mode.is_grad_enabled() and (_any_edge(op, given) or any(o._ag is not None for o in outs)):
        raise RuntimeError(
            f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of "
            "the arguments requires grad."
        )
    results = _compute(op, given)
    arrays = [as_array(a) for a in ([results] if len(op.schema.returns) == 1 else results)]
    if op.strict_out:
        _require_own_memory(given, outs, arrays if op.strict_out == "exact" else ())
    for o, a in zip(outs, arrays, strict=True):
        write_out(o, a)
    if len(outs) == 1:
        return outs[0]
    return result_type(op)(*outs) if op.schema.result_names else tuple(outs)


def _require_own_memory(given: tuple[Any, ...], outs: list[Tensor], arrays: Iterable[Any]) -> None:
    """Refuse `out=` tensors that lie in the memory of an input, or are not of the dtypes of the results."""
    for o, a in zip(outs, arrays, strict=False):
        if o._a.dtype != a.dtype:
            names = (FROM_NUMPY[x.dtype].cpp_name for x in (a, o._a))
            raise RuntimeError("Expected out tensor to have dtype {}, but got {} instead".format(*names))
    inputs = [v for value in given for v in (value if isinstance(value, (list, tuple)) else (value,))]
    for o in outs:
        for v in inputs:
            if isinstance(v, Tensor) and _overlap(v._a, o._a):
                raise RuntimeError(
                    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
                    "single memory location. Please clone() the tensor before performing the operation."
                )


def _overlap(a: Any, b: Any) -> bool:
    """Whether two arrays without gaps lie in common memory; for others torch does not ask."""
    dense = a.flags.c_contiguous and b.flags.c_contiguous and a.size and b.size
    return bool(dense) and np.may_share_memory(a, b)


def _composite_out(result: Any, out: Any) -> Any:
    results, outs = ([r] if isinstance(r, Tensor) else list(r) for r in (result, out))
    for o, r in zip(outs, results, strict=True):
        write_out(o, r._a)
    return out


def write_out(out: Tensor, array: Any) -> None:
    """Store a result into `out`, resizing it as torch does."""
    to, from_ = out.dtype, FROM_NUMPY[array.dtype]
    if not can_cast(from_, to):
        raise RuntimeError(f"result type {type_name(from_)} can't be cast to the desired output type {type_name(to)}")
    if type(out._a) is not MetaArray:
        refuse_overlap(out._a)
    if out._a.shape != array.shape:
        graph.resize(out, array.shape)
    if type(out._a) is not MetaArray:
        np.copyto(out._a, array, casting="unsafe")
    bump(out)


_TYPE_NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "uint8": "Byte", "int8": "Char",
    "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip


def type_name(d: dtype) -> str:
    """`Float`, `Long`, … as torch's messages say."""
    return _TYPE_NAMES.get(d.name, d.name)


# --- in place ---------------------------------------------------------------------------------------------------------


def _mutate(op: Op, given: tuple[Any, ...]) -> Tensor:
    """Run an in-place op, with its part in the graph."""
    self: Tensor = given[0]
    building = grad_mode.is_grad_enabled() and (_any_edge(op, given) or graph.is_watched(self))
    if not building:
        _run_in_place(op, given)
        bump(self)
        return self
    graph.check_in_place(self)
    original = self
    if _saves_self(op, given):
        token = grad_mode.set_enabled(False)
        try:
            original = door.clone(self)
        finally:
            grad_mode.reset_enabled(token)
        original._ag = graph.edge(self)
    before = graph.edge(self)
    _run_in_place(op, given)
    bump(self)
    stand_in = original
    if original is self:
        stand_in = graph.shared(self._a, storage_of(self))
        stand_in._ag = before
    result = graph.shared(self._a, storage_of(self))
    others = [_stale(v) if isinstance(v, Tensor) and v._v is self._v else v for v in given[1:]]
    node = op.make_node(stand_in, *others, result) if op.differentiable else None
    for v, stale in zip(given[1:], others, strict=True):
        if stale is not v:
            bump(stale)
    graph.rebase(self, node)
    return self


def _stale(t: Tensor) -> Tensor:
    """A stand-in for an operand that lies in the memory an in-place op has just changed: saving it counts, using it
    in backward is an error."""
    stand_in = graph.shared(t._a, Storage())
    stand_in._ag = graph.edge(t)
    return stand_in


def _saves_self(op: Op, given: tuple[Any, ...]) -> bool:
    """Whether backward needs the tensor as it was before an in-place op changes it."""
    first = op.schema.arguments[0].name
    by_name = {a.name: v for a, v in zip(op.schema.arguments, given, strict=True)}
    return any(
        first in parameters and any(graph.edge(by_name[name]) is not None for name in names.split())
        for names, parameters in op.formula_parameters.items()
    )


def _run_in_place(op: Op, given: tuple[Any, ...]) -> None:
    self = given[0]
    if op.calls is not None and _tap.SLOT.recorder is not None:
        token = grad_mode.set_enabled(False)
        try:
            op.calls(*given)
        finally:
            grad_mode.reset_enabled(token)
        return
    if op.base is None:
        assert op.kernel is not None
        if type(self._a) is not MetaArray:
            op.kernel(*[unwrap(v) for v in given])
        return
    if type(self._a) is not MetaArray:
        refuse_overlap(self._a)
    results = _compute(op.base, given)
    r = as_array(results)
    to, from_ = self.dtype, FROM_NUMPY[r.dtype]
    if not can_cast(from_, to):
        raise RuntimeError(f"result type {type_name(from_)} can't be cast to the desired output type {type_name(to)}")
    if r.shape != self._a.shape:
        raise RuntimeError(
            f"output with shape {shape_text(self._a.shape)} doesn't match the broadcast shape {shape_text(r.shape)}"
        )
    if type(self._a) is not MetaArray:
        np.copyto(self._a, r, casting="unsafe")


def in_place(
    op: Op,
    *,
    node: str | None = None,
    calls: Callable[..., Any] | None = None,
    overload: str | None = None,
    **formulas: Any,
) -> Op:
    """The row of `op_`, derived from the row of `op`; formulas and the overload's name are given where they differ."""
    overload = op.overload if overload is None else overload
    name = op.name + "_" + (f".{overload}" if overload else "")
    schema = f"{name}({op.text.partition('(')[2].rpartition('->')[0]}-> Tensor"
    return Op(
        schema,
        None,
        kind="mutate",
        rule=op.rule,
        ufunc=op.ufunc,
        calls=calls,
        formulas=_formulas(formulas) or op.formulas,
        node=node or op.node_name,
        fast_when=op.fast_when,
        number_fast=op.number_fast,
        quiet=op.quiet,
        takes=op.takes,
        scalar=op.scalar,
        method=op.method,
        base=op,
        out=False,
    )


# --- inputs as the profiler shows them --------------------------------------------------------------------------------


def input_key(value: Any) -> Any:
    """What stands for one argument in an inputs key."""
    if isinstance(value, Tensor):
        return _tap.layout_id(value._a)
    if isinstance(value, (list, tuple)):
        return ["list", *[input_key(v) for v in value]]
    return ["value", type(value), value]


def freeze(key: Any) -> Any:
    """A key made hashable."""
    if isinstance(key, (list, tuple)):
        return tuple(freeze(k) for k in key)
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


def _input_argument(value: Any) -> Any:
    return freeze(input_key(value))


def describe_inputs(arguments: tuple[Argument, ...], key: Any) -> _tap.InputRecord:
    """Shapes, strides, types and values of the arguments an inputs key stands for."""
    shapes: list[Any] = []
    strides: list[Any] = []
    types_: list[str] = []
    concrete: list[Any] = []
    for argument, part in zip(arguments, key, strict=False):
        shape, stride, kind, value = _describe(argument, part)
        shapes.append(shape)
        strides.append(stride)
        types_.append(kind)
        concrete.append(value)
    return _tap.InputRecord(shapes, strides, types_, concrete)


def _describe(argument: Argument, part: Any) -> tuple[Any, Any, str, Any]:
    if argument.is_tensor and type(part) is int:
        return _describe_tensor(part)
    if isinstance(part, tuple) and part and part[0] == "list":
        entries = part[1:]
        if argument.is_tensor_list:
            rows = [_describe_tensor(p) for p in entries if type(p) is int]
            return [r[0] for r in rows], [r[1] for r in rows], "TensorList", None
        values = [p[2] for p in entries]
        return [], [], "ScalarList", values
    value = part[2] if isinstance(part, tuple) and part and part[0] == "value" else part
    if argument.is_tensor and isinstance(value, (int, float, complex)):
        return [], [], FROM_NUMBER[type(value)], None
    if isinstance(value, dtype):
        return [], [], "Scalar", SCALAR_TYPE_NUMBERS.get(value.name)
    if isinstance(value, (bool, int, float, complex)):
        return [], [], "Scalar", value
    return [], [], "", None


FROM_NUMBER: dict[type, str] = {bool: "bool", int: "long int", float: "double", complex: "c10::complex<double>"}


def _describe_tensor(part: int) -> tuple[Any, Any, str, Any]:
    shape, strides, np_dtype = _tap.LAYOUTS[part]
    size = np_dtype.itemsize
    known = FROM_NUMPY.get(np_dtype)
    return list(shape), [s // size for s in strides], known.cpp_name if known else str(np_dtype), None


# --- rows -------------------------------------------------------------------------------------------------------------


def _formulas(given: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("__", " "): f for name, f in given.items()}


def op(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Row of an op whose decorated kernel takes and gives fresh arrays. Other keywords are gradient formulas, named by
    the input they are for (`a__b` for a formula that gives the gradients of `a` and `b` together)."""
    return lambda kernel: Op(schema, kernel, **_options(options))


def view(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Row of an op whose kernel gives a view (or views) of its first argument."""
    return lambda kernel: Op(schema, kernel, kind="view", **_options(options))


def composite(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Row of an op made of other ops: an event of its own, no gradient of its own; the body works on tensors."""
    return lambda body: Op(schema, body, kind="composite", **_options(options))


def explicit(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Row of an op made of other ops but with gradient formulas of its own; the body works on tensors, without graph."""
    return lambda body: Op(schema, None, calls=body, **_options(options))


def mutating(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Row of an op whose kernel changes its first argument in place and which has no functional form of its own."""
    return lambda kernel: Op(schema, kernel, kind="mutate", **_options(options))


def value(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """Row of an op whose kernel gives a plain Python value."""
    return lambda kernel: Op(schema, kernel, kind="value", **_options(options))


def unary(name: str, ufunc: Callable[..., Any], rule: str = "float", **options: Any) -> Op:
    """Row of an elementwise op on one tensor."""
    schema = name if "(" in name else f"{name}(Tensor self) -> Tensor"
    return Op(schema, options.pop("kernel", None), rule=rule, ufunc=ufunc, **_options(options))


def binary(name: str, ufunc: Callable[..., Any], rule: str = "same", **options: Any) -> Op:
    """Row of an elementwise op on two tensors, either of which may be a number."""
    schema = name if "(" in name else f"{name}(Tensor self, Tensor other) -> Tensor"
    return Op(schema, options.pop("kernel", None), rule=rule, ufunc=ufunc, **_options(options))


_OPTION_NAMES = set(inspect.signature(Op.__init__).parameters) - {
    "self",
    "schema",
    "kernel",
    "kind",
    "base",
    "formulas",
}


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Split keywords into options of `Op` and gradient formulas."""
    options = {k: v for k, v in given.items() if k in _OPTION_NAMES}
    if "inputs" in given:  # the formula for an argument whose name is an option's
        raise TypeError("a row takes gradient formulas by argument name")
    options["formulas"] = _formulas({k: v for k, v in given.items() if k not in _OPTION_NAMES})
    return options


# --- what generated code calls by name --------------------------------------------------------------------------------


_COMMON: dict[Any, Any] = {}


def _mixed(a: Any, b: Any) -> tuple[Any, Any]:
    """Two arrays in the dtype they are computed in, or (None, None) where that takes more than a cast."""
    key = a.dtype, b.dtype, a.ndim == 0, b.ndim == 0
    common = _COMMON.get(key)
    if common is None:
        found = combine((1 if x.ndim == 0 else 2, FROM_NUMPY[x.dtype]) for x in (a, b))
        common = _COMMON[key] = found.np if found not in (float16, bfloat16) else False
    if common is False:
        return None, None
    return a if a.dtype is common else a.astype(common), b if b.dtype is common else b.astype(common)


def _mixed_numbers(a: Any, b: Any) -> tuple[Any, Any]:
    """As `_mixed`, for ops that refuse some bools."""
    return (None, None) if a.dtype.kind == "b" or b.dtype.kind == "b" else _mixed(a, b)


def _int64(number: int) -> Any:
    if not -(2**63) <= number < 2**63:
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    return np.asarray(number, np.int64)


_FAST_OR_NONE = FAST | {type(None)}


def _all_plain(tensors: Any) -> bool:
    return isinstance(tensors, (list, tuple)) and FAST.issuperset(map(type, tensors))


def _plain_or_none(tensors: Any) -> bool:
    return isinstance(tensors, (list, tuple)) and _FAST_OR_NONE.issuperset(map(type, tensors))


def _fix(r: Any) -> Any:
    """A kernel's result as an array; meta arrays pass."""
    return r if isinstance(r, np.ndarray) else np.asarray(r)


def _broadcast(*arrays: Any) -> Exception:
    shapes = [a.shape for a in arrays]
    return broadcast_error(shapes[0], next((s for s in shapes[1:] if s != shapes[0]), shapes[-1]))


def _fits(a: Any, into: Any) -> bool:
    """Whether `a` broadcasts to the shape of `into`."""
    if a.ndim > into.ndim:
        return False
    return all(m == n or m == 1 for m, n in zip(reversed(a.shape), reversed(into.shape), strict=False))


def _layout(t: Tensor) -> int:
    """The layout of a tensor, looked up once."""
    found = t._k = _tap.layout_id(t._a)
    return found


def _new_lane() -> Any:
    return _tap.current_lane()


def _version(value: Any) -> int:
    return value._v.version if isinstance(value, Tensor) and value._v is not None else 0


def _sizes(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [v._a.shape for v in value]
    return value._a.shape if isinstance(value, Tensor) else ()


def _intern_tensors(tensors: Iterable[Any]) -> int:
    """Inputs id of a plain sequence of tensors (autograd nodes, custom functions)."""
    return _tap.intern_inputs(_PlainInputs(freeze(tuple(input_key(t) for t in tensors))))


class _PlainInputs(tuple[Any, ...]):
    """An inputs key that belongs to no schema."""

    __slots__ = ()


def describe_plain(key: Any) -> _tap.InputRecord:
    """Describe an inputs key made by `_intern_tensors`."""
    anything = Argument("input", "Tensor", False, None, False)
    return describe_inputs((anything,) * len(key), key)


_tap.describe_plain = describe_plain

NAMESPACE.update(
    MATERIALIZE=_materialize_and_call,
    MODES=False,
    SAVING=None,
    NEW=new,
    Tensor=Tensor,
    Parameter=Parameter,
    STORAGE=Storage,
    COUNTED=CountedStorage,
    View=View,
    ndarray=np.ndarray,
    F32=np.dtype(np.float32),
    F64=np.dtype(np.float64),
    I64=np.dtype(np.int64),
    BOOL=np.dtype(np.bool_),
    F32_NUMBERS=Numbers(np.float32),
    F64_NUMBERS=Numbers(np.float64),
    INT64=_int64,
    ALL_PLAIN=_all_plain,
    PLAIN_OR_NONE=_plain_or_none,
    FIX=_fix,
    MAKE=make,
    BROADCAST=_broadcast,
    MIXED=_mixed,
    MIXED_NUMBERS=_mixed_numbers,
    FITS=_fits,
    LIVE=graph.live,
    COMPOSED=graph.composed,
    UNWATCHED=graph.unwatched,
    UNTRACKED=graph.untracked,
    BEFORE=graph.before_change,
    CLONED=graph.cloned_before_change,
    LEAF=AccumulateGrad,
    GEOMETRY=graph.Geometry,
    EDGE=graph.edge,
    ATTACH=attach_outputs,
    UNPACK=unpack,
    UNPACK_RESULT=unpack_result,
    FREED=FREED,
    NO_MEMORY=no_memory,
    LANES=_tap.LANES,
    LANE=_new_lane,
    INPUT_IDS=_tap.INPUT_IDS,
    INTERN=_tap.intern_inputs,
    INPUT=_input_argument,
    FREEZE=freeze,
    LAYOUT=_layout,
    VERSION=_version,
    SIZES=_sizes,
    STACK=None,
)

if _tap.HELPER is not None:
    _tap.HELPER.connect(
        make_lane=_new_lane, input_ids=_tap.INPUT_IDS, intern=_tap.intern_inputs, freeze=freeze, layout=_layout,
        tensor=Tensor, parameter=Parameter, ndarray=np.ndarray, node=Node,
    )  # fmt: skip
    NAMESPACE.update(
        BEGIN=_tap.HELPER.begin, BEGIN_WITH=_tap.HELPER.begin_with, END=_tap.HELPER.end, COUNT=_tap.HELPER.count,
        NODE=_tap.HELPER.node, WRAP=_tap.HELPER.wrap, HUSH=_tap.HELPER.hush, SPEAK=_tap.HELPER.speak,
    )  # fmt: skip
