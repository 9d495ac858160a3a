"""The slow path: all that an op's generated function does not handle itself, events of a recorder included."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _tap
from ._change import composite_out, evaluate_out, mutate
from ._codegen import MISSING
from ._compute import check_arguments, compute, wrap, wrap_view
from ._errors import no_memory
from ._floating import quiet
from ._inputs import inputs_id
from ._tensor import LAZY, Tensor, in_memory, make_lazy
from .autograd import grad_mode, overrides

if TYPE_CHECKING:
    from ._op import Op

NAMESPACE = _tap.NAMESPACE


def slow(op: Op, args: tuple[Any, ...]) -> Any:
    """Everything the fast path does not handle: subclasses, modes, promotion, numbers, `out=`, graphs of in-place ops.

    `args` are the arguments in schema order, then the NumPy spellings, then `out` where the op has one.
    """
    args = _settle_aliases(op, args)
    if op.takes_tensors or NAMESPACE["MODES"]:
        given, out = split_out(op, args)
        handled = overrides.dispatch(op.public, op.schema.arguments, given, out)
        if handled is not NotImplemented:
            return handled
    run = AUTOCAST.get(op.name, evaluate) if AUTOCAST else evaluate
    return run(op, args) if _tap.SLOT.recorder is None else _recorded_slow(op, args, run)


# While autocast is on anywhere: how the ops that it changes are run, by name.
AUTOCAST: dict[str, Callable[[Op, tuple[Any, ...]], Any]] = {}


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
            values[position] = value.item()
    return (*values, *args[count : count + has_out])


def split_out(op: Op, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    count = len(op.schema.arguments)
    return args[:count], (args[count] if op.has_out and len(args) > count else None)


def _recorded_slow(op: Op, args: tuple[Any, ...], run: Callable[[Op, tuple[Any, ...]], Any]) -> Any:
    inputs = 0
    given, out = split_out(op, args)
    if _tap.SLOT.flags & _tap.SHAPES:
        written = () if out is None else (out,) if isinstance(out, Tensor) else tuple(out)
        inputs = inputs_id((*given, *written), True)
    seq = _tap.sequence_number(grad_mode.is_grad_enabled()) if op.numbered else -1
    event = op.event if out is None else op.out_event
    if op.number_event != event and out is None and not isinstance(args[1], Tensor):
        event = op.number_event
    with _tap.region(event, seq, inputs):
        return run(op, args) if _tap.SLOT.watcher is None else _watched_slow(op, args, run, _tap.SLOT.watcher)


def _watched_slow(
    op: Op, args: tuple[Any, ...], run: Callable[[Op, tuple[Any, ...]], Any], watcher: _tap.Watcher
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
        return result if out is None else composite_out(result, out)
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
