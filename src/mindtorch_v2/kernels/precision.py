"""Owns how kernels treat 16-bit floats: they are computed in float32 and rounded once, at the end.

It knows no kernel; ``widened`` wraps any function of ndarrays, ``wide`` and ``narrow`` serve those that do it by hand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .compiled import C, order_of
from .result_layout import as_first, is_row_major

_FLOAT32 = np.dtype(np.float32)
P = ParamSpec("P")
R = TypeVar("R")


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype`` is float16 or bfloat16 (which NumPy sees as a void-kind extension type)."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def cast(a: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """``a.astype(dtype)`` that lies in memory as ``a`` does; between 16 bits and float32, where NumPy goes one by one, by the
    compiled loop."""
    plain = is_row_major(a)
    if C is not None and a.dtype.itemsize + dtype.itemsize == 6:
        result: np.ndarray[Any, Any] | None = C.converted(a, dtype)
        if result is not None:
            return result if plain else as_first(result, a)
    return a.astype(dtype) if plain else as_first(a.astype(dtype, order_of(a)), a)


def wide(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``a`` in the type it is computed in: float32 for 16-bit floats."""
    return cast(a, _FLOAT32) if is_half(a.dtype) else a


def narrow(a: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """``a`` as an ndarray of ``dtype``, uncopied where it is one already."""
    made = np.asarray(a)
    return made if made.dtype == dtype else cast(made, dtype)


def widened(kernel: Callable[P, R]) -> Callable[P, R]:
    """Make ``kernel`` compute in float32 when its first array is float16 or bfloat16, and cast its float results back.

    Integer results (indices) pass through unchanged.
    """

    @functools.wraps(kernel)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        first: Any = args[0] if args else next(iter(kwargs.values()))
        dtype = first.dtype
        if not is_half(dtype):
            return kernel(*args, **kwargs)
        wide_kwargs = {name: _widen(value) for name, value in kwargs.items()}
        result: Any = kernel(*map(_widen, args), **wide_kwargs)
        if isinstance(result, tuple):
            return tuple(_narrow(part, dtype) for part in result)  # type: ignore[return-value]
        return _narrow(result, dtype)

    return call


def _widen(value: Any) -> Any:
    return wide(value) if isinstance(value, np.ndarray) else value


def _narrow(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return cast(value, dtype)
    return value
