"""Random programs of regions, nested, threaded, crossing and aborted: what is recorded comes back from its trace."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindtorch_v2.core import tap
from mindtorch_v2.profiler import load, profile, record_function
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.capture.capture import Capture
from profiler_clock import Clock, allocate, clock, free, op  # noqa: F401

NAMES = st.sampled_from(["aten::add", "aten::mul", 'a "block"', "block\n", "名"])
# Few examples, as threads and files take long; the fixtures need no reset in between.
QUICK = settings(
    deadline=None,
    derandomize=True,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
Step = tuple[Any, ...]
STEPS = st.recursive(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(1, 5000)),
        st.tuples(st.just("memory"), st.integers(1, 3), st.integers(1, 1000)),
    ),
    lambda steps: st.tuples(
        st.sampled_from(["op", "annotation", "abort"]), NAMES, st.integers(-1, 5), st.lists(steps, max_size=4)
    ),
    max_leaves=25,
)
PROGRAMS = st.lists(st.lists(STEPS, max_size=5), min_size=1, max_size=3)


class Aborted(Exception):
    pass


class Runner:
    """Runs steps on the calling thread."""

    def __init__(self, ticks: Clock) -> None:
        self._clock = ticks
        self._blocks: dict[int, int] = {}

    def run(self, steps: list[Step]) -> None:
        for kind, *rest in steps:
            self._clock.advance(0.001)
            if kind == "wait":
                self._clock.now += rest[0]
            elif kind == "memory":
                self._toggle(*rest)
            else:
                self._region(kind, *rest)

    def _toggle(self, address: int, nbytes: int) -> None:
        if address in self._blocks:
            free(self._blocks.pop(address), address)
        else:
            self._blocks[address] = nbytes
            allocate(nbytes, address)

    def _region(self, kind: str, name: str, seq: int, steps: list[Step]) -> None:
        try:
            with record_function(name) if kind == "annotation" else op(name, [(2, 3)], seq=seq):
                self.run(steps)
                self._clock.advance(0.001)
                if kind == "abort":
                    raise Aborted
        except Aborted:
            pass


def recorded(ticks: Clock, program: list[list[Step]], finish: Callable[[], None] | None = None) -> profile:
    with profile(record_shapes=True, profile_memory=True, all_threads=True) as prof:
        Runner(ticks).run(program[0])
        for steps in program[1:]:
            thread = threading.Thread(target=Runner(ticks).run, args=(steps,))
            thread.start()
            thread.join()
        if finish is not None:
            finish()
    return prof


def captured(prof: profile) -> Capture:
    assert prof.profiler is not None
    return prof.profiler.newest_capture()


def rows(capture: Capture) -> tuple[list[Any], list[Any]]:
    """Everything a trace is to keep of its events, sorted."""
    metrics = Metrics(capture, echoes=True)
    found = []
    for place in np.flatnonzero(~metrics.is_mark).tolist():
        kind = metrics.kind_of(int(metrics.kind[place]))
        record = metrics.input_record(int(metrics.kind[place]), int(metrics.inputs[place]))
        start, length, seq = (int(column[place]) for column in (metrics.start_ns, metrics.total_ns, metrics.seq))
        thread = capture.tracks[int(metrics.track[place])].native_id
        shapes = [list(shape) for shape in record.shapes]
        found.append((start + capture.epoch_ns, length, kind.name, kind.category, seq, thread, shapes))
    memory = metrics.memory_events
    return sorted(found), sorted(zip(memory.time_ns + capture.epoch_ns, memory.nbytes, memory.address, memory.total))


@QUICK
@given(program=PROGRAMS, suffix=st.sampled_from([".json", ".json.gz"]))
def test_what_is_recorded_comes_back(
    clock: Clock,  # noqa: F811
    tmp_path: Path,
    program: list[list[Step]],
    suffix: str,
) -> None:
    prof = recorded(clock, program)
    path = tmp_path / f"trace{suffix}"
    prof.export_chrome_trace(path)
    assert rows(load(path)) == rows(captured(prof))


@QUICK
@given(program=PROGRAMS, crossings=st.lists(st.integers(0, 3), max_size=12))
def test_slices_of_a_thread_nest_whatever_happens(
    clock: Clock,  # noqa: F811
    tmp_path: Path,
    program: list[list[Step]],
    crossings: list[int],
) -> None:
    """Regions are also begun and ended in any order; some are still open at the end."""

    regions: dict[int, tap.region] = {}

    def cross() -> None:
        for number in crossings:
            clock.advance(1)
            if number in regions:
                regions.pop(number).__exit__()
            else:
                regions[number] = op(f"crossing {number}")
                regions[number].__enter__()
        clock.advance(1)

    prof = recorded(clock, program, cross)
    for region in regions.values():
        region.__exit__()
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    threads: dict[int, list[tuple[int, int]]] = {}
    for event in events:
        if event["ph"] == "X" and event["cat"] != "Trace":
            start, length = round(event["ts"] * 1000), round(event["dur"] * 1000)
            threads.setdefault(event["tid"], []).append((start, -(start + length)))
    for spans in threads.values():
        open_ends: list[int] = []
        for start, end in sorted(spans):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or -end <= open_ends[-1]
            open_ends.append(-end)
    shown = sum(event["ph"] in "Xb" and event.get("cat") != "Trace" for event in events)
    assert shown == len(rows(captured(prof))[0])


@QUICK
@given(program=PROGRAMS)
def test_self_times_and_memory_add_up(clock: Clock, program: list[list[Step]]) -> None:  # noqa: F811
    metrics = Metrics(captured(recorded(clock, program)), echoes=True)
    top = metrics.parent < 0
    assert metrics.self_ns.sum() == metrics.total_ns[top].sum()
    assert metrics.self_memory.sum() == metrics.memory_events.nbytes.sum()
    assert metrics.memory[top].sum() == metrics.memory_events.nbytes.sum()


def test_regions_open_at_the_end_are_in_the_trace(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    still = op("aten::add")

    def leave_open() -> None:
        clock.advance(1)
        still.__enter__()
        clock.advance(3)

    prof = recorded(clock, [[]], leave_open)
    prof.export_chrome_trace(tmp_path / "trace.json")
    (row,) = rows(load(tmp_path / "trace.json"))[0]
    assert row[1:3] == (3000, "aten::add")
    still.__exit__()
    with pytest.raises(AttributeError):
        profile().profiler.newest_capture()  # type: ignore[union-attr]
