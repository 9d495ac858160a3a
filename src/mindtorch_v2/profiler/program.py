"""A whole program under the profiler, from outside: finds its steps, opens and closes the window, writes the files.

A step is one of the first optimizer that steps; a program that steps a profiler of its own is followed in that. It does
not know how the program is started.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import step_hooks, tap
from .advise.origins import LIBRARIES, SCRIPT, installed
from .api.recover import recover
from .capture.capture import STEP_PREFIX, Capture, Track
from .export import write
from .profiler import _KinetoProfile
from .record import overhead
from .record.config import RecordOptions
from .record.step_clock import METADATA as STEP_CLOCK
from .record.step_clock import StepClock
from .report import write_report

Ints = NDArray[np.int64]

# Threads of the profiler itself, whose tracks nobody wants to see, are named so.
OWN_THREADS = "mindtorch-"
TRACE, REPORT, SPOOL = "trace.json", "report.html", "capture.mtspool"


@dataclass(frozen=True)
class Plan:
    """Which steps are recorded: after some that are not and some that only warm the profiler up, so many (0: all), and
    all that so many times (0: for ever)."""

    wait: int = 0
    warmup: int = 0
    active: int = 0
    repeat: int = 1

    def phase(self, step: int) -> str:
        cycle = self.wait + self.warmup + self.active
        if self.active and self.repeat and step >= cycle * self.repeat:
            return "done"
        place = step % cycle if self.active else step
        if place < self.wait:
            return "wait"
        return "warmup" if place < self.wait + self.warmup else "active"


class StepMark(tap.region):
    """A step as a region that ends where the next begins, in other functions than it began in."""

    __slots__ = ()

    def __init__(self, number: int) -> None:
        super().__init__(tap.event_id(f"{STEP_PREFIX}{number}", tap.USER_SCOPE, True))

    def discard(self) -> None:
        """Forget a step that was not made."""
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.open[:] = [entry for entry in lane.open if entry is not self._entry]


class ProgramProfile:
    """Profiles the program that runs between `start` and `finish`."""

    def __init__(
        self, plan: Plan, spool: str | None = None, *, script: str = "", step_on: str = "", **wanted: Any
    ) -> None:
        self.plan = plan
        self.steps = 0
        # Whether steps are those of a function that the user has named, which announces itself.
        self._is_named = bool(step_on)
        self._clock = StepClock()
        self._profile = _KinetoProfile(spool=spool, **wanted)
        self._profile.preset_metadata_json(SCRIPT, json.dumps(script))
        # What warms up is recorded by a profile of its own, which keeps nothing.
        self._rehearsal = _KinetoProfile(**{**wanted, "workers": False})
        self._phase = ""
        self._windows = 0
        self._mark: StepMark | None = None
        # Whose steps count, on which thread.
        self._leader: Any = None
        self._thread = 0

    def start(self) -> None:
        step_hooks.LISTENERS.append(self._announced)
        prices = overhead.prices(RecordOptions(self._profile.record_shapes, self._profile.with_stack))
        self._profile.preset_metadata_json(overhead.METADATA, json.dumps(prices._asdict()))
        # Children that are forked before the first window may still live in it.
        self._profile._begin_company()
        self._enter(self.plan.phase(0))

    def finish(self) -> Capture | None:
        """The capture, or None if the program never came to what was to be recorded."""
        step_hooks.LISTENERS.remove(self._announced)
        if self._mark is not None:
            # What follows the last step is none.
            self._mark.discard()
            self._clock.forget()
        self._enter("done")
        inner = self._profile.profiler
        capture = inner.newest_capture() if self._windows and inner is not None else None
        self._profile._end_company()
        if capture is None or inner is None:
            return None
        if self._windows > 1 and self._profile.spool is not None:
            # The profiler keeps the newest window only, the spool has all.
            capture = replace(recover(self._profile.spool), notes=capture.notes)
        return nested_steps(without_own_threads(with_metadata(capture, inner.trace_id, inner.metadata)))

    # Steps

    def _announced(self, source: Any, stepped: bool) -> None:
        """An optimizer, a profiler of the program or a function it names is ready or has made a step."""
        if self._is_named and not isinstance(getattr(source, "calls", None), int):
            return
        is_profiler = hasattr(source, "record_steps")
        leads = (source.record_steps or stepped) if is_profiler else (stepped and self._leader is None)
        if leads and source is not self._leader:
            self._follow(source)
        if threading.get_ident() != (self._thread or threading.get_ident()):
            return
        if stepped and source is self._leader:
            self._next_step()
        elif not stepped and self._leader is None and self._mark is None:
            # The first step is under way when the optimizer is made: what came before was preparation.
            self._thread = threading.get_ident()
            self._open_mark()

    def _follow(self, source: Any) -> None:
        self._leader, self._thread = source, threading.get_ident()
        if self._marks_itself and self._mark is not None:
            self._mark.discard()
            self._mark = None

    @property
    def _marks_itself(self) -> bool:
        return bool(getattr(self._leader, "record_steps", False))

    def _next_step(self) -> None:
        self._clock.end(self.steps)
        if self._mark is not None:
            self._mark.__exit__()
            self._mark = None
        self.steps += 1
        self._enter(self.plan.phase(self.steps))
        self._open_mark()

    def _open_mark(self) -> None:
        if self._phase == "active":
            self._clock.begin()
        if not self._marks_itself and self._phase in ("warmup", "active"):
            self._mark = StepMark(self.steps)
            self._mark.__enter__()

    # Windows

    def _enter(self, phase: str) -> None:
        """Close and open windows for the phase that begins."""
        if phase == self._phase:
            return
        if self._phase == "warmup":
            self._rehearsal.stop_trace()
        elif self._phase == "active":
            self._profile.add_metadata_json(STEP_CLOCK, self._clock.text())
            self._profile.add_metadata_json(LIBRARIES, json.dumps(installed()))
            self._profile.stop_trace()
            self._windows += 1
        self._phase = phase
        if phase == "warmup":
            self._rehearsal.prepare_trace()
            self._rehearsal.start_trace()
        elif phase == "active":
            self._profile.profiler = None
            self._profile.prepare_trace()
            self._profile.start_trace()


def with_metadata(capture: Capture, trace_id: str, metadata: Mapping[str, str]) -> Capture:
    """The capture with what was said of it while it was recorded, as JSON texts."""
    said = {key: json.loads(text) for key, text in metadata.items()}
    return replace(capture, metadata={"trace_id": trace_id, **capture.metadata, **said})


def without_own_threads(capture: Capture) -> Capture:
    """The capture without what the profiler's own threads did."""
    return replace(capture, tracks=[track for track in capture.tracks if not track.name.startswith(OWN_THREADS)])


def nested_steps(capture: Capture) -> Capture:
    """The capture with steps that cross no function or region.

    A step is announced from within the functions that make it: it lasts until those return that are of this step alone,
    and begins inside those that go on over several.
    """
    tracks = [track if track.device_type else _with_nested_steps(track, capture.kinds) for track in capture.tracks]
    return replace(capture, tracks=tracks)


def _with_nested_steps(track: Track, kinds: Any) -> Track:
    steps = [kind for kind in np.unique(track.kind).tolist() if kinds[kind].name.startswith(STEP_PREFIX)]
    is_step = np.isin(track.kind, steps)
    places = np.flatnonzero(is_step)
    if not len(places):
        return track
    places = places[np.argsort(track.start_ns[places], kind="stable")]
    others = np.flatnonzero(~is_step)
    others = others[np.argsort(track.start_ns[others], kind="stable")]
    begins, ends = _settled(
        track.start_ns[places].tolist(), track.end_ns[places].tolist(), track.start_ns[others], track.end_ns[others]
    )
    start, end = track.start_ns.copy(), track.end_ns.copy()
    start[places], end[places] = begins, ends
    order = np.lexsort((is_step, end))
    columns = {name: getattr(track, name)[order] for name in ("kind", "seq", "inputs", "stack")}
    return replace(track, start_ns=start[order], end_ns=end[order], **columns)


def _settled(begins: list[int], ends: list[int], start: Ints, end: Ints) -> tuple[list[int], list[int]]:
    """Where steps begin and end so that they cross none of the other regions, which are in order of their start."""
    crossing = (start < begins[0]) & (end > begins[0]) & (end < ends[0])
    begins[0] = max(begins[0], int(end[crossing].max(initial=0)))
    for number in range(len(begins)):
        begin, finish = begins[number], ends[number]
        low, high = np.searchsorted(start, (begin, finish))
        inner_start, inner_end = start[low:high], end[low:high]
        crossing = inner_end > finish
        if not crossing.any():
            continue
        is_last = number + 1 == len(begins)
        lasting = crossing & (False if is_last else inner_end > ends[number + 1])
        begins[number] = max(begin, int(inner_start[lasting].max(initial=-1)) + 1)
        ends[number] = max(finish, int(inner_end[crossing & ~lasting].max(initial=0)))
        if not is_last:
            begins[number + 1] = max(begins[number + 1], ends[number])
    return begins, ends


def write_files(capture: Capture, folder: str | os.PathLike[str], title: str, *, report: bool = True) -> dict[str, str]:
    """Write trace and report into a folder; says what is where."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    write(capture, place / TRACE)
    files = {"trace": str(place / TRACE)}
    if report:
        write_report(capture, place / REPORT, title=title)
        files["report"] = str(place / REPORT)
    return files
