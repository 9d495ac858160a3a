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

from ..core import tap
from ..core.fork import free_in_children
from .mode_exit import leaving

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
    try:
        gc.disable()
        return change(*args)
    finally:
        gc.enable()


def _set_enabled(mode: bool) -> None:
    _alone(_enabled.set, mode)
    tap.set_lane_grad(mode)


# Switches grad mode for the calling thread. An interrupt comes before or after such a call, hence `within` for all that
# switch it back.
set_enabled: Callable[[bool], None] = _set_enabled

_lock = free_in_children(threading.Lock())


def _set_inference(mode: bool) -> None:
    """Switch inference mode, and tell generated code on how many threads new tensors are to be marked. An interrupt may
    leave the count too high, which takes a little time, but not too low."""
    change = int(mode) - int(_inference.get())
    if change > 0:
        _count_inferring(change)
    _alone(_inference.set, mode)
    if change < 0:
        _count_inferring(change)


def _count_inferring(change: int) -> None:
    with _lock:
        tap.NAMESPACE["INFERRING"] += change


set_inference: Callable[[bool], None] = _set_inference


def within(mode: bool, function: Callable[..., Any], *args: Any) -> Any:
    """A call in which grad mode is `mode`. It is what it was before after that, also where an interrupt comes: one that
    comes as the mode is switched back finds it switched, and has that done once more."""
    before = _enabled.get()
    try:
        set_enabled(mode)
        return function(*args)
    finally:
        try:
            set_enabled(before)
        except BaseException:
            set_enabled(before)
            raise


def _without_graph(function: Callable[..., Any], *args: Any) -> Any:
    return within(False, function, *args)


# without_graph(function, arguments…): a call in which no graph is built.
without_graph: Callable[..., Any] = _without_graph

if tap.HELPER is not None:
    without_graph = tap.HELPER.without_graph
    tap.HELPER.connect_modes(_enabled, _inference, tap.NAMESPACE)
    set_enabled, set_inference = tap.HELPER.set_grad, tap.HELPER.set_inference

tap.NAMESPACE.update(GRAD=_enabled.get, GRAD_SET=set_enabled, IN_INFERENCE=is_inference_mode_enabled)


class _Mode:
    """A mode that is entered and left, may be nested and re-used; also decorates functions and generator functions."""

    # Grad mode and inference mode before each time it was entered, the last time first: (grad mode, inference mode or None,
    # those before). On the way out nothing must fail: a list asks for memory as it gets shorter, an attribute that is no slot
    # may do so, and so does unpacking.
    __slots__ = ("_before",)

    _before: Any

    def __enter__(self) -> Any:
        raise NotImplementedError

    def _restore(self) -> None:
        before = self._before
        if before is None:
            raise RuntimeError("a mode is left that was not entered")
        set_enabled(before[0])
        if before[1] is not None:
            set_inference(before[1])
        self._before = before[2]

    __exit__ = leaving(_restore)

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
    """Sets grad mode to `mode` while entered."""

    __slots__ = ()

    mode = True

    def __enter__(self) -> None:
        self._enter(_enabled.get())

    def _enter(self, grad: bool) -> None:
        try:
            self._before = grad, None, self._before
            set_enabled(self.mode)
        except BaseException:  # an interrupt: what is not entered is not left either
            self._restore()
            raise


class _BareGradMode(_GradMode):
    """A mode that decorates with or without parentheses."""

    def __new__(cls, function: Any = None) -> Any:
        instance = new(cls)
        instance._before = None
        return instance if function is None else instance(function)


class no_grad(_BareGradMode):
    """No graph is built inside."""

    mode = False


class enable_grad(_BareGradMode):
    """Graphs are built inside, also within `no_grad`."""


class set_grad_enabled(_GradMode):
    """Sets grad mode at once; as a context manager it is restored at the end."""

    def __init__(self, mode: bool) -> None:
        self._before = None
        self._at_creation = _enabled.get()
        self.mode = bool(mode)
        set_enabled(self.mode)

    def __enter__(self) -> None:
        self._enter(self._at_creation)

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
        self._before = None

    def __enter__(self) -> None:
        before = _enabled.get(), _inference.get(), self._before
        try:
            self._before = before
            set_enabled(not self.mode)
            set_inference(self.mode)
        except BaseException:  # an interrupt: what is not entered is not left either
            self._restore()
            raise

    def clone(self) -> inference_mode:
        return type(self)(self.mode)


class set_multithreading_enabled(contextlib.AbstractContextManager[None]):
    """Whether backward may use several threads: it uses the one that calls it, whatever is set."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __exit__(self, *error: object) -> None:
        """Nothing to undo."""
