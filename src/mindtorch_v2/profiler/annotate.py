"""Names that users give to parts of their program: `record_function` and its relatives.

It writes regions through the tap and does not know what records them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import _tap


class GivenInputs(NamedTuple):
    """Inputs of a hand-made event; as the tap's InputRecord, with keyword arguments."""

    shapes: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtypes: tuple[str, ...]
    concrete: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...] = ()


# `record_function(name, args)` shows that there were args, not what they said.
_OPAQUE_ARGS = GivenInputs(((),), ((),), ("",), (None,))
# Stands for a region that nothing records.
_UNRECORDED = _tap.region(0)


class record_function(contextlib.ContextDecorator):
    """Gives a block or, as a decorator, a function a name in profiles. Costs next to nothing when nothing records."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.record: _tap.region | None = None
        # Whether leaving the block ends the event; not if a future has taken it over.
        self.run_callbacks_on_exit = True

    def _recreate_cm(self) -> record_function:
        # A decorated function may call itself, or run on several threads at once.
        return type(self)(self.name, self.args)

    def __enter__(self) -> record_function:
        if not isinstance(self.name, str):
            raise RuntimeError(f"record_function() expected a str as name, got {type(self.name).__name__}")
        if self.args is not None and not isinstance(self.args, str):
            raise RuntimeError(f"record_function() expected a str or None as args, got {type(self.args).__name__}")
        self.record = _UNRECORDED
        if _tap.SLOT.recorder is not None:
            shown = self.args is not None and _tap.SLOT.flags & _tap.SHAPES
            inputs = _tap.intern_inputs(_OPAQUE_ARGS) if shown else 0
            self.record = _tap.region(_tap.event_id(self.name, _tap.USER_SCOPE, True), -1, inputs)
            self.record.__enter__()
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if not self.run_callbacks_on_exit:
            return
        if self.record is None:
            raise AssertionError("Expected record to be set: __exit__() needs an __enter__() before it")
        self.record.__exit__()

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        """Let the event last until a future completes; returns a future with the same value that completes after."""
        if not self.run_callbacks_on_exit:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        self.run_callbacks_on_exit = False
        record = self.record
        if record is None:
            raise AssertionError("Expected record to be set: enter the block before handing it to a future")

        def finish(done: Any) -> Any:
            record.__exit__()
            return done.value() if hasattr(done, "value") else None

        if hasattr(fut, "then"):
            return fut.then(finish)
        fut.add_done_callback(finish)
        return fut


class _RecordFunctionFast(contextlib.AbstractContextManager["_RecordFunctionFast", None]):
    """An event with inputs and keyword values of the caller's choice, counted among the ops."""

    def __init__(
        self,
        name: str,
        input_values: Sequence[Any] | None = None,
        keyword_values: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"_RecordFunctionFast() expected a str as name, got {type(name).__name__}")
        self.name = name
        self._inputs = input_values
        self._keywords = keyword_values
        self._region = _UNRECORDED

    def __enter__(self) -> _RecordFunctionFast:
        if _tap.SLOT.recorder is not None:
            inputs = 0
            if (self._inputs or self._keywords) and _tap.SLOT.flags & _tap.SHAPES:
                inputs = _tap.intern_inputs(_given(self._inputs or (), self._keywords or {}))
            self._region = _tap.region(_tap.event_id(self.name), -1, inputs)
            self._region.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._region.__exit__()
        self._region = _UNRECORDED


def _given(values: Sequence[Any], keywords: Mapping[str, Any]) -> GivenInputs:
    inputs = [_input(value) for value in values]
    shapes, strides, dtypes, concrete = zip(*inputs) if inputs else ((), (), (), ())
    kept = tuple((key, _frozen(value)) for key, value in keywords.items() if _is_keyword(value))
    return GivenInputs(shapes, strides, dtypes, concrete, kept)


def _input(value: Any) -> tuple[tuple[int, ...], tuple[int, ...], str, Any]:
    """Shape, strides, type name and concrete value of one input."""
    if hasattr(value, "stride") and hasattr(value, "shape"):
        return tuple(value.shape), tuple(value.stride()), value.dtype.cpp_name, None
    if isinstance(value, (bool, int, float, complex)):
        return (), (), "Scalar", value
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, (bool, int, float)) for item in value):
        return (), (), "ScalarList", tuple(value)
    return (), (), "", None


def _is_keyword(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, (bool, int, float, str))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
