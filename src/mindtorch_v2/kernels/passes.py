"""Owns how kernels of several passes run over large arrays: in blocks, so that what they reread stays in the cache.

A body computes from arrays of one dtype and shape into ``out``, which may be None or the first of them, and gives the
result back. Nothing here knows what it computes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .compiled import C, order_of, stand_in
from .floating import spreading

BLOCK = 1 << 16  # elements: an input, a result and a temporary of float32 fill most of a second-level cache

Array = np.ndarray[Any, Any]
Body = Callable[..., Any]  # (*arrays, *numbers, out)
Function = Callable[..., Any]  # (*arrays, *numbers, out=None)


def in_blocks(count: int) -> Callable[[Body], Function]:
    """Make ``function(*arrays, *numbers, out=None)`` from a body with so many arrays, three at most."""

    def decorate(body: Body) -> Function:
        @functools.wraps(body)
        def function(x: Any, *rest: Any, out: Any = None) -> Any:
            shape = x.shape
            if shape and x.size <= BLOCK and (count == 1 or rest[0].shape == shape):
                if count < 3 or rest[1].shape == shape:
                    return body(x, *rest, out)
            return _large(body, (x, *rest[: count - 1]), rest[count - 1 :], out)

        return function

    return decorate


blocked, blocked_pair, blocked_triple = in_blocks(1), in_blocks(2), in_blocks(3)


def _large(body: Body, arrays: tuple[Any, ...], numbers: tuple[Any, ...], out: Any) -> Any:
    """Arrays of many elements, of several shapes, or of none."""
    if any(a.shape != arrays[0].shape and a.ndim for a in arrays[1:]):
        arrays = np.broadcast_arrays(*arrays)
    x = arrays[0]
    result = np.empty_like(x, order=order_of(x), subok=False) if out is None else out
    if x.ndim == 0:  # NumPy would give its steps as scalars
        body(*(a.reshape(1) for a in arrays), *numbers, result.reshape(1))
    elif x.size <= BLOCK or not _all_contiguous(arrays, result):
        body(*arrays, *numbers, result)
    else:
        _run(body, arrays, numbers, result.reshape(-1))
    return result


def settle(value: Array, out: Array | None) -> Array:
    """A body's result, where it was to go."""
    if out is None:
        return value
    np.copyto(out, value)
    return out


def _all_contiguous(arrays: Any, result: Array) -> bool:
    return result.flags.c_contiguous and all(a.flags.c_contiguous for a in arrays)


def _run(body: Body, arrays: Any, numbers: tuple[Any, ...], target: Array) -> None:
    """Block by block; a 0-dim array stays as it is."""
    flat = [a.reshape(-1) if a.ndim else a for a in arrays]
    for start in range(0, target.size, BLOCK):
        part = slice(start, start + BLOCK)
        body(*(a[part] if a.ndim else a for a in flat), *numbers, target[part])


# --- numbers ----------------------------------------------------------------------------------------------------------


class Numbers(dict[Any, Any]):
    """0-dim arrays of Python numbers in one dtype, which ufuncs take in half the time they take the number itself.
    Zero is never a key: 0.0 and -0.0 would be the same."""

    def __init__(self, np_dtype: Any) -> None:
        self.np_dtype = np_dtype
        self.zero = np.zeros((), np_dtype)

    def __missing__(self, number: Any) -> Any:
        if number == 0 and type(number) is int:
            return self.zero
        array = np.asarray(number, self.np_dtype)
        if number:
            if len(self) > 4096:
                self.clear()
            self[number] = array
        return array


NUMBERS = {np.dtype(t): Numbers(t) for t in (np.float32, np.float64, np.int64)}
FLOATS = {dtype: kept for dtype, kept in NUMBERS.items() if dtype.kind == "f"}


def number(value: Any, dtype: Any) -> Array:
    """A Python number as a 0-dim array."""
    kept = FLOATS.get(dtype)
    made: Array = np.asarray(value).astype(dtype) if kept is None else kept[value]
    return made


_blocks: dict[tuple[Any, str], Array] = {}


def _bound(bound: Any, x: Array) -> Array:
    """A bound for maximum and minimum. Their vector loops take two arrays, not an array and a number, so for all but
    small arrays it is a block full of it."""
    if x.ndim != 1 or not 512 < x.size <= BLOCK:
        return number(bound, x.dtype)
    key = x.dtype, repr(bound)  # tells 0.0 from -0.0
    block = _blocks.get(key)
    if block is None:
        if len(_blocks) > 16:
            _blocks.clear()
        block = _blocks[key] = _full_line_by_line(bound, x.dtype)
    return block[: x.size]


_LINE = 64  # bytes: a vector that lies across two lines of the cache is read twice


def _full_line_by_line(value: Any, dtype: Any) -> Array:
    """A block full of a number, which begins where a line of the cache does."""
    room = np.full(BLOCK + _LINE // dtype.itemsize, value, dtype)
    first = -room.ctypes.data % _LINE // dtype.itemsize
    return room[first : first + BLOCK]


def raise_to(x: Array, low: Any, out: Array | None = None) -> Array:
    """Elements below ``low`` become ``low``; nan stays. For blocks."""
    return np.maximum(x, _bound(low, x), out=out)


def cut_to(x: Array, high: Any, out: Array | None = None) -> Array:
    """Elements above ``high`` become ``high``; nan stays. For blocks."""
    return np.minimum(x, _bound(high, x), out=out)


_WIDE = 1 << 11  # elements: a row of bounds that is read again and again from the first-level cache


def _limited(ufunc: Any, x: Any, bound: Any, out: Any) -> Any:
    """``ufunc`` of ``x`` and a bound: for many elements the bound is a row, broadcast, so that one call does it."""
    bound = bound.item() if isinstance(bound, np.ndarray) else bound
    if C is not None and x.dtype in FLOATS:
        return stand_in(ufunc)(x, number(bound, x.dtype), out=out)
    if x.size <= 512 or not x.flags.c_contiguous or (out is not None and not out.flags.c_contiguous):
        return ufunc(x, number(bound, x.dtype), out=out)
    result = np.empty_like(x, subok=False) if out is None else out
    flat, target = x.reshape(-1), result.reshape(-1)
    whole = flat.size - flat.size % _WIDE
    if whole:
        rows = flat[:whole].reshape(-1, _WIDE)
        with spreading(_WIDE):
            ufunc(rows, _bound(bound, flat[:_WIDE]), out=target[:whole].reshape(-1, _WIDE))
    if whole < flat.size:
        rest = flat[whole:]
        ufunc(rest, _bound(bound, rest), out=target[whole:])
    return result


def at_least(x: Any, low: Any, out: Any = None) -> Any:
    """``raise_to`` for whole arrays."""
    return _limited(np.maximum, x, low, out)


def at_most(x: Any, high: Any, out: Any = None) -> Any:
    """``cut_to`` for whole arrays."""
    return _limited(np.minimum, x, high, out)


# --- choices ----------------------------------------------------------------------------------------------------------

# Floats are chosen by their bits, as integers: np.where jumps at every element, which costs ten times as much.
_BITS = {1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def keep(x: Any, mask: Any, out: Any = None) -> Any:
    """``x`` where ``mask`` holds, else 0, whatever x is there (nan and inf too)."""
    bits: Any = _BITS.get(x.dtype.itemsize)
    if bits is None:
        return np.positive(np.where(mask, x, np.zeros((), x.dtype)), out=out)
    if out is not None:
        np.multiply(x.view(bits), mask, out=out.view(bits))
        return out
    return np.multiply(x.view(bits), mask, dtype=bits).view(x.dtype)


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


def where(mask: Any, x: Any, y: Any) -> Any:
    """np.where on arrays of one dtype, by bits where that is faster."""
    if mask.size * 8 <= max(x.size, y.size):  # often a mask of rows, of which few are chosen
        side = y if not mask.any() else x if mask.all() else None
        if side is not None:
            shape = np.broadcast_shapes(mask.shape, x.shape, y.shape)
            return np.broadcast_to(side, shape).copy()
    if mask.size < 2048 or x.dtype.itemsize not in _BITS or mask.shape not in (x.shape, y.shape):
        return np.where(mask, x, y)
    sides = [a for a in (x, y) if a.shape == mask.shape]
    if any(a.shape != mask.shape and a.ndim for a in (x, y)) or not _all_contiguous(sides, mask):
        return np.where(mask, x, y)
    result = np.empty(mask.shape, x.dtype)
    if y.ndim == 0 and not y:
        _run(lambda mask, x, out: keep(x, mask, out), (mask, x), (), result.reshape(-1))
    else:
        _run(choose, (mask, x, y), (), result.reshape(-1))
    return result
