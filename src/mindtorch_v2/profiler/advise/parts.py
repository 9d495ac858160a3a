"""What a step is made of, and a run: data, forward, backward, optimizer, Python and waiting; start-up, warm-up and steps.

It sorts time; it does not judge it.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analyse import tree
from ..analyse.metrics import Metrics
from .code import Code
from .steps import Steps
from .summary import window_of

Ints = NDArray[np.int64]

PARTS = ("data", "forward", "backward", "optimizer", "python", "idle")
DATA, FORWARD, BACKWARD, OPTIMIZER, PYTHON, IDLE = range(len(PARTS))
LOADER = "enumerate(DataLoader)"
OPTIMIZER_REGION = "Optimizer."
WAITING = re.compile(
    r"<built-in (function|method) "
    r"(sleep|acquire|select|poll|epoll|wait|recv|recv_into|accept|join|get_nowait|waitpid|_wait_for_single_object)\b"
)
# A first step that takes so many times as long as the usual one warms something up, and so do those after it.
_WARM = 1.5
_MOST_WARM = 10


class Phase(NamedTuple):
    """A stretch of the run, from its beginning on."""

    name: str
    start_ns: int
    length_ns: int


class Parts:
    """The time of the thread that makes steps, in parts; `of_slice` is the part of each slice of `Code.slices`."""

    def __init__(self, metrics: Metrics, code: Code, steps: Steps, track: int) -> None:
        self._metrics = metrics
        self._code = code
        self._regions: dict[str, NDArray[np.bool_]] = {}
        self.steps = steps
        self.track = int(metrics.track[steps.places[0]]) if len(steps.places) else track

    def inside(self, prefix: str) -> NDArray[np.bool_]:
        """Which events run in a region whose name begins so, or are one."""
        found = self._regions.get(prefix)
        if found is None:
            named = self._metrics.of_kinds(lambda kind: kind.name.startswith(prefix))
            found = self._regions[prefix] = named | (tree.splice(self._metrics.parent, ~named) >= 0)
        return found

    @cached_property
    def of_events(self) -> Ints:
        """The part of what each event does itself."""
        metrics = self._metrics
        engine = metrics.is_backward | metrics.is_evaluation
        in_engine = engine | (tree.splice(metrics.parent, ~engine) >= 0)
        waits = metrics.of_kinds(lambda kind: kind.is_function and WAITING.match(kind.name) is not None)
        found = np.where(self._code.is_op | self._in_op, FORWARD, PYTHON)
        found[waits] = IDLE
        found[in_engine] = BACKWARD
        found[self.inside(OPTIMIZER_REGION)] = OPTIMIZER
        found[self.inside(LOADER)] = DATA
        return found

    @property
    def _in_op(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = tree.splice(self._metrics.parent, ~self._code.is_op) >= 0
        return found

    def _elsewhere(self, part: Ints, start: Ints, length: Ints) -> Ints:
        """Where the engine has threads of its own, the time that the thread which steps waits for them is backward's."""
        metrics = self._metrics
        away = np.flatnonzero(metrics.is_evaluation & (metrics.track != self.track))
        if not len(away):
            return part
        begin, reach = metrics.start_ns[away], np.maximum.accumulate(metrics.end_ns[away])
        middle = start + length // 2
        place = np.searchsorted(begin, middle, side="right") - 1
        running = (place >= 0) & (middle < reach[np.maximum(place, 0)])
        return np.where(running & np.isin(part, (PYTHON, IDLE)), BACKWARD, part)

    def bounds(self) -> tuple[Ints, Ints]:
        """Where steps begin and end; the window where there are none."""
        places = self.steps.places
        if len(places):
            return self._metrics.start_ns[places], self._metrics.end_ns[places]
        begin, end = window_of(self._metrics)
        return np.array([begin]), np.array([end])

    @cached_property
    def by_step(self) -> Ints:
        """Nanoseconds of each part, a row a step; what no event covers is idle."""
        metrics, slices = self._metrics, self._code.slices
        begin, end = self.bounds()
        mine = np.flatnonzero(metrics.track[slices.owner] == self.track)
        start, length = slices.start_ns[mine], slices.length_ns[mine]
        part = self._elsewhere(self.of_events[slices.owner[mine]], start, length)
        step = np.searchsorted(begin, start, side="right") - 1
        inside = (step >= 0) & (start < end[np.maximum(step, 0)])
        cells = step[inside] * len(PARTS) + part[inside]
        sums = np.bincount(cells, weights=length[inside], minlength=len(begin) * len(PARTS))
        table = sums.astype(np.int64).reshape(len(begin), len(PARTS))
        table[:, IDLE] += np.maximum(end - begin - table.sum(axis=1), 0)
        return table

    def median_step(self) -> int:
        """The place among the steps of one that takes the median time."""
        begin, end = self.bounds()
        order = np.argsort(end - begin, kind="stable")
        return int(order[(len(order) - 1) // 2])

    def warm_steps(self) -> int:
        """How many steps at the beginning warm up: they take clearly longer than what is usual later."""
        begin, end = self.bounds()
        length = end - begin
        if len(length) < 4:
            return 0
        usual = float(np.median(length[1:]))
        slow = length[:_MOST_WARM] > _WARM * usual
        return int(np.argmin(slow)) if not slow.all() else 0

    def phases(self) -> list[Phase]:
        """The run from the beginning of the recording to its end."""
        first, last = window_of(self._metrics)
        if not len(self.steps.places):
            return [Phase("run", first, last - first)]
        begin, end = self.bounds()
        warm = self.warm_steps()
        found = [Phase("start-up", first, int(begin[0]) - first)]
        if warm:
            found.append(Phase("warm-up", int(begin[0]), int(begin[warm] - begin[0])))
        found.append(Phase("steps", int(begin[warm]), int(end[-1] - begin[warm])))
        found.append(Phase("after", int(end[-1]), last - int(end[-1])))
        return [phase for phase in found if phase.length_ns > 0]
