"""Rows of views: other shapes, strides and parts of the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import dim_error, shape_text, wrap_dim, wrap_dims
from .._meta import MetaArray, meta
from .._op import composite, op, view
from .._tensor import Tensor, alias, contiguous_strides, element_strides, memory_owner, storage_of


def infer_size(shape: tuple[int, ...], numel: int) -> tuple[int, ...]:
    """A shape with its -1 filled in."""
    known, unknown = 1, -1
    for position, n in enumerate(shape):
        if n == -1:
            if unknown >= 0:
                raise RuntimeError("only one dimension can be inferred")
            unknown = position
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n}")
        else:
            known *= n
    if unknown < 0:
        if known != numel:
            raise RuntimeError(f"shape '{shape_text(shape)}' is invalid for input of size {numel}")
        return tuple(shape)
    if known == 0 and numel == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {shape_text(shape)} because the unspecified dimension size "
            "-1 can be any value and is ambiguous"
        )
    if known == 0 or numel % known:
        raise RuntimeError(f"shape '{shape_text(shape)}' is invalid for input of size {numel}")
    return (*shape[:unknown], numel // known, *shape[unknown + 1 :])


def view_array(a: Any, shape: tuple[int, ...]) -> Any:
    """`a` in another shape on the same memory, or None where strides do not allow it."""
    if a.flags.c_contiguous or type(a) is MetaArray:
        return a.reshape(shape)
    result = a.view()
    try:
        result.shape = shape
    except AttributeError:
        return None
    return result


@view("view(Tensor(a) self, int[] size) -> Tensor(a)", self=lambda g, self_sizes: reshape(g, self_sizes))
def _view(a: Any, size: tuple[int, ...]) -> Any:
    try:
        if a.flags.c_contiguous:
            return a.reshape(size)
    except ValueError:
        pass
    size = infer_size(tuple(int(n) for n in size), a.size)
    result = view_array(a, size)
    if result is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return result


@view("_unsafe_view(Tensor self, int[] size) -> Tensor", self=lambda g, self_sizes: reshape(g, self_sizes))
def _unsafe_view(a: Any, size: tuple[int, ...]) -> Any:
    return a.reshape(size)


@composite("reshape(Tensor(a) self, int[] shape) -> Tensor(a)")
def _reshape(self: Tensor, shape: tuple[int, ...]) -> Tensor:
    a = self._a
    size = infer_size(tuple(int(n) for n in shape), a.size)
    if a.flags.c_contiguous or view_array(a, size) is not None:
        return _view.function(self, size)
    return _unsafe_view.function(clone(self), size)


reshape = _reshape.function


@op("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", out=False, self=lambda g: g)
def _clone(a: Any, memory_format: Any) -> Any:
    return a.copy() if a.flags.c_contiguous else np.array(a, order="K", copy=True, subok=True)


clone = _clone.function


@composite("detach(Tensor(a) self) -> Tensor(a)")
def _detach(self: Tensor) -> Tensor:
    return alias(self._a, storage_of(self))


def _transposed(a: Any, dim0: int, dim1: int) -> Any:
    try:
        return a.swapaxes(dim0, dim1)
    except np.exceptions.AxisError:
        wrap_dim(dim0, a.ndim)
        wrap_dim(dim1, a.ndim)
        return a[...]


_transpose = view(
    "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
    self=lambda g, dim0, dim1: transpose(g, dim0, dim1),
)(_transposed)
transpose = _transpose.function


@view("t(Tensor(a) self) -> Tensor(a)", calls=lambda self: transpose(self, 0, 1 if self._a.ndim > 1 else 0), self=lambda g: t(g))
def _t(a: Any) -> Any:
    if a.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {a.ndim}D")
    return a.T


t = _t.function


def _expanded(a: Any, size: tuple[int, ...], implicit: bool) -> Any:
    size = tuple(int(n) for n in size)
    lead = len(size) - a.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand({type_text(a)}{{{shape_text(a.shape)}}}, size={shape_text(size)}): the number of sizes provided "
            f"({len(size)}) must be greater or equal to the number of dimensions in the tensor ({a.ndim})"
        )
    target = list(size)
    for position in range(len(size)):
        have = a.shape[position - lead] if position >= lead else 1
        if target[position] == -1:
            if position < lead:
                raise RuntimeError(
                    f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {position}"
                )
            target[position] = have
        elif have != 1 and have != target[position]:
            raise RuntimeError(
                f"The expanded size of the tensor ({target[position]}) must match the existing size ({have}) at "
                f"non-singleton dimension {position}.  Target sizes: {shape_text(size)}.  Tensor sizes: "
                f"{shape_text(a.shape)}"
            )
    if type(a) is MetaArray:
        return meta(target, a.dtype)
    strides = (0,) * lead + tuple(0 if n == 1 and target[lead + i] != 1 else s for i, (n, s) in enumerate(zip(a.shape, a.strides, strict=True)))
    return np.lib.stride_tricks.as_strided(a, target, strides)


def type_text(a: Any) -> str:
    """How messages call a tensor's type."""
    names = {"float32": "torch.FloatTensor", "float64": "torch.DoubleTensor", "int64": "torch.LongTensor"}
    return names.get(str(a.dtype), "torch.Tensor")


_expand = view(
    "expand(Tensor(a) self, int[] size, *, bool implicit=False) -> Tensor(a)",
    self=lambda g, self_sizes: sum_to_size(g, self_sizes),
)(_expanded)
expand = _expand.function


@view("permute(Tensor(a) self, int[] dims) -> Tensor(a)", self=lambda g, dims: permute(g, inverse(dims)))
def _permute(a: Any, dims: tuple[int, ...]) -> Any:
    dims = wrap_dims(tuple(dims), a.ndim)
    if len(dims) != a.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {a.ndim} is not equal to len(dims) = {len(dims)}"
        )
    return a.transpose(dims)


permute = _permute.function


def inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    back = [0] * len(dims)
    for position, d in enumerate(dims):
        back[d % len(dims)] = position
    return tuple(back)


@view(
    "select.int(Tensor(a) self, int dim, int index) -> Tensor(a)",
    self=lambda g, self_sizes, dim, index: select_backward(g, self_sizes, dim, index),
)
def _select(a: Any, dim: int, index: int) -> Any:
    if dim == 0 and a.ndim == 1 or type(a) is MetaArray:
        return _select_any(a, dim, index)
    try:
        return a[index] if dim == 0 else a[(slice(None),) * (dim % a.ndim) + (index,)]
    except (IndexError, ZeroDivisionError):
        return _select_any(a, dim, index)


def _select_any(a: Any, dim: int, index: int) -> Any:
    if a.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, a.ndim)
    n = a.shape[dim]
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {n}")
    # A one-element slice, then the dimension dropped: NumPy gives a scalar, not a view, for a[i] in one dimension.
    index = index % n
    part = a[(slice(None),) * dim + (slice(index, index + 1),)]
    return part.reshape(part.shape[:dim] + part.shape[dim + 1 :]) if part.ndim == 1 or part.flags.c_contiguous else part.squeeze(dim)


select = _select.function


@op(
    "select_backward(Tensor grad_output, int[] input_sizes, int dim, int index) -> Tensor",
    out=False,
    grad_output=lambda g, dim, index: select(g, dim, index),
)
def _select_backward(g: Any, input_sizes: tuple[int, ...], dim: int, index: int) -> Any:
    full = np.zeros(input_sizes, g.dtype)
    full[(slice(None),) * (dim % len(input_sizes)) + (index,)] = g
    return full


select_backward = _select_backward.function


@view(
    "slice.Tensor(Tensor(a) self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)",
    self=lambda g, self_sizes, dim, start, end, step: slice_backward(g, self_sizes, dim, start, end, step),
)
def _slice(a: Any, dim: int, start: int | None, end: int | None, step: int) -> Any:
    if step <= 0:
        raise ValueError("step must be greater than zero")
    if a.ndim == 0:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    return a[(slice(None),) * wrap_dim(dim, a.ndim) + (slice(start, end, step),)]


slice_ = _slice.function


@op(
    "slice_backward(Tensor grad_output, int[] input_sizes, int dim, int? start, int? end, int step) -> Tensor",
    out=False,
    grad_output=lambda g, dim, start, end, step: slice_(g, dim, start, end, step),
)
def _slice_backward(g: Any, input_sizes: tuple[int, ...], dim: int, start: Any, end: Any, step: int) -> Any:
    full = np.zeros(input_sizes, g.dtype)
    full[(slice(None),) * (dim % len(input_sizes)) + (slice(start, end, step),)] = g
    return full


slice_backward = _slice_backward.function


@view("unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", self=lambda g, dim: squeeze_dim(g, dim))
def _unsqueeze(a: Any, dim: int) -> Any:
    n = a.ndim + 1
    if not -n <= dim < n:
        raise dim_error(dim, n)
    return a[(slice(None),) * (dim % n) + (None,)]


unsqueeze = _unsqueeze.function


@view("squeeze(Tensor(a) self) -> Tensor(a)", self=lambda g, self_sizes: reshape(g, self_sizes))
def _squeeze(a: Any) -> Any:
    return a.reshape(tuple(n for n in a.shape if n != 1)) if a.flags.c_contiguous else a.squeeze()


@view("squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", self=lambda g, self_sizes: reshape(g, self_sizes))
def _squeeze_dim(a: Any, dim: int) -> Any:
    dim = wrap_dim(dim, a.ndim)
    if a.ndim == 0 or a.shape[dim] != 1:
        return a[...]
    return a.reshape(a.shape[:dim] + a.shape[dim + 1 :]) if a.ndim == 1 else a.squeeze(dim)


squeeze_dim = _squeeze_dim.function


@view("squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", self=lambda g, self_sizes: reshape(g, self_sizes))
def _squeeze_dims(a: Any, dim: tuple[int, ...]) -> Any:
    drop = {d for d in wrap_dims(tuple(dim), a.ndim) if a.ndim and a.shape[d] == 1}
    return view_array(a, tuple(n for i, n in enumerate(a.shape) if i not in drop))


def strided(owner: Any, shape: Any, strides: Any, offset: int) -> Any:
    """An array on `owner`'s memory at element strides and offset."""
    itemsize = owner.dtype.itemsize
    flat = memory_owner(owner)
    if not flat.flags.c_contiguous:
        flat = flat.T if flat.T.flags.c_contiguous else np.lib.stride_tricks.as_strided(flat, (flat.size,), (itemsize,))
    flat = flat.reshape(-1).view(owner.dtype)
    extent = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if 0 not in tuple(shape) else offset
    if extent > flat.size:
        raise RuntimeError(
            f"setStorage: sizes {shape_text(shape)}, strides {shape_text(strides)}, storage offset {offset}, and itemsize "
            f"{itemsize} requiring a storage size of {extent * itemsize} are out of bounds for storage of size "
            f"{flat.size * itemsize}"
        )
    return np.lib.stride_tricks.as_strided(flat[offset:], tuple(shape), tuple(s * itemsize for s in strides))


def _own_offset(a: Any) -> int:
    return int((a.__array_interface__["data"][0] - memory_owner(a).__array_interface__["data"][0]) // a.dtype.itemsize)


@view(
    "as_strided(Tensor(a) self, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)",
    self=lambda g, self, size, stride, storage_offset: strided_move(
        g, size, stride, self.storage_offset() if storage_offset is None else storage_offset,
        self._a.shape, element_strides(self._a), self.storage_offset(),
    ),
)  # fmt: skip
def _as_strided(a: Any, size: Any, stride: Any, storage_offset: int | None) -> Any:
    if type(a) is MetaArray:
        return meta(size, a.dtype)
    if len(size) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape: size has {len(size)} entries, stride has {len(stride)}"
        )
    return strided(a, size, stride, _own_offset(a) if storage_offset is None else storage_offset)


as_strided = _as_strided.function


@op(
    "_strided_move(Tensor self, int[] size, int[] stride, int offset, int[] to_size, int[] to_stride, int to_offset) -> Tensor",
    out=False,
    self=lambda g, size, stride, offset, to_size, to_stride, to_offset: strided_move(
        g, to_size, to_stride, to_offset, size, stride, offset
    ),
)  # fmt: skip
def _strided_move(
    a: Any, size: Any, stride: Any, offset: int, to_size: Any, to_stride: Any, to_offset: int
) -> Any:
    """Lay `a` out in zeroed memory by one geometry (adding where it overlaps) and read it by another."""
    extent = max(_extent(size, stride, offset), _extent(to_size, to_stride, to_offset))
    flat = np.zeros(extent, a.dtype)
    if any(s == 0 and n > 1 for n, s in zip(size, stride, strict=True)) or _overlaps(size, stride):
        positions = strided(np.arange(extent), size, stride, offset)
        np.add.at(flat, positions.reshape(-1), np.broadcast_to(a, size).reshape(-1))
    else:
        strided(flat, size, stride, offset)[...] = a
    return strided(flat, to_size, to_stride, to_offset).copy()


strided_move = _strided_move.function


def _extent(size: Any, stride: Any, offset: int) -> int:
    return offset + (sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1 if 0 not in tuple(size) else 0)


def _overlaps(size: Any, stride: Any) -> bool:
    """Whether two index tuples can meet at one element (dimensions sorted by stride must not reach the next one)."""
    reach = 0
    for s, n in sorted((s, n) for n, s in zip(size, stride, strict=True) if n > 1):
        if s <= reach:
            return True
        reach += s * (n - 1)
    return False


@op(
    "_strided_put(Tensor self, Tensor? part, int[] size, int[] stride, int offset, int[] to_size, int[] to_stride, int to_offset) -> Tensor",
    out=False,
    self=lambda g, size, stride, offset, to_size, to_stride, to_offset: strided_put(
        g, None, size, stride, offset, to_size, to_stride, to_offset
    ),
    part=lambda g, size, stride, offset, to_size, to_stride, to_offset: strided_move(
        g, to_size, to_stride, to_offset, size, stride, offset
    ),
)  # fmt: skip
def _strided_put(
    a: Any, part: Any, size: Any, stride: Any, offset: int, to_size: Any, to_stride: Any, to_offset: int
) -> Any:
    """`a`, laid out by (to_size, to_stride, to_offset), with the elements at (size, stride, offset) replaced."""
    extent = max(_extent(size, stride, offset), _extent(to_size, to_stride, to_offset))
    flat = np.zeros(extent, a.dtype)
    strided(flat, to_size, to_stride, to_offset)[...] = a
    strided(flat, size, stride, offset)[...] = 0 if part is None else part
    return strided(flat, to_size, to_stride, to_offset).copy()


strided_put = _strided_put.function


def sum_to_size(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum what broadcasting spread out; filled in by the reductions."""
    from_, to = g._a.shape, tuple(shape)
    if from_ == to:
        return g
    lead = len(from_) - len(to)
    dims = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(to) if n == 1 and from_[i + lead] != 1)
    summed = g.sum(dims, keepdim=True) if dims else g  # type: ignore[attr-defined]
    return _view.function(summed, to) if lead else summed


__all__ = ["contiguous_strides"]
