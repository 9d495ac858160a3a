"""A capture as the page wants it: interned tables for the header and whole-number columns for the events.

It decides what the page is told; how it is packed and drawn is not known here.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..advise.findings import Run, find
from ..advise.moduletree import ModuleTree
from ..advise.parts import WAITING
from ..advise.rules import RULES
from ..advise.summary import SORTS, sort_of, window_of
from ..analyse import tree
from ..analyse.metrics import Metrics
from ..analyse.modules import is_module
from ..capture.capture import Capture, Kind, Kinds
from ..record import environment as where
from ..record import overhead, step_clock
from . import allocations
from .comparison import compare
from .devices import device_view, launch_arrows
from .pack import Packer
from .story import story

Ints = NDArray[np.int64]

_LONGEST_TEXT = 400
_TITLES = {"numpy": "NumPy"}
# Marks that change the direction of text.
_TURNING = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")
# What people call devices, by torch's number of their type.
_DEVICES = {1: "GPU", 6: "GPU", 12: "XPU", 13: "MPS", 15: "HPU", 19: "MTIA"}


class Digest:
    """Fills a packer and a header from one capture."""

    def __init__(self, capture: Capture, before: Capture | None = None) -> None:
        self.metrics = Metrics(capture)
        self.run = Run(self.metrics)
        self.modules, self.summary = self.run.modules, self.run.summary
        self.packer = Packer()
        self.before = before

    def packed(self, title: str) -> str:
        metrics, capture, cost = self.metrics, self.metrics.capture, self.run.cost
        begin, finish = window_of(metrics)
        header = {
            "title": title,
            "begin": begin,
            "end": finish,
            "epoch": capture.epoch_ns,
            "sorts": SORTS,
            "tracks": _tracks(capture),
            "options": asdict(capture.options),
            "summary": self.summary._asdict(),
            "overhead": cost and {"events": cost.events, "per_event_ns": cost.per_event_ns, "share": cost.share},
            "environment": environment(capture),
            "modules": _module_rows(self.modules),
            "steps": self._steps(),
            "memory": self._memory(),
            "diff": self._diff(),
            "devices": straight_values(device_view(metrics, begin, finish)),
            **self._events(begin),
        }
        found = find(self.run, RULES)
        header["findings"] = [{**one._asdict(), "spots": [list(spot) for spot in one.spots]} for one in found]
        header["story"] = story(self.run, found)
        for number, times in enumerate(self.run.parts.by_step.T if len(self.run.steps.places) else ()):
            self.packer.add(f"part_{number}", times)
        return self.packer.packed(header)

    def _events(self, begin: int) -> dict[str, Any]:
        """The columns of events, and the tables they refer to."""
        metrics, add = self.metrics, self.packer.add
        kinds, kind = _interned(metrics.kind)
        pairs = metrics.kind.astype(np.int64) * (int(metrics.inputs.max(initial=0)) + 1) + metrics.inputs
        # Of equal calls, those whose parts were recorded did less themselves.
        amounts, _, amount = _firsts(metrics.work)
        _, first, call = _firsts(pairs * max(len(amounts), 1) + amount)
        stacks, stack = _interned(np.where(metrics.is_python, 0, metrics.stack))
        nodes, frames, ends = self._stack_tree(stacks)
        add("start", metrics.start_ns - begin, delta=True)
        add("length", metrics.total_ns)
        add("call", call)
        add("depth", self._depths())
        add("track", metrics.track)
        add("stack", np.array(ends, np.int64)[stack] if len(stack) else stack)
        add("module", self.modules.of_event)
        add("memory", metrics.memory)
        forward, backward = metrics.flows
        add("forward", forward)
        add("backward", backward)
        launch, launched = launch_arrows(metrics)
        add("launch", launch)
        add("launched", launched)
        return {
            "kinds": [self._kind(number) for number in kinds],
            "calls": [self._call(place, int(kind[place])) for place in first],
            "frames": frames,
            "libraries": sorted(
                {text.partition("(")[0] for text in frames if not self.run.code.origins.is_users(text)}
            ),
            "stacks": nodes,
        }

    def _depths(self) -> Ints:
        """How deep each event is drawn: below those around it on its own thread or stream."""
        metrics = self.metrics
        depth = _depths(metrics.parent)
        for number, track in enumerate(metrics.capture.tracks):
            if track.device_type:
                # Work on a device has no parents; on its stream it may stand inside of other work all the same.
                mine = np.flatnonzero(metrics.track == number)
                mine = mine[np.argsort(metrics.end_ns[mine], kind="stable")]
                order, parent, _ = tree.nest(metrics.start_ns[mine], metrics.end_ns[mine])
                depth[mine[order]] = _depths(parent)
        return depth

    def _kind(self, number: int) -> list[Any]:
        kind = self.metrics.kind_of(number)
        return [
            straight(kind.name),
            straight(kind.label),
            SORTS.index(sort_of(kind)),
            kind.overload,
            straight(kind.path),
            self._folding(kind),
        ]

    def _folding(self, kind: Kind) -> int:
        """What is folded away at first: 1 for functions of libraries and built-in ones, 2 for those that only wait."""
        if not kind.is_function or is_module(kind) or self.run.code.origins.is_users(kind.name):
            return 0
        return 2 if WAITING.match(kind.name) else 1

    def _call(self, place: int, kind: int) -> list[Any]:
        """What calls with the same name and inputs share: kind, shapes, types, other arguments, FLOPs."""
        metrics = self.metrics
        number, inputs = int(metrics.kind[place]), int(metrics.inputs[place])
        if not inputs:
            return [kind]
        record = metrics.input_record(number, inputs)
        flops = int(metrics.work[place])
        given = [value for value in record.concrete if value not in (None, "")]
        types = [name for name in record.dtypes if name]
        return [kind, _text(list(record.shapes)), _text(types, ", "), _text(given, ", "), flops]

    def _stack_tree(self, stacks: list[int]) -> tuple[list[list[int]], list[str], list[int]]:
        """Stacks as a tree of [outer node, frame]; node 0 is the empty stack. Also where each stack ends in it."""
        frames: dict[str, int] = {}
        nodes: dict[tuple[int, int], int] = {(0, -1): 0}
        ends = []
        for stack in stacks:
            node = 0
            for entry in reversed(self.metrics.capture.stacks.read(stack) if stack else []):
                key = (node, frames.setdefault(entry, len(frames)))
                node = nodes.setdefault(key, len(nodes))
            ends.append(node)
        return [list(key) for key in nodes], [straight(frame) for frame in frames], ends

    def _steps(self) -> dict[str, Any]:
        steps = self.run.steps
        return {"name": steps.name, "events": steps.places.tolist(), "labels": steps.labels(self.metrics)}

    def _memory(self) -> dict[str, Any]:
        metrics = self.metrics
        if not len(metrics.memory_events):
            return {"categories": [], "peak": -1, "alive": []}
        usage = allocations.usage(metrics)
        begin = window_of(metrics)[0]
        self.packer.add("memory_time", usage.time_ns - begin, delta=True)
        for number, values in enumerate(usage.by_category):
            self.packer.add(f"memory_{number}", values, delta=True)
        alive = allocations.biggest(metrics, usage)
        for row in alive:
            row["start"] -= begin if row["start"] >= 0 else 0
            row["end"] -= begin if row["end"] >= 0 else 0
        return {"categories": usage.names, "peak": usage.peak, "alive": alive}

    def _diff(self) -> dict[str, Any] | None:
        return None if self.before is None else compare(self.before, self.metrics.capture)


def environment(capture: Capture) -> dict[str, str]:
    """What was timed and where, as far as it is known: this process's own, or what a trace says of itself."""
    is_live = isinstance(capture.kinds, Kinds) and capture.pid == os.getpid()
    said = where.environment() if is_live and not where.stated(capture.metadata) else where.stated(capture.metadata)
    found = {
        "Timed": where.implementation_of(capture.metadata, is_live),
        "Recorded": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(capture.epoch_ns / 1e9)),
        "Process": f"{capture.process_name} {capture.pid}",
        **{
            _TITLES.get(key, str(key).capitalize()): _text(value)
            for key, value in said.items()
            if key != "implementation"
        },
    }
    if is_live:
        found["Command"] = " ".join([os.path.basename(sys.executable), *sys.argv])
    for key, value in capture.metadata.items():
        if key not in (overhead.METADATA, where.METADATA, step_clock.METADATA):
            found.setdefault(str(key), _text(value))
    return {key: value[:_LONGEST_TEXT] for key, value in found.items()}


def straight(text: str) -> str:
    """A name without the marks that let it be read backwards, which can make it look like another."""
    return text.translate(_TURNING)


def straight_values(value: Any) -> Any:
    """The same of all texts in lists and objects."""
    if isinstance(value, str):
        return straight(value)
    if isinstance(value, list):
        return [straight_values(item) for item in value]
    return {key: straight_values(item) for key, item in value.items()} if isinstance(value, dict) else value


def _tracks(capture: Capture) -> list[dict[str, Any]]:
    rows = []
    several = "merged" in capture.metadata
    for track in capture.tracks:
        process = track.process_name or (
            f"process {track.pid}" if track.pid else capture.process_name if several else ""
        )
        name = track.name or f"thread {track.native_id}"
        if track.device_type:
            process = f"{_DEVICES.get(track.device_type, 'device')} {track.device_index}"
        title = f"{process}: {name}" if process else name
        rows.append({"name": title, "id": track.native_id, "pid": track.pid, "device": track.device_type > 0})
    return rows


def _module_rows(modules: ModuleTree) -> list[list[Any]]:
    columns = (
        modules.calls,
        modules.forward_ns,
        modules.backward_ns,
        modules.self_forward_ns,
        modules.self_backward_ns,
    )
    values = zip(*(column.tolist() for column in columns))
    return [[node.parent, node.name, node.path, *row] for node, row in zip(modules.nodes, values)]


def _text(value: Any, separator: str | None = None) -> str:
    """A value as text of bearable length."""
    if separator is not None:
        value = separator.join(map(str, value))
    text = str(value)
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


def _interned(values: NDArray[Any]) -> tuple[list[int], Ints]:
    """The distinct numbers, and the place of each value among them."""
    found, which = np.unique(values, return_inverse=True)
    return found.tolist(), which.reshape(-1).astype(np.int64)


def _firsts(values: NDArray[Any]) -> tuple[Ints, list[int], Ints]:
    """Distinct values in order; where each is first, and which of them each place has."""
    found, first, which = np.unique(values, return_index=True, return_inverse=True)
    return found, first.tolist(), which.reshape(-1).astype(np.int64)


def _depths(parent: Ints) -> Ints:
    """How many events are around each."""
    depth = np.zeros(len(parent), np.int64)
    outer = parent
    while len(outer) and (outer >= 0).any():
        depth += outer >= 0
        outer = np.where(outer >= 0, parent[outer], -1)
    return depth
