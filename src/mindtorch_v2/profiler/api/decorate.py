"""Functions of every sort with a context around their calls: plain ones, coroutines and both sorts of generators.

It does not know what the context does.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any

_lock = threading.Lock()


class Outermost:
    """Enters a context with the first of the calls that overlap, be it by recursion or on threads, and leaves it with
    the last."""

    def __init__(self, context: AbstractContextManager[Any]) -> None:
        self._context = context
        self._calls = 0

    def __enter__(self) -> None:
        with _lock:
            self._calls += 1
            is_first = self._calls == 1
        if is_first:
            try:
                self._context.__enter__()
            except BaseException:
                self._end()
                raise

    def __exit__(self, *exc: Any) -> bool | None:
        return self._context.__exit__(*exc) if self._end() else None

    def _end(self) -> bool:
        with _lock:
            self._calls -= 1
            return self._calls == 0


def around_calls(function: Callable[..., Any], context: AbstractContextManager[Any]) -> Callable[..., Any]:
    """The function inside the context, which lasts until what the function does has ended: that of a coroutine when
    it has been awaited, that of a generator when it is exhausted or closed."""
    for is_such, wrap in _SORTS:
        if is_such(function):
            return functools.wraps(function)(wrap(function, context))
    return functools.wraps(function)(_plain(function, context))


def _plain(function: Callable[..., Any], context: AbstractContextManager[Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with context:
            return function(*args, **kwargs)

    return call


def _coroutine(function: Callable[..., Any], context: AbstractContextManager[Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        with context:
            return await function(*args, **kwargs)

    return call


def _generator(function: Callable[..., Any], context: AbstractContextManager[Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with context:
            return (yield from function(*args, **kwargs))

    return call


def _async_generator(function: Callable[..., Any], context: AbstractContextManager[Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with context:
            inner = function(*args, **kwargs)
            try:
                value = await inner.asend(None)
                while True:
                    try:
                        sent = yield value
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        value = await inner.athrow(error)
                    else:
                        value = await inner.asend(sent)
            except StopAsyncIteration:
                return
            finally:
                await inner.aclose()

    return call


_SORTS = (
    (inspect.iscoroutinefunction, _coroutine),
    (inspect.isasyncgenfunction, _async_generator),
    (inspect.isgeneratorfunction, _generator),
)
