"""Rows of plain copies, in an order of memory that may be asked for, and of tensors on the same memory once more."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.methods import cut
from ...core import device
from ...core.layouts import channels_last_strides
from ...core.meta import MetaArray
from ...core.tensor import FAST, LAZY, Tensor, alias, in_memory, make_lazy, storage_of
from ...dispatch.front import front
from ...dispatch.op import composite, op, view
from ...kernels import result_layout
from ...kernels.result_layout import CHANNELS_LAST
from ..meta import shapes

_CONTIGUOUS = device.contiguous_format


def copied(a: Any, memory_format: Any = None) -> Any:
    """A copy of `a` in a memory format; without one, in the order that `a` has."""
    if memory_format is _CONTIGUOUS or (memory_format not in CHANNELS_LAST and result_layout.is_row_major(a)):
        return a.copy()
    made = result_layout.blank(a.shape, a.dtype, result_layout.strides_in(a, memory_format), type(a) is MetaArray)
    np.copyto(made, a)
    return made


@op(
    "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    meta=shapes.by_kernel,
    layout=result_layout.as_made,
    out=False,
    quiet=False,
    self=lambda g: g,
)
def _clone(a: Any, memory_format: Any) -> Any:
    return a.copy() if memory_format is None and result_layout.is_row_major(a) else copied(a, memory_format)


clone = _clone.function


def is_contiguous(self: Tensor, memory_format: Any = device.contiguous_format) -> bool:
    """Whether the elements lie in memory in row-major order (or that of another format)."""
    if memory_format is _CONTIGUOUS and type(self) in FAST:
        dense: bool = self._a.flags.c_contiguous
        return dense
    a = in_memory(self)._a if type(self) in LAZY else self._a
    if memory_format is not _CONTIGUOUS:
        if memory_format in CHANNELS_LAST:
            rank = CHANNELS_LAST[memory_format]
            return a.ndim == rank and result_layout.is_in(a, channels_last_strides(a.shape))
        if memory_format is device.preserve_format:
            raise RuntimeError("is_contiguous does not support memory format preserve_format")
    return _dense(a)


def _dense(a: Any) -> bool:
    return bool(a.flags.c_contiguous)


Tensor.is_contiguous = is_contiguous  # type: ignore[attr-defined]


@composite("contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)")
def _contiguous(self: Tensor, memory_format: Any) -> Tensor:
    return clone(self, memory_format=memory_format or device.contiguous_format)


@front("contiguous")
def contiguous(input: Tensor, memory_format: Any = device.contiguous_format) -> Tensor:
    """The tensor itself if it is contiguous, else a contiguous copy."""
    if memory_format is _CONTIGUOUS and input._a.flags.c_contiguous:
        return input
    if memory_format in CHANNELS_LAST:
        result_layout.format_strides(input._a.shape, memory_format)  # refuses other ranks
    elif _dense(input._a):
        return input
    if memory_format is device.preserve_format:
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
