"""Owns convolution with one input channel per group, which no GEMM helps: weighted sums of shifted planes.

It knows geometry and arrays, not when the convolution kernels choose it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .compiled import C
from .fold import Array, Geometry, Shape, strided, trailing

# Every block is read once per tap: planes and sums stay in the second-level cache together.
BLOCK_BYTES = 1 << 18
# Labels of the kernel dimensions in einsum; n, c, m are image, channel and output of the channel, z a place in a run.
TAPS = "hij"


def is_depthwise(x: Array, w: Array, geometry: Geometry) -> bool:
    return bool(w.shape[1] == 1 and geometry.groups == x.shape[1] > 1)


def depthwise_correlate(x: Array, w: Array, geometry: Geometry, out: Array) -> None:
    """Write into ``out`` the correlation of ``x`` with ``w`` ``(C * m, 1, *kernel)``."""
    if _correlated_in_one_pass(x, w, geometry, out):
        return
    kernel = w.shape[2:]
    layout = _plane_layout(kernel, geometry, out.shape[2:])
    taps = w.reshape(x.shape[1], -1, *kernel)
    target = out.reshape(out.shape[0], *taps.shape[:2], *out.shape[2:])
    label = TAPS[: len(kernel)]
    for images, channels, planes in _plane_blocks(x, geometry, layout):
        part = target[images, channels]
        total = np.empty((*part.shape[:3], layout.length), x.dtype)
        # Fortran order makes the run the inner loop of einsum, a fused multiply and add, and the taps the outer ones.
        run = total[..., : layout.reach].transpose(3, 2, 1, 0)
        for i, phase in enumerate(layout.phases):
            operands = phase.runs(planes[:, :, i], layout), taps[channels][trailing(phase.taps)]
            if i == 0:
                np.einsum(f"nc{label}z,cm{label}->zmcn", *operands, out=run, order="F")
            else:
                run += np.einsum(f"nc{label}z,cm{label}->zmcn", *operands, order="F")
        part[...] = layout.cut(total)


def _correlated_in_one_pass(x: Array, w: Array, geometry: Geometry, out: Array) -> bool:
    """Whether the compiled loop has done it: it takes one or two dimensions."""
    if C is None or (x.ndim != 4 and x.ndim != 3) or not (x.flags.c_contiguous and out.flags.c_contiguous):
        return False
    before = tuple(lo for lo, _ in geometry.pads)
    if x.ndim == 4:
        return bool(C.depthwise(x, np.ascontiguousarray(w), out, *geometry.stride, *geometry.dilation, *before))
    plane, taps, target = x[:, :, None], np.ascontiguousarray(w)[:, :, None], out[:, :, None]
    return bool(C.depthwise(plane, taps, target, 1, *geometry.stride, 1, *geometry.dilation, 0, *before))


def depthwise_weight_gradient(grad: Array, x: Array, geometry: Geometry, out: Array) -> None:
    """Add to ``out`` ``(C * m, 1, *kernel)`` the gradient of the weight."""
    kernel = out.shape[2:]
    layout = _plane_layout(kernel, geometry, grad.shape[2:])
    taps = out.reshape(x.shape[1], -1, *kernel)
    source = grad.reshape(grad.shape[0], *taps.shape[:2], *grad.shape[2:])
    label = TAPS[: len(kernel)]
    for images, channels, planes in _plane_blocks(x, geometry, layout):
        part = source[images, channels]
        total = np.zeros((*part.shape[:3], layout.length), x.dtype)
        layout.cut(total)[...] = part
        run = total[..., : layout.reach]
        for i, phase in enumerate(layout.phases):
            # C order puts the summed labels inside, in alphabetical order: each tap is dot products of runs.
            view = phase.runs(planes[:, :, i], layout)
            taps[channels][trailing(phase.taps)] += np.einsum(f"nc{label}z,ncmz->cm{label}", view, run, order="C")


class _Phase(NamedTuple):
    """The taps that see the same residue class of the padded input modulo the stride: a grid, per axis."""

    residue: Shape
    taps: tuple[slice, ...]
    counts: Shape
    offset: Shape  # of the first tap in the plane of the class
    step: Shape  # from tap to tap in that plane

    def runs(self, planes: Array, layout: _PlaneLayout) -> Array:
        """View ``(*lead, *taps, run)`` of ``planes`` ``(*lead, *sizes)``: per tap, what it sees of all windows."""
        steps = planes.strides[-len(self.step) :]
        start = planes[trailing(slice(first, None) for first in self.offset)]
        return strided(
            start,
            (*planes.shape[: -len(steps)], *self.counts, layout.reach),
            (*planes.strides[: -len(steps)], *(n * t for n, t in zip(self.step, steps)), planes.itemsize),
        )


class _PlaneLayout(NamedTuple):
    """How a channel is laid out, so that what one tap sees of all windows is a single contiguous run.

    The padded plane is split into the residue classes that taps fall in. Rows keep the whole width of their class:
    a run overhangs the true output at the end of each row, and ``cut`` takes the overhang off.
    """

    phases: list[_Phase]
    sizes: Shape
    space: Shape

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


def _plane_layout(kernel: Shape, geometry: Geometry, space: Shape) -> _PlaneLayout:
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
        phases.append(_Phase(residue, taps, counts, offset, steps))
    return _PlaneLayout(phases, sizes, space)


def _plane_blocks(x: Array, geometry: Geometry, layout: _PlaneLayout) -> Iterator[tuple[slice, slice, Array]]:
    """Yield ``(images, channels, planes)``, ``planes`` being ``(images, channels, phases, *sizes)``, reused."""
    plane = len(layout.phases) * math.prod(layout.sizes)
    wanted = max(1, BLOCK_BYTES // (plane * x.itemsize))
    channels = min(wanted, x.shape[1])
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
