"""Owns how kernels treat 16-bit floats: they are computed in float32 and rounded once, at the end.

It knows no kernel; ``widened`` wraps any function of ndarrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype`` is float16 or bfloat16 (which NumPy sees as a void-kind extension type)."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


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
        return _narrow(result, dtype)  # type: ignore[no-any-return]

    return call


def _widen(value: Any) -> Any:
    if isinstance(value, np.ndarray) and is_half(value.dtype):
        return value.astype(np.float32)
    return value


def _narrow(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return value.astype(dtype)
    return value
