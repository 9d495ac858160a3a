"""Where time was spent as paths of frames with their own time: what flame graphs are drawn from.

A path is the nesting of events, Python functions included; where those were not recorded, the recorded stack of the
outermost event stands before it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analyse.metrics import DEEPEST_STACK, Metrics

Ints = NDArray[np.int64]

_DEEPER = "[deeper frames]"
_SOURCE = re.compile(r"(.+)\((\d+)\): (.+)").fullmatch


class Frame(NamedTuple):
    """A name, and where its code is if the name says so."""

    name: str
    file: str
    line: int


def frame_of(entry: str) -> Frame:
    """`file.py(12): name` taken apart; any other text is a name."""
    found = _SOURCE(entry)
    return Frame(found[3], found[1], int(found[2])) if found else Frame(entry, "", 0)


class Paths:
    """The distinct paths of a capture's events: a tree of frames, and what happened at each of its nodes by itself."""

    def __init__(self, metrics: Metrics) -> None:
        self.frames: list[str] = []
        # By number of a path: the one around it (-1: none) and the place of its last frame.
        self.outer: list[int] = []
        self.frame: list[int] = []
        self._depth: list[int] = []
        self._numbers: dict[tuple[int, int], int] = {}
        self._frame_places: dict[str, int] = {}
        events = np.flatnonzero(~metrics.is_mark)
        path = self._walk(metrics, events)
        # One entry for each path of each thread, in the order of threads.
        width = max(len(self.outer), 1)
        codes, which = np.unique(metrics.track[events] * np.int64(width) + path, return_inverse=True)
        self.track: Ints = codes // width
        self.path: Ints = codes % width
        self.count: Ints = np.bincount(which, minlength=len(codes))
        self.self_ns = _sums(which, metrics.self_ns[events], len(codes))
        self.allocated = _sums(which, np.maximum(metrics.self_memory[events], 0), len(codes))

    def _walk(self, metrics: Metrics, events: Ints) -> Ints:
        """The path of each event; those around it come before it."""
        names: dict[int, int] = {}
        paths = np.full(len(metrics), -1, np.int64)
        found = paths.tolist()
        rows = zip(events.tolist(), metrics.parent[events].tolist(), metrics.kind[events].tolist())
        python, stacks = metrics.is_python, metrics.stack
        for place, parent, kind in rows:
            frame = names.get(kind)
            if frame is None:
                frame = names[kind] = self._frame(metrics.kind_of(kind).name)
            outer = -1
            if parent >= 0:
                outer = found[parent]
            elif stacks[place] and not python[place]:
                for entry in reversed(metrics.stack_of(place)):
                    outer = self._path(outer, self._frame(entry))
            found[place] = self._path(outer, frame)
        paths[:] = found
        return paths[events]

    def _frame(self, name: str) -> int:
        place = self._frame_places.setdefault(name, len(self.frames))
        if place == len(self.frames):
            self.frames.append(name)
        return place

    def _path(self, outer: int, frame: int) -> int:
        """The path of a frame inside a path. Each is written out in full, so what lies very deep is one frame, _DEEPER."""
        depth = self._depth[outer] + 1 if outer >= 0 else 1
        if depth > DEEPEST_STACK + 1:
            return outer
        if depth > DEEPEST_STACK:
            frame = self._frame(_DEEPER)
        number = self._numbers.setdefault((outer, frame), len(self.outer))
        if number == len(self.outer):
            self.outer.append(outer)
            self.frame.append(frame)
            self._depth.append(depth)
        return number

    def frames_of(self, path: int) -> list[int]:
        """Places of the frames of a path, outermost first."""
        found = []
        while path >= 0:
            found.append(self.frame[path])
            path = self.outer[path]
        return found[::-1]


def _sums(which: Ints, values: Ints, count: int) -> Ints:
    found: Ints = np.bincount(which, weights=values.astype(np.float64), minlength=count).astype(np.int64)
    return found
