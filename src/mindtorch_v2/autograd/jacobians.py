"""Jacobians three ways: by finite differences, by backward and by forward mode, as NumPy arrays with a row for each
direction in an input and a column for each element of an output. What is compared with what is gradcheck's matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.tensor import Tensor, make
from . import forward_ad
from .entry import grad

Array = np.ndarray[Any, Any]
Outputs = Callable[[], Sequence[Any]]  # a function of inputs that are given already
# A way to go in an input: along its real parts and, if it is complex, along its imaginary parts.
Direction = tuple[Array, Array]


def units(like: Array) -> Iterator[Array]:
    """The arrays that are one in one place and zero elsewhere."""
    for place in np.ndindex(like.shape):
        unit = np.zeros(like.shape, like.dtype)
        unit[place] = 1
        yield unit


def every_direction(x: Tensor) -> Iterator[Direction]:
    """All elements of an input, one after the other."""
    for unit in units(x._a.real):
        yield unit, unit


# --- finite differences -----------------------------------------------------------------------------------------------


def numerical(outputs: Outputs, x: Tensor, directions: Iterator[Direction], eps: float) -> list[Array]:
    """For each output its change along directions of x; that along imaginary parts becomes an imaginary part."""
    rows = [_changes(outputs, x, direction, eps) for direction in directions]
    if not rows:
        kind = x._a.dtype if x.is_complex() else None
        return [np.zeros((0, o._a.size), kind or o._a.dtype) for o in outputs()]
    return [np.stack(column) for column in zip(*rows, strict=True)]


def _changes(outputs: Outputs, x: Tensor, direction: Direction, eps: float) -> list[Array]:
    along, across = direction
    found = _differences(outputs, x, along * eps, eps)
    if not x.is_complex():
        return found
    pairs = zip(found, _differences(outputs, x, across * (eps * 1j), eps), strict=True)
    return [real + imaginary * 1j for real, imaginary in pairs]


def _differences(outputs: Outputs, x: Tensor, step: Array, eps: float) -> list[Array]:
    """Central differences. The array is written directly: no version counts it, and views of x see it."""
    array, kept = x._a, x._a.copy()
    step = step.astype(array.dtype)
    try:
        array[...] = kept - step
        before = [o._a.copy() for o in outputs()]
        array[...] = kept + step
        after = [o._a.copy() for o in outputs()]
    finally:
        array[...] = kept
    for b, a in zip(before, after, strict=True):
        for what, was, now in (("shape", b.shape, a.shape), ("dtype", b.dtype, a.dtype)):
            if was != now:
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs are perturbed by {eps}, but got "
                    f"{was} and {now}."
                )
    return [((a - b) / (2 * eps)).astype(a.dtype).reshape(-1) for b, a in zip(before, after, strict=True)]


# --- backward ---------------------------------------------------------------------------------------------------------


class Pulled:
    """What backward gives for one output, by each input: columns by the vectors that were pulled back."""

    def __init__(self, output: Tensor, inputs: Sequence[Tensor], vectors: Iterator[Array]) -> None:
        self.same_dtypes = self.same_shapes = True
        columns = [self._column(output, inputs, vector) for vector in vectors]
        self.jacobians = [
            np.stack(c, 1) if c else np.zeros((x._a.size, 0), x._a.dtype)
            for c, x in zip(zip(*columns, strict=True) if columns else [()] * len(inputs), inputs, strict=True)
        ]

    def _column(self, output: Tensor, inputs: Sequence[Tensor], vector: Array) -> list[Array]:
        found = grad(output, inputs, make(vector), retain_graph=True, allow_unused=True)
        column = []
        for gradient, x in zip(found, inputs, strict=True):
            if gradient is None:
                column.append(np.zeros(x._a.size, x._a.dtype))
                continue
            self.same_shapes &= gradient.shape == x.shape
            self.same_dtypes &= gradient.dtype is x.dtype
            column.append(gradient.to_dense()._a.reshape(-1).copy())
        return column

    def differs_from(self, other: Pulled, tolerance: float) -> bool:
        pairs = zip(self.jacobians, other.jacobians, strict=True)
        return any(a.size and bool((np.abs(a - b) > tolerance).any()) for a, b in pairs)


# --- forward mode -----------------------------------------------------------------------------------------------------


def pushed(
    outputs: Callable[..., Sequence[Any]], inputs: Sequence[Any], place: int, directions: Iterator[Array]
) -> list[list[Tensor | None]]:
    """For each direction in the input at `place`, the tangent of every output (None where it has none)."""
    found = []
    with forward_ad.dual_level():
        tangents = [_zeros(x) if _is_watched(x) else None for x in inputs]
        duals = [x if t is None else forward_ad.make_dual(x.detach(), t) for x, t in zip(inputs, tangents, strict=True)]
        moving = tangents[place]
        assert moving is not None
        for direction in directions:
            moving._a[...] = direction
            made = [forward_ad.unpack_dual(o).tangent for o in outputs(*duals)]
            found.append([None if t is None else make(t._a.copy()) for t in made])
    return found


def _is_watched(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _zeros(x: Tensor) -> Tensor:
    return make(np.zeros(x._a.shape, x._a.dtype))


def rows_of(tangents: list[list[Tensor | None]], values: Sequence[Tensor]) -> list[Array]:
    """The tangents of each output as the rows of a Jacobian, by its values' dtype and size."""
    return [
        np.stack([np.zeros(o._a.size, o._a.dtype) if row[n] is None else row[n]._a.reshape(-1) for row in tangents])  # type: ignore[union-attr]
        if tangents
        else np.zeros((0, o._a.size), o._a.dtype)
        for n, o in enumerate(values)
    ]
