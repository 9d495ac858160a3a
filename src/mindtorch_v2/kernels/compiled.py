"""Finds the optional compiled kernels: `C` is their module, or None where they are not built or not wanted.

They are chosen call by call, and return False for what they do not take; the kernels in NumPy then do it. With
`MINDTORCH_PURE=kernels` in the environment they are not used.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ..core import built

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
Function = Callable[..., Any]


def _load() -> Any:
    module = built.compiled("kernels")
    if module is None:
        return None
    try:
        table = importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API
    except (ImportError, AttributeError):
        return None
    dtypes = (np.dtype(t) for t in (np.float64, np.int64, np.float16, ml_dtypes.bfloat16, np.bool_, np.int32))
    return module if module.setup(np.zeros((2, 3), F32), np, table, *dtypes) else None


C: Any = _load()

# Ufuncs that have a faster loop for plain arrays of float32.
exp: Any = np.exp if C is None else C.exp
tanh: Any = np.tanh if C is None else C.tanh

_NAMES = """add subtract multiply divide maximum minimum equal not_equal less less_equal greater greater_equal
    negative absolute sqrt square reciprocal"""
STAND_INS: dict[Any, Any] = {} if C is None else {getattr(np, name): getattr(C, name) for name in _NAMES.split()}


def stand_in(ufunc: Any) -> Any:
    """A function that does what a ufunc does, plain arrays in a fraction of the time; or the ufunc itself."""
    return STAND_INS.get(ufunc, ufunc)


def _put(out: Any, x: Any) -> bool:
    """Copy ``x`` into ``out``; False, with nothing written, where types or shapes differ, or ``out`` has gaps."""
    if out.dtype is not x.dtype or out.shape != x.shape or not out.flags.c_contiguous:
        return False
    out[...] = x
    return True


put: Any = _put if C is None else C.put


def looked_at(a: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The memory of ``a`` from its first element on in another shape; all of it must be ``a``'s own."""
    made = None if C is None else C.look(a, shape, strides)
    if made is not None:
        return made
    if type(a) is np.ndarray and a.flags.c_contiguous and a.size:
        return np.ndarray(shape, a.dtype, a, 0, strides)
    return np.lib.stride_tricks.as_strided(a, shape, strides, subok=True)


def unsqueezed(a: Any, dim: int) -> Any:
    """A view of ``a`` with a dimension of one element in front of ``dim``, whose stride is the one torch gives it."""
    made = None if C is None else C.unsqueeze(a, dim)
    if made is not None:
        return made
    # Indexing by None would make the stride 0.
    step = a.shape[dim] * a.strides[dim] if dim < a.ndim else a.dtype.itemsize
    return looked_at(a, (*a.shape[:dim], 1, *a.shape[dim:]), (*a.strides[:dim], step, *a.strides[dim:]))


def order_of(a: Any) -> Any:
    """The order NumPy is to lay out a result like ``a`` in: plain where elements of ``a`` share a place, as torch does."""
    return "C" if 0 in a.strides else "K"


def in_one_pass(function: Function) -> Function:
    """``function(x, out=None)``, by the compiled loop of its name where that takes the arrays."""
    loop = getattr(C, function.__name__, None)
    if loop is None:
        return function

    @functools.wraps(function)
    def fused(x: Any, out: Any = None) -> Any:
        if type(x) is np.ndarray and (x.dtype is F32 or x.dtype is F64):
            result = np.empty_like(x) if out is None else out
            # The same memory in the other order is as plain, so that both orders give the same values.
            if loop(x, result) or loop(x.T, result.T):
                return result
            beside = x.copy(order_of(x))  # parts of a larger array: beside one another first
            if loop(beside, beside) or loop(beside.T, beside.T):
                if out is None:
                    return beside
                np.copyto(out, beside)
                return out
        return function(x, out=out)

    return fused


def pair_in_one_pass(function: Function) -> Function:
    """The same for ``function(x, y, out=None)``."""
    loop = getattr(C, function.__name__, None)
    if loop is None:
        return function

    @functools.wraps(function)
    def fused(x: Any, y: Any, out: Any = None) -> Any:
        if x.dtype is F32 and x.shape == y.shape:
            x = x.copy() if is_one_number(x) else x
            result = np.empty_like(x) if out is None else out
            if loop(x, y, result):
                return result
        return function(x, y, out=out)

    return fused


def in_one_sum(function: Function) -> Function:
    """``function(*arrays, *numbers, out=None)``, by the compiled loop of its name where that knows the arrays."""
    loop = getattr(C, function.__name__, None)
    if loop is None:
        return function

    @functools.wraps(function)
    def fused(*arguments: Any, out: Any = None) -> Any:
        result = loop(*arguments, out)
        if result is None and is_one_number(arguments[0]):
            result = loop(arguments[0].copy(), *arguments[1:], out)
        if result is None and out is None and any(map(_is_cut, arguments)):
            result = loop(*(np.ascontiguousarray(v) if _is_cut(v) else v for v in arguments), None)
        return function(*arguments, out=out) if result is None else result

    return fused


def _is_cut(a: Any) -> bool:
    """Whether it is rows with gaps between them, as columns cut out of a matrix are."""
    return (
        type(a) is np.ndarray and a.ndim == 2 and a.strides[1] == a.itemsize < a.strides[0] and not a.flags.c_contiguous
    )


def is_one_number(a: Any) -> bool:
    """Whether all elements of an array are one in memory, as in the gradient of a sum."""
    return type(a) is np.ndarray and a.ndim > 0 and not any(a.strides)


def densely_laid(a: Any) -> Any:
    """An array whose elements lie side by side, which compiled loops ask for; a copy where they do not."""
    return a if a.flags.c_contiguous else np.ascontiguousarray(a)


def by_rows(name: str, *arrays: Any, axis: int = -1) -> Any:
    """A fresh array that the compiled loop filled from ``arrays`` along one dimension; None if it did not, as where that is
    not the last one of large arrays."""
    if C is None:
        return None
    result = np.empty(arrays[0].shape, arrays[0].dtype)
    return result if getattr(C, name)(*arrays, result, axis) else None
