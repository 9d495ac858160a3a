"""Threads, pools, tasks, processes, and profilers beside and inside each other."""

import asyncio
import contextvars
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mindtorch_v2.autograd import profiler as autograd_profiler
from mindtorch_v2.core import tap
from mindtorch_v2.profiler import _ExperimentalConfig, profile, record_function
from mindtorch_v2.profiler.capture import window
from mindtorch_v2.profiler.capture.tracks import Bounds, track_of
from mindtorch_v2.profiler.record import recorder
from mindtorch_v2.profiler.record.chunks import Chunk
from mindtorch_v2.profiler.record.config import RecordOptions
from mindtorch_v2.profiler.record.recorder import RECORDER, LaneRecord
from profiler_clock import Clock, clock, op  # noqa: F401

ALL_THREADS = _ExperimentalConfig(profile_all_threads=True)


def names_of(prof: profile) -> list[str]:
    return [event.name for event in prof.events()]


def run_in_thread(work: Callable[[], object]) -> None:
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def one_op(name: str = "aten::add") -> None:
    with op(name):
        pass


def test_other_threads_are_not_recorded_by_default() -> None:
    with profile() as prof:
        one_op("mine")
        run_in_thread(lambda: one_op("theirs"))
    assert names_of(prof) == ["mine"]


def test_all_threads_are_recorded_when_asked_for() -> None:
    with profile(experimental_config=ALL_THREADS) as prof:
        one_op("mine")
        for name in ("first", "second"):
            run_in_thread(lambda name=name: one_op(name))  # type: ignore[misc]
    assert names_of(prof) == ["mine", "first", "second"]
    threads = [event.thread for event in prof.events()]
    assert len(set(threads)) == 3
    assert threads[0] == 1
    assert len({event.device_resource_id for event in prof.events()}) >= 1


def test_a_thread_that_has_been_recorded_is_not_recorded_for_ever() -> None:
    begin, finish = threading.Barrier(2), threading.Barrier(2)

    def work() -> None:
        for _ in range(2):
            begin.wait()
            one_op("pool")
            finish.wait()

    worker = threading.Thread(target=work)
    worker.start()
    counts = []
    for config in (ALL_THREADS, None):
        with profile(experimental_config=config) as prof:
            begin.wait()
            finish.wait()
        counts.append(len(prof.events()))
    worker.join()
    assert counts == [1, 0]


def test_a_profiler_started_in_a_worker_records_the_worker() -> None:
    found: list[list[str]] = []

    def work() -> None:
        with profile() as prof:
            one_op("worker")
        found.append(names_of(prof))
        assert prof.events()[0].thread > 1

    run_in_thread(work)
    assert found == [["worker"]]


def test_concurrent_profilers_each_see_their_own_thread() -> None:
    barrier = threading.Barrier(4)
    found: dict[int, list[str]] = {}

    def work(number: int) -> None:
        barrier.wait()
        with profile(record_shapes=bool(number % 2)) as prof:
            for _ in range(50):
                one_op(f"op {number}")
            barrier.wait()
        found[number] = names_of(prof)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert found == {number: [f"op {number}"] * 50 for number in range(4)}
    assert not autograd_profiler._is_profiler_enabled


ONE_AFTER_THE_OTHER = """
import threading
import mindtorch_v2 as torch
from mindtorch_v2.profiler import _ExperimentalConfig, profile

x, idents = torch.ones(2), []
prof = profile(experimental_config=_ExperimentalConfig(profile_all_threads=True))

def first():
    prof.start()
    second()

def second():
    idents.append(threading.get_ident())
    x + x

for work in (first, second, second):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
prof.stop()
adds = [event.thread for event in prof.events() if event.name == "aten::add"]
print(len(set(idents)), adds, torch.core.tap.NAMESPACE["HOME"])
"""


def test_a_thread_that_begins_when_another_has_ended_has_a_lane_of_its_own() -> None:
    """Also where it is given the ident of that one, which was the first to be recorded in the process."""
    ran = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_THE_OTHER],
        capture_output=True,
        text=True,
        env={**os.environ, "MINDTORCH_PURE": "1"},
        check=True,
    )
    assert ran.stdout.split(" ", 1)[1] == "[2, 3, 4] None\n", ran.stdout


def test_nested_profilers_lose_nothing() -> None:
    with profile() as outer:
        one_op("before")
        with profile(record_shapes=True) as inner:
            one_op("inside")
        one_op("after")
    assert names_of(outer) == ["before", "inside", "after"]
    assert names_of(inner) == ["inside"]


def test_overlapping_profilers_lose_nothing() -> None:
    first, second = profile(), profile()
    first.start()
    one_op("one")
    second.start()
    one_op("two")
    first.stop()
    one_op("three")
    second.stop()
    assert names_of(first) == ["one", "two"]
    assert names_of(second) == ["two", "three"]


def test_a_region_around_an_inner_profiler_is_whole_in_the_outer_one(clock: Clock) -> None:  # noqa: F811
    with profile() as outer, record_function("around"):
        clock.advance(10)
        with profile() as inner:
            clock.advance(5)
        clock.advance(10)
    assert [(event.name, event.cpu_time_total) for event in outer.events()] == [("around", 25.0)]
    assert names_of(inner) == []


def test_stopping_from_another_thread() -> None:
    prof = profile()
    prof.start()
    one_op("recorded")
    run_in_thread(prof.stop)
    assert names_of(prof) == ["recorded"]
    one_op("too late")
    assert names_of(prof) == ["recorded"]


def test_a_copied_context_does_not_carry_a_lane_along() -> None:
    with profile() as prof:
        one_op("mine")
        context = contextvars.copy_context()
        run_in_thread(lambda: context.run(one_op, "theirs"))
    assert names_of(prof) == ["mine"]


def test_tasks_of_one_thread_share_its_lane() -> None:
    async def task(name: str, first: asyncio.Event, second: asyncio.Event) -> None:
        with record_function(name):
            first.set()
            await second.wait()
            one_op(f"op of {name}")

    async def main() -> None:
        one, two = asyncio.Event(), asyncio.Event()
        await asyncio.gather(task("a", one, two), task("b", two, one))
        await asyncio.to_thread(one_op, "in another thread")

    with profile() as prof:
        asyncio.run(main())
    assert sorted(names_of(prof)) == ["a", "b", "op of a", "op of b"]
    assert {event.thread for event in prof.events()} == {1}
    for event in prof.events():
        assert event.self_cpu_time_total >= 0


def test_interleaved_tasks_export_slices_that_nest(tmp_path: Path) -> None:
    first, second = record_function("first"), record_function("second")
    with profile() as prof:
        first.__enter__()
        one_op()
        second.__enter__()
        one_op()
        first.__exit__(None, None, None)
        one_op()
        second.__exit__(None, None, None)
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X" and event["cat"] != "Trace"]
    crossing = [event for event in events if event["ph"] in "be"]
    assert [event["name"] for event in slices] == ["first", "aten::add", "aten::add", "aten::add"]
    assert [(event["ph"], event["name"]) for event in crossing] == [("b", "second"), ("e", "second")]


def test_a_generator_closed_late_ends_its_region_then(clock: Clock) -> None:  # noqa: F811
    def numbers() -> Iterator[int]:
        with record_function("generator"):
            yield 1

    with profile() as prof:
        generator = numbers()
        next(generator)
        clock.advance(30)
        generator.close()
        left = numbers()
        next(left)
        clock.advance(5)
    left.close()
    assert [event.cpu_time_total for event in prof.events()] == [30.0, 5.0]


def test_a_dropped_profiler_does_not_record_for_ever() -> None:
    prof = profile()
    prof.start()
    assert autograd_profiler._is_profiler_enabled
    del prof
    gc.collect()
    assert not autograd_profiler._is_profiler_enabled


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_profiles_for_itself(tmp_path: Path) -> None:
    with profile() as parent:
        one_op("before")
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with profile() as child:
                    one_op("child")
                child.export_chrome_trace(tmp_path / "child.json")
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        one_op("after")
    assert names_of(parent) == ["before", "after"]
    events = json.loads((tmp_path / "child.json").read_text())["traceEvents"]
    (event,) = [event for event in events if event.get("cat") == "cpu_op"]
    assert (event["name"], event["pid"], event["tid"]) == ("child", pid, pid)


def test_backward_in_another_thread_finds_the_forward_thread() -> None:
    def backward() -> None:
        with op("autograd::engine::evaluate_function: MulBackward0", seq=41), op("MulBackward0", seq=41, scope=1):
            one_op("aten::mul")

    with profile(experimental_config=ALL_THREADS) as prof:
        with op("aten::mul", seq=41):
            pass
        run_in_thread(backward)
    forward, evaluate, node, inner = prof.events()
    assert (forward.fwd_thread, evaluate.fwd_thread, node.fwd_thread, inner.fwd_thread) == (0, 1, 1, 0)
    assert node.thread != 1
    assert (forward.flow_id, forward.flow_start) == (node.flow_id, True) == (1, True)
    assert (node.flow_type, node.flow_start, inner.flow_type) == (1, False, 0)


# What other threads do while a window closes


def track(rows: list[tuple[int, int, int]], **options: Any) -> list[tuple[int, int, int]]:
    """What a window from 100 to 200 keeps of the rows of another thread: start, end and kind."""
    flat = [value for start, end, kind in rows for value in (start, end, kind, -1, 0, 0)]
    record = LaneRecord(2, 2, "other", (0, 0), [Chunk(0, [flat], tap.ROW_WIDTH)], [], [])
    found = track_of(record, Bounds(RecordOptions(**options), 100, 200, [], False, {7: "function"}))
    return list(zip(found.start_ns.tolist(), found.end_ns.tolist(), found.kind.tolist()))


def test_what_begins_after_the_end_of_a_window_is_not_in_it() -> None:
    assert track([(150, 160, 1), (201, 205, 2)]) == [(50, 60, 1)]


def test_what_ends_after_the_end_of_a_window_ends_with_it() -> None:
    assert track([(150, 210, 1)]) == [(50, 100, 1)]


def test_what_is_there_as_open_and_as_ended_is_there_once() -> None:
    assert track([(150, 210, 1), (150, 200, 1)]) == [(50, 100, 1)]
    # Two that are open at the end are two, even if they began together.
    assert track([(150, 200, 1), (150, 200, 1)]) == [(50, 100, 1)] * 2


def test_functions_that_are_traced_for_nobody_any_more_are_left_out() -> None:
    assert track([(150, 160, 7), (150, 160, 1)]) == [(50, 60, 1)]
    assert track([(150, 160, 7)], stacks=True) == [(50, 60, 7)]


def test_nothing_is_open_before_it_has_begun() -> None:
    lane = RECORDER.own_lane()
    entry = [150, 1, -1, 0, 0]
    lane.open.append(entry)
    try:
        assert recorder._still_open(lane, 149) == []
        assert recorder._still_open(lane, 151)[:2] == [150, 151]
    finally:
        lane.open.remove(entry)


def test_functions_that_are_met_while_a_capture_is_made_do_not_disturb_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Growing(dict[int, Any]):
        """As if another thread met a new function at every look."""

        def items(self) -> Any:
            for number, item in enumerate(super().items()):
                self[-number - 1] = item[1]
                yield item

    with profile(with_stack=True):
        one_op()
    monkeypatch.setattr(window, "PYTHON_EVENTS", Growing(window.PYTHON_EVENTS))
    with profile(with_stack=True) as prof:
        one_op()
    assert "aten::add" in names_of(prof)


def test_the_end_of_the_interpreter_is_quiet() -> None:
    program = "import mindtorch_v2 as torch\nwith torch.profiler.profile():\n    torch.ones(2) + 1\n"
    for pure in "01":
        env = {**os.environ, "MINDTORCH_PURE": pure}
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True)
        assert ran.stderr == ""
