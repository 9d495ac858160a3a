"""Memory that tensors lie in: arrays on all of it by strides, and other sizes, for which it grows where it is too small."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...core.errors import shape_text
from ...core.layouts import contiguous_strides, in_bytes
from ...core.meta import MetaArray, meta
from ...core.segments import segment_of
from ...core.storage import Storage
from ...core.tensor import Tensor, address, look_at, memory_owner, move_to, numel_of
from ..node import AccumulateGrad
from .holders import LOCK, Family, StorageBase, look_around

_array_slot: Any = Tensor.__dict__["_a"]  # of tensors with a change of sign to come, too


def extent(size: Any, stride: Any) -> int:
    """How many elements lie between the first and the last one looked at, both included."""
    return 0 if 0 in tuple(size) else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


def _buffer(owner: Any) -> Any:
    """The memory of an array that owns it, as a row-major array."""
    if owner.flags.c_contiguous:
        return owner
    if owner.flags.f_contiguous:
        return owner.T
    itemsize = owner.dtype.itemsize
    return np.lib.stride_tricks.as_strided(owner, (owner.size,), (itemsize,))


def strided(a: Any, shape: Any, strides: Any, offset: int) -> Any:
    """An array on the memory that `a` looks at, by element strides and offset."""
    itemsize = a.dtype.itemsize
    buffer = _buffer(memory_owner(a))
    try:
        if not buffer.nbytes and 0 not in tuple(shape) and type(a) is not MetaArray:
            raise ValueError  # NumPy would not ask how large a buffer of nothing is
        return np.ndarray(shape, a.dtype, buffer, offset * itemsize, [s * itemsize for s in strides])
    except (TypeError, ValueError):
        if 0 in tuple(shape):
            return np.empty(shape, a.dtype)
        needed = (offset + extent(shape, strides)) * itemsize
        if needed <= buffer.nbytes:
            raise
        raise RuntimeError(
            f"setStorage: sizes {shape_text(shape)}, strides {shape_text(strides)}, storage offset {offset}, and "
            f"itemsize {itemsize} requiring a storage size of {needed} are out of bounds for storage of size {buffer.nbytes}"
        ) from None


def own_offset(a: Any) -> int:
    """Where in its memory an array begins, in elements."""
    owner = memory_owner(a)
    return 0 if owner is a else (address(a) - address(owner)) // int(a.dtype.itemsize)


def resize(t: Tensor, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
    """Give a tensor another size, on the same memory from the same place on, in row-major order or with strides that leave
    no gaps."""
    a = t._a
    if strides is None:
        strides = contiguous_strides(shape)
    if type(a) is MetaArray:
        look_at(t, meta(shape, a.dtype, strides))
        return
    owner, offset, itemsize = memory_owner(a), own_offset(a), a.dtype.itemsize
    needed = (offset + numel_of(shape)) * itemsize
    if needed <= owner.nbytes:
        look_at(t, strided(a, shape, strides, offset))
        return
    if segment_of(owner) is not None:
        raise RuntimeError(
            f"Trying to resize storage that is not resizable: {needed} bytes do not fit the {owner.nbytes} of shared memory; "
            "make a new tensor of the wanted size"
        )
    others = _others_on(t)
    if not offset and not others:
        grown = np.empty(numel_of(shape), a.dtype)
        held = owner.nbytes // itemsize
        grown[:held] = strided(a, (held,), (1,), 0)
        move_to(t, np.ndarray(shape, a.dtype, grown, 0, in_bytes(strides, itemsize)))
        return
    memory = np.empty(needed, np.uint8)
    memory[: owner.nbytes] = _buffer(owner).reshape(-1).view(np.uint8)
    for other in others:
        _follow(other, owner, memory)
    look_at(t, np.ndarray(shape, a.dtype, memory, offset * itemsize, in_bytes(strides, itemsize)))


def _moved(a: Any, memory: Any, start: int) -> Any:
    """What `a` is in the memory that took the place of the one that began at `start`."""
    return np.ndarray(a.shape, a.dtype, memory, address(a) - start, a.strides)


def _others_on(t: Tensor) -> list[Any]:
    """The other tensors on a tensor's memory, and the storages. To search for them takes long, but memory that several share
    grows only where a program asks for what torch warns of."""
    token = t._v
    if token is None or (type(token) is Storage and sys.getrefcount(token) == _HELD_ONCE):
        return []
    del token  # which a family counts references to
    with LOCK:
        family = Family(t)
        if not family.is_complete():
            look_around()
            family = Family(t)
    return [m for m in family.members.values() if m is not t and isinstance(m, (Tensor, StorageBase))]


def _follow(holder: Any, owner: Any, memory: Any) -> None:
    """Let one that looks at the memory of `owner` look at what took its place."""
    if isinstance(holder, StorageBase):
        holder._owner = memory if holder._owner is owner else _moved(holder._owner, memory, address(owner))
        return
    array = _moved(_array_slot.__get__(holder), memory, address(owner))
    _array_slot.__set__(holder, array)
    holder._k = None
    if type(holder._ag) is AccumulateGrad:
        holder._ag.array = array


def _held_by_a_slot_and_a_name() -> int:
    """What `sys.getrefcount` says of a token that a tensor and one local name hold."""
    holder = [Storage()]
    local = holder[0]
    return sys.getrefcount(local)


_HELD_ONCE = _held_by_a_slot_and_a_name()
