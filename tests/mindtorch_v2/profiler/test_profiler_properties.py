"""Random recordings keep their identities, survive being written and read, and random files never break the reader."""

import contextlib
import gzip
import json
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mindtorch_v2.core import tap
from mindtorch_v2.profiler import TraceError, load, profile, record_function
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.api.trace import Trace
from mindtorch_v2.profiler.capture.capture import Capture
from mindtorch_v2.profiler.export import write
from profiler_clock import Clock, allocate, free, op
from protobuf_files import Perfetto

# A few in every run of the suite; MINDTORCH_EXAMPLES=10000 for a long night.
EXAMPLES = int(os.environ.get("MINDTORCH_EXAMPLES", "40"))


class Aborted(Exception):
    """What regions are left by."""


# A program is a list of actions; ("op", ...) and ("note", ...) hold the actions inside of them.
NAMES = st.sampled_from(["aten::add", "aten::mm", "MulBackward0", 'odd "name" \\ é', ""])
SHAPES = st.lists(st.lists(st.integers(0, 9), max_size=2).map(tuple), max_size=2)
LEAVES = st.one_of(
    st.tuples(st.just("allocate"), st.integers(1, 1 << 40), st.integers(1, 4)),
    st.tuples(st.just("free"), st.integers(1, 4)),
    st.tuples(st.just("wait"), st.integers(0, 2_000)),
    st.tuples(st.just("abort")),
)
PROGRAMS = st.recursive(
    st.lists(LEAVES, max_size=3),
    lambda inner: st.lists(
        st.one_of(
            LEAVES,
            st.tuples(st.just("op"), NAMES, SHAPES, st.integers(-1, 5), inner),
            st.tuples(st.just("note"), NAMES, inner),
            st.tuples(st.just("unended"), NAMES, inner),
        ),
        max_size=4,
    ),
    max_leaves=12,
)
THREADS = st.lists(PROGRAMS, min_size=1, max_size=3)


class Machine:
    """Runs programs under the recorder by a clock of its own."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.blocks: dict[int, int] = {}
        # Regions that nobody ends, kept alive.
        self.left: list[Any] = []

    def run(self, program: list[Any]) -> None:
        for action, *rest in program:
            # Time passes between actions, as it does in life.
            self.clock.advance(0.001)
            getattr(self, action)(*rest)
            self.clock.advance(0.001)

    def op(self, name: str, shapes: list[tuple[int, ...]], seq: int, inner: list[Any]) -> None:
        with op(name, shapes, seq):
            self.run(inner)
            self.clock.advance(0.001)

    def note(self, name: str, inner: list[Any]) -> None:
        with contextlib.suppress(Aborted), record_function(name):
            self.run(inner)
            self.clock.advance(0.001)

    def unended(self, name: str, inner: list[Any]) -> None:
        region = op(name)
        region.__enter__()
        self.left.append(region)
        self.run(inner)

    def allocate(self, nbytes: int, block: int) -> None:
        if not self.blocks.get(block):
            self.blocks[block] = nbytes
            allocate(nbytes, block << 12)

    def free(self, block: int) -> None:
        # What has never been allocated here is taken for a block from before, which is freed but once.
        if nbytes := self.blocks.get(block, 8):
            self.blocks[block] = 0
            free(nbytes, block << 12)

    def wait(self, ns: int) -> None:
        self.clock.advance(ns / 1000)

    def abort(self) -> None:
        raise Aborted

    def thread(self, program: list[Any]) -> None:
        with contextlib.suppress(Aborted):
            self.run(program)


# One for all recordings: regions that nobody ended must stay in the past of the next.
CLOCK = Clock()


@contextlib.contextmanager
def fake_clock() -> Iterator[Clock]:
    real = tap.NAMESPACE["clock"]
    tap.set_clock(CLOCK)
    try:
        yield CLOCK
    finally:
        tap.set_clock(real)


def record(programs: list[list[Any]]) -> profile:
    with fake_clock() as clock:
        machine = Machine(clock)
        clock.advance(1)
        with profile(record_shapes=True, profile_memory=True, all_threads=True) as prof:
            for program in programs:
                thread = threading.Thread(target=machine.thread, args=(program,))
                thread.start()
                thread.join()
                clock.advance(0.001)
    return prof


def facts(events: Any) -> list[tuple[Any, ...]]:
    return [
        (
            event.name,
            event.activity_type,
            event.thread,
            event.time_range.start,
            event.time_range.elapsed_us(),
            event.sequence_nr,
            event.input_shapes,
            event.cpu_memory_usage,
            event.self_cpu_memory_usage,
            event.self_cpu_time_total,
            None if event.cpu_parent is None else event.cpu_parent.time_range.start,
        )
        for event in events
    ]


def check_identities(metrics: Metrics) -> None:
    """What must hold in any recording."""
    inner = np.flatnonzero(metrics.parent >= 0)
    around = metrics.parent[inner]
    assert (metrics.track[inner] == metrics.track[around]).all()
    assert (metrics.start_ns[around] <= metrics.start_ns[inner]).all()
    assert (metrics.end_ns[around] >= metrics.end_ns[inner]).all()
    assert (around < inner).all()
    assert (metrics.self_ns >= 0).all()
    assert (metrics.self_ns <= metrics.total_ns).all()
    roots = metrics.parent < 0
    if metrics.nests:
        assert metrics.self_ns.sum() == metrics.total_ns[roots].sum()
        # Every byte is counted once: in the outermost event of its thread, or as a mark of its own.
        assert metrics.self_memory.sum() == metrics.memory[roots].sum() == metrics.memory_events.nbytes.sum()


def slices(capture: Capture) -> Counter[tuple[str, int, int]]:
    """Names and times of all regions."""
    return Counter(
        (capture.kinds[kind].name, start + capture.epoch_ns, end - start)
        for track in capture.tracks
        for kind, start, end in zip(track.kind.tolist(), track.start_ns.tolist(), track.end_ns.tolist())
    )


def check_files(capture: Capture, folder: Path) -> None:
    for suffix in (".json", ".json.gz"):
        write(capture, folder / f"a{suffix}")
        assert slices(load(folder / f"a{suffix}")) == slices(capture)
    write(capture, folder / "a.pftrace")
    found = Counter((name, start, length) for _, name, start, length, _ in Perfetto(folder / "a.pftrace").slices)
    assert found - slices(capture) == Counter({("PyTorch Profiler (0)", capture.epoch_ns, span(capture)): 1})
    assert not slices(capture) - found
    write(capture, folder / "a.speedscope.json")
    profiles = json.loads((folder / "a.speedscope.json").read_text())["profiles"]
    metrics = Metrics(capture)
    assert sum(sum(one["weights"]) for one in profiles) == metrics.self_ns.sum()


def span(capture: Capture) -> int:
    return capture.stop_ns - capture.start_ns


@settings(max_examples=EXAMPLES)
@given(THREADS)
def test_random_programs_are_recorded_truly_and_read_back(programs: list[list[Any]]) -> None:
    prof = record(programs)
    with tempfile.TemporaryDirectory() as folder:
        prof.export_chrome_trace(os.path.join(folder, "a.json"))
        back = load(os.path.join(folder, "a.json"))
        offset = [event.thread for event in prof.events()], [event.thread for event in back.events()]
        same = dict(zip(*offset))
        first = [(row[0], row[1], same[row[2]], *row[3:]) for row in facts(prof.events())]
        assert first == facts(back.events())
        assert back.key_averages().table() == prof.key_averages().table()
        check_identities(Metrics(back))
        check_identities(back.events()._views[0].metrics)
        check_files(back, Path(folder))


# Slices of random times: nested, overlapping, crossing, without length, on several threads at once.
SLICES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(0, 40), st.integers(1, 2)), max_size=14
)


@settings(max_examples=EXAMPLES)
@given(SLICES)
def test_random_slices_survive_every_format(rows: list[tuple[str, int, int, int]]) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 9, "tid": tid, "ts": ts / 1000, "dur": dur / 1000, "args": {}}
        for name, ts, dur, tid in rows
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "source.json"
        path.write_text(json.dumps({"traceEvents": events}))
        trace = load(path)
        assert sum(len(track) for track in trace.tracks) == len(rows)
        check_identities(Metrics(trace))
        check_identities(Metrics(trace).whole())
        check_files(trace, Path(folder))


# Files


def sample_file() -> bytes:
    prof = record([[("op", "aten::mm", [(2, 3)], 1, [("allocate", 64, 1), ("op", "aten::add", [], -1, [])])]])
    with tempfile.TemporaryDirectory() as folder:
        prof.export_chrome_trace(os.path.join(folder, "a.json"))
        return Path(folder, "a.json").read_bytes()


SAMPLE = sample_file()
EDITS = st.lists(
    st.tuples(
        st.integers(0, len(SAMPLE)),
        st.integers(0, 12),
        st.one_of(
            st.binary(max_size=4),
            st.sampled_from([b'"', b"{", b"}", b"[", b"]", b",", b"1e999", b"NaN", b"null", b"-", b"\\u", b"9" * 40]),
        ),
    ),
    min_size=1,
    max_size=4,
)


def check_reading(data: bytes) -> None:
    """A file is read, or refused with a position in it; what is read can be shown."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        path.write_bytes(data)
        outcome: Trace | TraceError
        try:
            outcome = load(path)
        except TraceError as error:
            outcome = error
        if isinstance(outcome, TraceError):
            assert 0 <= outcome.position <= len(data)
        else:
            outcome.key_averages().table()
            outcome.export(Path(folder) / "b.json")


@settings(max_examples=EXAMPLES)
@given(EDITS)
def test_files_with_random_damage_are_read_or_refused(edits: list[tuple[int, int, bytes]]) -> None:
    data = SAMPLE
    for place, length, new in edits:
        data = data[:place] + new + data[place + length :]
    check_reading(data)


@settings(max_examples=EXAMPLES)
@given(st.integers(0, len(SAMPLE) - 2), st.booleans())
def test_files_cut_short_are_refused(length: int, compressed: bool) -> None:
    data = SAMPLE[:length].rstrip()
    if compressed:
        whole = gzip.compress(SAMPLE)
        data = whole[: max(3, length * len(whole) // len(SAMPLE) - 1)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        path.write_bytes(data)
        try:
            load(path)
        except TraceError:
            return
        raise AssertionError(f"the first {len(data)} bytes were taken for a whole trace")


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
FLAT = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.text(max_size=5), SCALARS, max_size=2))
JSON = st.one_of(FLAT, st.lists(FLAT, max_size=3))
KEYS = st.sampled_from("ph cat name pid tid ts dur args id".split())
VALUES = st.one_of(
    JSON,
    st.sampled_from(["X", "B", "E", "b", "e", "i", "M", "[memory]", "kernel", "cuda_runtime", "process_name"]),
    st.dictionaries(
        st.sampled_from(["External id", "Bytes", "Addr", "Input Dims", "Call stack", "stream", "device", "name"]), JSON
    ),
)


@settings(max_examples=EXAMPLES)
@given(st.lists(st.dictionaries(KEYS, VALUES, min_size=4), max_size=5))
def test_events_of_any_content_are_read_or_refused(events: list[dict[str, Any]]) -> None:
    check_reading(json.dumps({"traceEvents": events}).encode())
