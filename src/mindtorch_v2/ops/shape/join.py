"""Rows that put tensors together: cat, stack and their kin, grids and combinations."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core import tap
from ...core.dtype import FROM_NUMPY, combine, promote_types
from ...core.errors import shape_text, wrap_dim
from ...core.layouts import channels_last_strides
from ...core.meta import MetaArray, meta
from ...core.tensor import Tensor, make
from ...dispatch.front import front
from ...dispatch.inside import inside
from ...dispatch.op import composite, op
from ...kernels import result_layout
from ...kernels.compiled import C
from ..creation import fill
from ..meta import shapes
from . import inner
from .slice import narrow, select, slice_
from .view import _view, expand, flatten, reshape, unsqueeze

# --- cat --------------------------------------------------------------------------------------------------------------


def _cat_gradients(g: Any, tensors_sizes: Any, dim: int, needs: Any) -> list[Any]:
    dim = wrap_dim(dim, g._a.ndim)
    gradients: list[Any] = []
    start = 0
    for sizes, needed in zip(tensors_sizes, needs, strict=True):
        if sizes == (0,) and g._a.ndim != 1:
            gradients.append(g.new_zeros((0,)) if needed else None)
            continue
        gradients.append(narrow(g, dim, start, sizes[dim]) if needed else None)
        start += sizes[dim]
    return gradients


def common_dtype(arrays: Sequence[Any]) -> Any:
    """The NumPy dtype that arrays are joined in."""
    first = arrays[0].dtype
    if all(a.dtype is first for a in arrays):
        return first
    found = FROM_NUMPY[first]
    for a in arrays[1:]:
        found = promote_types(found, FROM_NUMPY[a.dtype])
    return found.np


@op(
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    out_dtype="cast",
    meta=shapes.by_kernel,
    autocast="promote",
    out="apart",
    quiet=False,
    layout=result_layout.joined,
    tensors=_cat_gradients,
)
def _cat(arrays: Any, dim: int) -> Any:
    if C is not None:
        joined = C.cat(arrays, dim)
        if joined is not None:
            return joined
    try:
        joined = np.concatenate(arrays, dim)
        # Where NumPy keeps the first dtype, torch does too.
        if joined.dtype is arrays[0].dtype and joined.flags.c_contiguous:
            return joined
    except (TypeError, ValueError):
        pass
    return joined_array(arrays, dim)


def joined_array(arrays: Any, dim: int) -> Any:
    """Arrays one after another: promoted, without empty vectors, in row-major order."""
    if not arrays:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    dtype = common_dtype(arrays)
    kept = [a if a.dtype is dtype else a.astype(dtype) for a in arrays if a.shape != (0,)]
    if not kept:
        return arrays[0].astype(dtype)
    try:
        joined = np.concatenate(kept, dim)
    except (TypeError, ValueError):
        raise cat_error(arrays, kept, dim) from None
    # NumPy keeps the order in memory that its inputs have.
    return joined if joined.flags.c_contiguous or type(joined) is MetaArray else np.ascontiguousarray(joined)


cat = _cat.function
_cat_inside = inside(_cat)


def cat_error(arrays: Any, kept: Any, dim: int) -> Exception:
    """Why arrays cannot be concatenated."""
    for position, a in enumerate(arrays):
        if a.ndim == 0:
            return RuntimeError(f"zero-dimensional tensor (at position {position}) cannot be concatenated")
    shape = kept[0].shape
    dim = wrap_dim(dim, len(shape))
    for position, a in enumerate(arrays):
        if a.shape == (0,):
            continue
        if a.ndim != len(shape):
            return RuntimeError(f"Tensors must have same number of dimensions: got {len(shape)} and {a.ndim}")
        for d, n in enumerate(shape):
            if d != dim and a.shape[d] != n:
                return RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {n} but got size "
                    f"{a.shape[d]} for tensor number {position} in the list."
                )
    return RuntimeError(f"tensors of shapes {[a.shape for a in arrays]} cannot be concatenated along dimension {dim}")


@composite("concat(Tensor[] tensors, int dim=0) -> Tensor", out=True)
def _concat(tensors: Any, dim: int) -> Tensor:
    return cat(tensors, dim)


@composite("concatenate(Tensor[] tensors, int dim=0) -> Tensor", out=True)
def _concatenate(tensors: Any, dim: int) -> Tensor:
    return cat(tensors, dim)


# --- stack ------------------------------------------------------------------------------------------------------------


def _stack_shape(arrays: Any, dim: int) -> tuple[int, tuple[int, ...]]:
    """The wrapped dimension, and the shape of the stacked arrays."""
    if not arrays:
        raise RuntimeError("stack expects a non-empty TensorList")
    shape = arrays[0].shape
    dim = wrap_dim(dim, len(shape) + 1)
    if len({a.shape for a in arrays}) > 1:
        position, other = next((i, a.shape) for i, a in enumerate(arrays) if a.shape != shape)
        raise RuntimeError(
            f"stack expects each tensor to be equal size, but got {shape_text(shape)} at entry 0 and "
            f"{shape_text(other)} at entry {position}"
        )
    return dim, (*shape[:dim], len(arrays), *shape[dim:])


def _stack_called(tensors: Any, dim: int) -> Any:
    shapes = {t._a.shape for t in tensors}
    if dim == 0 and len(shapes) == 1 and () not in shapes:
        return inner.view(_cat_inside(tensors, 0), (len(tensors), *shapes.pop()))
    dim, shape = _stack_shape([t._a for t in tensors], dim)
    if dim == len(shape) - 1:
        return _cat_inside([inner.unsqueeze(t, dim) for t in tensors], dim)
    return inner.view(_cat_inside(tensors, dim), shape)


def _lay_out_stack(made: Any, arrays: Any, dim: int) -> Any:
    """As the arrays joined along the dimension, looked at with one more; behind the last one they are plain."""
    dim, first = dim % made.ndim, arrays[0]
    if dim == made.ndim - 1 or not all(map(result_layout.is_channels_last, arrays)):
        return result_layout.plain(made)
    whole = (*first.shape[:dim], len(arrays) * first.shape[dim], *first.shape[dim + 1 :])
    strides = channels_last_strides(whole)
    return result_layout.arranged(made, (*strides[:dim], first.shape[dim] * strides[dim], *strides[dim:]))


@op(
    "stack(Tensor[] tensors, int dim=0) -> Tensor",
    meta=shapes.by_kernel,
    autocast="promote",
    quiet=False,
    layout=_lay_out_stack,
    calls=_stack_called,
    tensors=lambda g, dim, needs: [select(g, dim, i) if needed else None for i, needed in enumerate(needs)],
)
def _stack(arrays: Any, dim: int) -> Any:
    if C is not None:
        joined = C.stack(arrays, dim)
        if joined is not None:
            return joined
    dim, shape = _stack_shape(arrays, dim)
    if type(arrays[0]) is MetaArray:
        return meta(shape, common_dtype(arrays))
    if dim == len(shape) - 1:
        return _cat.kernel([a[..., None] for a in arrays], dim)
    joined = _cat.kernel(arrays, dim) if arrays[0].size else np.empty(shape, common_dtype(arrays))
    return joined.reshape(shape)


stack = _stack.function


def _at_least(self: Tensor, rank: int) -> Tensor:
    n = self._a.ndim
    if n >= rank:
        return self
    if rank == 1:
        return reshape(self, shape=(1,))
    if n == 0:
        return reshape(self, shape=(1,) * rank)
    front_ = unsqueeze(self, 0) if n == 1 else self
    return front_ if rank == 2 else unsqueeze(front_, -1)


def _at_least_rows(rank: int) -> Any:
    """The two rows and the public function of `atleast_1d`, `atleast_2d`, `atleast_3d`."""
    name = f"atleast_{rank}d"
    one = composite(f"{name}(Tensor self) -> Tensor", method=False)(lambda self: _at_least(self, rank))
    many = composite(f"{name}.Sequence(Tensor[] tensors) -> Tensor[]")(
        lambda tensors: tuple(_at_least(t, rank) for t in tensors)
    )

    def at_least(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return one.function(tensors[0])
        return many.function(tensors[0] if len(tensors) == 1 else tensors)

    at_least.__name__ = at_least.__qualname__ = name
    return front(name)(at_least)


atleast_1d, atleast_2d, atleast_3d = _at_least_rows(1), _at_least_rows(2), _at_least_rows(3)


def _need_some(name: str, tensors: Any) -> None:
    if not len(tensors):
        raise RuntimeError(f"{name} expects a non-empty TensorList")


@composite("hstack(Tensor[] tensors) -> Tensor", out=True)
def _hstack(tensors: Any) -> Tensor:
    _need_some("hstack", tensors)
    if not tap.NAMESPACE["HOOK"] and min([t._a.ndim for t in tensors]) > 1:
        return cat(tensors, 1)
    lifted = atleast_1d(list(tensors))
    return cat(lifted, 0 if lifted[0]._a.ndim == 1 else 1)


@composite("vstack(Tensor[] tensors) -> Tensor", out=True)
def _vstack(tensors: Any) -> Tensor:
    _need_some("vstack", tensors)
    if not tap.NAMESPACE["HOOK"] and min([t._a.ndim for t in tensors]) > 1:
        return cat(tensors, 0)
    return cat(atleast_2d(list(tensors)), 0)


@composite("row_stack(Tensor[] tensors) -> Tensor", out=True)
def _row_stack(tensors: Any) -> Tensor:
    return _vstack.function(tensors)


@composite("dstack(Tensor[] tensors) -> Tensor", out=True)
def _dstack(tensors: Any) -> Tensor:
    _need_some("dstack", tensors)
    return cat(atleast_3d(list(tensors)), 2)


@composite("column_stack(Tensor[] tensors) -> Tensor", out=True)
def _column_stack(tensors: Any) -> Tensor:
    _need_some("column_stack", tensors)
    columns = [t if t._a.ndim > 1 else reshape(t, shape=(t._a.size, 1)) for t in tensors]
    return _hstack.function(columns)


# --- blocks, grids, combinations --------------------------------------------------------------------------------------


def _block_shapes(shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    for position, shape in enumerate(shapes):
        if len(shape) > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {position} has {len(shape)} "
                "dimensions"
            )
    return [(shape[0] if len(shape) == 2 else 1, shape[-1] if shape else 1) for shape in shapes]


def _block_gradients(g: Any, tensors_sizes: Any, needs: Any) -> list[Any]:
    gradients: list[Any] = []
    row = column = 0
    for (height, width), sizes, needed in zip(_block_shapes(tensors_sizes), tensors_sizes, needs, strict=True):
        if needed:
            block = slice_(slice_(g, 0, row, row + height), 1, column, column + width)
            gradients.append(reshape(block, shape=sizes))
        else:
            gradients.append(None)
        row, column = row + height, column + width
    return gradients


@op("block_diag(Tensor[] tensors) -> Tensor", meta=shapes.block_diag, out=False, tensors=_block_gradients)
def _block_diag(arrays: Any) -> Any:
    shapes = _block_shapes([a.shape for a in arrays])
    if not arrays:
        return np.zeros((1, 0), np.float32)
    dtype = combine((1 if a.ndim == 0 else 2, FROM_NUMPY[a.dtype]) for a in arrays).np
    whole = np.zeros((sum(h for h, _ in shapes), sum(w for _, w in shapes)), dtype)
    row = column = 0
    for a, (height, width) in zip(arrays, shapes, strict=True):
        whole[row : row + height, column : column + width] = a
        row, column = row + height, column + width
    return whole


@front("block_diag")
def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the given ones along its diagonal."""
    return _block_diag.function(tensors)


def _grid(tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Each tensor along a dimension of its own, expanded over the others."""
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for t in tensors:
        if t._a.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}")
        if t._a.dtype != tensors[0]._a.dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    swap = indexing == "xy" and len(tensors) > 1
    ordered = [tensors[1], tensors[0], *tensors[2:]] if swap else list(tensors)
    shape = tuple(t._a.size for t in ordered)
    grids = []
    for axis, t in enumerate(ordered):
        along = (1,) * axis + (t._a.size,) + (1,) * (len(shape) - axis - 1)
        grids.append(expand(_view.function(t, size=along), size=shape))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


_meshgrid = composite("meshgrid(Tensor[] tensors) -> Tensor[]")(_grid)
_meshgrid_indexing = composite("meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]")(_grid)


@front("meshgrid")
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of every point of a grid."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.", stacklevel=2
        )
        return _meshgrid.function(tensors)
    return _meshgrid_indexing.function(tensors, indexing=indexing)


def _vectors(tensors: Any) -> None:
    for t in tensors:
        if t._a.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {shape_text(t._a.shape)}")


@composite("cartesian_prod(Tensor[] tensors) -> Tensor")
def _cartesian_prod(tensors: Any) -> Tensor:
    _vectors(tensors)
    if len(tensors) == 1:
        return tensors[0]
    return stack([flatten(grid) for grid in _meshgrid.function(tensors)], 1)


@front("cartesian_prod")
def cartesian_prod(*tensors: Any) -> Tensor:
    """Every combination of one element of each vector, as rows."""
    return _cartesian_prod.function(tensors)


@composite("combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor", method=False)
def _combinations(self: Tensor, r: int, with_replacement: bool) -> Tensor:
    _vectors((self,))
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return fill._empty.function((0,), dtype=self.dtype)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    n = self._a.size
    count = math.comb(n + r - 1, r) if with_replacement and n else math.comb(n, r)
    rows = np.fromiter(itertools.chain.from_iterable(choose(range(n), r)), np.int64, count * r).reshape(count, r)
    return reshape(self.index_select(0, make(rows.reshape(-1))), shape=(count, r))
