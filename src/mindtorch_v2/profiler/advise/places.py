"""Where in the user's code events come from, as far as their stacks, the functions around them or their modules tell.

It reads what was recorded; it does not open source files.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analyse import tree
from ..analyse.metrics import Metrics
from ..capture.capture import USER_ANNOTATION
from .code import Code
from .moduletree import ModuleTree
from .origins import Frame


class Spot(NamedTuple):
    """A place, how many events come from it, how long they took, and the longest of them (-1 for none)."""

    place: str
    calls: int
    time_ns: int
    event: int
    # Of a place in the code; empty and 0 for modules and annotations.
    file: str = ""
    line: int = 0
    function: str = ""


def spot_at(frame: Frame | None, calls: int, time_ns: int, event: int = -1) -> list[Spot]:
    """A spot in the code; none where nothing is known."""
    if frame is None:
        return []
    return [Spot(frame.text, calls, int(time_ns), event, frame.file, frame.line, frame.name)]


class Places:
    """Names the place of events: the innermost line of the user's code, else the module, else the annotation around."""

    def __init__(self, metrics: Metrics, modules: ModuleTree, code: Code | None = None) -> None:
        self._metrics = metrics
        self._modules = modules
        self.code = Code(metrics) if code is None else code
        annotated = metrics.of_kinds(lambda kind: kind.category == USER_ANNOTATION)
        self._annotation = tree.splice(metrics.parent, ~annotated)

    def of(self, event: int) -> str:
        """`file.py:12 in name`, `Model.layer` or `annotation`; empty where nothing was recorded that tells."""
        frame = self.frame(event)
        return frame.text if frame is not None else self._around(event)

    def frame(self, event: int) -> Frame | None:
        return self.code.tree.frames[int(self.code.node[event])]

    def _around(self, event: int) -> str:
        metrics = self._metrics
        node = self._modules.nodes[int(self._modules.of_event[event])]
        annotation = int(self._annotation[event])
        around = metrics.kind_of(int(metrics.kind[annotation])).label if annotation >= 0 else ""
        return node.path or node.name or around

    def spots(self, events: NDArray[Any], limit: int = 3) -> list[Spot]:
        """Where events come from, the place that takes most time first; without those no one can name, if others are."""
        if not len(events):
            return []
        metrics = self._metrics
        time = metrics.total_ns[events]
        # Events of one line, module and annotation have one place: name it once.
        width = int(self._modules.of_event.max()) + 1
        codes = (self.code.node[events] * width + self._modules.of_event[events]) * (len(metrics) + 1)
        _, which = np.unique(codes + self._annotation[events] + 1, return_inverse=True)
        which = which.reshape(-1)
        longest = np.lexsort((-time, which))[np.concatenate(([0], np.cumsum(np.bincount(which))[:-1]))]
        groups: dict[str, Spot] = {}
        rows = zip(longest.tolist(), np.bincount(which).tolist(), np.bincount(which, weights=time).tolist())
        for row, count, total in rows:
            event = int(events[row])
            frame = self.frame(event)
            place = frame.text if frame is not None else self._around(event)
            old = groups.get(place, Spot(place, 0, 0, event))
            if old.calls and metrics.total_ns[old.event] > metrics.total_ns[event]:
                event = old.event
            at = (frame.file, frame.line, frame.name) if frame is not None else ("", 0, "")
            groups[place] = Spot(place, old.calls + count, old.time_ns + int(total), event, *at)
        named = [spot for spot in groups.values() if spot.place] or list(groups.values())
        return sorted(named, key=lambda spot: -spot.time_ns)[:limit]
