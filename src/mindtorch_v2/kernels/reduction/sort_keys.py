"""Owns stable sorting along the last axis: order-preserving integer keys, permutations and single ranks.

NaN sorts after everything else and -0.0 equals 0.0. Dimensions, names and checks are the caller's.
"""

from __future__ import annotations

import numpy as np

from ..precision import wide
from ..totals import Array

# Below this many elements building keys costs more than NumPy's own stable sort.
SMALL = 1024
# One in so many, or fewer, are worth finding a bound for.
FEW_OF = 32
_LOW = np.uint64(0xFFFFFFFF)
_SIGN = np.uint32(0x80000000)


def comparable(a: Array) -> Array:
    """``a`` in a type NumPy compares fast: float32 for 16-bit floats, uint8 for bools."""
    if a.dtype.kind == "b":
        return a.view(np.uint8)
    return wide(a)


def keys32(a: Array) -> Array | None:
    """uint32 keys in the order of ``a``'s values, or None where 32 bits do not hold them."""
    kind, size = a.dtype.kind, a.dtype.itemsize
    if kind == "f":
        return _float_keys(a) if size == 4 else None
    if size <= 4:
        return a.astype(np.int32).view(np.uint32) ^ _SIGN if kind == "i" else a.astype(np.uint32)
    if a.size == 0 or int(a.max()) - int(a.min()) > 0xFFFFFFFF:
        return None
    shifted: Array = a - a.min()
    return shifted.astype(np.uint32)


def _float_keys(a: Array) -> Array:
    x = a + np.float32(0)  # a copy in which -0.0 is 0.0
    if x.size and np.isnan(np.maximum.reduce(x, axis=None)):
        x[np.isnan(x)] = np.nan  # NaNs of either sign sort last
    bits: Array = x.view(np.uint32)
    # Negative numbers are turned over, positive ones only moved above them.
    flip = (bits.view(np.int32) >> 31).view(np.uint32)
    flip |= _SIGN
    bits ^= flip
    return bits


def _packed(keys: Array, descending: bool) -> Array:
    """Key and position in one uint64: sorting these is a stable sort at the speed of an unstable one."""
    packed: Array = (~keys if descending else keys).astype(np.uint64)
    packed <<= np.uint64(32)
    packed |= np.arange(keys.shape[-1], dtype=np.uint64)
    return packed


def _positions(packed: Array) -> Array:
    return (packed & _LOW).view(np.int64)


def stable_argsort(a: Array, descending: bool = False) -> Array:
    """int64 permutation that sorts along the last axis; equal elements keep their order in both directions."""
    x = comparable(a)
    keys = keys32(x) if x.size > SMALL else None
    if keys is not None:
        packed = _packed(keys, descending)
        packed.sort(axis=-1)
        return _positions(packed)
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    # Read backwards, the ascending order of the reversed array is descending and still stable.
    backwards: Array = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return np.asarray(x.shape[-1] - 1 - backwards)


def rank_index(a: Array, rank: int) -> Array:
    """Position along the last axis of the element with ``rank`` smaller or equal ones before it in stable order."""
    x = comparable(a)
    if x.size <= SMALL:
        return np.argsort(x, axis=-1, kind="stable")[..., rank]
    keys = keys32(x)
    if keys is not None:
        packed = _packed(keys, False)
        packed.partition(rank, axis=-1)
        return _positions(packed[..., rank])
    return np.argpartition(x, rank, axis=-1)[..., rank]


def top_indices(a: Array, k: int, largest: bool) -> Array:
    """Positions of the ``k`` first elements of the stable order, in that order."""
    x = comparable(a)
    n = x.shape[-1]
    if x.size > SMALL and 0 < k * FEW_OF < n:
        few = _top_of_candidates(x, k, largest)
        if few is not None:
            return few
    keys = keys32(x) if x.size > SMALL and 0 < k < n else None
    if keys is None:
        return stable_argsort(a, descending=largest)[..., :k]
    packed = _packed(keys, largest)
    if k * 8 < n:
        packed.partition(k - 1, axis=-1)
        packed = packed[..., :k]
    packed.sort(axis=-1)
    return _positions(packed[..., :k])


def _top_of_candidates(x: Array, k: int, largest: bool) -> Array | None:
    """``top_indices`` for few of many: only what reaches a bound is put in order. The columns fall into groups, and the
    k-th best of their extremes is no better than the k-th best of all. None where NaN or ties make that useless."""
    rows, n = x.size // x.shape[-1], x.shape[-1]
    column_bits = (n - 1).bit_length()
    if column_bits + (rows - 1).bit_length() > 32:
        return None
    flat = np.ascontiguousarray(x).reshape(rows, n)
    groups = min(max(8 * k, 64), n)
    of_each = n // groups
    grouped = flat[:, : groups * of_each].reshape(rows, of_each, groups)
    best = (np.maximum if largest else np.minimum).reduce(grouped, axis=1)
    bounds = np.partition(best, groups - k if largest else k - 1, axis=1)[:, groups - k if largest else k - 1, None]
    reach = flat >= bounds if largest else flat <= bounds
    counts = np.count_nonzero(reach, axis=1)
    left_over = flat[:, groups * of_each :]
    if counts.sum() > 4 * k * rows or (x.dtype.kind == "f" and (np.isnan(best).any() or np.isnan(left_over).any())):
        return None
    positions = np.flatnonzero(reach)
    keys = keys32(flat.reshape(-1).take(positions))
    if keys is None:
        return None
    # The row above the key above the column, in 64 bits.
    row, column = np.divmod(positions, n)
    shift = np.uint64(column_bits)
    packed = (row.astype(np.uint64) << np.uint64(32)) | (~keys if largest else keys)
    packed <<= shift
    packed |= column.astype(np.uint64)
    packed.sort()
    starts = np.cumsum(counts) - counts
    chosen = packed.take(starts[:, None] + np.arange(k)) & ((np.uint64(1) << shift) - np.uint64(1))
    return chosen.view(np.int64).reshape(*x.shape[:-1], k)


def gather_last(a: Array, index: Array) -> Array:
    """``a`` at ``index`` along the last axis; all other axes are the same."""
    if a.ndim == 1:
        return a.take(index)
    if index.size == 0:
        return np.empty(index.shape, a.dtype)
    offsets = np.arange(0, a.size, a.shape[-1]).reshape(*a.shape[:-1], 1)
    return a.reshape(-1).take(index + offsets)
