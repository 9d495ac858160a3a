"""What every data pipe is: a dataset with methods for further steps, whose samples a recorder sees being fetched.

It does not know what any step does with samples.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

from ....core import tap
from ..dataset import Dataset, IterableDataset

T_co = TypeVar("T_co", covariant=True)


class _Chained:
    """Steps as methods: `pipe.map(f)` is the pipe that was registered as `map`, with this one in front."""

    functions: ClassVar[dict[str, Callable[..., Any]]]

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any) -> None:
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register

    def __repr__(self) -> str:
        return type(self).__qualname__

    def __str__(self) -> str:
        return type(self).__qualname__

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]


class IterDataPipe(_Chained, IterableDataset[T_co]):
    """Samples in the order they come. Only the newest iterator of a pipe is valid."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    # How often it was iterated over, and whether its own code is running right now.
    _round = 0
    _is_walking = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, watched in (("__iter__", _watched_iter), ("__next__", _watched_next)):
            if name in cls.__dict__:
                setattr(cls, name, watched(cls.__dict__[name]))

    def __iter__(self) -> Iterator[T_co]:
        return self

    def reset(self) -> None:
        """Called before a new round."""

    def _begin(self) -> int:
        self._round += 1
        self.reset()
        return self._round

    def _require(self, number: int) -> None:
        """Only the newest round goes on."""
        if number != self._round:
            raise RuntimeError(
                "This iterator has been invalidated because another iterator has been created from the same "
                f"IterDataPipe: {described(self)}\nThis may be caused by multiple references to the same IterDataPipe. "
                "We recommend using `.fork()` if that is necessary."
            )

    def _region(self) -> Any:
        """What fetching a sample is recorded as."""
        return tap.region(tap.event_id(self._shown, tap.USER_SCOPE, True) if tap.SLOT.recorder is not None else 0)

    @functools.cached_property
    def _shown(self) -> str:
        return described(self).replace("IterDataPipe", "")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_shown"}


def described(pipe: Any) -> str:
    """Class and arguments of a pipe, those that it keeps under their names."""
    names = sorted(name for name in inspect.signature(type(pipe)).parameters if name in vars(pipe))
    shown = ", ".join(f"{name}={_text(vars(pipe)[name])}" for name in names)
    return f"{type(pipe).__name__}({shown})"


def _text(value: Any) -> str:
    return str(value.__name__) if inspect.isfunction(value) else repr(value)


class Walk(Iterator[Any]):
    """One round over a pipe; everything but the next sample is the business of the pipe's own iterator."""

    def __init__(self, pipe: IterDataPipe[Any], samples: Iterator[Any], number: int) -> None:
        self._pipe = pipe
        self._samples = samples
        self._number = number

    def __next__(self) -> Any:
        pipe = self._pipe
        pipe._require(self._number)
        with pipe._region():
            return _walking(pipe, next, self._samples)

    def __getattr__(self, name: str) -> Any:
        if name == "_samples":  # of an object that is still being made
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self._samples, name)


def _walking(pipe: IterDataPipe[Any], function: Callable[..., Any], *arguments: Any) -> Any:
    """Call what belongs to a pipe; a method of a base class that it calls in turn is part of the same round."""
    before, pipe._is_walking = pipe._is_walking, True
    try:
        return function(*arguments)
    finally:
        pipe._is_walking = before


def _watched_iter(iterate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(iterate)
    def __iter__(self: IterDataPipe[Any]) -> Any:
        if self._is_walking:
            return iterate(self)
        number = self._begin()
        samples = _walking(self, iterate, self)
        return self if samples is self else Walk(self, samples, number)

    return __iter__


def _watched_next(advance: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(advance)
    def __next__(self: IterDataPipe[Any]) -> Any:
        if self._is_walking:
            return advance(self)
        with self._region():
            return _walking(self, advance, self)

    return __next__


class MapDataPipe(_Chained, Dataset[T_co]):
    """Samples by index."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class functional_datapipe:
    """Class decorator: the pipe becomes a method of the pipes of its sort."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        kind = next((kind for kind in (IterDataPipe, MapDataPipe) if issubclass(cls, kind)), None)
        if kind is None:
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe")
        kind.register_datapipe_as_function(self.name, cls)
        return cls
