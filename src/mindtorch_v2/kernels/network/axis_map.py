"""Owns linear maps along one axis of an array: tables that say which inputs, with what weights, make each output.

Resizing, and the sums of unequal runs that adaptive pooling takes, are such maps; their gradients are the transposes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled import C
from ..totals import Array


class AxisMap(NamedTuple):
    """Output ``o`` is the sum over taps ``t`` of ``weight[t, o] * input[places[t, o]]``.

    Outputs with fewer taps than others have the place ``inputs`` for the missing ones, which stands for a zero: a
    weight of zero on a true place would turn infinities into NaN.
    """

    places: Array  # (taps, outputs)
    weight: Array | None  # None when all are one
    inputs: int

    def apply(self, x: Array, axis: int, out: Array | None = None) -> Array:
        """Map ``axis`` of ``x``, into ``out`` if given."""
        if out is None:
            out = np.empty((*x.shape[:axis], self.places.shape[1], *x.shape[axis + 1 :]), x.dtype)
        if C is not None and C.map_axis(x, self.places, self.weight, axis, out):
            return out
        if not len(self.places):
            out.fill(0)
            return out
        if self.places.size and self.places.max() == self.inputs:
            padded = np.zeros((*x.shape[:axis], self.inputs + 1, *x.shape[axis + 1 :]), x.dtype)
            padded[(*(slice(None),) * axis, slice(self.inputs))] = x
            x = padded
        part = out
        for tap, source in enumerate(self.places):
            # Places are known to be inside; checking them again would cost a buffer.
            x.take(source, axis, part, "clip")
            if self.weight is not None:
                part *= self.weight[tap].reshape(-1, *(1,) * (x.ndim - axis - 1))
            if tap:
                out += part
            elif len(self.places) > 1:
                part = np.empty_like(out)
        return out

    def transposed(self) -> AxisMap:
        """The map of the gradient: from outputs back to inputs."""
        taps, outputs = self.places.shape
        weight = np.ones((taps, outputs)) if self.weight is None else self.weight
        real = self.places.ravel() < self.inputs
        pairs = (self.places * outputs + np.arange(outputs)).ravel()[real]
        # Taps that fell on the same place (clamped at a border) become one.
        pairs, which = np.unique(pairs, return_inverse=True)
        summed = np.bincount(which.ravel(), weight.ravel()[real], len(pairs))
        target, source = np.divmod(pairs, max(outputs, 1))
        counts = np.bincount(target, minlength=self.inputs)
        slot = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.full((counts.max(initial=0), self.inputs), outputs)
        places[slot, target] = source
        if self.weight is None:
            return AxisMap(places, None, outputs)
        table = np.zeros(places.shape, self.weight.dtype)
        table[slot, target] = summed
        return AxisMap(places, table, outputs)


def runs(starts: Array, ends: Array, inputs: int) -> AxisMap:
    """The map that sums the run ``starts[i]:ends[i]`` into output ``i``."""
    taps = np.arange((ends - starts).max(initial=0))[:, None]
    return AxisMap(np.where(starts + taps < ends, starts + taps, inputs), None, inputs)
