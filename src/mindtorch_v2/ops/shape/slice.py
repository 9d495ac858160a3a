"""Rows of views of a part of the memory: select, slice, diagonal, windows, strides; and copies with a part replaced."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.memory.resize import extent, own_offset, strided
from ...core.errors import shape_text, wrap_dim
from ...core.layouts import is_dense
from ...core.meta import MetaArray, meta
from ...core.tensor import Tensor
from ...dispatch.front import front
from ...dispatch.op import composite, explicit, op, view
from ...kernels.compiled import C, looked_at
from .. import flops
from ..creation import fill, ranges
from ..meta import shapes
from .copies import clone

ALL = slice(None)
copy_ = fill._copy_.function


def written(g: Tensor, sizes: tuple[int, ...], part: Callable[[Tensor], Tensor]) -> Tensor:
    """Zeros of `sizes` with `g` in one part."""
    whole = fill._zeros.function(sizes, dtype=g.dtype, device=g.device)
    copy_(part(whole), g)
    return whole


def _write(part: Any, g: Any) -> None:
    """Write an array into a part of another. It has no more dimensions: NumPy would drop those of one element."""
    if g.ndim > part.ndim:
        raise ValueError("too many dimensions")
    part[...] = g


def zeros_array(g: Any, sizes: tuple[int, ...]) -> Any:
    """Zeros of the dtype (and device) of `g`."""
    return meta(sizes, g.dtype) if type(g) is MetaArray else np.zeros(sizes, g.dtype)


# --- select and slice -------------------------------------------------------------------------------------------------


@view(
    "select.int(Tensor(a) self, int dim, int index) -> Tensor(a)",
    self=lambda g, self_sizes, dim, index: select_backward(g, self_sizes, dim, index),
)
def _select(a: Any, dim: int, index: int) -> Any:
    if type(index) is not int:
        index = operator.index(index)
    try:
        # The ellipsis keeps a[index] of one dimension a view; NumPy gives a scalar without it.
        return a[index, ...] if dim == 0 else a[(ALL,) * wrap_dim(dim, a.ndim) + (index, ...)]
    except IndexError:
        if a.ndim == 0:
            raise IndexError("select() cannot be applied to a 0-dim tensor.") from None
        dim = wrap_dim(dim, a.ndim)
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {shape_text(a.shape)} at dimension {dim}"
        ) from None


select = _select.function


@op(
    "select_backward(Tensor grad_output, int[] input_sizes, int dim, int index) -> Tensor",
    meta=shapes.by_kernel,
    out=False,
    calls=lambda g, sizes, dim, index: written(g, sizes, lambda whole: select(whole, dim, index)),
    grad_output=lambda g, dim, index: select(g, dim, index),
)
def _select_backward(g: Any, input_sizes: tuple[int, ...], dim: int, index: int) -> Any:
    whole = zeros_array(g, input_sizes)
    _write(_select.kernel(whole, dim, int(index)), g)
    return whole


select_backward = _select_backward.function


@view(
    "slice.Tensor(Tensor(a) self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)",
    method=False,
    self=lambda g, self_sizes, dim, start, end, step: slice_backward(g, self_sizes, dim, start, end, step),
)
def _slice(a: Any, dim: int, start: int | None, end: int | None, step: int) -> Any:
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    if a.ndim == 0:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if dim == 0:
        return a[start:end:step]
    return a[(ALL,) * wrap_dim(dim, a.ndim) + (slice(start, end, step),)]


slice_ = _slice.function


@op(
    "slice_backward(Tensor grad_output, int[] input_sizes, int dim, int? start, int? end, int step) -> Tensor",
    meta=shapes.by_kernel,
    out=False,
    calls=lambda g, sizes, dim, start, end, step: written(g, sizes, lambda whole: slice_(whole, dim, start, end, step)),
    grad_output=lambda g, dim, start, end, step: slice_(g, dim, start, end, step),
)
def _slice_backward(g: Any, input_sizes: tuple[int, ...], dim: int, start: Any, end: Any, step: int) -> Any:
    whole = zeros_array(g, input_sizes)
    _write(_slice.kernel(whole, dim, start, end, step), g)
    return whole


slice_backward = _slice_backward.function


def _narrow_bounds(a: Any, dim: int, start: Any, length: Any) -> tuple[int, int, int]:
    """The wrapped dimension, and where the part begins and ends."""
    if a.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    start, length = operator.index(start), operator.index(length)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    dim = wrap_dim(dim, a.ndim)
    n = a.shape[dim]
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    if start < 0:
        start += n
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return dim, start, start + length


@composite("narrow(Tensor(a) self, int dim, int start, int length) -> Tensor(a)")
def _narrow(self: Tensor, dim: int, start: Any, length: int) -> Tensor:
    return slice_(self, *_narrow_bounds(self._a, dim, start, length), 1)


@composite("narrow.Tensor(Tensor(a) self, int dim, Tensor start, int length) -> Tensor(a)")
def _narrow_tensor(self: Tensor, dim: int, start: Tensor, length: int) -> Tensor:
    if start._a.ndim or start._a.dtype.kind not in "iu":
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    return narrow(self, dim, int(start._a), length)


@front("narrow")
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """The part of a dimension that starts at `start` and has `length` entries."""
    return (_narrow_tensor if isinstance(start, Tensor) else _narrow).function(input, dim, start, length)


@op(
    "narrow_copy(Tensor self, int dim, int start, int length) -> Tensor",
    meta=shapes.by_kernel,
    self=lambda g, self_sizes, dim, start, length: slice_backward(
        g, self_sizes, dim, start % (self_sizes[dim] or 1), start % (self_sizes[dim] or 1) + length, 1
    ),
)
def _narrow_copy(a: Any, dim: int, start: int, length: int) -> Any:
    if dim >= a.ndim:
        raise RuntimeError(f"Expected dim < self.dim() to be true, but got dim {dim} of {a.ndim} dimensions.")
    dim, start, end = _narrow_bounds(a, dim, start, length)
    return a[(ALL,) * dim + (slice(start, end),)].copy()


# --- diagonals and windows --------------------------------------------------------------------------------------------


@view(
    "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
    self=lambda g, self_sizes, offset, dim1, dim2: diagonal_backward(g, self_sizes, offset, dim1, dim2),
)
def _diagonal(a: Any, offset: int, dim1: int, dim2: int) -> Any:
    return diagonal_array(a, offset, dim1, dim2)


def diagonal_array(a: Any, offset: int, dim1: int, dim2: int) -> Any:
    """A writable view of a diagonal, put last."""
    plain = a.ndim == 2 and dim1 == 0 and dim2 == 1
    axis1, axis2 = (0, 1) if plain else (wrap_dim(dim1, a.ndim), wrap_dim(dim2, a.ndim))
    if axis1 == axis2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    result = a.diagonal(offset, axis1, axis2)
    if a.flags.writeable:
        result.flags.writeable = True
    return result


diagonal = _diagonal.function


@op(
    "diagonal_backward(Tensor grad_output, int[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
    meta=shapes.by_kernel,
    out=False,
    calls=lambda g, sizes, offset, dim1, dim2: written(g, sizes, lambda whole: diagonal(whole, offset, dim1, dim2)),
    grad_output=lambda g, offset, dim1, dim2: diagonal(g, offset, dim1, dim2),
)
def _diagonal_backward(g: Any, input_sizes: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Any:
    whole = zeros_array(g, input_sizes)
    if type(g) is not MetaArray:
        _write(diagonal_array(whole, offset, dim1, dim2), g)
    return whole


diagonal_backward = _diagonal_backward.function


@composite("linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)")
def _linalg_diagonal(A: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    return diagonal(A, offset, dim1, dim2)


def windows(a: Any, dim: int, size: int, step: int) -> Any:
    """Every window of `size` entries along a dimension, `step` apart; the window is put last."""
    axis = wrap_dim(dim, a.ndim)
    n, stride = (a.shape[axis], a.strides[axis]) if a.ndim else (1, a.dtype.itemsize)
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > n:
        raise RuntimeError(f"maximum size for tensor at dimension {axis} is {n} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    count = (n - size) // step + 1
    shape = (*a.shape[:axis], count, *a.shape[axis + 1 :], size) if a.ndim else (size,)
    strides = (*a.strides[:axis], stride * step, *a.strides[axis + 1 :], stride) if a.ndim else (stride,)
    return looked_at(a, shape, strides)


@view(
    "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
    self=lambda g, self_sizes, dimension, size, step: unfold_backward(g, self_sizes, dimension, size, step),
)
def _unfold(a: Any, dimension: int, size: int, step: int) -> Any:
    return windows(a, dimension, size, step)


unfold = _unfold.function


@op(
    "unfold_backward(Tensor grad_in, int[] input_sizes, int dim, int size, int step) -> Tensor",
    all_flops=flops.each(1, 1),
    meta=shapes.by_kernel,
    out=False,
    grad_in=lambda g, dim, size, step: unfold(g, dim, size, step),
)
def _unfold_backward(g: Any, input_sizes: tuple[int, ...], dim: int, size: int, step: int) -> Any:
    whole = zeros_array(g, input_sizes)
    if type(g) is MetaArray:
        return whole
    parts = windows(whole, dim, size, step)
    # Windows may overlap one another, but their k-th entries do not.
    for k in range(size):
        parts[..., k] += g[..., k]
    return whole


unfold_backward = _unfold_backward.function


# --- strides ----------------------------------------------------------------------------------------------------------


def _as_strided_gradient(g: Tensor, geometry: Any, size: Any, stride: Any, storage_offset: int | None) -> Tensor:
    """Lay the gradient out in zeroed memory as the result was, and read it as the input was."""
    to_size, to_stride, to_offset = geometry
    offset = to_offset if storage_offset is None else storage_offset
    first = min(offset, to_offset)
    n = max(offset - first + extent(size, stride), to_offset - first + extent(to_size, to_stride))
    memory = fill._zeros.function((n,), dtype=g.dtype, device=g.device)
    if overlaps(size, stride):
        positions = _places(n, size, stride, offset - first)
        memory = memory.index_add(0, positions, g.reshape(-1))
    else:
        copy_(as_strided(memory, size, stride, offset - first), g)
    if overlaps(to_size, to_stride):
        positions = _places(n, to_size, to_stride, to_offset - first)
        counts = fill._zeros.function((n,), dtype=g.dtype)
        counts = counts.index_add(0, positions, fill._ones.function(positions.shape, dtype=g.dtype))
        memory = memory / counts.clamp(min=1)
    return as_strided(memory, to_size, to_stride, to_offset - first)


def _places(n: int, size: Any, stride: Any, offset: int) -> Tensor:
    """The flat position in memory of every element looked at."""
    return as_strided(ranges.arange(n), size, stride, offset).reshape(-1)


def _strided_whole(a: Any, size: tuple[int, ...], stride: tuple[int, ...]) -> Any:
    """`as_strided` from the start of memory that `a` has to itself; None unless all is as it should be."""
    if C is not None:
        return C.stride(a, size, stride)
    reach, itemsize = 0, a.dtype.itemsize
    for n, step in zip(size, stride):
        if n < 1 or step < 0:
            return None
        reach += (n - 1) * step
    if len(size) != len(stride) or reach >= a.size:
        return None
    return looked_at(a, size, tuple([step * itemsize for step in stride]))


@view(
    "as_strided(Tensor(a) self, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)",
    self=lambda g, self_geometry, size, stride, storage_offset: _as_strided_gradient(
        g, self_geometry, size, stride, storage_offset
    ),
)
def _as_strided(a: Any, size: Any, stride: Any, storage_offset: int | None) -> Any:
    if not storage_offset and a.base is None and type(size) is type(stride) is tuple and a.flags.c_contiguous:
        quick = _strided_whole(a, size, stride)
        if quick is not None:
            return quick
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if stride and min(stride) < 0:
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {shape_text(stride)}"
        )
    if size and min(size) < 0:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={shape_text(size)} and strides={shape_text(stride)}"
        )
    if storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    array = strided(a, size, stride, own_offset(a) if storage_offset is None else storage_offset)
    return array.view(MetaArray) if type(a) is MetaArray else array


as_strided = _as_strided.function


def overlaps(size: Any, stride: Any) -> bool:
    """Whether two index tuples can meet at one element (dimensions sorted by stride must not reach the next one)."""
    if 0 in tuple(size):
        return False
    reach = 0
    for s, n in sorted((s, n) for n, s in zip(size, stride, strict=True) if n > 1):
        if s <= reach:
            return True
        reach += s * (n - 1)
    return False


# --- copies with a part replaced --------------------------------------------------------------------------------------


def _cloned_with_gaps(self: Tensor) -> Tensor:
    """A copy with the same strides, in memory that has gaps where that of `self` has."""
    shape, strides = self._a.shape, self.stride()
    if overlaps(shape, strides) or is_dense(shape, strides):
        return clone(self)
    extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return as_strided(clone(as_strided(self, (extent,), (1,), self.storage_offset())), shape, strides, 0)


def replaced(self: Tensor, src: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
    """A copy of `self` with `src` in one part."""
    whole = _cloned_with_gaps(self)
    target = part(whole)
    if target._a.shape != src._a.shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{shape_text(src._a.shape)}, slice size = {shape_text(target._a.shape)}"
        )
    copy_(target, src)
    return whole


def _zeroed(g: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
    """A gradient with zeros in the part that was replaced."""
    whole = clone(g)
    fill.zero_(part(whole))
    return whole


@explicit(
    "select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor",
    self=lambda g, dim, index: _zeroed(g, lambda whole: select(whole, dim, index)),
    src=lambda g, dim, index: select(g, dim, index),
)
def _select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    return replaced(self, src, lambda whole: select(whole, dim, index))


@explicit(
    "slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
    self=lambda g, dim, start, end, step: _zeroed(g, lambda whole: slice_(whole, dim, start, end, step)),
    src=lambda g, dim, start, end, step: slice_(g, dim, start, end, step),
)
def _slice_scatter(self: Tensor, src: Tensor, dim: int, start: Any, end: Any, step: int) -> Tensor:
    return replaced(self, src, lambda whole: slice_(whole, dim, start, end, step))


@explicit(
    "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    self=lambda g, offset, dim1, dim2: _zeroed(g, lambda whole: diagonal(whole, offset, dim1, dim2)),
    src=lambda g, offset, dim1, dim2: diagonal(g, offset, dim1, dim2),
)
def _diagonal_scatter(self: Tensor, src: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    return replaced(self, src, lambda whole: diagonal(whole, offset, dim1, dim2))


@explicit(
    "as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
    # torch gives the first input the gradient of the part that was replaced, not of the rest.
    self=lambda g, size, stride, storage_offset: written(
        as_strided(g.contiguous(), size, stride, storage_offset),
        g._a.shape,
        lambda whole: as_strided(whole, size, stride, storage_offset),
    ),
    src=lambda g, size, stride, storage_offset: as_strided(g.contiguous(), size, stride, storage_offset),
)
def _as_strided_scatter(self: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None) -> Tensor:
    return replaced(self, src, lambda whole: as_strided(whole, size, stride, storage_offset))
