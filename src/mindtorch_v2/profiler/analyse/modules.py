"""Which nn.Module call each event belongs to, in arrays: forward by nesting, backward by the op it is the gradient of.

It needs captures recorded with modules, and knows nothing of what its answers are used for.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..capture.capture import Kind
from . import tree
from .metrics import Metrics

Ints = NDArray[np.int64]

# The path of events outside of every module.
OUTSIDE = "(outside modules)"


def is_module(kind: Kind) -> bool:
    return kind.module_id >= 0


def module_path(kind: Kind, around: str = "") -> str:
    """Where the module sits, `GPT.blocks.0.mlp`; where a trace does not tell, its name after the path of the module that
    calls it."""
    return kind.path or ".".join(filter(None, (around, kind.name.removeprefix("nn.Module: "))))


class Modules:
    """The modules of one capture. Paths are numbered; `path[i]` is the number of event i's path, 0 for outside."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    @cached_property
    def calls(self) -> NDArray[np.bool_]:
        """Which events are calls of modules."""
        return self._metrics.of_kinds(is_module)

    @cached_property
    def call(self) -> Ints:
        """The innermost module call around each event in forward (itself, if it is one), else -1."""
        if not self.calls.any():
            return np.full(len(self._metrics), -1, np.int64)
        outer = tree.splice(self._metrics.parent, ~self.calls)
        return np.where(self.calls, np.arange(len(outer)), outer)

    @cached_property
    def names(self) -> list[str]:
        return self._numbered[0]

    @cached_property
    def path(self) -> Ints:
        """The number of each event's path; what runs in an autograd node has that of its forward op."""
        of_call = self._numbered[1]
        metrics, call = self._metrics, self.call
        path = np.where(call >= 0, of_call[np.maximum(call, 0)], 0) if len(call) else call
        if not self.calls.any():
            return path
        node_path = np.zeros(len(metrics), np.int64)
        forward, nodes = metrics.flows
        node_path[nodes] = path[forward]
        root = self._roots(nodes)
        return np.where((path == 0) & (root >= 0), node_path[np.maximum(root, 0)], path)

    @cached_property
    def backward(self) -> NDArray[np.bool_]:
        """Which events run in backward."""
        return self._roots(self._metrics.flows[1]) >= 0

    def _roots(self, nodes: Ints) -> Ints:
        """For each event the autograd node it runs in or, if it only wraps a node, that node; else -1."""
        metrics = self._metrics
        root = metrics.backward_root.copy()
        wrappers = metrics.parent[nodes]
        lone = (wrappers >= 0) & (root[np.maximum(wrappers, 0)] < 0)
        lone &= metrics.of_kinds(lambda kind: kind.name.startswith("autograd::engine::"))[np.maximum(wrappers, 0)]
        root[wrappers[lone]] = nodes[lone]
        return root

    @cached_property
    def _numbered(self) -> tuple[list[str], Ints]:
        """Paths in order of number, and for each event that is a call the number of its path."""
        metrics = self._metrics
        names = {OUTSIDE: 0}
        of_event = np.zeros(len(metrics), np.int64)
        places = np.flatnonzero(self.calls)
        kinds = {number: metrics.kind_of(number) for number in np.unique(metrics.kind[places]).tolist()}
        if all(kind.path for kind in kinds.values()):
            table = np.zeros(max(kinds, default=0) + 1, np.int64)
            for number, kind in kinds.items():
                table[number] = names.setdefault(module_path(kind), len(names))
            of_event[places] = table[metrics.kind[places]]
            return list(names), of_event
        outer = tree.splice(metrics.parent, ~self.calls)[places]
        paths: dict[int, str] = {}
        # A call comes after the one around it.
        for place, around, number in zip(places.tolist(), outer.tolist(), metrics.kind[places].tolist()):
            paths[place] = module_path(kinds[number], paths.get(around, ""))
            of_event[place] = names.setdefault(paths[place], len(names))
        return list(names), of_event
