"""Exceptions and messages that several layers raise, worded as torch words them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import tap


def no_memory(error: MemoryError) -> RuntimeError:
    """What torch raises where NumPy could not have the memory for an array. A recorder is told."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    nbytes = math.prod(shape) * dtype.itemsize if shape is not None and dtype is not None else 0
    tap.note_out_of_memory(nbytes)
    if not nbytes:
        return RuntimeError(f"DefaultCPUAllocator: can't allocate memory: {error or 'no more is to be had'}")
    return RuntimeError(
        f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes. Error code 12 (Cannot "
        "allocate memory)"
    )


class OutOfMemoryError(RuntimeError):
    """Memory could not be had."""


class LinAlgError(RuntimeError):
    """A matrix does not have what was asked of it: an inverse, a factor, convergence."""


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"  # as torch's is called


def shape_text(shape: Sequence[int]) -> str:
    """`[2, 3]`, as torch prints sizes in messages."""
    return "[" + ", ".join(str(int(n)) for n in shape) + "]"


def check_size(shape: Sequence[int], itemsize: int) -> None:
    """Raise what torch raises for more bytes than 64 bits can count, of which NumPy's `arange` makes an empty array."""
    if math.prod(shape) * itemsize >= 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={shape_text(shape)}")


def broadcast_error(a: Sequence[int], b: Sequence[int]) -> RuntimeError:
    """The error for two shapes that do not broadcast, naming the first dimension (from the right) that differs."""
    rank = max(len(a), len(b))
    for back in range(1, rank + 1):
        m = a[-back] if back <= len(a) else 1
        n = b[-back] if back <= len(b) else 1
        if m != n and m != 1 and n != 1:
            return RuntimeError(
                f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton dimension {rank - back}"
            )
    return RuntimeError(f"shapes {shape_text(a)} and {shape_text(b)} do not broadcast")


def dim_error(dim: int, ndim: int) -> IndexError:
    """The error for a dimension out of range."""
    bound = max(ndim, 1)
    return IndexError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})")


def wrap_dim(dim: Any, ndim: int) -> int:
    """`dim` counted from the front; 0-dim tensors count as having one dimension."""
    bound = ndim or 1
    if -bound <= dim < bound:
        return int(dim) % bound
    raise dim_error(dim, ndim)


def wrap_dims(dims: Any, ndim: int) -> tuple[int, ...]:
    """Several dimensions (an int or a sequence) counted from the front, each at most once."""
    if isinstance(dims, int):
        return (wrap_dim(dims, ndim),)
    wrapped = tuple(wrap_dim(d, ndim) for d in dims)
    if len(set(wrapped)) != len(wrapped):
        twice = next(d for d in wrapped if wrapped.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return wrapped


def _address(a: Any) -> int:
    """Where the first element lies."""
    pointer: int = a.__array_interface__["data"][0]
    return pointer


if tap.HELPER is not None:
    _address = tap.HELPER.address


def refuse_shared(written: Any, read: Any, apart: bool = False) -> None:
    """Refuse to write into an array that shares part of its memory, but not its layout, with one that is read; if it has to
    lie apart, one that shares any memory. As torch, look at arrays without gaps only."""
    if written is read and not apart:
        return
    start, other = _address(written), _address(read)
    if start + written.nbytes <= other or other + read.nbytes <= start or not (_is_dense(written) and _is_dense(read)):
        return
    if apart or start != other or written.shape != read.shape or written.strides != read.strides:
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
            "location. Please clone() the tensor before performing the operation."
        )


def _is_dense(a: Any) -> bool:
    """Whether the elements fill a block of memory, in whatever order."""
    if a.flags.c_contiguous:
        return True
    expected = a.itemsize
    for stride, n in sorted((stride, n) for stride, n in zip(a.strides, a.shape) if n != 1):
        if stride != expected:
            return False
        expected *= n
    return True


def refuse_overlap(a: Any) -> None:
    """Refuse to write into an array in which several elements lie at one place, as those of an expanded one do."""
    if 0 in a.strides and a.size and any(stride == 0 and n > 1 for n, stride in zip(a.shape, a.strides)):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
