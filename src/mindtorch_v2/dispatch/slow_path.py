"""The slow path: all that an op's generated function does not handle itself, events of a recorder included."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy import may_share_memory, ndarray

from ..autograd import grad_mode, overrides
from ..core import tap
from ..core.dtype import dtype, get_default_dtype
from ..core.errors import no_memory
from ..core.tensor import FAST, LAZY, Tensor, as_array, in_memory, make, make_lazy
from ..kernels.floating import quiet
from ..kernels.precision import cast
from .codegen import MISSING, requires_dtype
from .compute import check_arguments, compute, laying_out, prepared, promoted, result_type, wrap, wrap_view
from .inplace import composite_out, evaluate_out, mutate, write_result
from .inputs import inputs_id

if TYPE_CHECKING:
    from .op import Op

NAMESPACE = tap.NAMESPACE


def slow(op: Op, args: tuple[Any, ...]) -> Any:
    """Everything the fast path does not handle: subclasses, modes, promotion, numbers, `out=`, graphs of in-place ops.

    `args` are the arguments in schema order, then the NumPy spellings, then `out` where the op has one.
    """
    if not NAMESPACE["HOOK"] and (op.rule is not None or op.has_out):
        count = len(op.schema.arguments)
        if op.has_out and len(args) > count and args[count] is not None:
            made = _into_out(op, args, count)
        else:
            made = _elementwise(op, args) if op.rule is not None else None
        if made is not None:
            return made
    if NAMESPACE["AUTOCASTING"]:
        rule = AUTOCAST.get(op.autocast)
        if rule is None:
            return op.unseen(*args)
        count = len(op.schema.arguments)
        if all(value is MISSING for value in args[count + op.has_out :]) and _all_simple(args[:count]):
            return rule(op, args[: count + op.has_out], _unseen)
    return the_long_way(op, args)


def _all_simple(values: Any) -> bool:
    """Whether all are plain tensors and simple values, or lists of those."""
    for value in values:
        kind = type(value)
        if kind not in FAST and kind not in _SIMPLE and not ((kind is list or kind is tuple) and _all_simple(value)):
            return False
    return True


def _unseen(op: Op, args: tuple[Any, ...]) -> Any:
    return op.unseen(*args)


def the_long_way(op: Op, args: tuple[Any, ...]) -> Any:
    """An op offered to modes and subclasses, under the rules of autocast, recorded."""
    args = _settle_aliases(op, args)
    if op.takes_tensors or NAMESPACE["MODES"]:
        given, out = split_out(op, args)
        handled = overrides.dispatch(op.offered, op.schema.arguments, given, out)
        if handled is not NotImplemented:
            return handled
    rule = AUTOCAST.get(op.autocast) if AUTOCAST and NAMESPACE["CASTING"]() else None
    run = evaluate if rule is None else functools.partial(rule, finish=evaluate)
    return run(op, args) if tap.SLOT.recorder is None else _recorded_slow(op, args, run)


# --- elementwise ops on operands of kinds seen before -----------------------------------------------------------------


class _Plan(NamedTuple):
    """What promotion comes to for operands of certain types."""

    kernel: Callable[..., Any]
    operands: tuple[bool, ...]  # which arguments are brought to the common type
    types: tuple[dtype, dtype, dtype]  # the common one, the one to compute in, that of the result


_plans: dict[tuple[Any, ...], _Plan | None] = {}
_PLAIN = frozenset((int, float, bool))
_WHOLE = frozenset((str, bool, type(None)))  # told apart by their values


def _elementwise(op: Op, args: tuple[Any, ...]) -> Any:
    """The result where nothing but promotion is needed: plain tensors, Python numbers, no graph. None for the rest, errors
    included: those are the long way's."""
    key: list[Any] = [op, get_default_dtype()]
    graphs = grad_mode.is_grad_enabled()
    for value in args:
        kind = type(value)
        if kind in FAST:
            array = value._a
            if type(array) is not ndarray or (graphs and (value._ag is not None or _may_be_watched(value))):
                return None
            key.append((array.dtype, array.ndim > 0))
        elif kind in _PLAIN or value is MISSING:
            key.append(kind)
        elif kind not in _WHOLE:
            return None
        if kind in _WHOLE:
            key.append(value)
    found = tuple(key)
    if found not in _plans:
        _plans[found] = _make_plan(op, args)
    plan = _plans[found]
    return None if plan is None else _carry_out(op, plan, args[: len(plan.operands)])


def _may_be_watched(t: Tensor) -> bool:
    """Whether a tensor is a view of one that has a place in a graph."""
    view = t._view
    return view is not None and view.base._ag is not None


def _is_by_types(check: Any) -> bool:
    """Whether a check says the same for all operands of the same types, so that once is enough."""
    return getattr(check, "by_types", False)


def _make_plan(op: Op, args: tuple[Any, ...]) -> _Plan | None:
    arguments = op.schema.arguments
    count = len(arguments)
    given = args[:count]
    if op.kind != "kernel" or AUTOCAST or len(op.schema.returns) != 1 or op.schema.returns_list:
        return None
    if any(v is MISSING for v in given) or any(v is not None and v is not MISSING for v in args[count:]):
        return None
    operands = tuple(a.is_tensor or a.name in op.promotes for a in arguments)
    if any(isinstance(v, Tensor) and not yes for v, yes in zip(given, operands, strict=True)):
        return None
    try:
        check_arguments(op, given)
        if _is_by_types(op.check):
            op.check(*given)  # type: ignore[misc]
        types = promoted(op, [v for v, yes in zip(given, operands, strict=True) if yes])
    except (TypeError, ValueError, RuntimeError):
        return None
    return None if op.kernel is None and op.ufunc is None else _Plan(laying_out(op), operands, types)


def _carry_out(op: Op, plan: _Plan, given: tuple[Any, ...]) -> Any:
    try:
        if op.check is not None and not _is_by_types(op.check):
            op.check(*given)
        with quiet():
            values = [prepared(op, v, plan.types) if yes else v for v, yes in zip(given, plan.operands)]
            made = as_array(plan.kernel(*values))
            _, wide, result = plan.types
            if wide is not result and made.dtype == wide.np:
                made = cast(made, result.np)
    except (TypeError, ValueError, RuntimeError, MemoryError):
        return None
    return make(made)


# --- results for tensors that are there -------------------------------------------------------------------------------


# What arguments may be beside tensors, and lists of both, without anybody else having a say.
_SIMPLE = frozenset((int, float, bool, complex, str, type(None), dtype))


def _into_out(op: Op, args: tuple[Any, ...], count: int) -> Any:
    """`out=` filled with what the op gives for plain tensors without a graph; None for all else. The op's own function is
    called, so its fast paths serve here too."""
    out = args[count]
    outs = out if type(out) is tuple or type(out) is list else (out,)
    if AUTOCAST or op.out_dtype == "compute" or any(spelling is not MISSING for spelling in args[count + 1 :]):
        return None
    for o in outs:
        if type(o) is not Tensor or o._ag is not None or o._view is not None or 0 in o._a.strides:
            return None
        if not stand_apart(args[:count], o):
            return None
    first = sum(not a.kwarg_only for a in op.schema.arguments)
    named = {a.python_name: value for a, value in zip(op.schema.arguments[first:], args[first:count])}
    made = op.function(*args[:first], **named)
    if type(made) is Tensor and outs[0] is out:
        return write_result(out, made, requires_dtype(op))
    if not isinstance(made, tuple) or len(made) != len(outs):
        return None
    strict = requires_dtype(op)
    written = [write_result(o, m, strict) for o, m in zip(outs, made)]
    return result_type(op)(*written) if op.schema.result_names else tuple(written)


def stand_apart(values: Any, out: Tensor) -> bool:
    """Whether all are simple, or plain tensors without a graph and without memory that `out` has, too."""
    for value in values:
        kind = type(value)
        if kind in FAST:
            a, b = value._a, out._a
            if value._ag is not None or _may_be_watched(value) or a is b:
                return False
            if (a.base is not None or b.base is not None) and may_share_memory(a, b):
                return False
        elif kind is list or kind is tuple:
            if not stand_apart(value, out):
                return False
        elif kind not in _SIMPLE:
            return False
    return True


NAMESPACE.update(APART=stand_apart, INTO=write_result)


# --- the long way -----------------------------------------------------------------------------------------------------


# While autocast is on anywhere: how the ops that it changes are run, by the `autocast` of their rows. A rule gets an op,
# its arguments, and what is to be called with both where there is nothing to change.
AUTOCAST: dict[str | None, Callable[..., Any]] = {}


# Types of arguments that a tensor of one element can stand for, as in add_(x, alpha=-rate).
_NUMBERS = frozenset(("Scalar", "Scalar?", "float", "float?", "int", "int?"))


def _settle_aliases(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Fold `axis=` into `dim` and `keepdims=` into `keepdim`, make numbers of tensors where numbers are asked for, and
    complain about what is missing."""
    count = len(op.schema.arguments)
    has_out = 1 if op.has_out else 0
    values = list(args[:count])
    given = args[count + has_out :]
    for name, value in zip(op.aliased, given, strict=False):
        if value is not MISSING:
            values[[a.name for a in op.schema.arguments].index(name)] = value
    for position, (argument, value) in enumerate(zip(op.schema.arguments, values, strict=True)):
        if value is MISSING:
            raise TypeError(f'{op.name}() missing 1 required positional arguments: "{argument.python_name}"')
        if argument.type in _NUMBERS and isinstance(value, Tensor) and value.dim() == 0:
            if value.requires_grad:  # its gradient would be lost
                raise TypeError(f"{op.name}(): argument '{argument.python_name}' must be Number, not Tensor")
            values[position] = value.item()
    return (*values, *args[count : count + has_out])


def split_out(op: Op, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    count = len(op.schema.arguments)
    return args[:count], (args[count] if op.has_out and len(args) > count else None)


def _recorded_slow(op: Op, args: tuple[Any, ...], run: Callable[[Op, tuple[Any, ...]], Any]) -> Any:
    inputs = 0
    given, out = split_out(op, args)
    if tap.SLOT.flags & tap.SHAPES:
        written = () if out is None else tuple(out) if isinstance(out, (list, tuple)) else (out,)
        inputs = inputs_id((*given, *written), True)
    seq = tap.sequence_number(grad_mode.is_grad_enabled()) if op.numbered else -1
    event = op.event if out is None else op.out_event
    if op.number_event != event and out is None and not isinstance(args[1], Tensor):
        event = op.number_event
    with tap.region(event, seq, inputs):
        return run(op, args) if tap.SLOT.watcher is None else _watched_slow(op, args, run, tap.SLOT.watcher)


def _watched_slow(
    op: Op, args: tuple[Any, ...], run: Callable[[Op, tuple[Any, ...]], Any], watcher: tap.Watcher
) -> Any:
    watcher.given(args[: len(op.schema.arguments)], f"aten::{op.text}")
    result = run(op, args)
    if result is not None:
        several = isinstance(result, (list, tuple)) and not op.schema.returns_list
        watcher.made(tuple(result) if several else (result,))
    return result


def evaluate(op: Op, args: tuple[Any, ...]) -> Any:
    """Run an op on checked arguments, with its graph and `out=`."""
    given, out = split_out(op, args)
    check_arguments(op, given)
    try:
        with quiet():
            return _evaluate_quietly(op, given, out)
    except MemoryError as error:
        raise no_memory(error) from None


def _evaluate_quietly(op: Op, given: tuple[Any, ...], out: Any) -> Any:
    if op.kind == "mutate":
        return mutate(op, given)
    if op.kind == "composite":
        assert op.kernel is not None
        result = op.kernel(*given)
        return result if out is None else composite_out(op, given, result, out)
    if out is not None:
        return evaluate_out(op, given, out)
    if op.kind == "view" and type(given[0]) in LAZY:
        return _lazy_view(op, given)
    results = compute(op, given)
    if op.kind == "value":
        return results
    if op.schema.returns_list:
        return NAMESPACE[f"MANY_{op.ident}"](results, *given)
    if op.kind == "view":
        return wrap_view(op, given, results)
    return wrap(op, given, results)


def _lazy_view(op: Op, given: tuple[Any, ...]) -> Any:
    """A view of a tensor whose values are still to change sign: its values are too."""
    first = given[0]
    results = compute(op, (in_memory(first), *given[1:]))
    many = op.schema.returns_list
    made: Any = NAMESPACE[f"MANY_{op.ident}"](results, *given) if many else wrap_view(op, given, results)
    for t in made if many else (made,):
        if t.dtype is not first.dtype:
            raise RuntimeError(
                f"{op.name} is not supported for conjugate view tensors when converting to a different dtype."
            )
        make_lazy(t, type(first))
    return made
