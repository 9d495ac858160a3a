"""The steps of a run: `ProfilerStep#N` regions or, without a schedule, the annotation that repeats most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analyse import tree
from ..analyse.metrics import Metrics
from ..capture.capture import STEP_PREFIX, USER_ANNOTATION

_NO_STEPS = ("enumerate(DataLoader)", "Optimizer.")


class Steps(NamedTuple):
    """What a step is called, and the events that are steps, in order."""

    name: str
    places: NDArray[np.intp]

    def labels(self, metrics: Metrics) -> list[str]:
        """`ProfilerStep#3`, or the name with a number where all have the same."""
        names = [metrics.kind_of(int(metrics.kind[place])).name for place in self.places]
        return names if len(set(names)) == len(names) else [f"{name} {i}" for i, name in enumerate(names)]


def find_steps(metrics: Metrics) -> Steps:
    annotated = metrics.of_kinds(lambda kind: kind.category == USER_ANNOTATION)
    numbered = np.flatnonzero(annotated & metrics.of_kinds(lambda kind: kind.name.startswith(STEP_PREFIX)))
    if len(numbered):
        return Steps("ProfilerStep", _of_one_thread(metrics, numbered))
    candidates = annotated & ~metrics.of_kinds(lambda kind: kind.name.startswith(_NO_STEPS))
    # Only the outermost annotations: what repeats inside of a step is no step.
    outermost = _of_one_thread(metrics, np.flatnonzero(candidates & (tree.splice(metrics.parent, ~candidates) < 0)))
    if not len(outermost):
        return Steps("", outermost)
    kinds, which, count = np.unique(metrics.kind[outermost], return_inverse=True, return_counts=True)
    time = np.bincount(which.reshape(-1), weights=metrics.total_ns[outermost])
    time[count < 2] = -1
    best = int(np.argmax(time))
    if time[best] < 0:
        return Steps("", outermost[:0])
    return Steps(metrics.kind_of(int(kinds[best])).name, outermost[which.reshape(-1) == best])


def _of_one_thread(metrics: Metrics, places: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those of the thread that has most of them: of several processes or threads each has steps of its own."""
    if not len(places):
        return places
    tracks = metrics.track[places].astype(np.int64)
    return places[tracks == np.argmax(np.bincount(tracks))]
