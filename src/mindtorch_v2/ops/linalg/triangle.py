"""Rows about diagonals and triangles of matrices, and one-hot codes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core import device as _device
from ...core import dtype as _dtype
from ...core import tap
from ...core.errors import wrap_dim
from ...core.meta import MetaArray, meta
from ...core.tensor import FAST, Tensor, bump, make
from ...dispatch.front import front
from ...dispatch.inplace import type_name
from ...dispatch.op import composite, in_place, mutating, op
from ...kernels.checks import not_implemented
from ...kernels.compiled import C
from ...kernels.fitting import fitting
from ...kernels.passes import NUMBERS
from ..creation import fill
from ..creation.convert import item
from ..meta import shapes
from ..shape.copies import contiguous
from ..shape.slice import diagonal, diagonal_array, written
from ..shape.view import _view, unsqueeze
from ..shape.view_copy import diagonal_copy
from .products import graph_wanted

# --- diagonals --------------------------------------------------------------------------------------------------------


def _embedded_shape(a: Any, offset: int, dim1: int, dim2: int) -> tuple[tuple[int, ...], int, int]:
    """The shape of matrices whose diagonals are the last dimension of `a`, and the wrapped two dimensions."""
    n = a.ndim + 1
    first, second = wrap_dim(dim1, n), wrap_dim(dim2, n)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = a.shape[-1] + abs(offset)
    rest = iter(a.shape[:-1])
    return tuple(size if axis in (first, second) else next(rest) for axis in range(n)), first, second


def _diag_embed_called(self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    shape, first, second = _embedded_shape(self._a, offset, dim1, dim2)
    return written(self, shape, lambda whole: diagonal(whole, offset, first, second))


@op(
    "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    meta=shapes.by_kernel,
    out=False,
    calls=_diag_embed_called,
    self=lambda g, offset, dim1, dim2: diagonal(g, offset, dim1, dim2),
)
def _diag_embed(a: Any, offset: int, dim1: int, dim2: int) -> Any:
    if a.ndim == 1 and offset == 0 and type(a) is not MetaArray and dim1 == -2 and dim2 == -1:
        matrix = np.zeros((len(a), len(a)), a.dtype)
        matrix.reshape(-1)[:: len(a) + 1] = a
        return matrix
    shape, first, second = _embedded_shape(a, offset, dim1, dim2)
    if type(a) is MetaArray:
        return meta(shape, a.dtype)
    whole = np.zeros(shape, a.dtype)
    diagonal_array(whole, offset, first, second)[...] = a
    return whole


diag_embed = _diag_embed.function


@composite("diag(Tensor self, int diagonal=0) -> Tensor", out=True)
def _diag(self: Tensor, diagonal: int) -> Tensor:
    n = self._a.ndim
    if n == 1:
        return diag_embed(self, diagonal)
    if n == 2:
        if type(self) in FAST and not tap.NAMESPACE["HOOK"] and not graph_wanted(self):
            return make(self._a.diagonal(diagonal).copy())
        return diagonal_copy(self, diagonal)
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {n}D")


diag = _diag.function


@composite("diagflat(Tensor self, int offset=0) -> Tensor")
def _diagflat(self: Tensor, offset: int) -> Tensor:
    return diag(_view.function(contiguous(self), size=(-1,)), offset)


@op(
    "trace(Tensor self) -> Tensor",
    all_flops=lambda record: min(record.shapes[0]),
    meta=shapes.single,
    autocast="float32",
    out=False,
    self=lambda g, self_sizes: trace_backward(g, self_sizes),
)
def _trace(a: Any) -> Any:
    if a.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {a.ndim}")
    if a.dtype.kind == "b":
        raise not_implemented("trace", a.dtype)
    if type(a) is MetaArray:
        return meta((), np.int64 if a.dtype.kind in "iu" else a.dtype)
    if a.dtype.kind in "iu":
        return np.asarray(a.diagonal().sum(dtype=np.int64))
    wide = np.float32 if a.dtype.itemsize < 4 else a.dtype
    return np.asarray(a.diagonal().astype(wide).sum()).astype(a.dtype)


def _trace_gradient(grad: Tensor, sizes: Any) -> Tensor:
    """The gradient on every element of the diagonal."""
    size = min(sizes)
    return written(grad.expand(size), tuple(sizes), lambda whole: diagonal(whole, 0, 0, 1))


_trace_backward = composite("trace_backward(Tensor grad, int[] sizes) -> Tensor", method=False)(_trace_gradient)
trace_backward = _trace_backward.function


@mutating(
    "fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)",
    self=lambda g, wrap: fill_diagonal_(g.clone(), 0, wrap),
)
def _fill_diagonal_(a: Any, fill_value: Any, wrap: bool) -> None:
    if a.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    if type(a) is MetaArray:
        return
    value = fitting(fill_value, a.dtype)
    n = min(a.shape)
    a[(np.arange(n),) * a.ndim] = value
    if wrap and a.ndim == 2:
        height, width = a.shape
        for start in range(width + 1, height, width + 1):
            block = a[start : start + width]
            block[np.arange(len(block)), np.arange(len(block))] = value


fill_diagonal_ = _fill_diagonal_.function

# --- triangles --------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=32)
def _lower(rows: int, columns: int, diagonal: int) -> Any:
    """A mask of the lower triangle."""
    return np.tri(rows, columns, diagonal, np.bool_)


def _triangle(name: str, function: Any) -> Any:
    """The row of `tril` or `triu`."""
    lower = name == "tril"

    def kernel(a: Any, diagonal: int) -> Any:
        if a.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        rows, columns = a.shape[-2:]
        few = type(a) is not MetaArray and rows * columns <= 65536
        if few and C is not None and type(diagonal) is int:
            out = np.empty(a.shape, a.dtype)
            if C.triangle(a, diagonal, lower, out):
                return out
        if -(1 << 63) <= diagonal < 1 << 63:  # what is beyond is refused
            diagonal = min(
                max(diagonal, -rows), columns
            )  # those beyond the corners are alike, and NumPy counts on from them
        if not few:
            return function(a, diagonal)
        zero = NUMBERS[a.dtype].zero if a.dtype in NUMBERS else a.dtype.type(0)
        if lower:
            return np.where(_lower(rows, columns, diagonal), a, zero)
        return np.where(_lower(rows, columns, diagonal - 1), zero, a)

    row = op(
        f"{name}(Tensor self, int diagonal=0) -> Tensor",
        meta=shapes.by_kernel,
        quiet=False,
        self=lambda g, diagonal: row.function(g, diagonal),
    )(kernel)
    in_place(row)
    return row.function


tril = _triangle("tril", np.tril)
triu = _triangle("triu", np.triu)

_WHERE = (
    "(int row, int col, int offset=0, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None) -> Tensor"
)


def _count_below(rows: int, columns: int, offset: int, above: bool) -> int:
    """How many places lie on and below a diagonal; on and above it."""
    if above:
        return rows * columns - _count_below(rows, columns, offset - 1, False)
    first, last = max(0, -offset), min(rows, columns - offset)
    triangle = sum_between(first + offset + 1, last + offset) if last > first else 0
    return triangle + max(0, rows - max(last, first)) * columns if columns else 0


def sum_between(low: int, high: int) -> int:
    """The sum of the integers from low to high, both included."""
    return (low + high) * (high - low + 1) // 2 if high >= low else 0


_FEW = 1024  # places of a matrix whose triangles are remembered


@functools.lru_cache(64)
def _few_places(function: Any, row: int, offset: int, col: int) -> Any:
    return np.stack(function(row, offset, col))


def _triangle_indices(name: str, function: Any) -> Any:
    """The row and public function of `tril_indices` or `triu_indices`."""

    def kernel(row: int, col: int, offset: int, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
        for label, size in (("row", row), ("col", col)):
            if size < 0:
                raise RuntimeError(f"{label} must be non-negative, got{size}")
        d = _dtype.int64 if dtype is None else dtype
        if d not in (_dtype.int64, _dtype.int32):
            raise NotImplementedError(f"\"{name}\" not implemented for '{type_name(d)}'")
        if _device.usable(device).type == "meta":
            return meta((2, _count_below(row, col, offset, name == "triu_indices")), d.np)
        if row * col <= _FEW:
            return _few_places(function, row, offset, col).astype(d.np)
        return np.stack(function(row, offset, col)).astype(d.np)

    made = op(name + _WHERE, out=False)(kernel)

    def indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, layout: Any = None, device: Any = None,
                requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
        if layout is not None or pin_memory is not False:
            _device.check_options(name, layout, pin_memory, device)
        kind = _dtype.int64 if dtype is None else dtype
        t: Tensor = made.function(row, col, offset, dtype=kind, device=device)
        return t.requires_grad_(requires_grad) if requires_grad else t

    indices.__name__ = indices.__qualname__ = name
    return front(name)(indices)


tril_indices = _triangle_indices("tril_indices", np.tril_indices)
triu_indices = _triangle_indices("triu_indices", np.triu_indices)

# --- one-hot codes ----------------------------------------------------------------------------------------------------


def _few_hot(self: Tensor, num_classes: int) -> Tensor:
    """`one_hot` where nobody sees its steps."""
    if C is not None and num_classes > 0:
        hot = np.zeros((*self._a.shape, num_classes), np.int64)
        if C.put_along_axis(hot, -1, self._a.reshape(*self._a.shape, 1), 1, False):
            found = make(hot)
            bump(found)  # as filling it does
            return found
    flat = self._a.reshape(-1)
    high = int(flat[flat.argmax()])
    count = high + 1 if num_classes == -1 else num_classes
    if high >= count or flat[flat.argmin()] < 0:
        return _one_hot.kernel(self, num_classes)
    whole = np.zeros((flat.size, count), np.int64)
    whole[np.arange(flat.size), flat] = 1
    made = make(whole.reshape(*self._a.shape, count))
    bump(made)  # as filling it does
    return made


@composite(
    "one_hot(Tensor self, int num_classes=-1) -> Tensor",
    method=False,
    fast=("input._a.dtype is I64 and 0 < input._a.size <= 4096 and type(num_classes) is int", _few_hot),
)
def _one_hot(self: Tensor, num_classes: int) -> Tensor:
    if self._a.dtype != np.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    shape = self._a.shape
    if self._a.size == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return fill._empty.function((*shape, num_classes), dtype=self.dtype)
    if self.is_meta and num_classes >= 0:
        return fill._zeros.function((*shape, num_classes), dtype=self.dtype, device="meta")
    low, high = (item.function(t) for t in self.aminmax())
    if low < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = high + 1
    elif high >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    whole = fill._zeros.function((*shape, num_classes), dtype=self.dtype)
    return whole.scatter_(-1, unsqueeze(self, -1), 1)


one_hot = _one_hot.function
