"""Names that users give to parts of their program: `record_function` and its relatives.

It writes regions through the tap and does not know what records them.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from threading import get_ident
from typing import Any, NamedTuple

from ...core import tap
from ...core.device import device
from ...core.dtype import SCALAR_TYPE_NUMBERS, dtype


class UserInputs(NamedTuple):
    """Inputs of a hand-made event; as the tap's InputRecord, with keyword arguments.

    Equal are those that look the same: 1, 1.0 and True are not, and lists may stand in them.
    """

    shapes: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtypes: tuple[str, ...]
    concrete: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserInputs) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


# `record_function(name, args)` shows that there were args, not what they said.
_OPAQUE_ARGS = UserInputs(((),), ((),), ("",), (None,))
# Stands for a region that nothing records.
_UNRECORDED = tap.region(0)


class record_function(contextlib.ContextDecorator):
    """Gives a block or, as a decorator, a function a name in profiles. Costs next to nothing when nothing records."""

    # Of one that was never made up; see `__del__`.
    _running: list[tuple[int, tap.region]] = []

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        # The region entered last, and all that run, with the threads that entered them: it may be entered again inside
        # of itself and on other threads.
        self.record: tap.region | None = None
        self._running = []
        # Whether leaving the block ends the event; not if a future has taken it over.
        self.run_callbacks_on_exit = True

    def _recreate_cm(self) -> record_function:
        # A decorated function may call itself, or run on several threads at once.
        return type(self)(self.name, self.args)

    def __enter__(self) -> record_function:
        name = _text("name", self.name)
        if self.args is not None:
            _text("args", self.args)
        record = _UNRECORDED
        if tap.SLOT.recorder is not None:
            shown = self.args is not None and tap.SLOT.flags & tap.SHAPES
            inputs = tap.intern_inputs(_OPAQUE_ARGS) if shown else 0
            record = tap.region(tap.event_id(name, tap.USER_SCOPE, True), -1, inputs).__enter__()
        self.record = record
        self._running.append((get_ident(), record))
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if not self.run_callbacks_on_exit:
            return
        if self.record is None:
            raise AssertionError("Expected record to be set: __exit__() needs an __enter__() before it")
        self._take().__exit__()

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # Dropped without having been left, as when an interrupt comes between entering and the block.
        while self._running and not is_ending():
            self._running.pop()[1].__exit__()

    def _take(self) -> tap.region:
        """The region that ends now: of those that run, the last that the calling thread has entered."""
        running, thread = self._running, get_ident()
        if not running:
            return _UNRECORDED
        found = running[-1]
        if found[0] != thread:
            found = next((entry for entry in reversed(running) if entry[0] == thread), found)
        running.remove(found)
        return found[1]

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        """Let the event last until a future completes; returns a future with the same value that completes after."""
        if not self.run_callbacks_on_exit:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        self.run_callbacks_on_exit = False
        record = self.record
        if record is None:
            raise AssertionError("Expected record to be set: enter the block before handing it to a future")
        self._running = [entry for entry in self._running if entry[1] is not record]

        def finish(done: Any) -> Any:
            record.__exit__()
            return done.value() if hasattr(done, "value") else None

        if hasattr(fut, "then"):
            return fut.then(finish)
        fut.add_done_callback(finish)
        return fut


def _text(argument: str, value: Any) -> str:
    """What was given as a text; bytes count as one."""
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise RuntimeError(f"record_function() expected a str as {argument}, got {type(value).__name__}")
    return value


class _RecordFunctionFast:
    """An event with inputs and keyword values of the caller's choice, counted among the ops."""

    def __init__(
        self,
        name: str | bytes,
        input_values: list[Any] | tuple[Any, ...] = (),
        keyword_values: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(name, (str, bytes)):
            raise TypeError(f"_RecordFunctionFast() expects a str as name, got {type(name).__name__}")
        if not isinstance(input_values, (list, tuple, type(None))):
            raise TypeError(f"input_values must be a list or tuple, got {type(input_values).__name__}")
        if not isinstance(keyword_values, (dict, type(None))):
            raise TypeError(f"keyword_values must be a dict, got {type(keyword_values).__name__}")
        self.name = name if isinstance(name, str) else name.decode()
        self._inputs = input_values or ()
        self._keywords = keyword_values or {}
        self._region: tap.region | None = None

    def __enter__(self) -> None:
        if self._region is not None:
            raise RuntimeError(f"the context of {self.name!r} is already entered: make another _RecordFunctionFast")
        if tap.SLOT.recorder is not None:
            inputs = 0
            if (self._inputs or self._keywords) and tap.SLOT.flags & tap.SHAPES:
                inputs = tap.intern_inputs(_given(self._inputs, self._keywords))
            self._region = tap.region(tap.event_id(self.name), -1, inputs)
            self._region.__enter__()

    def __exit__(self, *exc: object) -> None:
        region, self._region = self._region, None
        if region is not None:
            region.__exit__()


def _given(values: Iterable[Any], keywords: Mapping[str, Any]) -> UserInputs:
    inputs = [found for found in map(_input, values) if found is not None]
    shapes, strides, dtypes, concrete = zip(*inputs) if inputs else ((), (), (), ())
    kept = tuple((_keyword_name(key), _keyword(key, value)) for key, value in keywords.items())
    return UserInputs(shapes, strides, dtypes, concrete, kept)


Described = tuple[tuple[Any, ...], tuple[Any, ...], str, Any]


def _input(value: Any) -> Described | None:
    """Shape, strides, type name and concrete value of one input; None for what is not shown at all."""
    if _is_tensor(value):
        return tuple(value.shape), tuple(value.stride()), value.dtype.cpp_name, None
    if isinstance(value, dtype):
        return (), (), "Scalar", SCALAR_TYPE_NUMBERS.get(value.name)
    if isinstance(value, (bool, int, float, complex)):
        return (), (), "Scalar", value
    if isinstance(value, list):
        return _list_input(value)
    return ((), (), "", None) if value is None or isinstance(value, (str, bytes, tuple, dict, device)) else None


def _list_input(values: list[Any]) -> Described | None:
    kinds = {type(value) for value in values}
    if values and all(map(_is_tensor, values)):
        return tuple(tuple(x.shape) for x in values), tuple(tuple(x.stride()) for x in values), "TensorList", None
    if len(kinds) != 1:
        return None
    is_numbers = kinds <= {bool, int, float, complex}
    return (), (), "ScalarList" if is_numbers else "", list(values) if is_numbers else None


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "stride") and hasattr(value, "shape")


def _keyword_name(key: Any) -> str:
    if not isinstance(key, str):
        raise RuntimeError(f"keyword_values expects str as keys, got {key!r}")
    return key


def _keyword(key: str, value: Any) -> Any:
    """A keyword value as it is shown; a warning where it cannot be."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise RuntimeError(f"keyword_values: {key}={value} does not fit 64 bits")
    if value is None or isinstance(value, (str, bool, int, float, complex)):
        return value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        if len({type(item) for item in value}) <= 1:
            return [_keyword(key, item) for item in value]
        warnings.warn(f"Unable to infer type of value in the List for keyword: {key}", stacklevel=5)
        return None
    if isinstance(value, tuple) and all(isinstance(item, (int, float, complex)) for item in value):
        return value
    warnings.warn(f"Unable to infer type of value for keyword: {key}", stacklevel=5)
    return "NULL"
