"""Forked children of a profiled program, recorded along with it: each spools for itself, the parent puts all together.

It owns what happens in a child from the fork to its end. It does not know how spools are written or read.
"""

from __future__ import annotations

import _thread
import contextlib
import itertools
import os
import shutil
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core import tap
from ...core.files import Descriptor
from ..analyse.merge import merge
from ..capture.capture import Capture, Track
from ..capture.spool import Spool, clock_facts
from ..capture.spoolfile import is_spool
from ..capture.stored import Contents, Tables
from ..capture.window import Window, leave_parent
from ..record import endings
from ..record.config import RecordOptions
from ..record.recorder import RECORDER

# How long a capture waits for children that have not yet written what belongs to its window.
_PATIENCE_S = 2.0
_LOOK_S = 0.02
# What a fork leaves in the folder until the child has a file of its own.
_MARK = ".forked"
_LATEST_NS = 1 << 61


def child_name() -> str:
    """What multiprocessing calls this process; otherwise its number has to do."""
    module = sys.modules.get("multiprocessing.process")
    name = "MainProcess" if module is None else str(module.current_process().name)
    return f"child {os.getpid()}" if name == "MainProcess" else name


class Family:
    """The children a process forks while this is open, and the folder they write to."""

    def __init__(self, options: RecordOptions, spool: str | os.PathLike[str] | None = None) -> None:
        # What is chosen once, such as the clock, is chosen before there are children, who then share it.
        tap.prepare(options.flags)
        self._options = options
        self._pid = os.getpid()
        # Beside the parent's own spool they outlive everybody.
        self._folder = tempfile.mkdtemp(prefix="mindtorch-workers-") if spool is None else _emptied(folder_of(spool))
        # Closing the second end tells all children that it is over; so does the death of this process.
        self._ears, self._voice = map(Descriptor, os.pipe())
        self._open = True
        self._marks: dict[int, str] = {}
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
            self._voice.close()
            self._ears.close()

    # Around a fork

    def expect(self) -> None:
        """Before a fork: leave a mark, which the child takes away once it has a file of its own."""
        mark = os.path.join(self._folder, f"{os.getpid()}-{next(_forks)}{_MARK}")
        # Threads may fork at the same time; a child has the number of the thread that it comes from.
        self._marks[_thread.get_ident()] = mark
        with contextlib.suppress(OSError):
            os.close(os.open(mark, os.O_CREAT | os.O_WRONLY, 0o666))

    # In a child

    def begin(self) -> None:
        """In a process that has just been forked: record it from here on, into a file of its own."""
        self._voice.close()
        try:
            self._spool = Spool(os.path.join(self._folder, f"{os.getpid()}.mtspool"), child_name)
        except OSError as error:
            # It runs all the same; the mark tells that nothing is known of it.
            warnings.warn(f"process {os.getpid()} is not recorded: {error}", RuntimeWarning, stacklevel=2)
            return
        with contextlib.suppress(OSError):
            os.unlink(self._marks[_thread.get_ident()])
        self._window = Window(replace(self._options, all_threads=True), self._spool)
        _thread.start_new_thread(self._listen, (RECORDER.own_lane(),))

    def _listen(self, lane: tap.Lane) -> None:
        tap.settle(lane)
        try:
            os.read(self._ears.number, 1)
        except OSError:
            # The program closed what it did not open: nothing more is heard.
            return
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
        clock = clock_facts()
        found = self._found(capture.stop_ns, clock)
        while any(0 <= time.time() - made < _PATIENCE_S for made in _unheard(self._folder)):
            # A child that has just been forked has its file in a moment.
            time.sleep(_LOOK_S)
        return joined(capture, found, clock, len(_unheard(self._folder)))

    def _found(self, stop_ns: int, clock: Mapping[str, Any]) -> list[Contents | str]:
        """What the children have written, once it reaches up to `stop_ns` or there is nothing more to expect."""
        deadline = time.monotonic() + _PATIENCE_S
        waiting = _spools(self._folder)
        done: dict[Path, Contents | str] = {}
        while waiting:
            late = []
            for path in waiting:
                found = done[path] = _read(path, clock)
                if (isinstance(found, str) or not found.reaches(stop_ns)) and _lives(int(path.stem)):
                    late.append(path)
            waiting = late if time.monotonic() < deadline else []
            if waiting:
                time.sleep(_LOOK_S)
        return list(done.values())


def folder_of(spool: str | os.PathLike[str]) -> str:
    """Where the children of a process that spools write their own spools."""
    return os.fspath(spool) + ".workers"


def with_children(capture: Capture, folder: str, clock: Mapping[str, Any], has_ended: bool) -> Capture:
    """A capture that was read from a spool together with those of its children; `clock` is what its header says.

    Children of a process that died, which has no end, may have outlived it: what they then did belongs to it.
    """
    found = [_read(path, clock) for path in _spools(folder)]
    if not has_ended:
        ends = [
            window.stop_ns - _ahead(child.header, clock)
            for child in found
            if isinstance(child, Contents)
            for window in child.windows.values()
        ]
        capture = replace(capture, stop_ns=max([capture.stop_ns, *ends]))
    return joined(capture, found, clock, len(_unheard(folder)))


def _spools(folder: str) -> list[Path]:
    """The files of children, by the number of the process."""
    return sorted((path for path in Path(folder).glob("*.mtspool") if path.stem.isdigit()), key=lambda p: int(p.stem))


def _unheard(folder: str) -> list[float]:
    """When children were forked that have no file (Unix time)."""
    found = []
    for path in Path(folder).glob(f"*{_MARK}"):
        with contextlib.suppress(FileNotFoundError):
            found.append(path.stat().st_mtime)
    return found


def _read(path: Path, clock: Mapping[str, Any]) -> Contents | str:
    """What a child has written; a few words if that cannot be read, or not be set beside a clock."""
    try:
        if not is_spool(path):
            return f"process {path.stem} ended before it had written anything"
        found = Contents(path)
        _ahead(found.header, clock)
        return found
    except (OSError, ValueError) as error:
        return f"what process {path.stem} recorded cannot be read: {error}"


def joined(capture: Capture, children: Sequence[Contents | str], clock: Mapping[str, Any], unheard: int = 0) -> Capture:
    """One capture of a process and its children. Of some there are words only, of some nothing at all."""
    parts: list[Capture] = []
    words = [child for child in children if isinstance(child, str)]
    for child in children:
        if isinstance(child, Contents):
            try:
                parts.append(_part(child, capture, clock))
            except ValueError as error:
                words.append(f"what process {Path(child.path).stem} recorded cannot be read: {error}")
    notes = capture.notes + [note for part in parts for note in part.notes] + words
    if unheard:
        notes.append(f"{unheard} forked processes ended, or could not be started, before they had a file to write to")
    parts = [part for part in parts if part.tracks]
    if not parts:
        return replace(capture, notes=notes)
    whole = merge([capture, *parts], [capture.process_name, *(part.process_name for part in parts)])
    own = [replace(track, pid=0, process_name="") for track in whole.tracks[: len(capture.tracks)]]
    return replace(
        capture,
        tracks=own + whole.tracks[len(own) :],
        kinds=whole.kinds,
        inputs=whole.inputs,
        stacks=whole.stacks,
        memory_kind=whole.memory_kind,
        notes=notes,
        memory_roles=whole.memory_roles,
    )


def _part(contents: Contents, capture: Capture, clock: Mapping[str, Any]) -> Capture:
    """What a child recorded while its parent's window was open, on the parent's clock."""
    ahead = _ahead(contents.header, clock)
    start, stop = capture.start_ns + ahead, capture.stop_ns + ahead
    pauses = [[begin + ahead, end and end + ahead] for begin, end in capture.pauses]
    tables = Tables(contents)
    found = [track for window in contents.windows.values() for track in tables.tracks(window, start, stop, pauses)]
    tracks = [_until(track, stop - start) for track in found]
    memory_roles = tables.memory_roles(contents.windows.values(), start)
    name = str(contents.header.get("process_name", "")) or f"process {Path(contents.path).stem}"
    return replace(
        capture,
        tracks=[track for track in tracks if len(track) or len(track.nbytes)],
        kinds=tables.kinds,
        inputs=tables.inputs,
        stacks=tables.stacks,  # type: ignore[arg-type]
        memory_kind=tables.memory_kind,
        pid=_whole(contents.header.get("pid", 0)),
        process_name=name,
        notes=[f"{name}: {note}" for note in _notes(contents, stop) + tables.notes()],
        memory_roles=memory_roles[(memory_roles[:, 0] >= 0) & (memory_roles[:, 0] <= stop - start)],
    )


def _notes(contents: Contents, stop_ns: int) -> list[str]:
    """What is to be said of a child's spool; nothing if it ended in order, or went on when the window was over."""
    ending, *damage = contents.notes
    return damage if contents.reaches(stop_ns) and not contents.is_short else [ending, *damage]


def _whole(value: Any) -> int:
    return value if type(value) is int and abs(value) < 1 << 31 else 0


def _ahead(child: Mapping[str, Any], parent: Mapping[str, Any]) -> int:
    """By how much a child's clock is ahead: not at all if both count the same, as on one machine they do."""
    if child.get("clock") == parent.get("clock"):
        return 0
    readings: list[Any] = [side.get(key) for side in (child, parent) for key in ("clock_ns", "unix_ns")]
    if any(type(reading) is not int or abs(reading) > _LATEST_NS for reading in readings):
        raise ValueError("the clocks of parent and child cannot be compared")
    own, time, parents, parents_time = readings
    return int(own - parents - (time - parents_time))


def _until(track: Track, length_ns: int) -> Track:
    """A track without what began after the window; what ran on ends with it."""
    inside = track.start_ns <= length_ns
    columns = {name: getattr(track, name)[inside] for name in ("start_ns", "end_ns", "kind", "seq", "inputs", "stack")}
    columns["end_ns"] = np.minimum(columns["end_ns"], length_ns)
    return replace(track, **columns)


def _emptied(folder: str) -> str:
    """A folder without the spools of an earlier run."""
    os.makedirs(folder, exist_ok=True)
    for path in [*_spools(folder), *Path(folder).glob(f"*{_MARK}")]:
        path.unlink()
    return folder


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        # The number of a process that is gone may be another user's by now.
        return False
    return True


def _clear(folder: str, pid: int) -> None:
    # A forked child that ends by itself runs this too; the folder is not its own.
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


_families: list[Family] = []
_forks = itertools.count(1)
_finishing = _thread.RLock()


def _finish_all() -> None:
    for family in _families:
        family.finish()


def _expect() -> None:
    """Before a fork."""
    endings.hold_signal()
    for family in _families:
        family.expect()


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
    os.register_at_fork(before=_expect, after_in_parent=endings.release_signal, after_in_child=_born)
