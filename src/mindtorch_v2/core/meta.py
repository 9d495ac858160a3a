"""Arrays of shape and dtype without memory: what a tensor on the `meta` device holds.

A `MetaArray` is a NumPy array on address space that takes no memory, so views, strides and shape questions are NumPy's
own; ufuncs and NumPy functions on it work out the shape, strides and dtype of the result instead of computing.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from . import layouts

# How the results of a row on meta arrays are found: a function of the row's kernel and arguments.
Rule: TypeAlias = Callable[..., Any]


class MetaArray(np.ndarray[Any, Any]):
    """An array without data."""

    @property
    def nbytes(self) -> int:
        """The memory it takes; what a recorder counts."""
        return 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        shapes_dtypes = [(x.shape, x.dtype) if isinstance(x, np.ndarray) else None for x in inputs]
        if method == "__call__":
            result = _call(ufunc, inputs, kwargs)
        elif method == "reduce":
            result = _reduce(ufunc, inputs[0], **kwargs)
        else:
            shape, dtype = shapes_dtypes[0] or ((), np.dtype(float))
            result = meta(shape, kwargs.get("dtype") or dtype)
        return result if out is None else out[0] if len(out) == 1 else out

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        rule = _RULES.get(func.__name__)
        if rule is None:
            return super().__array_function__(func, types, args, kwargs)
        return rule(*args, **kwargs)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        return meta_like(self, dtype)

    def copy(self, order: Any = "C") -> Any:
        return meta(self.shape, self.dtype) if order == "C" else meta_like(self)

    def item(self, *args: Any) -> Any:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")

    def dot(self, b: Any, out: Any = None) -> Any:
        return _matmul(self, b)

    def __setitem__(self, index: Any, value: Any) -> None:
        """There is nothing to write to."""


def _address_space() -> mmap.mmap | None:
    """Pages that may only be read, and read as zeros: the system gives them no memory."""
    for bits in (46, 44, 40, 36):
        try:
            return mmap.mmap(-1, 1 << bits, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
        except (OSError, OverflowError, ValueError, AttributeError):
            continue
    return None


_space: list[mmap.mmap | None] = []


def meta(shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None) -> MetaArray:
    """A meta array of this shape, dtype and strides in elements (row-major ones unless they are given)."""
    if not _space:
        _space.append(_address_space())
    shape, itemsize = tuple(shape), np.dtype(dtype).itemsize
    if strides is None:
        extent = math.prod(shape)
    else:
        extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if 0 not in shape else 0
    if _space[0] is None or extent * itemsize > len(_space[0]):  # no room: strides are not kept
        return np.broadcast_to(np.zeros((), dtype), shape).view(MetaArray)
    whole = np.ndarray.__new__(MetaArray, (extent,) if strides is not None else shape, dtype, _space[0])
    if strides is None:
        return whole
    return np.ndarray.__new__(MetaArray, shape, dtype, whole, 0, [s * itemsize for s in strides])


def laid_out(shape: Sequence[int], dtype: Any, operands: Sequence[Any]) -> MetaArray:
    """A meta array that lies in memory as what an elementwise op makes of the operands."""
    given = tuple([_geometry(x) for x in operands if isinstance(x, np.ndarray)])
    return meta(shape, dtype, layouts.elementwise(tuple(shape), given))


def meta_like(array: Any, dtype: Any = None) -> MetaArray:
    """A meta array that lies in memory as a copy of `array` would."""
    return meta(array.shape, dtype or array.dtype, layouts.like(*_geometry(array)))


def _geometry(x: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return x.shape, tuple([s // x.dtype.itemsize for s in x.strides])


def to_meta(array: Any) -> MetaArray:
    """The shape, dtype and strides of a real array."""
    return meta_like(array)


def _call(ufunc: np.ufunc, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if ufunc is np.matmul:
        return _matmul(*inputs)
    for x in inputs:
        if isinstance(x, np.ndarray) and not isinstance(x, MetaArray) and x.ndim:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, meta and cpu!"
            )
    shape = np.broadcast_shapes(*(np.shape(x) for x in inputs))
    probes = [np.ones((), x.dtype) if isinstance(x, np.ndarray) else x for x in inputs]
    with np.errstate(all="ignore"):
        sample = ufunc(*probes, **{k: v for k, v in kwargs.items() if k in ("dtype", "casting")})
    if isinstance(sample, tuple):
        return tuple(laid_out(shape, np.asarray(s).dtype, inputs) for s in sample)
    return laid_out(shape, np.asarray(sample).dtype, inputs)


def _reduce(
    ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False, **ignored: Any
) -> MetaArray:
    sample = ufunc.reduce(np.ones(1, x.dtype), dtype=dtype)
    return meta(_reduced_shape(x.shape, axis, keepdims), np.asarray(sample).dtype)


def _reduced_shape(shape: tuple[int, ...], axis: Any, keepdims: bool) -> tuple[int, ...]:
    axes = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    dropped = {a % len(shape) for a in axes} if shape else set()
    if keepdims:
        return tuple(1 if i in dropped else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in dropped)


def _matmul(a: Any, b: Any, out: Any = None) -> MetaArray:
    left = a.shape if a.ndim > 1 else (1, *a.shape)
    right = b.shape if b.ndim > 1 else (*b.shape, 1)
    if left[-1] != right[-2]:
        raise ValueError(f"matmul: {a.shape} and {b.shape} do not fit")
    shape = (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])
    if b.ndim == 1:
        shape = shape[:-1]
    if a.ndim == 1:
        shape = (*shape[:-1], shape[-1])[1:] if b.ndim == 1 else (*shape[:-2], shape[-1])
    return meta(shape, np.result_type(a.dtype, b.dtype))


def _concatenate(arrays: Sequence[Any], axis: int = 0, **kwargs: Any) -> MetaArray:
    shape = list(arrays[0].shape)
    if any(x.ndim != len(shape) for x in arrays) or not -len(shape) <= axis < len(shape):
        raise ValueError("arrays to join have different numbers of dimensions")
    rest = {x.shape[:axis] + x.shape[axis % len(shape) + 1 :] for x in arrays}
    if len(rest) > 1:
        raise ValueError("arrays to join differ in other dimensions")
    shape[axis] = sum(x.shape[axis] for x in arrays)
    return meta(shape, np.result_type(*(x.dtype for x in arrays)))


def _like(x: Any, dtype: Any = None, **kwargs: Any) -> MetaArray:
    if kwargs.get("shape"):
        return meta(kwargs["shape"], dtype or x.dtype)
    return meta_like(x, dtype)


def _where(condition: Any, x: Any, y: Any) -> MetaArray:
    dtype = np.result_type(*(v.dtype if isinstance(v, np.ndarray) else v for v in (x, y)))
    return laid_out(np.broadcast_shapes(np.shape(condition), np.shape(x), np.shape(y)), dtype, (condition, x, y))


def _take(a: Any, indices: Any, axis: int | None = None, **kwargs: Any) -> MetaArray:
    if axis is None:
        return meta(np.shape(indices), a.dtype)
    axis %= a.ndim
    return meta((*a.shape[:axis], *np.shape(indices), *a.shape[axis + 1 :]), a.dtype)


_RULES: dict[str, Callable[..., Any]] = {
    "concatenate": _concatenate,
    "zeros_like": _like,
    "ones_like": _like,
    "empty_like": _like,
    "full_like": lambda x, value, dtype=None, **kw: _like(x, dtype),
    "where": _where,
    "take": _take,
    "cumsum": lambda a, axis=None, dtype=None, **kw: meta(a.shape, dtype or a.dtype),
    "sort": lambda a, axis=-1, **kw: meta(a.shape, a.dtype),
    "argsort": lambda a, axis=-1, **kw: meta(a.shape, np.int64),
    "argmax": lambda a, axis=None, keepdims=False, **kw: meta(_reduced_shape(a.shape, axis, keepdims), np.int64),
    "argmin": lambda a, axis=None, keepdims=False, **kw: meta(_reduced_shape(a.shape, axis, keepdims), np.int64),
    "ascontiguousarray": lambda a, dtype=None, **kw: meta(a.shape, dtype or a.dtype),
    "copyto": lambda dst, src, **kw: None,
    "clip": lambda a, *bounds, **kw: laid_out(a.shape, a.dtype, [a]),
    "tril": lambda a, k=0: meta(a.shape, a.dtype),
    "triu": lambda a, k=0: meta(a.shape, a.dtype),
    "flip": lambda a, axis=None: meta_like(a),
    "roll": lambda a, shift, axis=None: meta(a.shape, a.dtype),
}
