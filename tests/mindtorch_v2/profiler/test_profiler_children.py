"""Threads, data loader workers and forked children in one capture; exports that run beside the program."""

import gc
import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from forked import exit_code, fork
from mindtorch_v2.core import tap
from mindtorch_v2.profiler import profile, record_function, recover, schedule
from mindtorch_v2.profiler.capture.capture import Capture
from mindtorch_v2.profiler.read import children
from mindtorch_v2.profiler.record import endings
from mindtorch_v2.profiler.record.recorder import RECORDER
from mindtorch_v2.utils.data import DataLoader, Dataset
from profiler_clock import op

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Warning. Profiler clears events"),
]


def capture_of(prof: profile) -> Capture:
    assert prof.profiler is not None
    return prof.profiler._recordings[0].capture()


def names_of(capture: Capture, place: int) -> list[str]:
    return [capture.kinds[kind].name for kind in capture.tracks[place].kind.tolist()]


def in_child(work: Callable[[], object]) -> int:
    """Do some work in a forked child and wait for its end; its process number."""
    pid = fork(work)
    assert exit_code(pid) == 0
    return pid


class Ones(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return torch.ones(4) * index


# Threads


def test_threads_that_run_already_and_threads_that_start_later_are_recorded() -> None:
    begin, finish = threading.Barrier(2), threading.Barrier(2)

    def work(name: str) -> None:
        begin.wait()
        with op(name):
            pass
        finish.wait()

    def meet(name: str, thread: threading.Thread) -> None:
        begin.wait()
        finish.wait()
        thread.join()

    early = threading.Thread(target=work, args=("early",), name="early bird")
    early.start()
    with profile(all_threads=True) as prof:
        meet("early", early)
        late = threading.Thread(target=work, args=("late",), name="late comer")
        late.start()
        meet("late", late)
    capture = capture_of(prof)
    found = {track.name: names_of(capture, place) for place, track in enumerate(capture.tracks) if len(track)}
    assert found == {"early bird": ["early"], "late comer": ["late"]}


def test_a_thread_that_takes_the_number_of_a_finished_one_records_itself_alone() -> None:
    found: list[list[str]] = []

    def work() -> None:
        with profile() as own, op("mine"):
            pass
        capture = capture_of(own)
        found.append([name for place in range(len(capture.tracks)) for name in ["|", *names_of(capture, place)]])

    with profile(all_threads=True):
        for _ in range(3):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    assert found == [["|", "mine"]] * 3


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python before 3.12 cannot trace threads that run already")
def test_functions_of_threads_that_run_already_are_recorded() -> None:
    begin, finish = threading.Barrier(2), threading.Barrier(2)

    def seen() -> None:
        with op("early"):
            pass

    def work() -> None:
        begin.wait()
        seen()
        finish.wait()

    thread = threading.Thread(target=work)
    thread.start()
    with profile(all_threads=True, with_stack=True) as prof:
        begin.wait()
        finish.wait()
        thread.join()
    (event,) = [event for event in prof.events() if event.name == "early"]
    assert event.cpu_parent.name.endswith(": seen")


# Children


def test_a_forked_child_has_a_track_of_its_own(tmp_path: Path) -> None:
    def work() -> None:
        with record_function("in the child"):
            torch.ones(3).exp()

    with profile(workers=True, record_shapes=True, profile_memory=True) as prof, record_function("parent"):
        pid = in_child(work)
    capture = capture_of(prof)
    assert [track.pid for track in capture.tracks] == [0, pid]
    assert capture.tracks[1].process_name == f"child {pid}"
    assert capture.tracks[1].native_id == pid
    assert "aten::exp" in names_of(capture, 1)
    assert names_of(capture, 0) == ["parent"]
    assert len(capture.tracks[1].nbytes)
    assert capture.notes == []
    # On one clock: what the child did lies inside what the parent did meanwhile.
    parent, child = capture.tracks
    assert parent.start_ns[0] <= child.start_ns.min()
    assert child.end_ns.max() <= parent.end_ns[0]
    (exp,) = [event for event in prof.events() if event.name == "aten::exp"]
    assert exp.input_shapes == [[3]]
    assert {event.name: event.device_index for event in prof.events()}["parent"] == os.getpid()
    assert exp.device_index == exp.device_resource_id == pid
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events if event.get("name") == "aten::exp"} == {pid}


def test_regions_the_parent_has_open_are_not_the_childs() -> None:
    with profile(workers=True, with_stack=True) as prof, record_function("parent"):
        in_child(lambda: torch.ones(3).exp())
    capture = capture_of(prof)
    assert "parent" not in names_of(capture, 1)
    assert names_of(capture, 0).count("parent") == 1


def test_children_of_children_are_recorded() -> None:
    def work() -> None:
        with op("child"):
            pass
        in_child(lambda: op("grandchild").__enter__().__exit__())

    with profile(workers=True) as prof:
        in_child(work)
    capture = capture_of(prof)
    assert sorted(names_of(capture, place) for place in range(1, 3)) == [["child"], ["grandchild"]]


def test_workers_of_a_data_loader_are_recorded_each_on_its_own() -> None:
    with profile(workers=True) as prof:
        batches = sum(1 for _ in DataLoader(Ones(), batch_size=2, num_workers=2))
    assert batches == 4
    capture = capture_of(prof)
    workers = {track.process_name: place for place, track in enumerate(capture.tracks) if track.pid and len(track)}
    assert sorted(workers) == ["DataLoader worker 0", "DataLoader worker 1"]
    for place in workers.values():
        assert names_of(capture, place).count("aten::mul") == 4
    assert any(name.startswith("enumerate(DataLoader)") for name in names_of(capture, 0))


def test_workers_of_a_pool_are_recorded_though_it_kills_them() -> None:
    with profile(workers=True) as prof, multiprocessing.get_context("fork").Pool(2) as pool:
        assert sum(pool.map(one_op, range(6), chunksize=1)) == 6
    capture = capture_of(prof)
    found = [name for place in range(1, len(capture.tracks)) for name in names_of(capture, place)]
    assert found == ["in a pool"] * 6


def one_op(number: int) -> int:
    with op("in a pool"):
        return 1


def test_workers_that_outlive_the_window_are_in_it_up_to_its_end() -> None:
    loader = DataLoader(Ones(), batch_size=2, num_workers=1, persistent_workers=True)
    prof = profile(workers=True)
    prof.start()
    batches = iter(loader)
    next(batches)
    prof.stop()
    capture = capture_of(prof)
    worker = next(track for track in capture.tracks if track.pid and len(track))
    assert worker.process_name == "DataLoader worker 0"
    assert worker.end_ns.max() <= capture.stop_ns - capture.start_ns
    assert list(batches)
    batches._shutdown_workers()


def test_a_schedule_cuts_what_workers_did_in_its_windows() -> None:
    found: list[list[list[str]]] = []

    def ready(prof: profile) -> None:
        capture = capture_of(prof)
        found.append([names_of(capture, place) for place in range(1, len(capture.tracks))])

    prof = profile(workers=True, schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=ready)
    with prof:
        for number in range(4):
            in_child(lambda number=number: op(f"child {number}").__enter__().__exit__())  # type: ignore[misc]
            prof.step()
    assert found == [[["child 1"]], [["child 3"]]]


def test_without_workers_a_loaders_processes_record_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asking(Ones):
        def __getitem__(self, index: int) -> Any:
            return torch.tensor(float(tap.SLOT.recorder is not None))

    with profile():
        recorded = [batch.sum().item() for batch in DataLoader(Asking(), batch_size=4, num_workers=1)]
    assert recorded == [0.0, 0.0]


def test_a_child_that_leaves_the_block_leaves_the_parent_alone() -> None:
    prof = profile(workers=True, with_stack=True)
    prof.start()
    in_child(prof.stop)
    with op("after"):
        pass
    prof.stop()
    assert "after" in names_of(capture_of(prof), 0)
    assert RECORDER.sessions == []


def test_no_pipe_stays_open() -> None:
    def opened() -> set[int]:
        return {number for number in range(256) if _is_open(number)}

    before = opened()
    with profile(workers=True):
        in_child(lambda: torch.ones(2))
    assert opened() - before == set()


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(children.tempfile, "tempdir", str(tmp_path))
    with profile(workers=True) as prof:
        in_child(lambda: torch.ones(2))
    assert len(capture_of(prof).tracks) == 2
    assert os._exit is endings._exit
    del prof
    gc.collect()
    assert children._families == []
    assert list(tmp_path.iterdir()) == []


def test_a_spool_keeps_the_spools_of_children(tmp_path: Path) -> None:
    path = tmp_path / "run.mtspool"
    for name in ("first", "second"):
        with profile(workers=True, spool=path) as prof:
            with op("parent"):
                pass
            in_child(lambda name=name: op(name).__enter__().__exit__())  # type: ignore[misc]
    live, found = capture_of(prof), recover(path)
    for capture in (live, found):
        assert [names_of(capture, place) for place in range(len(capture.tracks))] == [["parent"], ["second"]]
        assert [track.pid for track in capture.tracks] == [0, live.tracks[1].pid]
    assert np.array_equal(live.tracks[1].start_ns, found.tracks[1].start_ns)


@pytest.mark.parametrize("spool", [False, True])
def test_a_child_that_dies_before_it_wrote_anything_is_in_the_notes(tmp_path: Path, spool: bool) -> None:
    path = tmp_path / "run.mtspool"
    with profile(workers=True, spool=path if spool else None) as prof, op("parent"):
        pid = fork(lambda: os.kill(os.getpid(), signal.SIGKILL))
        assert exit_code(pid) == -signal.SIGKILL
    captures = [capture_of(prof), *([recover(path)] if spool else [])]
    for capture in captures:
        assert [track.pid for track in capture.tracks] == [0]
        assert [f"child {pid}: the process ended while it recorded" in note for note in capture.notes].count(True) == 1


def test_a_child_that_dies_before_it_has_a_file_is_in_the_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.mtspool"
    monkeypatch.setattr(children, "_PATIENCE_S", 0.0)
    with profile(workers=True, spool=path) as prof, op("parent"):
        monkeypatch.setattr(children, "Spool", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        assert exit_code(fork(lambda: None)) == -signal.SIGKILL
        monkeypatch.undo()
    said = "1 forked processes ended, or could not be started, before they had a file to write to"
    assert capture_of(prof).notes == [said]
    assert recover(path).notes[1:] == [said]


def test_a_child_that_cannot_have_a_file_runs_all_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.mtspool"
    with profile(workers=True, spool=path) as prof, op("parent"):
        folder = tmp_path / "run.mtspool.workers"
        folder.rmdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            in_child(lambda: torch.ones(2).exp())
    assert names_of(capture_of(prof), 0) == ["parent"]


def test_a_spool_of_a_child_that_cannot_be_read_does_not_spoil_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "run.mtspool"
    with profile(workers=True, spool=path), op("parent"):
        pid = in_child(lambda: op("child").__enter__().__exit__())
    (tmp_path / "run.mtspool.workers" / f"{pid}.mtspool").write_bytes(b"mtspool\x01" + b"\0" * 50)
    (tmp_path / "run.mtspool.workers" / "7.mtspool").write_bytes(b"something else")
    found = recover(path)
    assert names_of(found, 0) == ["parent"]
    assert any("process 7 ended before it had written anything" in note for note in found.notes)


def test_what_workers_do_after_the_death_of_their_parent_is_kept(tmp_path: Path) -> None:
    path, copy = tmp_path / "run.mtspool", tmp_path / "copy.mtspool"
    prof = profile(workers=True, spool=path)
    prof.start()
    with op("parent"):
        pass
    for session in RECORDER.sessions:
        assert session.sink is not None
        session.sink.flush()
    copy.write_bytes(path.read_bytes())
    in_child(lambda: op("child").__enter__().__exit__())
    prof.stop()
    os.rename(f"{path}.workers", f"{copy}.workers")
    found = recover(copy)
    assert [names_of(found, place) for place in range(len(found.tracks))] == [["parent"], ["child"]]


def test_other_clocks_are_aligned_by_the_time_of_day() -> None:
    parent = {"clock": "one", "clock_ns": 1000, "unix_ns": 5_000_000}
    child = {"clock": "other", "clock_ns": 70_000, "unix_ns": 5_000_400}
    assert children._ahead(child, parent) == 70_000 - 1000 - 400
    assert children._ahead(parent, parent) == 0


# Exports in the background


def test_an_export_in_the_background_writes_the_same_file(tmp_path: Path) -> None:
    with profile(record_shapes=True) as prof:
        prof.add_metadata("purpose", "test")
        torch.ones(3).exp()
    path = tmp_path / "trace.json"
    export = prof.export_async(path)
    assert export.result() == str(path)
    assert export.done()
    assert "complete" in repr(export)
    written = path.read_bytes()
    prof.export_chrome_trace(path)
    assert path.read_bytes() == written


def test_the_next_cycle_does_not_change_what_is_exported(tmp_path: Path) -> None:
    released = threading.Event()
    prof = profile()
    prof.start()
    with op("first"):
        pass
    prof.stop()
    assert prof.profiler is not None
    recording = prof.profiler._recordings[0]
    read = recording._read

    def held() -> Capture:
        released.wait(60)
        return read()

    recording._read = held  # type: ignore[method-assign]
    export = prof.export_async(tmp_path / "first.json")
    assert not export.wait(0)
    with pytest.raises(TimeoutError, match="not complete"):
        export.result(0)
    prof.start()
    with op("second"):
        pass
    released.set()
    export.result()
    prof.stop()
    text = (tmp_path / "first.json").read_text()
    assert '"first"' in text
    assert '"second"' not in text


def test_a_failed_export_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with profile() as prof, op("aten::add"):
        pass
    with caplog.at_level(logging.ERROR):
        export = prof.export_async(tmp_path / "no folder" / "trace.json")
        assert export.wait()
    assert "failed: FileNotFoundError" in caplog.text
    with pytest.raises(FileNotFoundError):
        export.result()
    assert "failed" in repr(export)


def test_what_cannot_be_exported_is_said_at_once(tmp_path: Path) -> None:
    prof = profile()
    with pytest.raises(AssertionError, match="initialized"):
        prof.export_async(tmp_path / "trace.json")
    with prof, pytest.raises(AttributeError, match="stop the profiler"):
        prof.export_async(tmp_path / "trace.json")
    with pytest.raises(ValueError, match="format"):
        prof.export_async(tmp_path / "trace.xyz")


def test_the_program_waits_for_its_exports(tmp_path: Path) -> None:
    program = """
import sys
import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile
with profile() as prof:
    for _ in range(2000):
        torch.ones(2)
prof.export_async(sys.argv[1])
"""
    path = tmp_path / "trace.json"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, env=os.environ)
    assert len(json.loads(path.read_text())["traceEvents"]) > 2000
