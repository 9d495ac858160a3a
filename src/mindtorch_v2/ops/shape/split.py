"""Rows that take tensors apart along a dimension: split, chunk, unbind and their kin."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ...core.errors import wrap_dim
from ...core.tensor import Tensor
from ...dispatch.front import front
from ...dispatch.inplace import type_name
from ...dispatch.op import composite, op, view
from ...kernels import result_layout
from ..creation import fill
from ..meta import shapes
from . import inner, join
from .slice import ALL, slice_
from .view import sizes_of


def _whole(name: str, a: Any, dim: int) -> tuple[int, int]:
    """The wrapped dimension of what is taken apart, and its size."""
    if a.ndim == 0:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, a.ndim)
    return dim, a.shape[dim]


def part_sizes(a: Any, split_size: int, dim: int) -> list[int]:
    """The sizes of the parts of a dimension cut every `split_size` entries."""
    split_size = operator.index(split_size)
    if split_size < 0 and a.ndim:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
    dim, n = _whole("split", a, dim)
    if split_size == 0:
        if n:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
        return [0]
    whole, rest = divmod(n, split_size)
    return [split_size] * whole + [rest] if rest or not whole else [split_size] * whole


def checked_sizes(a: Any, split_sizes: Any, dim: int) -> list[int]:
    """Given sizes of parts, which must fill the dimension."""
    dim, n = _whole("split", a, dim)
    sizes = list(sizes_of("split_with_sizes", split_sizes))
    if any(size < 0 for size in sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}"
        )
    if sum(sizes) != n:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but "
            f"got split_sizes={sizes}"
        )
    return sizes


def parts(a: Any, sizes: Sequence[int], dim: int) -> list[Any]:
    """Views of consecutive parts of a dimension."""
    dim %= a.ndim
    before = (ALL,) * dim
    found, start = [], 0
    for size in sizes:
        end = start + size
        found.append(a[start:end] if dim == 0 else a[(*before, slice(start, end))])
        start = end
    return found


def _joined(grads: Any, sizes: Sequence[int], shape: tuple[int, ...], dim: int) -> Tensor:
    """The gradient of a split: its parts' gradients put together, zeros where a part has none."""
    dim %= len(shape)
    some = next(g for g in grads if g is not None)
    filled = [
        fill._zeros.function((*shape[:dim], size, *shape[dim + 1 :]), dtype=some.dtype) if g is None else g
        for g, size in zip(grads, sizes, strict=True)
    ]
    return join.cat(filled, dim)


class _Shape:
    """A stand-in for an array of which only the shape is known."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.ndim = shape, len(shape)


def _split_gradient(grads: Any, self_sizes: Any, split_size: int, dim: int) -> Tensor:
    return _joined(grads, part_sizes(_Shape(self_sizes), split_size, dim), self_sizes, dim)


def _narrowed(self: Tensor, sizes: Sequence[int], dim: int) -> list[Tensor]:
    """Consecutive parts of a dimension, where a recorder sees each."""
    found, start = [], 0
    for size in sizes:
        found.append(inner.narrow(self, dim, start, size))
        start += size
    return found


@view(
    "split.Tensor(Tensor(a) self, int split_size, int dim=0) -> Tensor[]",
    calls=lambda self, split_size, dim: _narrowed(self, part_sizes(self._a, split_size, dim), dim),
    self=_split_gradient,
)
def _split(a: Any, split_size: int, dim: int) -> Any:
    shape = a.shape
    if type(split_size) is int and split_size > 0 and type(dim) is int and -len(shape) <= dim < len(shape):
        starts = range(0, shape[dim] or 1, split_size)
        if dim == 0:
            return [a[start : start + split_size] for start in starts]
        before = (ALL,) * (dim % len(shape))
        return [a[(*before, slice(start, start + split_size))] for start in starts]
    return parts(a, part_sizes(a, split_size, dim), dim)


_split_equally = _split.function


@view(
    "split_with_sizes(Tensor(a) self, int[] split_sizes, int dim=0) -> Tensor[]",
    self=lambda grads, self_sizes, split_sizes, dim: _joined(grads, split_sizes, self_sizes, dim),
)
def _split_with_sizes(a: Any, split_sizes: Any, dim: int) -> Any:
    return parts(a, checked_sizes(a, split_sizes, dim), dim)


def _split_any(input: Tensor, size: Any, dim: int, whole: Any, many: Any) -> Any:
    if isinstance(size, (list, tuple)):
        return many.function(input, size, dim)
    if isinstance(size, float):
        raise TypeError("split_with_sizes(): argument 'split_sizes' (position 2) must be tuple of ints, not float")
    return whole.function(input, operator.index(size), dim)


@front("split")
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Parts of a dimension: of one size, or of given sizes."""
    if type(split_size_or_sections) is int:
        return _split_equally(tensor, split_size_or_sections, dim)
    return _split_any(tensor, split_size_or_sections, dim, _split, _split_with_sizes)


def _split_method(self: Tensor, split_size: Any, dim: int = 0) -> Any:
    """Parts of a dimension: of one size, or of given sizes."""
    if type(split_size) is int:
        return _split_equally(self, split_size, dim)
    return _split_any(self, split_size, dim, _split, _split_with_sizes)


_split_method.__name__ = _split_method.__qualname__ = "split"
Tensor.split = _split_method  # type: ignore[attr-defined]


def _chunk_size(a: Any, chunks: int, dim: int) -> tuple[int, int]:
    """The size of each of so many chunks, and that of the dimension."""
    dim, n = _whole("chunk", a, dim)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    return (n + chunks - 1) // chunks, n


def _parts_of_one_size(self: Tensor, chunks: int, dim: int) -> Any:
    return _split_equally(self, -(-self._a.shape[dim] // chunks), dim)


_ALL_FILLED = (
    "type(chunks) is int and chunks > 0 and type(dim) is int and -input._a.ndim <= dim < input._a.ndim"
    " and input._a.shape[dim]"
)


@composite("chunk(Tensor(a) self, int chunks, int dim=0) -> Tensor[]", fast=(_ALL_FILLED, _parts_of_one_size))
def _chunk(self: Tensor, chunks: int, dim: int) -> Any:
    size, n = _chunk_size(self._a, chunks, dim)
    if n == 0:
        return _split_with_sizes.function(self, [0] * chunks, dim)
    return _split.function(self, size, dim)


@op(
    "unsafe_split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]",
    meta=shapes.by_kernel,
    layout=result_layout.as_made,
    calls=lambda self, split_size, dim: _narrowed(self, part_sizes(self._a, split_size, dim), dim),
    self=_split_gradient,
)
def _unsafe_split(a: Any, split_size: int, dim: int) -> Any:
    return parts(a, part_sizes(a, split_size, dim), dim)


@op(
    "unsafe_split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]",
    meta=shapes.by_kernel,
    layout=result_layout.as_made,
    self=lambda grads, self_sizes, split_sizes, dim: _joined(grads, split_sizes, self_sizes, dim),
)
def _unsafe_split_with_sizes(a: Any, split_sizes: Any, dim: int) -> Any:
    return parts(a, checked_sizes(a, split_sizes, dim), dim)


@composite("unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]")
def _unsafe_chunk(self: Tensor, chunks: int, dim: int) -> Any:
    size, n = _chunk_size(self._a, chunks, dim)
    if n == 0:
        return _unsafe_split_with_sizes.function(self, [0] * chunks, dim)
    return _unsafe_split.function(self, size, dim)


# --- tensor_split -----------------------------------------------------------------------------------------------------


def _sliced(self: Tensor, bounds: Sequence[int], dim: int) -> tuple[Tensor, ...]:
    """Slices between consecutive bounds, from the start to the end of the dimension."""
    n = self._a.shape[wrap_dim(dim, self._a.ndim)]
    edges = [0, *bounds, n]
    return tuple(slice_(self, dim, edges[i], edges[i + 1], 1) for i in range(len(edges) - 1))


_MOST_PARTS = 1 << 28


def _need_dimension(self: Tensor) -> None:
    if self._a.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")


@composite("tensor_split.sections(Tensor(a) self, int sections, int dim=0) -> Tensor[]")
def _tensor_split_sections(self: Tensor, sections: int, dim: int) -> Any:
    _need_dimension(self)
    wrap_dim(dim, self._a.ndim)
    if sections <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
    if sections > _MOST_PARTS:
        raise RuntimeError(f"tensor_split: {sections} tensors do not fit into memory; split into {_MOST_PARTS} at most")
    n = self._a.shape[wrap_dim(dim, self._a.ndim)]
    base, extra = divmod(n, sections)
    bounds = [i * base + min(i, extra) for i in range(1, sections)]
    return _sliced(self, bounds, dim)


@composite("tensor_split.indices(Tensor(a) self, int[] indices, int dim=0) -> Tensor[]")
def _tensor_split_indices(self: Tensor, indices: Any, dim: int) -> Any:
    _need_dimension(self)
    return _sliced(self, sizes_of("tensor_split", indices), dim)


@composite(
    "tensor_split.tensor_indices_or_sections(Tensor(a) self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor[]"
)
def _tensor_split_tensor(self: Tensor, tensor_indices_or_sections: Tensor, dim: int) -> Any:
    given = tensor_indices_or_sections
    if given._a.dtype != "int64":
        raise RuntimeError(
            f"tensor_split expected tensor_indices_or_sections to have dtype of long, but got {type_name(given.dtype)}"
        )
    if given._a.ndim > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, "
            f"but got a tensor with {given._a.ndim} dims"
        )
    return (_tensor_split_indices if given._a.ndim else _tensor_split_sections).function(self, given._a.tolist(), dim)


@front("tensor_split")
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None, indices: Any = None,
    tensor_indices_or_sections: Any = None,
) -> Any:  # fmt: skip
    """Parts of a dimension: so many, or between given indices."""
    given = next(
        (v for v in (indices_or_sections, sections, indices, tensor_indices_or_sections) if v is not None), None
    )
    if isinstance(given, Tensor):
        return _tensor_split_tensor.function(input, given, dim)
    row = _tensor_split_indices if isinstance(given, (list, tuple)) else _tensor_split_sections
    return row.function(input, given, dim)


def _directional(name: str, least: int, dim_of: Any) -> Any:
    """hsplit, vsplit and dsplit: tensor_split along a fixed dimension, into equal parts where a number is given."""

    def body(self: Tensor, sections: Any) -> Any:
        n = self._a.ndim
        if n < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {n} dimensions!"
            )
        dim = dim_of(n)
        if isinstance(sections, int):
            if sections <= 0 or self._a.shape[dim] % sections:
                raise RuntimeError(
                    f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
                    f"{self._a.shape[dim]} is not divisible by the split_size {sections}!"
                )
        return tensor_split(self, sections, dim)

    by_number = composite(f"{name}.int(Tensor(a) self, int sections) -> Tensor[]")(body)
    by_indices = composite(f"{name}.array(Tensor(a) self, int[] indices) -> Tensor[]")(body)

    def public(input: Tensor, *given: Any, sections: Any = None, indices: Any = None) -> Any:
        wanted = sections if sections is not None else indices
        if given:
            wanted = given[0] if len(given) == 1 else given
        if isinstance(wanted, (list, tuple)):
            return by_indices.function(input, indices=tuple(wanted))
        if isinstance(wanted, str):
            raise TypeError(f"{name}() takes the number of parts or the places of the cuts, not str")
        return by_number.function(input, operator.index(wanted))

    public.__name__ = public.__qualname__ = name
    return front(name)(public)


hsplit = _directional("hsplit", 1, lambda n: 0 if n == 1 else 1)
vsplit = _directional("vsplit", 2, lambda n: 0)
dsplit = _directional("dsplit", 3, lambda n: 2)


# --- unbind -----------------------------------------------------------------------------------------------------------


def _unbind_gradient(grads: Any, self_sizes: Any, dim: int) -> Tensor:
    dim %= len(self_sizes)
    some = next(g for g in grads if g is not None)
    shape = (*self_sizes[:dim], *self_sizes[dim + 1 :])
    filled = [some.new_zeros(shape) if g is None else g for g in grads]
    return join.stack(filled, dim)


@view(
    "unbind.int(Tensor(a) self, int dim=0) -> Tensor[]",
    calls=lambda self, dim: [inner.select(self, dim, i) for i in range(_length(self._a, dim))],
    self=_unbind_gradient,
)
def _unbind(a: Any, dim: int) -> Any:
    if dim == 0 and a.ndim > 1:
        return list(a)
    n = _length(a, dim)
    if dim == 0:
        return [a[i, ...] for i in range(n)]
    lead = (ALL,) * wrap_dim(dim, a.ndim)
    return [a[(*lead, i, ...)] for i in range(n)]


def _length(a: Any, dim: int) -> int:
    if a.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    n: int = a.shape[wrap_dim(dim, a.ndim)]
    return n


unbind = _unbind.function
