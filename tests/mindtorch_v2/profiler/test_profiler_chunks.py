"""Rows on their way out of the lanes: packed without loss, nothing lost or doubled at the seams."""

import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindtorch_v2.core import tap
from mindtorch_v2.profiler import profile
from mindtorch_v2.profiler.record import chunks
from mindtorch_v2.profiler.record.recorder import RECORDER
from profiler_clock import Clock, allocate, clock, free, op  # noqa: F401

int64 = st.integers(-(2**63), 2**63 - 1)
rows_of_three = st.lists(st.tuples(int64, int64, st.integers(0, 300)), min_size=1, max_size=50)


@given(rows_of_three)
def test_packed_rows_come_back_as_they_were(rows: list[tuple[int, int, int]]) -> None:
    matrix = np.array(rows, np.int64)
    packed = chunks.pack(matrix)
    again = chunks.unpack_bytes(b"before" + packed.to_bytes(), len(b"before"), 3)
    for found in (packed, again):
        unpacked = [column.unpacked(found.size) for column in found.columns]
        assert np.array_equal(np.stack(unpacked, axis=1), matrix)


def test_a_million_typical_rows_take_few_bytes() -> None:
    number = np.arange(chunks.SLICE)
    start = 10**15 + number * 2000
    rows = np.stack([start, start + 1500, number % 900, number * 0 - 1, number % 40, number % 500], axis=1)
    assert len(chunks.pack(rows).to_bytes()) / len(rows) < 20


@pytest.mark.parametrize("content", [b"", b"\x05\0\0\0\x03", b"\xff\xff\xff\xff\x03" + b"\0" * 27])
def test_bytes_that_are_no_rows_are_refused(content: bytes) -> None:
    with pytest.raises((ValueError, chunks.struct.error)):
        chunks.unpack_bytes(content, 0, 3)


def test_a_chunk_is_the_same_flat_packed_or_as_native_ints() -> None:
    flat = [value for number in range(20_000) for value in (number, number * 2, 7)]
    kinds = [
        chunks.Chunk(5, [flat[:3000], flat[3000:]], 3),
        chunks.Chunk(5, [np.array(flat, np.int64).tobytes()], 3),
        chunks.Chunk(5, [flat], 3),
    ]
    kinds[2].pack()
    for chunk in kinds:
        assert chunk.count == 20_000
        columns = chunks.columns_from([chunk], 10, (np.int64, np.int32, np.int32))
        assert [column.tolist() for column in columns] == [flat[place::3][5:] for place in range(3)]


def test_a_stream_keeps_places_when_its_beginning_is_dropped() -> None:
    stream = chunks.Stream(1)
    for part in ([0, 1, 2], [3, 4], [5]):
        stream.add(part)
        stream.seal()
    stream.add([6, 7])
    stream.drop(4)
    assert [chunk.first for chunk in stream.chunks] == [3, 5]
    assert stream.count == 8
    (column,) = chunks.columns_from(stream.since(4), 4, (np.int64,))
    assert column.tolist() == [4, 5, 6, 7]


def drained(work: Callable[[], object]) -> None:
    """Run some work while another thread does nothing but move rows into chunks."""
    finished = threading.Event()

    def drain() -> None:
        while not finished.is_set():
            RECORDER._drain()

    thread = threading.Thread(target=drain)
    thread.start()
    try:
        work()
    finally:
        finished.set()
        thread.join()


def sequence_numbers(prof: profile) -> list[list[int]]:
    assert prof.profiler is not None
    return [track.seq.tolist() for track in prof.profiler._recordings[0].capture().tracks]


def test_nothing_is_lost_or_doubled_while_lanes_are_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindtorch_v2.profiler.record.recorder.SLICE", 10)
    count = 3000
    event = tap.event_id("counted")

    def work() -> None:
        for number in range(count):
            with tap.region(event, number):
                pass

    with profile() as outer:

        def nested() -> None:
            work()
            with profile() as inner:
                work()
            assert sequence_numbers(inner) == [list(range(count))]

        drained(nested)
    assert sequence_numbers(outer) == [list(range(count)) * 2]


def test_all_threads_are_whole_while_lanes_are_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindtorch_v2.profiler.record.recorder.SLICE", 10)
    event = tap.event_id("counted")

    def work() -> None:
        for number in range(1000):
            with tap.region(event, number):
                pass

    def threads() -> None:
        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    with profile(all_threads=True) as prof:
        drained(threads)
    # Threads that other tests have left behind have tracks too, with nothing on them.
    assert [numbers for numbers in sequence_numbers(prof) if numbers] == [list(range(1000))] * 3


def test_windows_that_overlap_share_chunks_and_drop_what_nobody_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindtorch_v2.profiler.record.recorder.SLICE", 1)
    lane = RECORDER.own_lane()
    first, second = profile(), profile()
    first.start()
    for name, action in (("one", second.start), ("two", first.stop), ("three", second.stop)):
        with op(name):
            pass
        RECORDER._drain()
        action()
        if name == "two":
            assert lane.written.chunks[0].first == 1
    assert [event.name for event in first.events()] == ["one", "two"]
    assert [event.name for event in second.events()] == ["two", "three"]
    assert lane.written.chunks == []


def test_memory_events_survive_the_seams(clock: Clock) -> None:  # noqa: F811
    with profile(profile_memory=True) as prof:
        for number in range(4):
            with op("aten::empty"):
                clock.advance(1)
                allocate(64, number)
                clock.advance(1)
            clock.advance(1)
            RECORDER._drain()
        free(64, 0)
    totals = [event.self_cpu_memory_usage for event in prof.events()]
    assert totals == [64, 64, 64, 64, -64]


def test_the_profilers_own_thread_ends_with_the_last_session() -> None:
    with profile():
        assert RECORDER._drain() > 0
    assert RECORDER._drain() == 0


def test_packed_rows_come_apart_into_the_same_rows() -> None:
    rows = np.stack([np.arange(25) * 1000, np.full(25, 7), np.arange(25) % 3], axis=1)
    parts = list(chunks.parts_of(chunks.pack(rows), 10))
    assert [(low, part.size) for low, part in parts] == [(0, 10), (10, 10), (20, 5)]
    again = [np.stack([column.unpacked(part.size) for column in part.columns], axis=1) for _, part in parts]
    assert np.array_equal(np.concatenate(again), rows)
