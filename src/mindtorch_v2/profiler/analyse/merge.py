"""Several captures as one: ranks or workers side by side on one clock, each a group of tracks of its own.

It renumbers what captures number for themselves (kinds, inputs, stacks, sequence numbers, blocks of memory). It does not
read or write files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..capture.capture import SEEN, STEP_PREFIX, Capture, Kind, Track
from ..record import step_clock
from ..record.config import RecordOptions
from .metrics import Metrics
from .samples import step_intervals

CLOCK, STEP, START = "clock", "step", "start"
ALIGNMENTS = (CLOCK, STEP, START)
# Blocks of memory of different processes must not be taken for each other; addresses use 48 bits at most.
_ADDRESS_BITS = 48
# Nor arrows; those of a capture have numbers of 41 bits at most.
_ARROW_BITS = 42


class MergedStacks:
    """Reads stacks of several captures under common numbers."""

    def __init__(self) -> None:
        self._known: list[tuple[Any, int]] = [(None, 0)]
        self._numbers: dict[tuple[int, int], int] = {}

    def number(self, stacks: Any, stack: int) -> int:
        key = (id(stacks), stack)
        found = self._numbers.get(key)
        if found is None:
            self._known.append((stacks, stack))
            found = self._numbers[key] = len(self._known) - 1
        return found

    @property
    def lines_of_definition(self) -> bool:
        return any(getattr(stacks, "lines_of_definition", False) for stacks, _ in self._known)

    def read(self, stack: int) -> list[str]:
        stacks, number = self._known[stack]
        return list(stacks.read(number)) if number else []


class Straggling(NamedTuple):
    """How one merged capture keeps up: its steps, and the time of a typical one over the fastest capture's."""

    label: str
    steps: int
    median_ns: float
    behind: float


def merge(captures: Sequence[Capture], labels: Sequence[str], *, align: str = CLOCK) -> Capture:
    """One capture of several. `align` says what is made to coincide: Unix time ("clock"), the beginning of the first
    step all have in common ("step"), or the beginning of the recordings ("start")."""
    if not captures:
        raise ValueError("merge() needs at least one capture")
    if len(captures) != len(labels):
        raise ValueError(f"merge() needs a label for each capture, got {len(labels)} for {len(captures)}")
    if align not in ALIGNMENTS:
        raise ValueError(f"align should be one of {', '.join(ALIGNMENTS)}, got {align!r}")
    shifts = _shifts(captures, align)
    first = min(range(len(captures)), key=lambda place: shifts[place])
    stop = max(shift + capture.stop_ns - capture.start_ns for shift, capture in zip(shifts, captures))
    numbers = _Numbers()
    tracks: list[Track] = []
    memory_roles = []
    for place, (capture, label, shift) in enumerate(zip(captures, labels, shifts)):
        tracks += numbers.tracks(capture, label, shift, place, len(tracks))
        memory_roles.append(capture.memory_roles + np.array([shift, 0, place << _ADDRESS_BITS, 0, 0]))
    pid = numbers.process(first, captures[first].pid)
    return Capture(
        _options(captures),
        captures[first].start_ns,
        captures[first].start_ns + stop,
        captures[first].epoch_ns,
        tracks,
        numbers.kinds,
        numbers.inputs,
        numbers.stacks,  # type: ignore[arg-type]
        numbers.memory_kind,
        pid,
        next((track.process_name for track in tracks if track.pid == pid), labels[first]),
        pauses=[pause for capture in captures for pause in capture.pauses] if len(captures) == 1 else [],
        main_thread=captures[first].main_thread,
        metadata={**captures[first].metadata, "merged": list(labels)},
        notes=[f"{label}: {note}" for capture, label in zip(captures, labels) for note in capture.notes],
        memory_roles=np.concatenate(memory_roles),
    )


def joined(captures: Sequence[Capture]) -> Capture:
    """One capture of several windows of one program: each thread goes on from window to window."""
    merged = merge(captures, [capture.process_name for capture in captures])
    originals = [(place, track) for place, capture in enumerate(captures) for track in capture.tracks]
    links = np.cumsum([0, *(_largest_link(capture) for capture in captures)]).tolist()
    threads: dict[tuple[Any, ...], list[Track]] = {}
    for (place, original), track in zip(originals, merged.tracks):
        key = (original.pid, original.native_id, original.device_type, original.device_index)
        back = replace(
            track,
            pid=original.pid,
            process_name=original.process_name,
            # A block of memory may outlive the window it was allocated in; what launched work on a device is in its own.
            address=track.address - (place << _ADDRESS_BITS),
            link=None if track.link is None else track.link + np.sign(track.link) * links[place],
        )
        threads.setdefault(key, []).append(back)
    first = captures[0]
    metadata = {**first.metadata, step_clock.METADATA: step_clock.joined([part.metadata for part in captures])}
    return replace(
        merged,
        tracks=[_one_track(parts, index) for index, parts in enumerate(threads.values(), 1)],
        pid=first.pid,
        process_name=first.process_name,
        metadata=metadata,
        notes=list(dict.fromkeys(note for capture in captures for note in capture.notes)),
        memory_roles=np.concatenate([np.zeros((0, len(SEEN)), np.int64), *_roles_over_windows(captures)]),
    )


def _largest_link(capture: Capture) -> int:
    return max(
        (int(np.abs(track.link).max(initial=0)) for track in capture.tracks if track.link is not None), default=0
    )


def _roles_over_windows(captures: Sequence[Capture]) -> list[NDArray[np.int64]]:
    shifts = _shifts(captures, CLOCK)
    return [capture.memory_roles + np.array([shift, 0, 0, 0, 0]) for capture, shift in zip(captures, shifts)]


def _one_track(parts: list[Track], index: int) -> Track:
    """Parts of one thread, in order of time, as one."""

    def column(name: str) -> Any:
        found = [getattr(part, name) for part in parts if getattr(part, name) is not None]
        return np.concatenate(found) if found else None

    names = ("start_ns", "end_ns", "kind", "seq", "inputs", "stack", "memory_ns", "nbytes", "address")
    links = None
    if any(part.link is not None for part in parts):
        none = [np.zeros(len(part), np.int64) for part in parts]
        links = np.concatenate([empty if part.link is None else part.link for part, empty in zip(parts, none)])
    columns = {name: column(name) for name in (*names, "device_memory", "arrows")}
    return replace(parts[0], index=index, link=links, **columns)


def stragglers(captures: Sequence[Capture], labels: Sequence[str]) -> list[Straggling]:
    """How the captures keep up with each other, slowest first; those without steps are left out."""
    found = []
    for capture, label in zip(captures, labels):
        begin, end = step_intervals(Metrics(capture))
        if len(begin):
            found.append((label, len(begin), float(np.median(end - begin))))
    fastest = min((median for _, _, median in found), default=0.0)
    rows = [Straggling(*row, row[2] / fastest - 1 if fastest else 0.0) for row in found]
    return sorted(rows, key=lambda row: -row.median_ns)


def _options(captures: Sequence[Capture]) -> RecordOptions:
    """What any of the captures recorded."""
    fields = vars(captures[0].options)
    return RecordOptions(**{name: any(getattr(capture.options, name) for capture in captures) for name in fields})


def _shifts(captures: Sequence[Capture], align: str) -> list[int]:
    """By how much the times of each capture move; the earliest by nothing."""
    if align == CLOCK:
        shifts = [capture.epoch_ns for capture in captures]
    elif align == START:
        shifts = [0] * len(captures)
    else:
        shifts = [-start for start in _common_step(captures)]
    earliest = min(shifts)
    return [shift - earliest for shift in shifts]


def _common_step(captures: Sequence[Capture]) -> list[int]:
    """Where the first step that all captures have begins in each."""
    starts = [_step_starts(capture) for capture in captures]
    common = set(starts[0]).intersection(*starts[1:])
    if not common:
        raise ValueError("no step is in all captures: align by clock or start instead")
    first = min(common)
    return [found[first] for found in starts]


def _step_starts(capture: Capture) -> dict[int, int]:
    found: dict[int, int] = {}
    for track in capture.tracks:
        for kind in np.unique(track.kind).tolist():
            number = capture.kinds[kind].name.removeprefix(STEP_PREFIX)
            if capture.kinds[kind].name.startswith(STEP_PREFIX) and number.isdecimal():
                start = int(track.start_ns[track.kind == kind].min())
                found[int(number)] = min(start, found.get(int(number), start))
    return found


class _Numbers:
    """Common numbers for what captures number for themselves."""

    def __init__(self) -> None:
        self.kinds: list[Kind] = []
        self._kinds: dict[tuple[Any, ...], int] = {}
        self.inputs: list[Any] = [None]
        self.stacks = MergedStacks()
        self.memory_kind = 0
        self._next_seq = 0
        self._processes: dict[tuple[int, int], int] = {}

    def tracks(self, capture: Capture, label: str, shift: int, place: int, taken: int) -> list[Track]:
        """The tracks of a capture under common numbers, as a group with a process of its own."""
        arrows = [track.arrows[:, 3].astype(np.int32) for track in capture.tracks if track.arrows is not None]
        kinds = _table([*(track.kind for track in capture.tracks), *arrows], lambda old: self._kind(capture.kinds[old]))
        self.memory_kind = self._kind(capture.kinds[capture.memory_kind])
        inputs = _table([track.inputs for track in capture.tracks], lambda old: self._inputs(capture, old))
        stacks = _table([track.stack for track in capture.tracks], lambda old: self._stack(capture, old))
        seq, block = self._next_seq, place << _ADDRESS_BITS
        pids = {track.pid or capture.pid for track in capture.tracks}
        moved = []
        for number, track in enumerate(capture.tracks):
            pid = track.pid or capture.pid
            moved.append(
                replace(
                    track,
                    index=taken + number + 1,
                    start_ns=track.start_ns + shift,
                    end_ns=track.end_ns + shift,
                    kind=kinds[track.kind],
                    seq=np.where(track.seq >= 0, track.seq + seq, track.seq),
                    inputs=inputs[track.inputs],
                    stack=stacks[track.stack],
                    memory_ns=track.memory_ns + shift,
                    device_memory=_moved(track.device_memory, shift),
                    arrows=_moved_arrows(track.arrows, shift, place, kinds),
                    address=track.address + block,
                    pid=self.process(place, pid),
                    process_name=label if len(pids) == 1 else f"{label} {track.process_name or pid}",
                )
            )
            self._next_seq = max(self._next_seq, seq + int(track.seq.max(initial=-1)) + 1)
        return moved

    def process(self, place: int, pid: int) -> int:
        """A process number no other capture has; ranks on different machines may well share theirs."""
        taken = self._processes
        if (place, pid) not in taken:
            taken[place, pid] = pid if pid and pid not in taken.values() else max(taken.values(), default=0) + 1
        return taken[place, pid]

    def _kind(self, kind: Kind) -> int:
        found = self._kinds.get(tuple(kind))
        if found is None:
            self.kinds.append(kind)
            found = self._kinds[tuple(kind)] = len(self.kinds) - 1
        return found

    def _inputs(self, capture: Capture, old: int) -> int:
        if not old:
            return 0
        self.inputs.append(capture.inputs[old])
        return len(self.inputs) - 1

    def _stack(self, capture: Capture, old: int) -> int:
        return self.stacks.number(capture.stacks, old) if old else 0


def _table(columns: list[NDArray[np.int32]], number: Callable[[int], int]) -> NDArray[np.int32]:
    """The new number for each old one that occurs."""
    present = np.unique(np.concatenate([np.empty(0, np.int32), *columns]))
    table = np.zeros(int(present[-1]) + 1 if len(present) else 1, np.int32)
    for old in present.tolist():
        table[old] = number(old)
    return table


def _moved(rows: NDArray[np.int64] | None, shift: int) -> NDArray[np.int64] | None:
    """Rows that begin with a time, at another time."""
    return None if rows is None else np.concatenate([rows[:, :1] + shift, rows[:, 1:]], axis=1)


def _moved_arrows(
    rows: NDArray[np.int64] | None, shift: int, place: int, kinds: NDArray[np.int32]
) -> NDArray[np.int64] | None:
    """Ends of arrows (time, number, sort, kind) at another time, under numbers no other capture has."""
    if rows is None:
        return None
    time, number, sort, kind = rows.T
    return np.stack([time + shift, number + (place << _ARROW_BITS), sort, kinds[kind]], axis=1)
