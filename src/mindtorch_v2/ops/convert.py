"""Rows of conversion between dtypes and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._dtype import dtype
from .._op import composite, op
from .._tensor import Tensor


@op("_to_copy(Tensor self, *, ScalarType? dtype=None) -> Tensor", out=False, node="ToCopyBackward0", self=lambda g, self_dtype: to_dtype(g, self_dtype))
def _to_copy(a: Any, dtype: Any) -> Any:
    return a.astype(a.dtype if dtype is None else dtype.np)


@composite("to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)")
def _to_dtype(self: Tensor, dtype: dtype, non_blocking: bool, copy: bool, memory_format: Any) -> Tensor:
    if self._a.dtype == dtype.np and not copy:
        return self
    return _to_copy.function(self, dtype=dtype)


to_dtype = _to_dtype.function
__all__ = ["np", "to_dtype"]
