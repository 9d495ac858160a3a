"""Rows that make tensors: empty, filled, like others, ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _device, _dtype
from .._meta import MetaArray, meta
from .._op import mutating, op
from .._tensor import Tensor

_OPTIONS = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"


def blank(size: Any, np_dtype: Any, device: Any) -> Any:
    """Memory (or none, on meta) of this size."""
    where = _device.usable(device)
    return meta(size, np_dtype) if where.type == "meta" else np.empty(size, np_dtype)


@op(f"empty(int[] size, {_OPTIONS}, MemoryFormat? memory_format=None) -> Tensor", out=False)
def _empty(size: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
    return blank(size, (dtype or _dtype.get_default_dtype()).np, device)


@op(f"ones(int[] size, {_OPTIONS}) -> Tensor", out=False)
def _ones(size: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    a = blank(size, (dtype or _dtype.get_default_dtype()).np, device)
    if type(a) is not MetaArray:
        a.fill(1)
    return a


@op(f"zeros(int[] size, {_OPTIONS}) -> Tensor", out=False)
def _zeros(size: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    a = blank(size, (dtype or _dtype.get_default_dtype()).np, device)
    if type(a) is not MetaArray:
        a.fill(0)
    return a


_LIKE = "Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None"


def _blank_like(a: Any, dtype: Any, device: Any) -> Any:
    np_dtype = a.dtype if dtype is None else dtype.np
    if type(a) is MetaArray and device is None:
        return meta(a.shape, np_dtype)
    return blank(a.shape, np_dtype, device or _device.CPU)


@op(f"empty_like({_LIKE}) -> Tensor", out=False)
def _empty_like(a: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
    return _blank_like(a, dtype, device)


@op(f"ones_like({_LIKE}) -> Tensor", out=False)
def _ones_like(a: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
    made = _blank_like(a, dtype, device)
    made[...] = 1
    return made


@op(f"zeros_like({_LIKE}) -> Tensor", out=False)
def _zeros_like(a: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
    made = _blank_like(a, dtype, device)
    made[...] = 0
    return made


empty, ones, zeros = _empty.function, _ones.function, _zeros.function
empty_like, ones_like, zeros_like = _empty_like.function, _ones_like.function, _zeros_like.function


@mutating("zero_(Tensor(a!) self) -> Tensor(a!)", self=lambda g: zeros_like(g))
def _zero_(a: Any) -> None:
    a[...] = 0


@mutating("copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)", self=lambda g: zeros_like(g), src=lambda g: g)
def _copy_(a: Any, src: Any, non_blocking: bool) -> None:
    np.copyto(a, src, casting="unsafe")


__all__ = ["Tensor"]
