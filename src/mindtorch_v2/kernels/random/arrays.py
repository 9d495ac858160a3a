"""Sizes, conversions and filling, shared by the distributions: what torch's kernels do around each draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ...core.dtype import FROM_NUMPY, finfo
from ...core.errors import refuse_overlap
from ..checks import BFLOAT16
from .engine import Doubles, Floats

Array: TypeAlias = npt.NDArray[Any]
Size: TypeAlias = int | Sequence[int]

BOOL, INT64 = np.dtype(np.bool_), np.dtype(np.int64)
FLOAT16, FLOAT32, FLOAT64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
INTEGERS = frozenset(np.dtype(t) for t in (np.uint8, np.int8, np.int16, np.int32, np.int64))
NARROW = (FLOAT16, BFLOAT16)  # torch computes these in single precision
DIGITS = {FLOAT16: 11, BFLOAT16: 8, FLOAT32: 24, FLOAT64: 53}  # of a float's mantissa

_LARGEST = {dtype: finfo(FROM_NUMPY[dtype]).max for dtype in DIGITS}


def shape_of(size: Size) -> tuple[int, ...]:
    return (int(size),) if isinstance(size, (int, np.integer)) else tuple(size)


def numel(size: Size) -> int:
    return math.prod(shape_of(size))


def fill(out: Array, draw: Callable[[tuple[int, ...]], Array]) -> Array:
    """Fill `out` with what `draw` gives for a shape, in the order of memory."""
    refuse_overlap(out)
    ordered = out if out.flags.c_contiguous else out.transpose(memory_order(out))
    ordered[...] = draw(ordered.shape)
    return out


def memory_order(out: Array) -> list[int]:
    """The axes of `out` from the widest stride to the narrowest: torch fills memory in rising order."""
    return sorted(range(out.ndim), key=lambda axis: -abs(out.strides[axis]))


def in_both_parts(size: Size, dtype: np.dtype[Any], draw: Callable[[tuple[int, ...], np.dtype[Any]], Array]) -> Array:
    """A complex array of what `draw` gives for its real and imaginary parts in turn."""
    shape = shape_of(size)
    return draw((*shape, 2), FLOAT64 if dtype.itemsize == 16 else FLOAT32).view(dtype).reshape(shape)


def quiet() -> np.errstate:
    """Without NumPy's warnings: what overflows or is no number comes out as such, as in torch."""
    return np.errstate(all="ignore")


def rounded(values: Floats | Doubles, dtype: np.dtype[Any]) -> Array:
    """Floats to `dtype`; C++ converts doubles to the narrow ones by way of single precision."""
    return (values.astype(np.float32, copy=False) if dtype in NARROW else values).astype(dtype, copy=False)


def from_int64(values: npt.NDArray[np.int64], dtype: np.dtype[Any]) -> Array:
    """int64 to `dtype` as C++ converts: integers wrap, the narrow floats go through single precision."""
    return (values.astype(np.float32) if dtype in NARROW else values).astype(dtype, copy=False)


def largest(dtype: np.dtype[Any]) -> float:
    """The largest finite value of a float type."""
    return _LARGEST[dtype]


def cpp_name(dtype: np.dtype[Any]) -> str:
    return FROM_NUMPY[dtype].cpp_name
