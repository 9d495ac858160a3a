"""Arrays whose surroundings are watched: each lies in a larger buffer, and no byte of that outside the array may change."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

DTYPES = {
    name: np.dtype(given)
    for name, given in {
        "float32": np.float32,
        "float64": np.float64,
        "int64": np.int64,
        "bool": np.bool_,
        "float16": np.float16,
        "bfloat16": ml_dtypes.bfloat16,
        "int32": np.int32,
        "int8": np.int8,
        "uint8": np.uint8,
        "complex64": np.complex64,
        "swapped": np.dtype(np.float32).newbyteorder(),
        "longlong": np.dtype("longlong"),
    }.items()
}
LAYOUTS = ("plain", "fortran", "stepped", "reversed", "expanded", "unaligned", "readonly", "offset")
EDGE = 256  # bytes on either side
MARK = 0xA5


class Guarded:
    """An array in the middle of a buffer of marks."""

    def __init__(self, values: Array, layout: str = "plain") -> None:
        self.layout = layout
        shape, size = values.shape, values.dtype.itemsize
        strides = self._strides(shape, size)
        reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True) if n > 1]
        before, after = -sum(s for s in reach if s < 0), sum(s for s in reach if s > 0) + size
        start = EDGE + before + (1 if layout == "unaligned" else size if layout == "offset" else 0)
        self.buffer = np.full(start + after + EDGE, MARK, np.uint8)
        self.array: Array = np.ndarray(shape, values.dtype, self.buffer, start, strides)
        if values.size:
            self.array[...] = values
        owned = np.zeros(len(self.buffer), np.uint8)
        if values.size:
            np.ndarray((*shape, size), np.uint8, owned, start, (*strides, 1))[...] = 1
        self.outside = np.flatnonzero(owned == 0)
        self.before = self.buffer.copy()
        if layout == "readonly":
            self.array.flags.writeable = False

    def _strides(self, shape: tuple[int, ...], size: int) -> tuple[int, ...]:
        order = range(len(shape)) if self.layout == "fortran" else reversed(range(len(shape)))
        strides, step = [0] * len(shape), size * (2 if self.layout == "stepped" else 1)
        for axis in order:
            strides[axis] = step
            step *= max(shape[axis], 1)
        if self.layout == "expanded" and shape:
            strides[0] = 0
        if self.layout == "reversed" and shape:
            strides[-1] = -strides[-1]
        return tuple(strides)

    def damage(self) -> str:
        """What was written that must not be; empty where all is well."""
        if self.layout == "readonly" and not np.array_equal(self.buffer, self.before):
            return f"a read-only array of {self.array.shape} {self.array.dtype} was written"
        if np.array_equal(self.buffer[self.outside], self.before[self.outside]):
            return ""
        return f"bytes outside of an array of {self.array.shape} {self.array.dtype} ({self.layout}) were written"
