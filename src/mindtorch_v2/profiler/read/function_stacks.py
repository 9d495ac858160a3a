"""Stacks of events where a file has none: the Python functions around them, looked for when first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analyse import tree
from ..analyse.metrics import DEEPEST_STACK
from ..capture.capture import PYTHON_FUNCTION, Kind, Track


class StackTexts:
    """Stacks by number. Each is a text from a file, or another stack with one more entry inside of it."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {"": 0}
        self._stacks: list[Any] = [""]
        # Whether lines are where functions begin, as all that a trace tells, not the ones that ran.
        self.lines_of_definition = False

    def intern(self, stack: str | tuple[int, str]) -> int:
        found = self._numbers.get(stack)
        if found is None:
            found = self._numbers[stack] = len(self._stacks)
            self._stacks.append(stack)
        return found

    def read(self, stack: int) -> list[str]:
        """Entries, innermost first."""
        entries: list[str] = []
        while stack and len(entries) < DEEPEST_STACK:
            found = self._stacks[stack]
            if isinstance(found, str):
                return entries + [entry for entry in found.split(";") if entry]
            stack, entry = found
            entries.append(entry)
        return entries

    def __len__(self) -> int:
        return len(self._stacks)


@dataclass
class FunctionTrack(Track):
    """A track whose stacks are given by what finds them."""

    @property  # type: ignore[misc]
    def stack(self) -> NDArray[np.int32]:
        found: Any = vars(self)["stack"]
        if callable(found):
            found = vars(self)["stack"] = found(self)
        return found

    @stack.setter
    def stack(self, stack: Any) -> None:
        vars(self)["stack"] = stack


def with_function_stacks(tracks: list[Track], kinds: Sequence[Kind], stacks: StackTexts) -> list[Track]:
    """The tracks, with stacks on threads that have Python functions."""
    stacks.lines_of_definition = True
    is_python = np.array([kind.category == PYTHON_FUNCTION for kind in kinds])

    def find(track: Track) -> NDArray[np.int32]:
        order, parent, _ = tree.nest(track.start_ns, track.end_ns)
        python = is_python[track.kind[order]]
        outer = tree.splice(parent, ~python)
        # The stack that what is directly in a Python function has; the last is that of what is in none.
        inside = [0] * (len(order) + 1)
        places = np.flatnonzero(python)
        for place, around, kind in zip(places.tolist(), outer[places].tolist(), track.kind[order][places].tolist()):
            inside[place] = stacks.intern((inside[around], kinds[kind].name))
        found = np.zeros(len(order), np.int32)
        found[order] = np.where(python, 0, np.array(inside, np.int32)[outer])
        return found

    return [
        FunctionTrack(**{**vars(track), "stack": find})
        if track.device_type == 0 and is_python[track.kind].any()
        else track
        for track in tracks
    ]
