"""Recordings that go to a file: the same as in memory, whole after the death of the process, readable after damage."""

import errno
import gzip
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mindtorch_v2 as torch
import spool_kills
from mindtorch_v2 import nn
from mindtorch_v2.core import tap
from mindtorch_v2.profiler import ProfilerActivity, load, profile, record_function, recover, schedule
from mindtorch_v2.profiler.capture import spool, spoolfile
from mindtorch_v2.profiler.capture.capture import Capture
from mindtorch_v2.profiler.export import FORMATS, write
from mindtorch_v2.profiler.record.recorder import RECORDER
from profiler_clock import Clock, allocate, clock, op  # noqa: F401

EVERYTHING: dict[str, bool] = {
    "record_shapes": True,
    "with_stack": True,
    "profile_memory": True,
    "with_flops": True,
    "with_modules": True,
}


def flush() -> None:
    """What the background thread does from time to time."""
    for session in RECORDER.sessions:
        if session.sink is not None:
            session.sink.flush()


def live_capture(prof: profile) -> Capture:
    assert prof.profiler is not None
    return prof.profiler._recordings[0].capture()


def names(capture: Capture) -> list[str]:
    return [capture.kinds[kind].name for track in capture.tracks for kind in track.kind.tolist()]


def train(steps: int) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        with record_function("train", "an argument"):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(torch.ones(3, 4)), torch.tensor([0, 1, 0]))
            loss.backward()
            optimizer.step()
            torch.ones(2) * complex(1, 2)
            torch.full((2,), float("inf")).clamp(min=-1.5).reshape((1, 2))
        flush()


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[profile, Path]:
    path = tmp_path / "run.mtspool"
    with profile(**EVERYTHING, spool=path) as prof:  # type: ignore[arg-type]
        prof.add_metadata("purpose", "test")
        train(3)
    return prof, path


def test_what_is_recovered_equals_what_was_recorded(recorded: tuple[profile, Path], tmp_path: Path) -> None:
    prof, path = recorded
    live, found = live_capture(prof), recover(path)
    assert names(found) == names(live)
    assert "ended in order" in found.notes[0]
    assert len(found.notes) == 1
    for options in ({}, {"group_by_input_shape": True}, {"group_by_stack_n": 3}, {"include_python_functions": True}):
        tables = [rows.key_averages(**options).table(row_limit=-1) for rows in (prof, found)]
        assert tables[0] == tables[1]
    found.first_id = live.first_id
    prof.export_chrome_trace(tmp_path / "trace.json")
    expected = (tmp_path / "trace.json").read_bytes()
    found.export(tmp_path / "trace.json")
    assert (tmp_path / "trace.json").read_bytes() == expected


@pytest.mark.parametrize("suffix", sorted(set(FORMATS) - {".parquet"}))
def test_other_exports_of_what_is_recovered_are_equal_too(
    recorded: tuple[profile, Path], tmp_path: Path, suffix: str
) -> None:
    prof, path = recorded
    live, found = live_capture(prof), recover(path)
    found.first_id = live.first_id
    live.metadata.update(found.metadata)
    files = []
    for capture in (live, found):
        write(capture, tmp_path / f"out{suffix}")
        content = (tmp_path / f"out{suffix}").read_bytes()
        # The head of a gzip file says when it was written.
        files.append(gzip.decompress(content) if suffix.endswith(".gz") else content)
    assert files[0] == files[1]


def test_the_program_sees_no_difference(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    def run(prof: profile) -> list[tuple[Any, ...]]:
        with prof, record_function("around"):
            for number in range(5):
                with op("aten::add", [(number, 2)]):
                    clock.advance(3)
                    allocate(8, number)
                flush()
        return [(e.name, e.cpu_time_total, e.input_shapes, e.self_cpu_memory_usage) for e in prof.events()]

    options: dict[str, Any] = {"record_shapes": True, "profile_memory": True}
    assert run(profile(**options, spool=tmp_path / "run.mtspool")) == run(profile(**options))


def test_rows_that_are_in_the_file_are_not_in_memory(tmp_path: Path) -> None:
    with profile(spool=tmp_path / "run.mtspool"):
        for _ in range(3):
            with op("aten::add"):
                pass
            flush()
            assert RECORDER.own_lane().written.chunks == []
    assert names(recover(tmp_path / "run.mtspool")) == ["aten::add"] * 3


def test_load_reads_spools(recorded: tuple[profile, Path]) -> None:
    assert names(load(recorded[1])) == names(recover(recorded[1]))


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_a_schedule_spools_every_active_window(tmp_path: Path, clock: Clock) -> None:  # noqa: F811
    path = tmp_path / "run.mtspool"
    ready: list[list[str]] = []
    with profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda prof: ready.append([event.name for event in prof.events()]),
        spool=path,
    ) as prof:
        for number in range(8):
            with op(f"op {number}"):
                clock.advance(10)
            clock.advance(1)
            prof.step()
    found = recover(path)
    assert [name for name in names(found) if name.startswith("op")] == ["op 2", "op 3", "op 6", "op 7"]
    assert ready == [
        ["ProfilerStep*", "op 2", "ProfilerStep*", "op 3"],
        ["ProfilerStep*", "op 6", "ProfilerStep*", "op 7"],
    ]
    assert names(recover(path, window=2)) == ["op 6", "ProfilerStep#6", "op 7", "ProfilerStep#7"]
    (track,) = found.tracks
    assert (track.start_ns[track.kind == track.kind[0]] == 0).all()
    assert int(track.end_ns[-1]) == 66_000
    assert found.pauses == [[found.start_ns + 22_000, found.start_ns + 44_000]]
    with pytest.raises(ValueError, match="has no window 3; it has 1, 2"):
        recover(path, window=3)


def test_a_profiler_that_starts_again_goes_on_in_its_file(tmp_path: Path) -> None:
    prof = profile(spool=tmp_path / "run.mtspool", acc_events=True)
    for name in ("one", "two"):
        prof.start()
        with op(name):
            pass
        prof.stop()
    found = recover(tmp_path / "run.mtspool")
    assert names(found) == ["one", "two"]
    assert "ended in order" in found.notes[0]


def test_the_older_profiler_has_a_spool_too(tmp_path: Path) -> None:
    with torch.autograd.profiler.profile(spool=tmp_path / "run.mtspool"), op("aten::add"):
        pass
    assert names(recover(tmp_path / "run.mtspool")) == ["aten::add"]


def test_regions_in_progress_are_recovered_up_to_the_last_flush(tmp_path: Path, clock: Clock) -> None:  # noqa: F811
    path, copy = tmp_path / "run.mtspool", tmp_path / "copy.mtspool"
    with profile(spool=path), record_function("epoch"):
        clock.advance(5)
        with op("aten::add"):
            clock.advance(5)
            flush()
            copy.write_bytes(path.read_bytes())
        clock.advance(5)
    found = recover(copy)
    assert sorted(names(found)) == ["aten::add", "epoch"]
    assert "ended while it recorded: recovered up to 0.000 s" in found.notes[0]
    assert [(event.name, event.cpu_time_total) for event in found.events()] == [("epoch", 10.0), ("aten::add", 5.0)]
    assert len(recover(path).events()) == 2


def test_a_region_that_ends_while_the_spool_is_written_counts_once(tmp_path: Path, clock: Clock) -> None:  # noqa: F811
    path, copy = tmp_path / "run.mtspool", tmp_path / "copy.mtspool"
    with profile(spool=path):
        with op("aten::add"):
            lane = RECORDER.own_lane()
            entry = list(lane.open)
        lane.open += entry  # as if it was looked at a moment earlier
        flush()
        lane.open.clear()
        copy.write_bytes(path.read_bytes())
    assert names(recover(copy)) == ["aten::add"]


actions = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.sampled_from(["a", "b", "c"]), st.integers(0, 3)),
        st.tuples(st.sampled_from(["close", "flush", "pause", "resume"])),
        st.tuples(st.just("allocate"), st.integers(1, 50), st.integers(0, 5)),
        st.tuples(st.just("advance"), st.integers(0, 20)),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=actions)
def test_whatever_a_program_does_its_spool_tells_the_same(
    plan: list[tuple[Any, ...]],
    clock: Clock,  # noqa: F811
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.mtspool"
    opened: list[Any] = []
    with profile(record_shapes=True, profile_memory=True, spool=path) as prof:
        for action, *arguments in plan:
            if action == "open":
                opened.append(op(arguments[0], [(arguments[1],)], seq=len(opened)).__enter__())
            elif action == "close" and opened:
                # Not always the innermost one, as when tasks take turns.
                opened.pop(-1 if len(opened) % 3 else 0).__exit__()
            elif action == "flush":
                flush()
            elif action in ("pause", "resume"):
                prof.toggle_collection_dynamic(action == "resume", [ProfilerActivity.CPU])
            elif action == "allocate":
                allocate(*arguments)
            elif action == "advance":
                clock.advance(arguments[0])
    for region in opened:
        region.__exit__()
    live, found = live_capture(prof), recover(path)
    assert [event_facts(event) for event in found.events()] == [event_facts(event) for event in prof.events()]
    assert found.pauses == live.pauses


def event_facts(event: Any) -> tuple[Any, ...]:
    times = (event.time_range.start, event.time_range.end, event.self_cpu_time_total)
    return (event.name, *times, event.sequence_nr, event.input_shapes, event.cpu_memory_usage, event.thread)


def test_all_threads_of_a_spool_are_recovered(tmp_path: Path) -> None:
    path = tmp_path / "run.mtspool"

    def work(name: str) -> None:
        for _ in range(3):
            with op(name):
                pass
            flush()

    with profile(spool=path, all_threads=True) as prof:
        for name in ("one", "two"):
            thread = threading.Thread(target=work, args=(name,), name=f"thread {name}")
            thread.start()
            thread.join()
    live, found = live_capture(prof), recover(path)
    assert [(track.index, track.native_id, track.name, len(track)) for track in found.tracks] == [
        (track.index, track.native_id, track.name, len(track)) for track in live.tracks
    ]
    assert names(found) == names(live) == ["one"] * 3 + ["two"] * 3


def test_a_spool_without_a_window_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "run.mtspool"
    with profile(schedule=schedule(wait=5, warmup=1, active=1), spool=path):
        pass
    found = recover(path)
    assert found.is_empty
    assert len(found.events()) == len(found.key_averages()) == 0
    assert "ended in order" in found.notes[0]


def test_inputs_that_cannot_be_described_do_not_disturb_the_program(tmp_path: Path) -> None:
    class Strange:
        shapes = property(lambda self: [][0])

    with profile(spool=tmp_path / "run.mtspool", record_shapes=True):
        with op("before"):
            pass
        flush()
        with tap.region(tap.event_id("strange"), inputs=tap.intern_inputs(Strange())):
            pass
        with pytest.warns(RuntimeWarning, match="IndexError.*Record without record_shapes"):
            flush()
    assert names(recover(tmp_path / "run.mtspool")) == ["before"]


# Damage


def test_a_spool_cut_anywhere_gives_what_was_before_the_cut(recorded: tuple[profile, Path], tmp_path: Path) -> None:
    whole = recorded[1].read_bytes()
    expected = names(recover(recorded[1]))
    cut = tmp_path / "cut.mtspool"
    for length in [*range(8, len(whole), 997), len(whole) - 1]:
        cut.write_bytes(whole[:length])
        found = recover(cut)
        assert "ended in order" not in found.notes[0]
        assert set(names(found)) <= set(expected)
    assert sum(len(track) for track in found.tracks) == len(expected)


def frames_of(path: Path) -> list[spoolfile.Frame]:
    with spoolfile.opened(path) as data:
        return list(spoolfile.frames(data))


def test_a_damaged_chunk_is_skipped_and_told(tmp_path: Path) -> None:
    path = tmp_path / "run.mtspool"
    with profile(spool=path):
        for name in ("one", "two", "two", "three"):
            with op(name):
                pass
            flush()
    data = bytearray(path.read_bytes())
    rows = [frame for frame in frames_of(path) if frame.sort == spool.ROWS]
    data[rows[2].offset + 40] ^= 0xFF
    path.write_bytes(data)
    found = recover(path)
    assert names(found) == ["one", "two", "three"]
    assert found.notes[1:] == [
        f"{len(rows[2].payload) + 13} damaged bytes at offset {rows[2].offset} were skipped",
        "1 rows were in damaged chunks and are lost",
    ]


def test_a_lost_table_leaves_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "run.mtspool"
    with profile(spool=path, record_shapes=True), op("aten::add", [(2, 2)]):
        pass
    data = bytearray(path.read_bytes())
    for frame in frames_of(path):
        if frame.sort in (spool.KINDS, spool.INPUTS):
            data[frame.offset + 20] ^= 0xFF
    path.write_bytes(data)
    found = recover(path)
    assert [name.startswith("<lost name") for name in names(found)] == [True]
    assert "1 names of events were in damaged chunks and are lost" in found.notes
    assert "1 records of inputs were in damaged chunks and are lost" in found.notes


def spool_of(*chunks: tuple[bytes, Any]) -> bytes:
    parts = [spoolfile.MAGIC]
    for sort, content in chunks:
        payload = content if isinstance(content, bytes) else json.dumps(content).encode()
        head = struct.pack("<4sBII", b"\xf5MTC", sort[0], len(payload), spoolfile._checksum(sort[0], payload))
        parts.append(head + payload)
    return b"".join(parts)


BEGIN = {"window": 1, "trace_id": "", "options": {}, "start_ns": 5, "epoch_ns": 5}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 something else",
        spool_of((spool.HEADER, b"{not json")),
        spool_of((spool.HEADER, {"version": 2})),
        spool_of((spool.HEADER, b"[" * 100_000)),
        spool_of((spool.BEGIN, {"window": 1})),
        spool_of((spool.BEGIN, {**BEGIN, "start_ns": "soon"})),
        spool_of((spool.BEGIN, BEGIN), (spool.KINDS, [[1, 2, 3]])),
        spool_of((spool.BEGIN, BEGIN), (spool.INPUTS, [[1, 1, [[], [], [], [], ["x"]], 0, 0]])),
        spool_of((spool.BEGIN, BEGIN), (spool.INPUTS, [[1, 1, [[], [], [], [], [[1, 2]]], 0, 0]])),
        spool_of((spool.BEGIN, BEGIN), (spool.STACKS, [1, [["a", "b"]]])),
        spool_of((spool.BEGIN, BEGIN), (spool.ROWS, b"short")),
        spool_of((spool.BEGIN, BEGIN), (spool.ROWS, struct.pack("<IIQIB", 1, 1, 0, 2**32 - 1, 6) + b"\0" * 54)),
        spool_of((spool.BEGIN, BEGIN), (spool.ROWS, struct.pack("<IIQIB", 1, 1, 0, 1000, 3) + b"\0" * 27)),
    ],
)
def test_hostile_files_give_an_error_that_says_where(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "hostile.mtspool"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"hostile\.mtspool.*at offset \d+"):
        recover(path)


def test_rows_that_end_before_they_start_are_refused(tmp_path: Path) -> None:
    rows = spool.pack(np.array([[9, 7, 0, -1, 0, 0]], np.int64)).to_bytes()
    path = tmp_path / "hostile.mtspool"
    path.write_bytes(spool_of((spool.BEGIN, BEGIN), (spool.ROWS, spool.PLACE.pack(1, 1, 0) + rows)))
    with pytest.raises(ValueError, match="make no sense"):
        recover(path)


@pytest.mark.parametrize("row", [(1 << 62, 0, 1, 1, 0), (9, 0, 1 << 62, 1, 0), (9, 0, 1, -(1 << 62), 0)])
def test_roles_of_memory_that_make_no_sense_are_refused(tmp_path: Path, row: tuple[int, ...]) -> None:
    rows = spool.pack(np.array([row], np.int64)).to_bytes()
    path = tmp_path / "hostile.mtspool"
    path.write_bytes(spool_of((spool.BEGIN, BEGIN), (spool.ROLES, spool.PLACE.pack(1, 0, 0) + rows)))
    with pytest.raises(ValueError, match="roles of memory make no sense"):
        recover(path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_whatever_is_overwritten_the_rest_is_read(
    recorded: tuple[profile, Path], tmp_path: Path, changes: list[tuple[float, int]]
) -> None:
    data = bytearray(recorded[1].read_bytes())
    for place, value in changes:
        data[8 + int(place * (len(data) - 9))] = value
    path = tmp_path / "changed.mtspool"
    path.write_bytes(data)
    found = recover(path)
    found.key_averages()
    assert (data == recorded[1].read_bytes()) == (len(found.notes) == 1)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        recover(tmp_path / "nowhere.mtspool")
    with pytest.raises(FileNotFoundError):
        profile(spool=tmp_path / "no folder" / "run.mtspool").start()
    assert RECORDER.sessions == []


# A full disk


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A disk with room for some more bytes; what is there already takes none again."""
    room = [1 << 60]
    size = [-1]
    real = os.pwrite

    def write_some(descriptor: int, data: Any, offset: int) -> int:
        if size[0] < 0:
            size[0] = os.fstat(descriptor).st_size
        most = size[0] + room[0] - offset
        if most <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[:most], offset)

    monkeypatch.setattr(spoolfile.os, "pwrite", write_some)

    def limit(nbytes: int) -> None:
        room[0], size[0] = nbytes, -1

    return limit


@pytest.mark.parametrize("room", [0, 100, 1000])
def test_a_full_disk_stops_the_spool_and_nothing_else(
    small_disk: Callable[[int], None], tmp_path: Path, room: int
) -> None:
    def record_thirty() -> None:
        for number in range(30):
            with op(f"after {number}"):
                allocate(8, 10 + number)
            flush()

    path = tmp_path / "run.mtspool"
    with profile(spool=path, profile_memory=True) as prof:
        for number in range(3):
            with op(f"before {number}"):
                allocate(8, number)
            flush()
        small_disk(room)
        with pytest.warns(RuntimeWarning, match="cannot write to its spool .*No space left"):
            record_thirty()
    everything = [f"before {number}" for number in range(3)] + [f"after {number}" for number in range(30)]
    assert [event.name for event in prof.events()] == everything
    assert [event.cpu_memory_usage for event in prof.events()] == [8] * 33
    assert "the spool lacks a part" in live_capture(prof).notes[0]
    found = recover(path)
    assert names(found) == everything[: len(names(found))]
    assert len(names(found)) >= 3
    missing = 33 - len(names(found)) + 33 - sum(len(track.nbytes) for track in found.tracks)
    assert f"{missing} rows recorded from 0.0" in found.notes[0]


def test_a_disk_with_room_again_gets_everything(
    small_disk: Callable[[int], None],
    tmp_path: Path,
    clock: Clock,  # noqa: F811
) -> None:
    path = tmp_path / "run.mtspool"
    with profile(spool=path) as prof:
        for number in range(6):
            with op(f"op {number}"):
                clock.advance(1000)
            small_disk(0 if 1 <= number <= 3 else 1 << 30)
            if number == 1:
                with pytest.warns(RuntimeWarning, match="written once that is possible"):
                    flush()
            else:
                flush()
    assert recover(path).notes == ["the spool ended in order: nothing is missing at its end"]
    assert names(recover(path)) == [event.name for event in prof.events()] == [f"op {number}" for number in range(6)]
    assert live_capture(prof).notes == []


def test_as_many_rows_are_written_as_there_is_room_for(small_disk: Callable[[int], None], tmp_path: Path) -> None:
    def record_many() -> None:
        for _ in range(5000):
            with op("aten::add"):
                pass
        flush()

    path = tmp_path / "run.mtspool"
    room = 20_000
    with profile(spool=path):
        small_disk(room)
        with pytest.warns(RuntimeWarning, match="No space left"):
            record_many()
    # A row takes less than 20 bytes.
    assert room / 20 < len(names(recover(path))) < 5000


def test_a_spool_says_from_when_on_it_lacks_what(
    small_disk: Callable[[int], None],
    tmp_path: Path,
    clock: Clock,  # noqa: F811
) -> None:
    path, copy = tmp_path / "run.mtspool", tmp_path / "copy.mtspool"
    why = (
        "the spool could not be written any more (OSError: [Errno 28] No space left on device): recovered up to 2.000 s"
    )
    prof = profile(spool=path)
    prof.start()
    with op("before"):
        clock.advance(2_000_000)
    flush()
    small_disk(0)
    for _ in range(3):
        with op("after"):
            clock.advance(500_000)
    with pytest.warns(RuntimeWarning, match="cannot write to its spool"):
        flush()
    copy.write_bytes(path.read_bytes())
    said = f"{why} after the start of the window; 3 rows recorded from 2.500 s to 3.500 s are not in it"
    assert recover(copy).notes == [f"{said}, nor is what was recorded later"]
    prof.stop()
    assert recover(path).notes == [said]
    assert names(recover(path)) == ["before"]


def test_an_older_spool_that_says_why_it_stopped_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.mtspool"
    path.write_bytes(spool_of((spool.BEGIN, BEGIN), (spool.STOPPED, {"why": "OSError: no space"})))
    assert recover(path).notes[0].startswith("the spool could not be written any more (OSError: no space): recovered")


@pytest.mark.parametrize("start_ns", [(1 << 59) + 1, -(1 << 61)])
def test_a_time_that_no_format_takes_is_refused(start_ns: int, tmp_path: Path) -> None:
    path = tmp_path / "odd.mtspool"
    path.write_bytes(spool_of((spool.BEGIN, BEGIN | {"start_ns": start_ns})))
    with pytest.raises(ValueError, match="a time is out of range"):
        recover(path)


def test_no_write_that_fails_hurts_the_program_or_the_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    calls = [0]
    failing = [range(0)]
    number = [0]

    def write(descriptor: int, data: Any, offset: int) -> int:
        calls[0] += 1
        if calls[0] in failing[0]:
            if number[0] == errno.EAGAIN:  # stands for a short write
                return real(descriptor, data[: len(data) // 2 + 1], offset)
            raise OSError(number[0], os.strerror(number[0]))
        return real(descriptor, data, offset)

    monkeypatch.setattr(spoolfile.os, "pwrite", write)

    def run(path: Path) -> list[str]:
        calls[0] = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            with profile(spool=path, profile_memory=True) as prof:
                for step in range(3):
                    with op(f"op {step}", [(step,)]):
                        allocate(8, step)
                    flush()
        return [event.name for event in prof.events()]

    expected = run(tmp_path / "whole.mtspool")
    count = calls[0]
    for number[0] in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR, errno.EAGAIN):
        for first in range(1, count + 1):
            for length in (1, 2, 1000):
                failing[0] = range(first, first + length)
                path = tmp_path / "run.mtspool"
                assert run(path) == expected
                if path.stat().st_size == 0:
                    continue
                found = recover(path)
                assert names(found) == expected[: len(names(found))]
                assert (names(found) == expected) or "in order" not in found.notes[0]


def test_a_spool_that_somebody_removes_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "run.mtspool"
    with profile(spool=path) as prof:
        for name in ("one", "two", "three"):
            with op(name):
                pass
            flush()
            path.unlink(missing_ok=True)
    assert [event.name for event in prof.events()] == names(recover(path)) == ["one", "two", "three"]


def test_a_spool_that_somebody_cuts_short_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.mtspool"
    with profile(spool=path) as prof:
        with op("one"):
            pass
        flush()
        os.truncate(path, 600)
        with op("two"):
            pass
        with pytest.warns(RuntimeWarning, match="somebody cut the file to 600 of"):
            flush()
    assert path.stat().st_size == 600
    assert [event.name for event in prof.events()] == ["two"]
    assert any("1 rows are lost: somebody changed the spool" in note for note in live_capture(prof).notes)


def test_a_program_that_closes_all_descriptors_keeps_its_files_and_its_spool(tmp_path: Path) -> None:
    program = """
import os, sys
import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile
from mindtorch_v2.profiler.record.recorder import RECORDER
with profile(spool=sys.argv[1], workers=True) as prof:
    torch.ones(2)
    RECORDER.sessions[0].sink.flush()
    os.closerange(3, 100)
    taken = [os.open(sys.argv[2], os.O_RDWR | os.O_CREAT) for _ in range(20)]
    torch.ones(2)
    RECORDER.sessions[0].sink.flush()
assert all(os.fstat(number) for number in taken)
assert len(prof.events()) == 6, prof.events()
"""
    path, other = tmp_path / "run.mtspool", tmp_path / "other"
    subprocess.run([sys.executable, "-W", "error", "-c", program, str(path), str(other)], check=True)
    assert other.read_bytes() == b""
    assert len(names(recover(path))) == 6


def test_a_kill_between_rows_and_state_leaves_regions_whole(tmp_path: Path, clock: Clock) -> None:  # noqa: F811
    path, cut = tmp_path / "run.mtspool", tmp_path / "cut.mtspool"
    with profile(spool=path), record_function("epoch"):
        for _ in range(3):
            with op("aten::add"):
                clock.advance(10)
            flush()
    whole = path.read_bytes()
    states = [frame.offset for frame in frames_of(path) if frame.sort == spool.STATE]
    cut.write_bytes(whole[: states[-1]])
    found = {event.name: event.time_range for event in recover(cut).events()}
    assert sorted(found) == ["aten::add", "epoch"]
    assert found["epoch"].end == 30.0


def test_a_file_that_becomes_shorter_while_it_is_read_gives_what_is_there(
    recorded: tuple[profile, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded[1]
    monkeypatch.setattr(spoolfile, "_WINDOW", 64)
    expected = names(recover(path))
    seen = []
    with spoolfile.opened(path) as data:
        for frame in spoolfile.frames(data):
            seen.append(frame)
            if len(seen) == 5:
                os.truncate(path, frame.offset + 100)
    assert seen[-1].damage.startswith("the file ends with")
    assert names(recover(path)) == expected[: len(names(recover(path)))]


def test_a_hole_in_a_spool_is_skipped(recorded: tuple[profile, Path], tmp_path: Path) -> None:
    frames = frames_of(recorded[1])
    path = tmp_path / "holed.mtspool"
    with path.open("wb") as file:
        data = recorded[1].read_bytes()
        file.write(data[: frames[-1].offset])
        file.seek(frames[-1].offset + (64 << 20))
        file.write(data[frames[-1].offset :])
    found = recover(path)
    assert names(found) == names(recover(recorded[1]))
    assert f"{64 << 20} damaged bytes at offset {frames[-1].offset} were skipped" in found.notes


def test_marks_that_all_claim_the_rest_of_the_file_are_given_up(tmp_path: Path) -> None:
    path = tmp_path / "marks.mtspool"
    size = 3 << 20
    head = struct.pack("<4sBII", b"\xf5MTC", ord("R"), size - (1 << 19), 0)
    path.write_bytes(spoolfile.MAGIC + head * (size // len(head)))
    assert any("too much is damaged" in note for note in recover(path).notes)


@pytest.mark.parametrize("place", [0, -1])
def test_a_chunk_that_is_gone_without_a_trace_is_missed(
    recorded: tuple[profile, Path], tmp_path: Path, place: int
) -> None:
    data, frames = recorded[1].read_bytes(), frames_of(recorded[1])
    gone = [frame for frame in frames if frame.sort == spool.ROWS][place]
    path = tmp_path / "changed.mtspool"
    path.write_bytes(data[: gone.offset] + data[gone.offset + 13 + len(gone.payload) :])
    count = len(names(recover(recorded[1]))) - len(names(recover(path)))
    assert recover(path).notes[1:] == [f"{count} rows were in damaged chunks and are lost"]


def test_chunks_that_are_there_again_or_in_another_order_change_nothing(
    recorded: tuple[profile, Path], tmp_path: Path
) -> None:
    data, frames = recorded[1].read_bytes(), frames_of(recorded[1])
    ends = [*(frame.offset for frame in frames[1:]), len(data)]
    pieces = [data[frame.offset : end] for frame, end in zip(frames, ends)]
    rows = [place for place, frame in enumerate(frames) if frame.sort in (spool.ROWS, spool.MEMORY)]
    expected = names(recover(recorded[1]))
    path = tmp_path / "changed.mtspool"
    path.write_bytes(spoolfile.MAGIC + b"".join(pieces[:-1] + [pieces[place] for place in rows] + pieces[-1:]))
    found = recover(path)
    assert names(found) == expected
    assert "were in the file again" in found.notes[1]
    swapped = list(pieces)
    swapped[rows[0]], swapped[rows[-2]] = pieces[rows[-2]], pieces[rows[0]]
    path.write_bytes(spoolfile.MAGIC + b"".join(swapped))
    assert names(recover(path)) == expected


def test_two_profilers_do_not_share_a_spool(tmp_path: Path) -> None:
    path = tmp_path / "run.mtspool"
    with profile(spool=path), op("first"):
        flush()
        with pytest.raises(OSError, match="another profiler is writing its spool to this file"):
            profile(spool=path).start()
    assert names(recover(path)) == ["first"]
    with profile(spool=path), op("second"):
        pass
    assert names(recover(path)) == ["second"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_keep_the_file_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "run.mtspool"
    hold, release = os.pipe()
    with profile(spool=path), op("parent"):
        child = os.fork()
        if child == 0:
            os.close(release)
            os.read(hold, 1)
            os._exit(0)
    with profile(spool=path), op("again"):
        pass
    os.close(release)
    os.waitpid(child, 0)
    os.close(hold)
    assert names(recover(path)) == ["again"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_disk_that_is_full_from_the_start() -> None:
    prof = profile(spool="/dev/full")
    with pytest.warns(RuntimeWarning, match="No space left"):
        prof.start()
    with op("aten::add"):
        pass
    flush()
    prof.stop()
    assert [event.name for event in prof.events()] == ["aten::add"]


def test_a_warning_that_is_an_error_reaches_whoever_stops(small_disk: Callable[[int], None], tmp_path: Path) -> None:
    prof = profile(spool=tmp_path / "run.mtspool")
    prof.start()
    small_disk(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flush()
        with pytest.raises(RuntimeWarning, match="cannot write"):
            prof.stop()
    assert RECORDER.sessions == []


# Processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_leaves_its_parents_spool_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.mtspool"
    with profile(spool=path):
        with op("before"):
            pass
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with op("in the child"):
                    pass
                flush()
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        with op("after"):
            pass
    assert names(recover(path)) == ["before", "after"]


@pytest.mark.parametrize("way", spool_kills.WAYS)
def test_a_recording_survives_the_death_of_its_process(way: str, tmp_path: Path) -> None:
    for number in range(int(os.environ.get("SPOOL_KILLS", "1"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        killed = spool_kills.kill(way, folder)
        expected = {"SIGTERM": -signal.SIGTERM, "SIGKILL": -signal.SIGKILL, "_exit": 3}.get(way, 1)
        assert killed.status == expected
        assert killed.ended_in_order == (way == "with")
        if way in ("exception", "with"):
            assert killed.recovered == killed.steps
        else:
            assert 0 < killed.recovered <= killed.steps + 1
            assert "ended while it recorded" in killed.capture.notes[0]


def test_the_background_thread_flushes_without_being_asked(tmp_path: Path) -> None:
    path = tmp_path / "run.mtspool"
    written = threading.Event()
    with profile(spool=path):
        with op("aten::add"):
            pass
        session = RECORDER.sessions[-1]
        sink = session.sink
        assert sink is not None

        class Watched:
            def flush(self) -> None:
                sink.flush()
                written.set()

        session.sink = Watched()
        assert written.wait(60)
        assert any(frame.sort == spool.ROWS for frame in frames_of(path))
        session.sink = sink


def test_a_spool_says_which_clock_it_counts() -> None:
    assert spool.clock_name() == tap.time.get_clock_info("perf_counter").implementation


def test_profilers_inside_and_beside_a_spooled_one_lose_nothing(tmp_path: Path) -> None:
    def work(name: str) -> None:
        for _ in range(3):
            with op(name):
                pass
            flush()

    first, second = profile(spool=tmp_path / "first.mtspool"), profile(spool=tmp_path / "second.mtspool")
    first.start()
    work("one")
    second.start()
    with profile() as inner:
        work("two")
    first.stop()
    work("three")
    second.stop()
    expected = {first: ["one", "two"], second: ["two", "three"], inner: ["two"]}
    for prof, parts in expected.items():
        assert [event.name for event in prof.events()] == [name for name in parts for _ in range(3)]
    assert names(recover(tmp_path / "first.mtspool")) == ["one"] * 3 + ["two"] * 3
    assert names(recover(tmp_path / "second.mtspool")) == ["two"] * 3 + ["three"] * 3


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sort=st.sampled_from(["H", "W", "O", "E", "T", "K", "I", "F", "S"]), content=json_values)
def test_chunks_that_hold_something_else_give_one_kind_of_error(tmp_path: Path, sort: str, content: Any) -> None:
    path = tmp_path / "forged.mtspool"
    path.write_bytes(spool_of((spool.BEGIN, BEGIN), (sort.encode(), content)))
    try:
        found = recover(path).is_empty
    except ValueError as error:
        found = "forged.mtspool" in str(error)
    assert found
