"""Owns which Python numbers fit which element types, and torch's words for those that do not."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from .compiled import F32, F64

_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int8": "int8_t",
    "uint8": "uint8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}  # fmt: skip


def _range(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The least and the greatest number that fits; of unsigned types the least that wraps around."""
    if dtype.kind in "iu":
        whole = np.iinfo(dtype)
        return int(whole.min) or -int(whole.max), int(whole.max)
    finfo: Any = np.finfo if dtype.kind == "c" else ml_dtypes.finfo
    limits = finfo(dtype)
    return -float(limits.max), float(limits.max)


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


_RANGES = {_dtype(name): _range(_dtype(name)) for name in _NAMES}
_I64 = np.dtype(np.int64)
_LEAST, _GREATEST = _RANGES[np.dtype(np.float32)]


def is_single(value: Any) -> bool:
    """Whether a real number fits single precision."""
    return _LEAST <= value <= _GREATEST or value - value != 0


def fitting(value: Any, dtype: np.dtype[Any]) -> Any:
    """A Python number as one that NumPy stores in arrays of ``dtype`` as torch would; RuntimeError where it does not fit.
    Infinities and nan fit all but integers."""
    kind = type(value)
    if (kind is float and (dtype is F32 or dtype is F64)) or (kind is int and (dtype is _I64 or dtype is F32)):
        if -1e18 < value < 1e18:  # as nearly all do
            return value
    limits = _RANGES.get(dtype)
    if kind is int and not -(2**63) <= value < 2**64:
        raise OverflowError("int too big to convert" if value > 0 else "can't convert negative int to unsigned")
    if limits is None or kind is bool:
        return value != 0 if kind is complex and dtype.kind == "b" else value
    if kind is complex:
        if dtype.kind == "c":
            return complex(_within(value.real, limits, dtype), _within(value.imag, limits, dtype))
        if value.imag:
            raise _overflow(dtype)
        value = value.real
    return _within(value, limits, dtype)


def _within(value: Any, limits: tuple[Any, Any], dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu":
        # Negative integers wrap around in unsigned types, negative floats do not.
        if not limits[0] <= value <= limits[1] or (dtype.kind == "u" and type(value) is float and value < 0):
            raise _overflow(dtype)
        return int(value) if dtype.kind == "i" else int(value) % (limits[1] + 1)
    if not limits[0] <= value <= limits[1] and math.isfinite(value):
        raise _overflow(dtype)
    return value


def _overflow(dtype: np.dtype[Any]) -> RuntimeError:
    return RuntimeError(f"value cannot be converted to type {_NAMES[dtype.name]} without overflow")
