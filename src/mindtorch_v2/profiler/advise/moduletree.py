"""The tree of nn.Module calls, and the module each event belongs to, backward work included.

It derives everything from module events and the links between forward and backward; it does not know real modules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analyse import tree
from ..analyse.metrics import Metrics
from ..analyse.modules import is_module

Ints = NDArray[np.int64]

MODULE_PREFIX = "nn.Module: "


class ModuleNode(NamedTuple):
    """A module as called from its parent (the number of another node, 0 for none)."""

    parent: int
    name: str  # Linear_0
    path: str  # Model.encoder.0.linear, where known


@dataclass
class ModuleTree:
    """`nodes[0]` stands for what runs in no module. The arrays have a value per node, that of its subtree included."""

    nodes: list[ModuleNode]
    of_event: Ints
    calls: Ints
    forward_ns: Ints
    backward_ns: Ints
    self_forward_ns: Ints
    self_backward_ns: Ints


def module_tree(metrics: Metrics) -> ModuleTree:
    calls = metrics.of_kinds(is_module)
    nodes, of_event = _nodes(metrics, calls)
    roots = _backward_modules(metrics, of_event)
    count = len(nodes)
    total = metrics.total_ns
    number = np.bincount(of_event[calls], minlength=count)
    forward = _sums(of_event[calls], total[calls], count)
    own_backward = _sums(of_event[roots], total[roots], count)
    backward = own_backward.copy()
    inner = np.zeros(count, np.int64)
    # Children have higher numbers than their parents.
    for child in range(count - 1, 0, -1):
        outer = nodes[child].parent
        backward[outer] += backward[child]
        inner[outer] += forward[child]
    return ModuleTree(nodes, of_event, number, forward, backward, np.maximum(forward - inner, 0), own_backward)


def _nodes(metrics: Metrics, calls: NDArray[np.bool_]) -> tuple[list[ModuleNode], Ints]:
    """The nodes, and for each event the node of the innermost module call around it."""
    nodes = [ModuleNode(0, "", "")]
    of_event = np.zeros(len(metrics), np.int64)
    if not calls.any():
        return nodes, of_event
    outer = tree.splice(metrics.parent, ~calls)
    known: dict[tuple[int, str], int] = {}
    numbers = of_event.tolist()
    for place in np.flatnonzero(calls).tolist():
        around = int(outer[place])
        parent = numbers[around] if around >= 0 else 0
        kind = metrics.kind_of(int(metrics.kind[place]))
        key = (parent, kind.name + "\n" + kind.path)
        if key not in known:
            known[key] = len(nodes)
            nodes.append(ModuleNode(parent, kind.name.removeprefix(MODULE_PREFIX), kind.path))
        numbers[place] = known[key]
    of_event = np.array(numbers, np.int64)
    inside = np.flatnonzero(~calls & (outer >= 0))
    of_event[inside] = of_event[outer[inside]]
    return nodes, of_event


def _backward_modules(metrics: Metrics, of_event: Ints) -> Ints:
    """Give backward work the module of its forward op; returns the outermost events of that work."""
    forward, backward = metrics.flows
    if not len(forward):
        return np.zeros(0, np.int64)
    module = of_event[forward]
    parent = metrics.parent[backward]
    wrapped = np.zeros(len(metrics), bool)
    wrapped[backward] = True
    names = metrics.of_kinds(lambda kind: kind.name.startswith("autograd::engine::evaluate_function"))
    around = (parent >= 0) & names[np.maximum(parent, 0)]
    roots = np.where(around, parent, backward)
    root_of = np.full(len(metrics), -1, np.int64)
    root_of[roots] = module
    is_root = root_of >= 0
    outer = tree.splice(metrics.parent, ~is_root)
    nearest = np.where(is_root, np.arange(len(metrics)), outer)
    inside = nearest >= 0
    of_event[inside] = root_of[nearest[inside]]
    return np.unique(roots)


def _sums(group: Ints, values: Ints, count: int) -> Ints:
    return np.bincount(group, weights=values, minlength=count).astype(np.int64)
