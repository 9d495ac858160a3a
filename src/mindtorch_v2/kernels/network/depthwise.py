"""Owns convolution with one input channel per group, which no GEMM helps: weighted sums of shifted planes.

It knows geometry and arrays, not when the convolution kernels choose it.
"""

from __future__ import annotations

import numpy as np

from ..compiled import C
from .fold import Array, Geometry, trailing
from .planes import plane_blocks, plane_layout

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
    layout = plane_layout(kernel, geometry, out.shape[2:])
    taps = w.reshape(x.shape[1], -1, *kernel)
    target = out.reshape(out.shape[0], *taps.shape[:2], *out.shape[2:])
    label = TAPS[: len(kernel)]
    for images, channels, planes in plane_blocks(x, geometry, layout, BLOCK_BYTES):
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
    layout = plane_layout(kernel, geometry, grad.shape[2:])
    taps = out.reshape(x.shape[1], -1, *kernel)
    source = grad.reshape(grad.shape[0], *taps.shape[:2], *grad.shape[2:])
    label = TAPS[: len(kernel)]
    for images, channels, planes in plane_blocks(x, geometry, layout, BLOCK_BYTES):
        part = source[images, channels]
        total = np.zeros((*part.shape[:3], layout.length), x.dtype)
        layout.cut(total)[...] = part
        run = total[..., : layout.reach]
        for i, phase in enumerate(layout.phases):
            # C order puts the summed labels inside, in alphabetical order: each tap is dot products of runs.
            view = phase.runs(planes[:, :, i], layout)
            taps[channels][trailing(phase.taps)] += np.einsum(f"nc{label}z,ncmz->cm{label}", view, run, order="C")
