"""Owns adding many values into places that may repeat. Indices are in range and types match: callers see to that."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import C
from ..reduction.sort_keys import stable_argsort
from ..totals import Array, total

# Rows shorter than this are added element by element: ``add.at`` is fast on flat arrays only.
NARROW = 32
# So few rows are added one by one.
FEW = 16
# An index that occurs more often is summed in one go; the others are added occurrence by occurrence, all at once.
HEAVY = 64


def add_elements(target: Array, index: Array, values: Array) -> None:
    """``target[index] += values`` on flat arrays, counting repeated indices."""
    if C is None or not C.index_add(target, index, values):
        np.add.at(target, index, values)


def add_rows(target: Array, index: Array, rows: Array) -> None:
    """``target[index] += rows`` for ``(n, d)`` and ``(m, d)`` arrays, counting repeated indices."""
    if index.size == 0 or target.size == 0:
        return
    if index.size <= FEW:
        for place, row in zip(index.tolist(), rows):
            target[place] += row
        return
    width = target.shape[1]
    if (
        C is not None
        and width == 1
        and target.flags.c_contiguous
        and C.index_add(target.reshape(-1), index, rows.reshape(-1))
    ):
        return
    if C is not None and C.add_rows(target, index, rows):
        return
    if width < NARROW and target.flags.c_contiguous:
        flat = (index * width)[:, None] + np.arange(width)
        np.add.at(target.reshape(-1), flat.reshape(-1), np.ascontiguousarray(rows).reshape(-1))
        return
    order = stable_argsort(index)
    ordered = index.take(order)
    starts, lengths = runs(ordered)
    # Longest runs first, so that the runs with an n-th element are a prefix.
    longest = np.argsort(-lengths, kind="stable")
    starts, lengths = starts.take(longest), lengths.take(longest)
    positions = ordered.take(starts)
    heavy = int(np.count_nonzero(lengths > HEAVY))
    for i in range(heavy):
        own = order[starts[i] : starts[i] + lengths[i]]
        target[positions[i]] += total(rows.take(own, axis=0), (0,))
    if heavy < positions.size:
        light = _sum_light(rows, order, starts[heavy:], lengths[heavy:])
        light += target.take(positions[heavy:], axis=0)
        target[positions[heavy:]] = light


def _sum_light(rows: Array, order: Array, starts: Array, lengths: Array) -> Array:
    """Sums of short runs of ``rows[order]``, longest first: all first elements, then all second ones, and so on."""
    summed: Array = rows.take(order.take(starts), axis=0)
    for nth in range(1, int(lengths[0])):
        count = int(np.searchsorted(-lengths, -nth, side="left"))
        summed[:count] += rows.take(order.take(starts[:count] + nth), axis=0)
    return summed


def runs(ordered: Array) -> tuple[Array, Array]:
    """Where runs of equal elements start in a one-dimensional array, and how long they are."""
    edge = np.ones(ordered.size + 1, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=edge[1:-1])
    edges: Any = np.flatnonzero(edge)
    return edges[:-1], np.diff(edges)
