"""`__torch_function__`: letting tensor subclasses and modes take over a call."""

from __future__ import annotations

import threading
from typing import Any

from ..core import tap
from ..core.fork import free_in_children
from ..core.tensor import PLAIN, Parameter, Tensor
from .deeper import carry
from .mode_exit import leaving

_state = carry(threading.local())
_modes_everywhere = 0
_lock = free_in_children(threading.Lock())


def _modes() -> list[Any]:
    modes: list[Any] | None = getattr(_state, "modes", None)
    if modes is None:
        modes = _state.modes = []
    return modes


class DisableTorchFunctionSubclass:
    """Inside, subclasses are treated as plain tensors."""

    def __enter__(self) -> None:
        _state.disabled = getattr(_state, "disabled", 0) + 1

    def _restore(self) -> None:
        _state.disabled -= 1

    __exit__ = leaving(_restore)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Inside, neither subclasses nor modes see calls."""

    def __enter__(self) -> None:
        self._modes = _modes()
        super().__enter__()
        _state.modes = []

    def _restore(self) -> None:
        _state.modes = self._modes
        _state.disabled -= 1

    __exit__ = leaving(_restore)


def _disabled_torch_function_impl(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What a class sets as `__torch_function__` to be left alone."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def overloaded(values: Any) -> list[Any]:
    """The arguments that take over calls, subclasses before their bases."""
    if getattr(_state, "disabled", 0):
        return []
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if kind in PLAIN or kind in _NEVER:
            continue
        if isinstance(value, (list, tuple)):
            found.extend(v for v in overloaded(value) if all(type(v) is not type(f) for f in found))
            continue
        override = getattr(kind, "__torch_function__", None)
        if override is None or override is _disabled_torch_function_impl or any(type(f) is kind for f in found):
            continue
        position = next((i for i, f in enumerate(found) if issubclass(kind, type(f))), len(found))
        found.insert(position, value)
    return found


_NEVER = frozenset((int, float, bool, complex, str, type(None), slice, type(Ellipsis)))


def dispatch(function: Any, arguments: Any, given: tuple[Any, ...], out: Any = None) -> Any:
    """Offer a call to modes and subclasses; NotImplemented when nobody wants it."""
    modes = _modes() if _modes_everywhere else ()
    takers = overloaded(given if out is None else (*given, out))
    if not takers and not modes:
        return NotImplemented
    args, kwargs = _as_called(arguments, given, out)
    return offer(function, takers, args, kwargs)


def offer(function: Any, takers: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the innermost mode or the first subclass that answers."""
    types = tuple(type(t) for t in takers)
    modes = _modes()
    if modes:
        mode = modes[-1]
        try:
            del modes[-1]
            result = tap.call_traced(mode.__torch_function__, function, types, args, kwargs)
        finally:
            modes.append(mode)
        if result is not NotImplemented:
            return result
    for taker in takers:
        result = tap.call_traced(type(taker).__torch_function__, function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    if not takers and not modes:
        return NotImplemented
    name = getattr(function, "__name__", str(function))
    raise TypeError(
        f"no implementation found for 'torch.{name}' on types that implement __torch_function__: "
        f"{[t.__name__ for t in types]}"
    )


def _as_called(arguments: Any, given: tuple[Any, ...], out: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in schema order as a caller would write them, defaults left out."""
    positional: list[Any] = []
    kwargs: dict[str, Any] = {}
    pending: list[tuple[str, Any]] = []
    for argument, value in zip(arguments, given, strict=False):
        if argument.kwarg_only:
            if not (argument.has_default and _same(value, argument.default)):
                kwargs[argument.python_name] = value
            continue
        pending.append((argument.python_name, value))
        if not (argument.has_default and _same(value, argument.default)):
            positional.extend(v for _, v in pending)
            pending.clear()
    if out is not None:
        kwargs["out"] = out
    return tuple(positional), kwargs


def _same(a: Any, b: Any) -> bool:
    """Whether an op cannot tell an argument from a default: True is equal to 1, and -0.0 to 0.0, but not the same."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, Tensor):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b) and (not isinstance(a, (float, complex)) or repr(a) == repr(b))


def torch_function(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The default of subclasses: compute as plain tensors, give results the subclass's type."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return result if func in _no_wrap else _convert(result, cls)


_no_wrap: set[Any] = set()


def _convert(result: Any, cls: Any) -> Any:
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if isinstance(result, (list, tuple)):
        items = [_convert(r, cls) for r in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


Tensor.__torch_function__ = classmethod(torch_function)  # type: ignore[attr-defined]
Parameter.__torch_function__ = _disabled_torch_function_impl  # type: ignore[attr-defined]


class TorchFunctionMode:
    """Inside, every op of this thread is offered to `__torch_function__` first."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        watch(1)
        modes = _modes()
        modes += [self]  # last, and no call: an interrupt, which comes after one, leaves no mode entered
        return self

    def _restore(self) -> None:
        del _state.modes[-1]

    __exit__ = leaving(_restore, lambda self: watch(-1))


def watch(change: int) -> None:
    """Have every op take its slow path (+1), or no longer (-1), though no mode is offered it."""
    global _modes_everywhere
    with _lock:
        _modes_everywhere += change
        _announce()


def _announce() -> None:
    tap.NAMESPACE["MODES"] = _modes_everywhere > 0
    tap.set_reason("modes", _modes_everywhere > 0)


def has_torch_function(values: Any) -> bool:
    """Whether any of the arguments takes over calls."""
    return bool(overloaded(values)) or bool(_modes_everywhere and _modes())


def handle_torch_function(public_api: Any, relevant_args: Any, *args: Any, **kwargs: Any) -> Any:
    """Hand a call of `public_api` to the arguments that take over."""
    return offer(public_api, overloaded(relevant_args), args, kwargs)
