"""Rows of plain copies, in an order of memory that may be asked for, and of tensors on the same memory once more."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _device
from .._front import front
from .._op import composite, op, view
from .._tensor import FAST, LAZY, Tensor, alias, in_memory, make_lazy, storage_of
from ..autograd.methods import cut

_CHANNELS_LAST = {_device.channels_last: 4, _device.channels_last_3d: 5}


def channels_last_array(a: Any, memory_format: Any) -> Any:
    """`a` with its dimensions in the order they have in memory in a channels_last format."""
    rank = _CHANNELS_LAST[memory_format]
    if a.ndim != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {memory_format.name} format")
    return np.moveaxis(a, 1, -1)


def copied(a: Any, memory_format: Any = None) -> Any:
    """A copy of `a` in a memory format; without one, in the order `a` has where it has one."""
    if memory_format in _CHANNELS_LAST:
        return np.moveaxis(channels_last_array(a, memory_format).copy(), -1, 1)
    if a.flags.c_contiguous or memory_format is _device.contiguous_format or 0 in a.strides:
        return a.copy()
    return a.copy(order="K")


@op("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", out=False, quiet=False, self=lambda g: g)
def _clone(a: Any, memory_format: Any) -> Any:
    return a.copy() if memory_format is None and a.flags.c_contiguous else copied(a, memory_format)


clone = _clone.function


def is_contiguous(self: Tensor, memory_format: Any = _device.contiguous_format) -> bool:
    """Whether the elements lie in memory in row-major order (or that of another format)."""
    if memory_format is _CONTIGUOUS and type(self) in FAST:
        dense: bool = self._a.flags.c_contiguous
        return dense
    a = in_memory(self)._a if type(self) in LAZY else self._a
    if memory_format is not _CONTIGUOUS:
        if memory_format in _CHANNELS_LAST:
            return a.ndim == _CHANNELS_LAST[memory_format] and _dense(channels_last_array(a, memory_format))
        if memory_format is _device.preserve_format:
            raise RuntimeError("is_contiguous does not support memory format preserve_format")
    return _dense(a)


def _dense(a: Any) -> bool:
    return bool(a.flags.c_contiguous)


Tensor.is_contiguous = is_contiguous  # type: ignore[attr-defined]


@composite("contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)")
def _contiguous(self: Tensor, memory_format: Any) -> Tensor:
    return clone(self, memory_format=memory_format or _device.contiguous_format)


_CONTIGUOUS = _device.contiguous_format


@front("contiguous")
def contiguous(input: Tensor, memory_format: Any = _device.contiguous_format) -> Tensor:
    """The tensor itself if it is contiguous, else a contiguous copy."""
    if memory_format is _CONTIGUOUS and input._a.flags.c_contiguous:
        return input
    if memory_format in _CHANNELS_LAST:
        channels_last_array(input._a, memory_format)
    elif _dense(input._a):
        return input
    if memory_format is _device.preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    if is_contiguous(input, memory_format):
        return input
    return _contiguous.function(input, memory_format=memory_format)


@composite("detach(Tensor(a) self) -> Tensor(a)")
def _detach(self: Tensor) -> Tensor:
    if type(self) in LAZY:
        return make_lazy(alias(in_memory(self)._a, storage_of(self)), type(self))
    return alias(self._a, storage_of(self))


@front("is_inference")
def is_inference(input: Any) -> bool:
    """Whether the tensor was made in inference mode."""
    return bool(input.is_inference())


@composite("detach_(Tensor(a!) self) -> Tensor(a!)")
def _detach_(self: Tensor) -> Tensor:
    return cut(self)


@view("alias(Tensor(a) self) -> Tensor(a)", self=lambda g: g)
def _alias(a: Any) -> Any:
    return a


alias_of = _alias.function
