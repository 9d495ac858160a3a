"""Forked children of a profiled program, recorded along with it: each spools for itself, the parent puts all together.

It owns what happens in a child from the fork to its end. It does not know how spools are written or read.
"""

from __future__ import annotations

import _thread
import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import _tap
from . import endings
from .capture import Capture, Track
from .config import RecordOptions
from .merge import merge
from .recorder import RECORDER
from .spool import Spool, clock_facts
from .spoolfile import is_spool
from .stored import Contents, Tables
from .window import Window, leave_parent

# How long a capture waits for children that have not yet written what belongs to its window.
_PATIENCE_S = 2.0
_LOOK_S = 0.02


def child_name() -> str:
    """What multiprocessing calls this process; otherwise its number has to do."""
    module = sys.modules.get("multiprocessing.process")
    name = "MainProcess" if module is None else str(module.current_process().name)
    return f"child {os.getpid()}" if name == "MainProcess" else name


class Family:
    """The children a process forks while this is open, and the folder they write to."""

    def __init__(self, options: RecordOptions, spool: str | os.PathLike[str] | None = None) -> None:
        # What is chosen once, such as the clock, is chosen before there are children, who then share it.
        _tap.prepare(options.flags)
        self._options = options
        self._pid = os.getpid()
        # Beside the parent's own spool they outlive everybody.
        self._folder = tempfile.mkdtemp(prefix="mindtorch-workers-") if spool is None else _emptied(folder_of(spool))
        # Closing the second end tells all children that it is over; so does the death of this process.
        self._ears, self._voice = os.pipe()
        self._open = True
        self._window: Window | None = None
        self._spool: Spool | None = None
        if spool is None:
            weakref.finalize(self, _clear, self._folder, self._pid)
        _families.append(self)

    def close(self) -> None:
        """Record no more: children finish what they have."""
        if self._open and self._pid == os.getpid():
            self._open = False
            _families.remove(self)
            os.close(self._voice)
            os.close(self._ears)

    # In a child

    def begin(self) -> None:
        """In a process that has just been forked: record it from here on, into a file of its own."""
        if self._voice >= 0:
            os.close(self._voice)
            self._voice = -1
        self._spool = Spool(os.path.join(self._folder, f"{os.getpid()}.mtspool"), child_name)
        self._window = Window(replace(self._options, all_threads=True), self._spool)
        _thread.start_new_thread(self._listen, (RECORDER.own_lane(),))

    def _listen(self, lane: _tap.Lane) -> None:
        _tap.settle(lane)
        os.read(self._ears, 1)
        self.finish()

    def finish(self) -> None:
        """In a child: write what is left and stop recording."""
        with _finishing:
            window, self._window = self._window, None
            if window is not None and self._spool is not None and self._spool.pid == os.getpid():
                window.stop()
                self._spool.close()

    # In the parent

    def join(self, capture: Capture) -> Capture:
        """The capture together with what children recorded in the same stretch of time."""
        if self._pid != os.getpid():
            return capture
        return joined(capture, self._contents(capture.stop_ns), clock_facts())

    def _contents(self, stop_ns: int) -> list[Contents]:
        """What the children have written, once it reaches up to `stop_ns` or there is nothing more to expect."""
        deadline = time.monotonic() + _PATIENCE_S
        waiting = _spools(self._folder)
        done: dict[Path, Contents] = {}
        while waiting:
            late = []
            for path in waiting:
                found = _read(path)
                if found is not None:
                    done[path] = found
                if (found is None or not found.reaches(stop_ns)) and _lives(int(path.stem)):
                    late.append(path)
            waiting = late if time.monotonic() < deadline else []
            if waiting:
                time.sleep(_LOOK_S)
        return list(done.values())


def folder_of(spool: str | os.PathLike[str]) -> str:
    """Where the children of a process that spools write their own spools."""
    return os.fspath(spool) + ".workers"


def with_children(capture: Capture, folder: str, clock: Mapping[str, Any]) -> Capture:
    """A capture that was read from a spool together with those of its children; `clock` is what its header says."""
    found = [contents for path in _spools(folder) if (contents := _read(path)) is not None]
    return joined(capture, found, clock)


def _spools(folder: str) -> list[Path]:
    """The files of children, by the number of the process."""
    return sorted((path for path in Path(folder).glob("*.mtspool") if path.stem.isdigit()), key=lambda p: int(p.stem))


def _read(path: Path) -> Contents | None:
    """What a child has written; None if that is nothing yet."""
    return Contents(path) if is_spool(path) else None


def joined(capture: Capture, children: list[Contents], clock: Mapping[str, Any]) -> Capture:
    """One capture of a process and its children."""
    parts = [part for child in children if (part := _part(child, capture, clock)).tracks]
    if not parts:
        return capture
    whole = merge([capture, *parts], [capture.process_name, *(part.process_name for part in parts)])
    own = [replace(track, pid=0, process_name="") for track in whole.tracks[: len(capture.tracks)]]
    return replace(
        capture,
        tracks=own + whole.tracks[len(own) :],
        kinds=whole.kinds,
        inputs=whole.inputs,
        stacks=whole.stacks,
        memory_kind=whole.memory_kind,
        notes=capture.notes + [note for part in parts for note in part.notes],
    )


def _part(contents: Contents, capture: Capture, clock: Mapping[str, Any]) -> Capture:
    """What a child recorded while its parent's window was open, on the parent's clock."""
    ahead = _ahead(contents.header, clock)
    start, stop = capture.start_ns + ahead, capture.stop_ns + ahead
    pauses = [[begin + ahead, end and end + ahead] for begin, end in capture.pauses]
    tables = Tables(contents)
    found = [track for window in contents.windows.values() for track in tables.tracks(window, start, stop, pauses)]
    tracks = [_until(track, stop - start) for track in found]
    name = str(contents.header.get("process_name", ""))
    return replace(
        capture,
        tracks=[track for track in tracks if len(track) or len(track.nbytes)],
        kinds=tables.kinds,
        inputs=tables.inputs,
        stacks=tables.stacks,  # type: ignore[arg-type]
        memory_kind=tables.memory_kind,
        pid=int(contents.header.get("pid", 0)),
        process_name=name,
        notes=[] if contents.reaches(stop) else [f"{name} ended while it recorded: its last events may be lost"],
    )


def _ahead(child: Mapping[str, Any], parent: Mapping[str, Any]) -> int:
    """By how much a child's clock is ahead: not at all if both count the same, as on one machine they do."""
    if child.get("clock") == parent.get("clock"):
        return 0
    clocks, times = (int(child[key]) - int(parent[key]) for key in ("clock_ns", "unix_ns"))
    return clocks - times


def _until(track: Track, length_ns: int) -> Track:
    """A track without what began after the window; what ran on ends with it."""
    inside = track.start_ns <= length_ns
    columns = {name: getattr(track, name)[inside] for name in ("start_ns", "end_ns", "kind", "seq", "inputs", "stack")}
    columns["end_ns"] = np.minimum(columns["end_ns"], length_ns)
    return replace(track, **columns)


def _emptied(folder: str) -> str:
    """A folder without the spools of an earlier run."""
    os.makedirs(folder, exist_ok=True)
    for path in _spools(folder):
        path.unlink()
    return folder


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _clear(folder: str, pid: int) -> None:
    # A forked child that ends by itself runs this too; the folder is not its own.
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


_families: list[Family] = []
_finishing = _thread.RLock()


def _finish_all() -> None:
    for family in _families:
        family.finish()


def _born() -> None:
    """In a forked child: what the parent records is not this process's business, but it records itself if asked to."""
    global _finishing
    try:
        endings.leave_guests()
        if _families:
            _finishing = _thread.RLock()
            leave_parent()
            RECORDER.follows = True
            for family in _families:
                family.begin()
            endings.foresee(_finish_all, RECORDER.own_lane())
    finally:
        endings.release_signal()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=endings.hold_signal, after_in_parent=endings.release_signal, after_in_child=_born)
