"""Owns indexing by tuples of integer arrays and masks: reading, writing and adding. It knows no tensor.

An index tuple holds, for the leading dimensions in turn, an integer array, a mask (which stands for as many dimensions
as it has), or None, which takes all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ...core.errors import shape_text
from ..checks import type_name
from ..compiled import C
from ..precision import narrow, wide
from ..totals import Array
from .accumulate import add_rows

Indices: TypeAlias = Sequence[Array | None]
INT64 = np.dtype(np.int64)
INTEGER = frozenset((INT64, np.dtype(np.int32)))
MASK = frozenset((np.dtype(np.bool_), np.dtype(np.uint8)))
ALL = slice(None)
FEW = 1024  # up to here it takes less time to add one by one than to find out how to add many at once
UNROUNDED = frozenset(
    map(np.dtype, (np.float32, np.float64, np.int64))
)  # sums are as good in these types as in wider ones


def is_mask(index: Array) -> bool:
    """Whether an index says of each element if it is taken."""
    return index.dtype in MASK


def _selector(shape: tuple[int, ...], indices: Indices) -> tuple[Any, ...]:
    """The tuple NumPy indexes with."""
    if len(indices) > len(shape):
        raise _too_many(shape, len(indices))
    found: list[Any] = []
    axis, picks, loose = 0, False, False
    for index in indices:
        if index is None:
            found.append(ALL)
            axis += 1
        elif index.dtype is INT64 or index.dtype in INTEGER:  # to look into a set takes longer
            found.append(index)
            axis, picks = axis + 1, True
        elif index.dtype in MASK:
            if not index.ndim:  # it stands for no dimension
                loose = True
                continue
            if index.shape != shape[axis : axis + index.ndim]:
                _check_mask(shape, index, axis)
            found.append(index if index.dtype.kind == "b" else index.astype(np.bool_))
            axis, picks = axis + index.ndim, True
        else:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if loose and not picks:
        raise RuntimeError(
            "a mask without dimensions does not say which elements to take; give it one with mask.unsqueeze(0), and the "
            "tensor too, or index by x[mask], which does that"
        )
    return tuple(found)


def _too_many(shape: tuple[int, ...], count: int) -> IndexError:
    return IndexError(f"too many indices for tensor of dimension {len(shape)} (got {count})")


def integers(shape: tuple[int, ...], indices: Indices) -> list[Array | None]:
    """Checked integer indices, none negative, one entry per dimension; masks become positions of what is true."""
    found: list[Array | None] = []
    for given in _selector(shape, indices):
        if given is ALL:
            found.append(None)
        elif given.dtype.kind == "b":
            found.extend(nonzero(given))
        else:
            found.append(given)
    if len(found) > len(shape):
        raise _too_many(shape, len(found))
    # Where nothing is picked torch does not look at the indices.
    empty = 0 in shape[len(found) :] or any(i is None and n == 0 for i, n in zip(found, shape))
    number = 0
    for axis, index in enumerate(found):
        if index is not None:
            found[axis] = index % shape[axis] if empty and shape[axis] else _in_range(index, shape[axis], number)
            number += 1
    return found


def _check_mask(shape: tuple[int, ...], mask: Array, axis: int) -> None:
    for d, n in enumerate(mask.shape):
        if axis + d >= len(shape) or n != shape[axis + d]:
            raise IndexError(
                f"The shape of the mask {shape_text(mask.shape)} at index {d} does not match the shape of the indexed "
                f"tensor {shape_text(shape)} at index {axis + d}"
            )


def _in_range(index: Array, size: int, number: int) -> Array:
    """An index with negative entries counted from the end; `number` says which of the indices it is."""
    if index.size == 0 or (C is not None and C.inside(index, size)):
        return index
    low = index.min()
    if low < -size or index.max() >= size:
        flat = index.reshape(-1)
        first = flat[(flat < -size) | (flat >= size)][0]
        raise IndexError(f"index {first} is out of bounds for dimension {number} with size {size}")
    return np.where(index < 0, index + size, index) if low < 0 else index


def together(found: Sequence[Array | None]) -> list[Array]:
    """The integer indices, broadcast against one another."""
    named = [index for index in found if index is not None]
    if all(index.shape == named[0].shape for index in named[1:]):
        return named
    try:
        return list(np.broadcast_arrays(*named))
    except ValueError:
        shapes = ", ".join(shape_text(index.shape) for index in named)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None


class Plan:
    """Where the indexed dimensions are, and what the result looks like."""

    def __init__(self, shape: tuple[int, ...], indices: Indices) -> None:
        found = integers(shape, indices)
        self.named = together(found)
        self.axes = [axis for axis, index in enumerate(found) if index is not None]
        self.rest = [axis for axis in range(len(shape)) if axis not in self.axes]
        self.picked = self.named[0].shape if self.named else ()
        # Where the indexed dimensions are neighbours the result keeps their place, else it puts them first.
        adjacent = self.axes and self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))
        self.lead = self.axes[0] if adjacent else 0
        self.kept = [shape[axis] for axis in self.rest]
        self.shape = (*self.kept[: self.lead], *self.picked, *self.kept[self.lead :])

    def positions(self, shape: tuple[int, ...]) -> Array:
        """Flat positions within the indexed dimensions."""
        if not self.named:
            return np.zeros(1, np.int64)
        if len(self.named) == 1:
            return self.named[0].astype(np.int64, copy=False).reshape(-1)
        flat = np.ravel_multi_index(tuple(self.named), tuple(shape[axis] for axis in self.axes))
        return np.asarray(flat).reshape(-1)


def result_shape(shape: tuple[int, ...], indices: Indices) -> tuple[int, ...]:
    """The shape of what ``index`` gives."""
    return Plan(shape, indices).shape


def _explained(a: Array, indices: Indices, error: Exception) -> Exception:
    """The error torch gives for indices that NumPy refused."""
    try:
        Plan(a.shape, indices)
    except IndexError as found:
        return found
    return error


def _are_whole(selector: tuple[Any, ...], count: int) -> bool:
    """Whether all is taken of the first dimensions."""
    for i in range(count):  # noqa: SIM110 - a generator takes longer
        if selector[i] is not ALL:
            return False
    return True


def index(a: Array, indices: Indices) -> Array:
    """``a[indices]`` as a new array in row-major order."""
    only = indices[0] if len(indices) == 1 else None
    selector = (only,) if only is not None and only.dtype is INT64 and a.ndim else _selector(a.shape, indices)
    try:
        axis = len(selector) - 1
        last: Any = selector[axis] if selector else ALL
        if last is not ALL and last.dtype.kind != "b" and _are_whole(selector, axis):
            return a.take(last, axis)
        picked = a[selector]
    except (IndexError, np.exceptions.AxisError) as error:
        if not a.size:  # NumPy looks at the indices even where nothing is picked
            return np.empty(Plan(a.shape, indices).shape, a.dtype)
        raise _explained(a, indices, error) from None
    if picked.base is not None:  # nothing but None was given
        picked = picked.copy()
    return picked if picked.flags.c_contiguous else np.ascontiguousarray(picked)


def put(a: Array, indices: Indices, values: Array, accumulate: bool = False) -> None:
    """Write (or add) ``values`` into ``a`` at ``indices``."""
    if a.dtype != values.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {type_name(a.dtype)} for the "
            f"destination and {type_name(values.dtype)} for the source."
        )
    if accumulate:
        _add(a, indices, values)
        return
    selector = _selector(a.shape, indices)
    try:
        if values.size == 0:  # NumPy does not look at shapes where there is nothing to write
            np.broadcast_to(values, Plan(a.shape, indices).shape)
        a[selector] = values
    except IndexError as error:
        if not a.size and Plan(a.shape, indices).shape:
            return
        raise _explained(a, indices, error) from None
    except (TypeError, ValueError):
        raise value_error(values.shape, Plan(a.shape, indices).shape) from None


def value_error(values: tuple[int, ...], shape: tuple[int, ...]) -> RuntimeError:
    """The error for values that do not fit where they are to be written."""
    return RuntimeError(
        f"shape mismatch: value tensor of shape {shape_text(values)} cannot be broadcast to indexing result of shape "
        f"{shape_text(shape)}"
    )


def _add(a: Array, indices: Indices, values: Array) -> None:
    if a.size <= FEW and 0 < values.size <= FEW and a.dtype in UNROUNDED:
        try:
            np.add.at(a, _selector(a.shape, indices), values)
        except (IndexError, ValueError):  # what follows says why
            pass
        else:
            return
    plan = Plan(a.shape, indices)
    try:
        spread = np.broadcast_to(values, plan.shape)
    except ValueError:
        raise value_error(values.shape, plan.shape) from None
    count = len(plan.picked)
    if plan.lead:
        spread = np.moveaxis(spread, range(plan.lead, plan.lead + count), range(count))
    size, width = math.prod(a.shape[axis] for axis in plan.axes), math.prod(plan.kept)
    rows = wide(spread).reshape(math.prod(plan.picked), width)
    moved = a.transpose(*plan.axes, *plan.rest)
    table = wide(moved.reshape(size, width))
    add_rows(table, plan.positions(a.shape), rows)
    if not np.may_share_memory(table, a):
        moved[...] = narrow(table, a.dtype).reshape(moved.shape)


def nonzero(a: Array) -> Array:
    """Coordinates of what is not zero, one row per dimension, in row-major order."""
    few: Array | None = None if C is None else C.nonzero(a)
    if few is not None:
        return few
    if a.ndim == 1:
        return np.flatnonzero(a)[None]
    truth = np.ascontiguousarray(a if a.dtype.kind == "b" else a != 0)
    if truth.size < 1024 or truth.shape[-1] < 16:
        return np.array(truth.nonzero(), np.int64)
    # Lines along the last dimension: counting in each is much quicker than splitting flat positions.
    lines = truth.reshape(-1, truth.shape[-1])
    counts = np.count_nonzero(lines, axis=1)
    found = np.empty((a.ndim, int(counts.sum())), np.int64)
    numbers = np.arange(len(lines))
    np.subtract(np.flatnonzero(truth), np.repeat(numbers * lines.shape[1], counts), out=found[-1])
    for axis, coordinates in enumerate(np.unravel_index(numbers, truth.shape[:-1])):
        found[axis] = np.repeat(coordinates, counts)
    return found
