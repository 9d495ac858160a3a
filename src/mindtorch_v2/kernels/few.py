"""Owns reductions of a few numbers, where the questions that `reduce` asks take longer than all the rest.

Each comes with the condition under which it may stand for the kernel in `reduce`, as text for generated code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiled import C
from .totals import Array

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)


class _Ones(dict[int, Any]):
    """Vectors of ones by length: a product with them sums a small array in a quarter of the time of `add.reduce`."""

    def __missing__(self, n: int) -> Any:
        ones = self[n] = np.ones(n, np.float32)
        return ones


ONES = _Ones()

# Conditions in generated code for the arrays that these functions take.
_OF_NUMBERS = "(input._a.dtype is F32 or input._a.dtype is F64 or input._a.dtype is I64)"
FOR_ALL = f"0 < input._a.size <= 4096 and {_OF_NUMBERS}"
FOR_DIM = f"type(dim) is int and {FOR_ALL} and -input._a.ndim <= dim < input._a.ndim and input._a.flags.c_contiguous"
# Counting does not stop at the first element that decides.
FOR_TRUTH = f"input._a.size <= 4096 and (input._a.dtype is BOOL or {_OF_NUMBERS})"
FOR_TRUTH_DIM = "type(dim) is int and input._a.dtype is BOOL and -input._a.ndim <= dim < input._a.ndim"
FOR_MEAN = "dtype is None and 0 < input._a.size <= 4096 and (input._a.dtype is F32 or input._a.dtype is F64)"
FOR_NORM = (
    "ord == 2 and dim is None and dtype is None and not keepdim and input._a.dtype is F32"
    " and 0 < input._a.size <= 256 and input._a.flags.c_contiguous"
)
FOR_MOMENTS = (
    "False"
    if C is None
    else "(dim is None or type(dim) is int) and 0 < input._a.size <= 4096"
    " and (input._a.dtype is F32 or input._a.dtype is F64)"
)
_add: Any = np.add.reduce
_maximum: Any = np.maximum.reduce
_minimum: Any = np.minimum.reduce
_and: Any = np.logical_and.reduce
_or: Any = np.logical_or.reduce


def mean(a: Array, dtype: Any) -> Any:
    """``mean`` of a few floats."""
    n = a.size
    if C is not None:
        result = np.empty((), a.dtype)
        if C.add_up(a, None, result, n):
            return result
    return total(a) / a.dtype.type(n)


def total(a: Array) -> Any:
    """``sum`` of a few floats."""
    if C is not None:
        result = np.empty((), a.dtype)
        if C.add_up(a, None, result):
            return result
    return a.reshape(-1).dot(ONES[a.size]) if a.dtype is F32 else _add(a, None)


def norm(a: Array, *options: Any) -> Any:
    """The length of a few float32 as one vector."""
    row = a.reshape(-1)
    return np.sqrt(row.dot(row))


def largest(a: Array) -> Any:
    """``max`` of a few numbers."""
    if C is not None:
        result = np.empty((), a.dtype)
        if C.extreme(a, False, result):
            return result
    return a.reshape(-1)[a.argmax()]


def least(a: Array) -> Any:
    """``min`` of a few numbers."""
    if C is not None:
        result = np.empty((), a.dtype)
        if C.extreme(a, True, result):
            return result
    return a.reshape(-1)[a.argmin()]


def amax(a: Array, dim: int, keepdim: bool) -> Any:
    """``amax`` over one dimension."""
    return _maximum(a, dim, None, None, keepdim)


def amin(a: Array, dim: int, keepdim: bool) -> Any:
    """``amin`` over one dimension."""
    return _minimum(a, dim, None, None, keepdim)


def max_dim(a: Array, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """``max_dim`` of a few numbers."""
    return _maximum(a, dim, None, None, keepdim), a.argmax(dim, keepdims=keepdim)


def min_dim(a: Array, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """``min_dim`` of a few numbers."""
    return _minimum(a, dim, None, None, keepdim), a.argmin(dim, keepdims=keepdim)


def all_of(a: Array) -> Any:
    """``all`` of numbers or truth values."""
    return np.array(np.count_nonzero(a) == a.size)


def all_dim(a: Array, dim: int, keepdim: bool) -> Any:
    """``all`` along one dimension of truth values."""
    return _and(a, dim, None, None, keepdim)


def any_dim(a: Array, dim: int, keepdim: bool) -> Any:
    """``any`` along one dimension of truth values."""
    return _or(a, dim, None, None, keepdim)


def any_of(a: Array) -> Any:
    """``any`` of numbers or truth values."""
    return np.array(np.count_nonzero(a) > 0)
