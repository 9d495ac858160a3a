"""Owns how kernels name element types and refuse them, in torch's words. It knows no kernel."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

TYPE_NAMES: dict[np.dtype[Any], str] = {
    np.dtype(np.bool_): "Bool",
    np.dtype(np.uint8): "Byte",
    np.dtype(np.int8): "Char",
    np.dtype(np.int16): "Short",
    np.dtype(np.int32): "Int",
    np.dtype(np.int64): "Long",
    np.dtype(np.uint16): "UInt16",
    np.dtype(np.uint32): "UInt32",
    np.dtype(np.uint64): "UInt64",
    np.dtype(np.float16): "Half",
    BFLOAT16: "BFloat16",
    np.dtype(np.float32): "Float",
    np.dtype(np.float64): "Double",
    np.dtype(np.complex64): "ComplexFloat",
    np.dtype(np.complex128): "ComplexDouble",
    np.dtype(ml_dtypes.float8_e4m3fn): "Float8_e4m3fn",
    np.dtype(ml_dtypes.float8_e5m2): "Float8_e5m2",
}


def type_name(dtype: np.dtype[Any]) -> str:
    """``Float`` for float32, ``Long`` for int64: the names torch's messages use."""
    return TYPE_NAMES.get(dtype, str(dtype))


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype`` is a real floating type that torch computes with (float16, bfloat16, float32, float64)."""
    return (dtype.kind == "f" and dtype.itemsize > 1) or dtype == BFLOAT16


def not_implemented(kernel: str, dtype: np.dtype[Any]) -> NotImplementedError:
    """The error for an element type that a kernel does not take."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{type_name(dtype)}'")
