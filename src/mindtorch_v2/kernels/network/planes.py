"""Owns planes laid out for convolutions that need no columns: what a tap sees of all windows is one contiguous run.

It knows geometry and arrays, not what is summed of them.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .fold import Array, Geometry, Shape, strided, trailing


class Phase(NamedTuple):
    """The taps that see the same residue class of the padded input modulo the stride: a grid, per axis."""

    residue: Shape
    taps: tuple[slice, ...]
    counts: Shape
    offset: Shape  # of the first tap in the plane of the class
    step: Shape  # from tap to tap in that plane

    def runs(self, planes: Array, layout: PlaneLayout) -> Array:
        """View ``(*lead, *taps, run)`` of ``planes`` ``(*lead, *sizes)``: per tap, what it sees of all windows."""
        steps = planes.strides[-len(self.step) :]
        start = planes[trailing(slice(first, None) for first in self.offset)]
        return strided(
            start,
            (*planes.shape[: -len(steps)], *self.counts, layout.reach),
            (*planes.strides[: -len(steps)], *(n * t for n, t in zip(self.step, steps)), planes.itemsize),
        )


class PlaneLayout(NamedTuple):
    """How a channel is laid out, so that what one tap sees of all windows is a single contiguous run.

    The padded plane is split into the residue classes that taps fall in. Rows keep the whole width of their class:
    a run overhangs the true output at the end of each row, and ``cut`` takes the overhang off.
    """

    phases: tuple[Phase, ...]
    sizes: Shape
    space: Shape

    @property
    def plane(self) -> int:
        """Places of a channel in all its classes."""
        return len(self.phases) * math.prod(self.sizes)

    @property
    def length(self) -> int:
        return self.space[0] * math.prod(self.sizes[1:])

    @property
    def reach(self) -> int:
        """Length of a run: up to the last true output, where a shifted plane may end."""
        offset = 0
        for n, size in zip(self.space, self.sizes):
            offset = offset * size + n - 1
        return offset + 1

    def cut(self, flat: Array) -> Array:
        rows = flat.reshape(*flat.shape[:-1], self.space[0], *self.sizes[1:])
        cut: Array = rows[trailing(map(slice, self.space))]
        return cut


@functools.lru_cache(maxsize=256)
def plane_layout(kernel: Shape, geometry: Geometry, space: Shape) -> PlaneLayout:
    stride, dilation = geometry.stride, geometry.dilation
    sizes = tuple(n + d * (k - 1) // s for n, k, s, d in zip(space, kernel, stride, dilation))
    steps = tuple(d // math.gcd(s, d) for s, d in zip(stride, dilation))
    # Taps so far apart fall in the same class again.
    periods = [s // math.gcd(s, d) for s, d in zip(stride, dilation)]
    phases = []
    for first in itertools.product(*(range(min(k, period)) for k, period in zip(kernel, periods))):
        reached = [divmod(k * d, s) for k, s, d in zip(first, stride, dilation)]
        offset, residue = (tuple(part) for part in zip(*reached))
        taps = tuple(slice(k, None, period) for k, period in zip(first, periods))
        counts = tuple(len(range(n)[at]) for n, at in zip(kernel, taps))
        phases.append(Phase(residue, taps, counts, offset, steps))
    return PlaneLayout(tuple(phases), sizes, space)


@functools.lru_cache(maxsize=256)
def tap_moves(kernel: Shape, geometry: Geometry, space: Shape) -> Array:
    """Where the run of each tap begins in a channel that is laid out so: flat, in the order of the kernel."""
    layout = plane_layout(kernel, geometry, space)
    moves = np.empty(kernel, np.int64)
    for i, phase in enumerate(layout.phases):
        axes = (np.arange(n) * step + first for n, step, first in zip(phase.counts, phase.step, phase.offset))
        place = np.ravel_multi_index(np.ix_(*axes), layout.sizes)
        moves[phase.taps] = i * math.prod(layout.sizes) + place
    return moves.ravel()


def plane_blocks(
    x: Array, geometry: Geometry, layout: PlaneLayout, block_bytes: int, all_channels: bool = False
) -> Iterator[tuple[slice, slice, Array]]:
    """Yield ``(images, channels, planes)``, ``planes`` being ``(images, channels, phases, *sizes)``, reused."""
    wanted = max(1, block_bytes // (layout.plane * x.itemsize))
    channels = x.shape[1] if all_channels else min(wanted, x.shape[1])
    images = min(max(1, wanted // channels), x.shape[0])
    buffer = np.zeros((images, channels, len(layout.phases), *layout.sizes), x.dtype)
    spans = [_class_spans(phase.residue, geometry, layout.sizes, x.shape[2:]) for phase in layout.phases]
    for n, c in itertools.product(range(0, x.shape[0], images), range(0, x.shape[1], channels)):
        source = x[n : n + images, c : c + channels]
        planes = buffer[: source.shape[0], : source.shape[1]]
        for i, (inner, outer) in enumerate(spans):
            planes[:, :, i][inner] = source[outer]
        yield slice(n, n + source.shape[0]), slice(c, c + source.shape[1]), planes


def _class_spans(residue: Shape, geometry: Geometry, sizes: Shape, space: Shape) -> tuple[tuple[Any, ...], ...]:
    """Where the values of a residue class lie in its plane (the rest is padding) and in the input."""
    inner, outer = [], []
    for first, s, (lo, _), size, n in zip(residue, geometry.stride, geometry.pads, sizes, space):
        start = max(0, -((first - lo) // s))
        stop = max(start, min(size, -((first - lo - n) // s)))
        inner.append(slice(start, stop))
        outer.append(slice(start * s + first - lo, max(0, (stop - 1) * s + first - lo + 1), s))
    return trailing(inner), trailing(outer)
