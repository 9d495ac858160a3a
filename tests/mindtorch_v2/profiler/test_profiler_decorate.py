"""`profile` as a decorator: of functions that call themselves or each other, of coroutines and of generators."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from mindtorch_v2.profiler import profile
from profiler_clock import Clock, clock, op  # noqa: F401


def names(prof: profile) -> list[str]:
    return [event.name for event in prof.events()]


def test_a_function_that_calls_itself_is_recorded_as_a_whole(clock: Clock) -> None:  # noqa: F811
    prof = profile()

    @prof
    def down(steps: int) -> None:
        with op(f"step {steps}"):
            clock.advance(1)
        if steps:
            down(steps - 1)

    down(2)
    assert names(prof) == ["step 2", "step 1", "step 0"]


def test_functions_of_one_profiler_may_call_each_other() -> None:
    prof = profile()

    @prof
    def inner() -> None:
        with op("inner"):
            pass

    @prof
    def outer() -> None:
        inner()
        with op("outer"):
            pass

    outer()
    assert names(prof) == ["inner", "outer"]


def test_a_coroutine_is_recorded_while_it_runs() -> None:
    prof = profile()

    @prof
    async def work() -> str:
        with op("before"):
            pass
        await asyncio.sleep(0)
        with op("after"):
            pass
        return "done"

    assert inspect.iscoroutinefunction(work)
    assert asyncio.run(work()) == "done"
    assert names(prof) == ["before", "after"]


def test_a_generator_is_recorded_until_it_is_exhausted() -> None:
    prof = profile()

    @prof
    def work() -> Iterator[Any]:
        with op("first"):
            pass
        sent = yield 1
        with op("second"):
            pass
        yield sent

    running = work()
    assert (next(running), running.send(5), list(running)) == (1, 5, [])
    assert names(prof) == ["first", "second"]


def test_a_generator_that_is_closed_ends_its_recording() -> None:
    ended: list[Any] = []
    prof = profile(on_trace_ready=ended.append)

    @prof
    def work() -> Iterator[int]:
        yield 1
        yield 2

    running = work()
    next(running)
    assert ended == []
    running.close()
    assert ended == [prof]


def test_an_async_generator_gets_what_is_sent_and_thrown() -> None:
    prof = profile()

    @prof
    async def work() -> AsyncIterator[Any]:
        with op("first"):
            pass
        sent = yield 1
        try:
            yield sent
        except KeyError:
            with op("thrown"):
                pass
            yield "caught"

    async def consume() -> list[Any]:
        running: Any = work()
        seen = [await running.asend(None), await running.asend(5), await running.athrow(KeyError("x"))]
        return seen + [value async for value in running]

    assert asyncio.run(consume()) == [1, 5, "caught"]
    assert names(prof) == ["first", "thrown"]


def test_an_async_generator_that_is_closed_closes_the_one_inside() -> None:
    log: list[str] = []
    prof = profile(on_trace_ready=lambda _: log.append("ready"))

    @prof
    async def work() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            log.append("closed")

    async def consume() -> None:
        running: Any = work()
        await running.asend(None)
        await running.aclose()

    asyncio.run(consume())
    assert log == ["closed", "ready"]


def test_a_call_that_cannot_start_is_no_call() -> None:
    started: list[bool] = []

    class Failing(profile):
        def start(self) -> None:
            started.append(True)
            raise OSError("no")

    @Failing()
    def work() -> None:
        raise AssertionError("must not run")

    for _ in range(2):
        with pytest.raises(OSError, match="no"):
            work()
    assert len(started) == 2


def test_exceptions_leave_a_decorated_function_with_its_events_kept() -> None:
    prof = profile()

    @prof
    def work() -> None:
        with op("begun"):
            raise KeyError("x")

    with pytest.raises(KeyError):
        work()
    assert names(prof) == ["begun"]
