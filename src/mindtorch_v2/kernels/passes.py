"""Owns how kernels of several passes run over large arrays: block by block, so that what they reread stays in the cache.

A body fills ``out`` from arrays of one dtype and shape; ``out`` may be the first of them. It knows no dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

BLOCK = 1 << 15  # elements: an input, a result and a temporary of float32 fill half a second-level cache

Array = np.ndarray[Any, Any]


def blocked(body: Callable[..., None]) -> Callable[..., Array]:
    """Make ``function(x, *numbers, out=None)`` from ``body(x, *numbers, out)``."""

    @functools.wraps(body)
    def function(x: Any, *numbers: Any, out: Any = None) -> Any:
        result = np.empty_like(x) if out is None else out
        if x.ndim == 0:  # NumPy would give its steps as scalars
            body(x.reshape(1), *numbers, result.reshape(1))
            return result
        if x.size <= BLOCK or not (x.flags.c_contiguous and result.flags.c_contiguous):
            body(x, *numbers, result)
            return result
        flat, target = x.reshape(-1), result.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            body(flat[start : start + BLOCK], *numbers, target[start : start + BLOCK])
        return result

    return function


def blocked_pair(body: Callable[..., None]) -> Callable[..., Array]:
    """Make ``function(x, y, *numbers, out=None)`` from ``body(x, y, *numbers, out)``."""

    @functools.wraps(body)
    def function(x: Any, y: Any, *numbers: Any, out: Any = None) -> Any:
        if x.shape != y.shape:
            x, y = np.broadcast_arrays(x, y)
        result = np.empty_like(x, subok=False) if out is None else out
        if x.ndim == 0:
            body(x.reshape(1), y.reshape(1), *numbers, result.reshape(1))
            return result
        plain = x.flags.c_contiguous and y.flags.c_contiguous and result.flags.c_contiguous
        if x.size <= BLOCK or not plain:
            body(x, y, *numbers, result)
            return result
        a, b, target = x.reshape(-1), y.reshape(-1), result.reshape(-1)
        for start in range(0, a.size, BLOCK):
            stop = start + BLOCK
            body(a[start:stop], b[start:stop], *numbers, target[start:stop])
        return result

    return function


_bounds: dict[tuple[Any, str], Array] = {}


def _bound_block(bound: Any, dtype: Any) -> Array:
    """A block full of one number. NumPy's vector loops of maximum and minimum take two arrays, not an array and a
    number, and run 2.5 times faster so."""
    key = dtype, repr(bound)  # tells 0.0 from -0.0
    block = _bounds.get(key)
    if block is None:
        if len(_bounds) > 16:
            _bounds.clear()
        block = _bounds[key] = np.full(BLOCK, bound, dtype)
    return block


def _bounded(ufunc: np.ufunc) -> Callable[..., Any]:
    def function(x: Any, bound: Any, out: Any = None) -> Any:
        result = np.empty_like(x) if out is None else out
        if x.size <= BLOCK or not (x.flags.c_contiguous and result.flags.c_contiguous):
            return ufunc(x, bound, out=result)
        block = _bound_block(bound.item() if isinstance(bound, np.ndarray) else bound, x.dtype)
        flat, target = x.reshape(-1), result.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            part = flat[start : start + BLOCK]
            ufunc(part, block[: part.size], out=target[start : start + BLOCK])
        return result

    return function


at_least = _bounded(np.maximum)
at_most = _bounded(np.minimum)


# --- choices ----------------------------------------------------------------------------------------------------------

# Floats are chosen by their bits, as integers: np.where jumps at every element, which costs ten times as much.
_BITS = {1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def keep(x: Any, mask: Any, out: Any = None) -> Any:
    """``x`` where ``mask`` holds, else 0, whatever x is there (nan and inf too)."""
    bits = _BITS.get(x.dtype.itemsize)
    if bits is None:
        return np.positive(np.where(mask, x, np.zeros((), x.dtype)), out=out)
    if out is not None:
        np.multiply(x.view(bits), mask, out=out.view(bits))
        return out
    kept = np.multiply(x.view(bits), mask, dtype=bits)
    return kept.view(x.dtype)


def choose(mask: Any, x: Any, y: Any, out: Any = None) -> Any:
    """``x`` where ``mask`` holds, else ``y``; both are arrays of one dtype of up to eight bytes."""
    bits = _BITS[x.dtype.itemsize]
    chosen = np.subtract(x.view(bits), y.view(bits))  # wraps around, and back again
    chosen *= mask
    chosen += y.view(bits)
    if out is None:
        return chosen.view(x.dtype)
    np.copyto(out, chosen.view(x.dtype))
    return out
