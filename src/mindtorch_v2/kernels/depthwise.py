"""Owns convolution with one input channel per group, which no GEMM helps: sums of shifted planes.

It knows geometry and arrays, not when the convolution kernels choose it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .fold import Array, Geometry, Shape, trailing

# Every block is read once per tap: planes, products and sums stay in the second-level cache together.
BLOCK_BYTES = 1 << 18


def is_depthwise(x: Array, w: Array, geometry: Geometry) -> bool:
    return bool(w.shape[1] == 1 and geometry.groups == x.shape[1] > 1)


def depthwise_correlate(x: Array, w: Array, geometry: Geometry, out: Array) -> None:
    """``_correlate`` into ``out`` with one input channel per group: a weighted sum of shifted planes."""
    layout = _plane_layout(w.shape[2:], geometry, out.shape[2:])
    taps = w.reshape(x.shape[1], -1, len(layout.shifts))
    target = out.reshape(out.shape[0], *taps.shape[:2], *out.shape[2:])
    for images, channels, planes in _plane_blocks(x, geometry, layout):
        part = target[images, channels]
        total = np.empty((*part.shape[:3], layout.length), x.dtype)
        run, product = total[..., : layout.reach], np.empty((*part.shape[:3], layout.reach), x.dtype)
        for tap, (phase, shift) in enumerate(layout.shifts):
            weight = taps[channels, :, tap, None]
            shifted = planes[:, :, phase, None, shift : shift + layout.reach]
            if tap:
                run += np.multiply(shifted, weight, out=product)
            else:
                np.multiply(shifted, weight, out=run)
        part[...] = layout.cut(total)


def depthwise_weight_gradient(grad: Array, x: Array, geometry: Geometry, out: Array) -> None:
    """``_weight_gradient`` added to ``out`` with one input channel per group: dot products with shifted planes."""
    layout = _plane_layout(out.shape[2:], geometry, grad.shape[2:])
    taps = out.reshape(x.shape[1], -1, len(layout.shifts))
    source = grad.reshape(grad.shape[0], *taps.shape[:2], *grad.shape[2:])
    for images, channels, planes in _plane_blocks(x, geometry, layout):
        part = source[images, channels]
        total = np.zeros((*part.shape[:3], layout.length), x.dtype)
        layout.cut(total)[...] = part
        run = total[..., : layout.reach]
        for tap, (phase, shift) in enumerate(layout.shifts):
            shifted = planes[:, :, phase, shift : shift + layout.reach]
            taps[channels, :, tap] += np.einsum("ncml,ncl->cm", run, shifted)


class _PlaneLayout(NamedTuple):
    """How a channel is laid out flat, so that what one tap sees of all windows is a single contiguous run.

    The padded plane is split into the residue classes modulo the stride (``phases``) that taps fall in. Rows keep
    the whole width of their phase: the run overhangs the true output, and ``cut`` takes the overhang off.
    """

    phases: list[Shape]
    sizes: Shape
    space: Shape
    shifts: list[tuple[int, int]]  # per tap: index of its phase, offset in the flat phase

    @property
    def length(self) -> int:
        return self.space[0] * math.prod(self.sizes[1:])

    @property
    def reach(self) -> int:
        """Length of a run: up to the last true output, where a shifted plane may end."""
        return _flat_offset(tuple(n - 1 for n in self.space), self.sizes) + 1

    def cut(self, flat: Array) -> Array:
        rows = flat.reshape(*flat.shape[:-1], self.space[0], *self.sizes[1:])
        cut: Array = rows[trailing(map(slice, self.space))]
        return cut


def _flat_offset(index: Shape, sizes: Shape) -> int:
    offset = 0
    for i, size in zip(index, sizes):
        offset = offset * size + i
    return offset


def _plane_layout(kernel: Shape, geometry: Geometry, space: Shape) -> _PlaneLayout:
    stride, _, dilation, _ = geometry
    reaches = [[divmod(tap * d, s) for tap in range(k)] for k, s, d in zip(kernel, stride, dilation)]
    sizes = tuple(n + axis[-1][0] for n, axis in zip(space, reaches))
    taps = [tuple(zip(*tap)) for tap in itertools.product(*reaches)]
    phases = sorted({phase for _, phase in taps})
    return _PlaneLayout(phases, sizes, space, [(phases.index(phase), _flat_offset(at, sizes)) for at, phase in taps])


def _plane_blocks(x: Array, geometry: Geometry, layout: _PlaneLayout) -> Iterator[tuple[slice, slice, Array]]:
    """Yield ``(images, channels, planes)`` with ``planes`` ``(images, channels, phases, flat)`` in a reused buffer."""
    plane = len(layout.phases) * math.prod(layout.sizes)
    wanted = max(1, BLOCK_BYTES // (plane * x.itemsize))
    channels = min(wanted, x.shape[1])
    images = min(max(1, wanted // channels), x.shape[0])
    buffer = np.zeros((images, channels, len(layout.phases), *layout.sizes), x.dtype)
    spans = [_phase_spans(phase, geometry, layout.sizes, x.shape[2:]) for phase in layout.phases]
    for n, c in itertools.product(range(0, x.shape[0], images), range(0, x.shape[1], channels)):
        source = x[n : n + images, c : c + channels]
        part = buffer[: source.shape[0], : source.shape[1]]
        for i, (inner, outer) in enumerate(spans):
            part[:, :, i][trailing(inner)] = source[trailing(outer)]
        planes = part.reshape(*part.shape[:3], -1)
        yield slice(n, n + source.shape[0]), slice(c, c + source.shape[1]), planes


def _phase_spans(
    phase: Shape, geometry: Geometry, sizes: Shape, space: Shape
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Where the values of one phase lie in its plane (the rest is padding) and in the input."""
    inner, outer = [], []
    for first, s, (lo, _), size, n in zip(phase, geometry.stride, geometry.pads, sizes, space):
        start = max(0, -((first - lo) // s))
        stop = max(start, min(size, -((first - lo - n) // s)))
        inner.append(slice(start, stop))
        outer.append(slice(start * s + first - lo, max(0, (stop - 1) * s + first - lo + 1), s))
    return tuple(inner), tuple(outer)
