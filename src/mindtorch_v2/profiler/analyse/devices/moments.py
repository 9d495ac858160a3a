"""The moments of a run and what each had to wait for: the graph that a critical path is found in.

| moment | waits for | takes |
|---|---|---|
| a call of the runtime begins, an op of a thread ends | the moment before on that thread | the CPU time between |
| a kernel, copy or set ends | its launch; what ended last on its stream, or just before on another | its delay and its length |
| a call that waits for the device returns | the moment before on its thread; the last work it waited for | what was left of it |
| a thread goes on after it had nothing to do | the same; the last event of another thread meanwhile | the rest |

Which work a call waited for, which thread and which stream waited for another, is taken from the times; traces tell it
seldom.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...capture.capture import CPU_OP
from .intervals import Ints, Stretches, covered_within, gaps, union
from .work import Work, is_launching

# A thread without an op for so long, while another one had some, may have waited for it.
_IDLE_NS = 50_000
# Work on another stream that ended so shortly before a kernel began may have been waited for.
_HANDOVER_NS = 10_000
_WAITS = re.compile(r"synchroni[sz]e", re.IGNORECASE).search
_COPIES = re.compile(r"memcpy", re.IGNORECASE).search


@dataclass
class Moments:
    """Moments in order of time, each after all it waits for. Columns of `waits` are places in these columns, -1 for none.

    A moment has either a piece of work that ends then, or a thread whose time led to it; the other is -1.
    """

    time: Ints
    work: Ints
    thread: Ints
    waits: NDArray[np.int64]
    # When the last of what it waits for ended (its own time where it waits for nothing), and which of `waits` that is.
    ready: Ints
    last: Ints
    # What it takes after that: until work begins, or of a thread; then the length of the work.
    delay: Ints
    length: Ints

    def __len__(self) -> int:
        return len(self.time)


class _Threads:
    """The moments of threads that matter, and the stretches in which ops or calls of the runtime were open."""

    def __init__(self, work: Work) -> None:
        metrics = work.metrics
        calls = metrics.of_kinds(is_launching) & ~metrics.is_device
        active = np.flatnonzero(calls | metrics.of_kinds(lambda kind: kind.category == CPU_OP))
        self.active: dict[int, Stretches] = {}
        for track in np.unique(metrics.track[active]).tolist():
            mine = active[metrics.track[active] == track]
            self.active[track] = union(metrics.start_ns[mine], metrics.end_ns[mine])
        self._times: dict[int, list[Ints]] = {
            track: [stretches.start[:1], stretches.end[-1:]] for track, stretches in self.active.items()
        }

    def add(self, track: Ints, time: Ints) -> None:
        for number in np.unique(track).tolist():
            self._times[number].append(time[track == number])

    def settle(self) -> None:
        """Number the moments, thread after thread in order of time."""
        parts = {track: np.unique(np.concatenate(times)) for track, times in self._times.items()}
        self.first = dict(zip(parts, np.cumsum([0, *map(len, parts.values())]).tolist()))
        self.parts = parts
        nothing = np.zeros(0, np.int64)
        self.time = np.concatenate([nothing, *parts.values()])
        self.track = np.concatenate([nothing, *(np.full(len(times), track) for track, times in parts.items())])
        self.before = np.arange(-1, len(self.time) - 1)
        self.before[[self.first[track] for track, times in parts.items() if len(times)]] = -1

    def number(self, track: Ints, time: Ints) -> Ints:
        """The numbers of moments that were added."""
        found = np.full(len(time), -1, np.int64)
        for number in np.unique(track).tolist():
            mine = track == number
            found[mine] = self.first[number] + np.searchsorted(self.parts[number], time[mine])
        return found

    def joins(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Where a thread goes on after another one: track and time of both, the waiting one first."""
        tracks = list(self.active)
        ends = np.concatenate([np.zeros(0, np.int64), *(self.active[track].end for track in tracks)])
        owner = np.repeat(np.array(tracks, np.int64), [len(self.active[track].end) for track in tracks])
        order = np.argsort(ends, kind="stable")
        ends, owner = ends[order], owner[order]
        origin = min((int(stretches.start[0]) for stretches in self.active.values()), default=0)
        rows = []
        for track, stretches in self.active.items():
            idle = gaps(stretches)
            low, high = (np.concatenate(pair) for pair in (([origin], idle.start), (stretches.start[:1], idle.end)))
            long = np.flatnonzero(high - low >= _IDLE_NS)
            low, high = low[long], high[long]
            place = np.searchsorted(ends, high, side="right") - 1
            for other in np.unique(owner[place[place >= 0]]).tolist():
                mine = np.flatnonzero((place >= 0) & (owner[place] == other) & (ends[place] > low))
                if other == track or not len(mine):
                    continue
                covered = covered_within(self.active[other], low[mine], high[mine])
                mine = mine[(2 * covered >= (high - low)[mine]) | (low[mine] == origin)]
                rows.append((np.full(len(mine), track), high[mine], np.full(len(mine), other), ends[place[mine]]))
        nothing = np.zeros(0, np.int64)
        waiting, when, other, until = (
            (np.concatenate([nothing, *column]) for column in zip(*rows)) if rows else [nothing] * 4
        )
        return waiting, when, other, until


def moments_of(work: Work) -> Moments:
    """The graph of a capture with work on devices."""
    metrics, threads = work.metrics, _Threads(work)
    launched = np.flatnonzero(work.launch >= 0)
    track = metrics.track.astype(np.int64)
    launch_track, launch_time = track[work.launch[launched]], metrics.start_ns[work.launch[launched]]
    calls, waited = waits_for_devices(work)
    joins = threads.joins()
    threads.add(launch_track, launch_time)
    threads.add(track[calls], metrics.start_ns[calls])
    threads.add(track[calls], metrics.end_ns[calls])
    threads.add(*joins[:2])
    threads.add(*joins[2:])
    threads.settle()

    count = len(work)
    time = np.concatenate([work.end_ns, threads.time])
    waits = np.full((len(time), 3), -1, np.int64)
    waits[launched, 0] = count + threads.number(launch_track, launch_time)
    waits[:count, 1], waits[:count, 2] = _before_on_stream(work), _handed_over(work)
    waits[count:, 0] = np.where(threads.before >= 0, count + threads.before, -1)
    waits[count + threads.number(track[calls], metrics.end_ns[calls]), 1] = waited
    waits[count + threads.number(*joins[:2]), 2] = count + threads.number(*joins[2:])
    thread = np.concatenate([np.full(count, -1), threads.track])
    begin = np.concatenate([work.start_ns, threads.time])
    return _in_order(time, begin, np.concatenate([np.arange(count), np.full(len(threads.time), -1)]), thread, waits)


def _in_order(time: Ints, begin: Ints, work: Ints, thread: Ints, waits: NDArray[np.int64]) -> Moments:
    # Of moments at the same time those of devices come first: calls wait for them.
    order = np.lexsort((begin, work < 0, time))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    waits = np.where(waits >= 0, place[waits], -1)[order]
    time, begin, work, thread = time[order], begin[order], work[order], thread[order]
    # What is not over when something begins cannot have been waited for: clocks of devices are not exact.
    waits[(waits >= np.arange(len(order))[:, None]) | (time[waits] > begin[:, None])] = -1
    until = np.where(waits >= 0, time[waits], np.iinfo(np.int64).min)
    last = until.argmax(axis=1)
    rows = np.arange(len(order))
    waiting = waits[rows, last] >= 0
    ready = np.where(waiting, until[rows, last], begin)
    last = np.where(waiting, last, -1)
    return Moments(time, work, thread, waits, ready, last, begin - ready, time - begin)


def waits_for_devices(work: Work) -> tuple[Ints, Ints]:
    """Calls that waited for the device, and the work they waited for: what ended last before they returned; of a copy the
    copy itself."""
    metrics = work.metrics
    is_call = metrics.of_kinds(is_launching) & ~metrics.is_device
    waiting = np.flatnonzero(is_call & metrics.of_kinds(lambda kind: _WAITS(kind.name) is not None))
    by_end = np.argsort(work.end_ns, kind="stable")
    place = np.searchsorted(work.end_ns[by_end], metrics.end_ns[waiting], side="right") - 1
    found = np.where(place >= 0, by_end[place], -1) if len(by_end) else place
    copying = np.flatnonzero(work.launch >= 0)
    copies = metrics.of_kinds(lambda kind: _COPIES(kind.name) is not None)[work.launch[copying]]
    copying = copying[copies & (work.end_ns[copying] <= metrics.end_ns[work.launch[copying]])]
    calls = np.concatenate([waiting, work.launch[copying]])
    waited = np.concatenate([found, copying])
    real = (waited >= 0) & (work.end_ns[waited] > metrics.start_ns[calls]) if len(work) else waited >= 0
    return calls[real], waited[real]


def _before_on_stream(work: Work) -> Ints:
    """What ended last on a stream before each piece of work began there."""
    found = np.full(len(work), -1, np.int64)
    for _, _, mine in work.queues:
        found[mine] = _ended_before(work, mine, mine)
    return found


def _handed_over(work: Work) -> Ints:
    """What ended on another stream of the device just before a piece of work began there."""
    found = np.full(len(work), -1, np.int64)
    for device in np.unique(work.device).tolist():
        mine = np.flatnonzero(work.device == device)
        before = _ended_before(work, mine, mine)
        near = (before >= 0) & (work.start_ns[mine] - work.end_ns[before] <= _HANDOVER_NS)
        found[mine[near & (work.stream[before] != work.stream[mine])]] = before[
            near & (work.stream[before] != work.stream[mine])
        ]
    return found


def _ended_before(work: Work, known: Ints, wanted: Ints) -> Ints:
    by_end = known[np.argsort(work.end_ns[known], kind="stable")]
    place = np.searchsorted(work.end_ns[by_end], work.start_ns[wanted], side="right") - 1
    return np.where(place >= 0, by_end[place], -1)
