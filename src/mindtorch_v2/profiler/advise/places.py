"""Where in the user's code events come from, as far as their stacks, the functions around them or their modules tell.

It reads what was recorded; it does not open source files.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analyse import tree
from ..analyse.metrics import Metrics
from ..capture.capture import USER_ANNOTATION
from .moduletree import ModuleTree

_FRAME = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): (?P<name>.+)$", re.DOTALL)
_LIBRARIES = re.compile(r"(^|[/\\])(mindtorch_v2|torch|site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]")


def is_users(frame: str) -> bool:
    """Whether a stack entry names a line of the program itself, not of a library or a built-in function."""
    match = _FRAME.match(frame)
    if match is None or match["file"].startswith("<"):
        return False
    return _LIBRARIES.search(match["file"]) is None


def innermost(stack: list[str]) -> str:
    """The first user frame of a stack; of one without any, nothing."""
    return next((frame for frame in stack if is_users(frame)), "")


class Spot(NamedTuple):
    """A place, how many events come from it, how long they took, and the longest of them."""

    place: str
    calls: int
    time_ns: int
    event: int


class Places:
    """Names the place of events: the innermost line of the user's code, else the module, else the annotation around."""

    def __init__(self, metrics: Metrics, modules: ModuleTree) -> None:
        self._metrics = metrics
        self._modules = modules
        self._of_stack: dict[int, str] = {0: ""}
        annotated = metrics.of_kinds(lambda kind: kind.category == USER_ANNOTATION)
        self._annotation = tree.splice(metrics.parent, ~annotated)

    def of_stack(self, stack: int) -> str:
        found = self._of_stack.get(stack)
        if found is None:
            found = self._of_stack[stack] = innermost(self._metrics.capture.stacks.read(stack))
        return found

    def of(self, event: int) -> str:
        """`file.py(12): name`, `Model.layer` or `annotation`; empty where nothing was recorded that tells."""
        metrics = self._metrics
        line = "" if metrics.is_python[event] else self.of_stack(int(metrics.stack[event]))
        line = line or innermost(metrics.python_stack(event))
        if line:
            return line
        node = self._modules.nodes[int(self._modules.of_event[event])]
        annotation = int(self._annotation[event])
        around = metrics.kind_of(int(metrics.kind[annotation])).label if annotation >= 0 else ""
        return node.path or node.name or around

    def spots(self, events: NDArray[Any], limit: int = 3) -> list[Spot]:
        """Where events come from, the place that takes most time first."""
        if not len(events):
            return []
        metrics = self._metrics
        time = metrics.total_ns[events]
        # Events of one stack, module and annotation have one place: name it once.
        width = int(self._modules.of_event.max()) + 1
        codes = (metrics.stack[events].astype(np.int64) * width + self._modules.of_event[events]) * (len(metrics) + 1)
        _, which = np.unique(codes + self._annotation[events] + 1, return_inverse=True)
        which = which.reshape(-1)
        longest = np.lexsort((-time, which))[np.concatenate(([0], np.cumsum(np.bincount(which))[:-1]))]
        groups: dict[str, Spot] = {}
        rows = zip(longest.tolist(), np.bincount(which).tolist(), np.bincount(which, weights=time).tolist())
        for row, count, total in rows:
            event = int(events[row])
            place = self.of(event)
            old = groups.get(place, Spot(place, 0, 0, event))
            if old.calls and metrics.total_ns[old.event] > metrics.total_ns[event]:
                event = old.event
            groups[place] = Spot(place, old.calls + count, old.time_ns + int(total), event)
        return sorted(groups.values(), key=lambda spot: -spot.time_ns)[:limit]
