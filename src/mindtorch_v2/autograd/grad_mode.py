"""Whether ops build a graph: grad mode and inference mode, per thread, as context managers and decorators."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from .. import _tap
from .._fork import free_in_children

# A ContextVar reads in a third of the time of a thread-local, and new threads start with the default as torch's do.
_enabled: ContextVar[bool] = ContextVar("grad_enabled", default=True)
_inference: ContextVar[bool] = ContextVar("inference", default=False)

new: Any = object.__new__
is_grad_enabled: Callable[[], bool] = _enabled.get
is_inference_mode_enabled: Callable[[], bool] = _inference.get


def _alone(change: Callable[..., Any], *args: Any) -> Any:
    """Set a ContextVar while nothing is collected. Before 3.12 Python collects garbage inside of allocations, and a
    finalizer that sets one then frees what another `set` in progress reads."""
    if sys.version_info >= (3, 12) or not gc.isenabled():
        return change(*args)
    gc.disable()
    try:
        return change(*args)
    finally:
        gc.enable()


def _set_enabled(mode: bool) -> None:
    _alone(_enabled.set, mode)
    _tap.set_lane_grad(mode)


# Switches grad mode for the calling thread. Who switches it back calls it inside of `try`: an interrupt comes after the
# call, and must not leave the mode switched.
set_enabled: Callable[[bool], None] = _set_enabled

_lock = free_in_children(threading.Lock())


def _set_inference(mode: bool, change: int) -> None:
    """Switch inference mode, and tell generated code in how many more places new tensors are to be marked."""
    _alone(_inference.set, mode)
    with _lock:
        _tap.NAMESPACE["INFERRING"] += change


set_inference: Callable[[bool, int], None] = _set_inference


def _without_graph(function: Callable[..., Any], *args: Any) -> Any:
    before = _enabled.get()
    try:
        set_enabled(False)
        return function(*args)
    finally:
        set_enabled(before)


# without_graph(function, arguments…): a call in which no graph is built.
without_graph: Callable[..., Any] = _without_graph

if _tap.HELPER is not None:
    without_graph = _tap.HELPER.without_graph
    _tap.HELPER.connect_modes(_enabled, _inference, _tap.NAMESPACE)
    set_enabled, set_inference = _tap.HELPER.set_grad, _tap.HELPER.set_inference

_tap.NAMESPACE.update(GRAD=_enabled.get, GRAD_SET=set_enabled, IN_INFERENCE=is_inference_mode_enabled)


class _Mode:
    """A mode that is entered and left; also decorates functions and generator functions."""

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def clone(self) -> _Mode:
        """A fresh one of the same settings (each call of a decorated function enters its own)."""
        return type(self)()

    def __call__(self, function: Any) -> Any:
        if inspect.isclass(function):
            raise TypeError(f"{type(self).__name__} decorates functions, not the class {function.__name__}")
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped

    def _wrap_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The mode holds while the generator's own code runs, never while it is suspended."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            try:
                with self.clone():
                    item = generator.send(None)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        with self.clone():
                            generator.close()
                        raise
                    except BaseException as error:
                        with self.clone():
                            item = generator.throw(error)
                    else:
                        with self.clone():
                            item = generator.send(sent)
            except StopIteration as stop:
                return stop.value

        return wrapped


class _GradMode(_Mode):
    """Sets grad mode to `mode` while entered; may be nested and re-used."""

    mode = True
    _before: list[bool]

    def __enter__(self) -> None:
        self._before.append(_enabled.get())
        set_enabled(self.mode)

    def __exit__(self, *exc: object) -> None:
        set_enabled(self._before.pop())


class _BareGradMode(_GradMode):
    """A mode that decorates with or without parentheses."""

    def __new__(cls, function: Any = None) -> Any:
        instance = new(cls)
        instance._before = []
        return instance if function is None else instance(function)


class no_grad(_BareGradMode):
    """No graph is built inside."""

    mode = False


class enable_grad(_BareGradMode):
    """Graphs are built inside, also within `no_grad`."""


class set_grad_enabled(_GradMode):
    """Sets grad mode at once; as a context manager it is restored at the end."""

    def __init__(self, mode: bool) -> None:
        self._before = []
        self._at_creation = _enabled.get()
        self.mode = bool(mode)
        set_enabled(self.mode)

    def __enter__(self) -> None:
        self._before.append(self._at_creation)
        set_enabled(self.mode)

    def __call__(self, function: Any) -> Any:
        set_enabled(self._at_creation)
        return super().__call__(function)

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)


class inference_mode(_Mode):
    """Like `no_grad`, for code whose results never meet autograd."""

    def __new__(cls, mode: Any = True) -> Any:
        return new(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: Any = True) -> None:
        self.mode = mode
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append((_enabled.get(), _inference.get()))
        set_enabled(not self.mode)
        set_inference(self.mode, int(self.mode))

    def __exit__(self, *exc: object) -> None:
        building, inferring = self._before.pop()
        set_enabled(building)
        set_inference(inferring, -int(self.mode))

    def clone(self) -> inference_mode:
        return type(self)(self.mode)


class set_multithreading_enabled(contextlib.AbstractContextManager[None]):
    """Whether backward may use several threads: it uses the one that calls it, whatever is set."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __exit__(self, *error: object) -> None:
        """Nothing to undo."""
