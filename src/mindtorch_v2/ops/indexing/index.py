"""Indexing by index tensors and masks: the rows `index` and `index_put`, which `x[...]` is made of (see `getitem`)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.layouts import elementwise
from ...core.meta import MetaArray, meta
from ...core.tensor import Tensor, make
from ...dispatch.op import explicit, mutating, op
from ...dispatch.overlap import guarded
from ...kernels import result_layout
from ...kernels.indexing import advanced as kernels
from .. import flops
from ..creation import fill
from ..creation.convert import item
from ..meta import shapes
from ..shape import inner
from ..shape.copies import clone
from ..shape.permute import permute
from ..shape.view import expand, reshape, unsqueeze

_BOOL, _I64 = np.dtype(np.bool_), np.dtype(np.int64)

# --- reading ----------------------------------------------------------------------------------------------------------


def warn_bytes() -> None:
    """Masks of bytes are a thing of the past."""
    warnings.warn(
        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.", stacklevel=2
    )


def _positions(indices: Sequence[Any]) -> list[Any]:
    """Indices with masks replaced by the positions of what is true in them, one index for each dimension."""
    found: list[Any] = []
    for index in indices:
        if index is None or not kernels.is_mask(index._a):
            found.append(index)
            continue
        positions = index.nonzero()
        found += [inner.select(positions, 1, d) for d in range(index._a.ndim)]
    return found


def _prepared(self: Tensor, indices: Sequence[Any]) -> tuple[Tensor, list[Any]]:
    """A tensor and integer indices of one shape, as many dimensions as the tensor, the indexed ones side by side."""
    kernels.integers(self._a.shape, [None if i is None else i._a for i in indices])
    found = _positions(indices)
    arrays = [None if i is None else i._a for i in found]
    common = kernels.together(arrays)
    shape = common[0].shape if common else ()
    found = [i if i is None or i._a.shape == shape else expand(i, size=shape) for i in found]
    axes = [axis for axis, index in enumerate(found) if index is not None]
    if axes and axes != list(range(axes[0], axes[0] + len(axes))):
        rest = [axis for axis in range(self._a.ndim) if axis not in axes]
        self = permute(self, dims=(*axes, *rest))
        found = [found[axis] for axis in axes]
    after = self._a.ndim - len(found)
    return self, [None if i is None else inner.reshape(i, (*i._a.shape, *(1,) * after)) for i in found]


def _integers_of(self: Tensor, indices: Sequence[Any]) -> list[Any] | None:
    """Indices of the first dimensions that need no preparation: integers of one shape; those of a single mask."""
    first = indices[0] if indices else None
    if first is None or len(indices) > self._a.ndim:
        return None
    dtype, shape = first._a.dtype, first._a.shape
    if dtype is _BOOL and len(indices) == 1 and shape and shape == self._a.shape[: len(shape)]:
        positions = first.nonzero()
        return [inner.select(positions, 1, dim) for dim in range(len(shape))]
    for index in indices:
        if index is None or index._a.dtype is not _I64 or index._a.shape != shape:
            return None
    return list(indices)


def _index_called(self: Tensor, indices: Sequence[Any]) -> Tensor:
    known = _integers_of(self, indices) if type(self._a) is np.ndarray else None
    if known is not None:
        after = (1,) * (self._a.ndim - len(known))
        for index in known:
            inner.reshape(index, index._a.shape + after)
        return make(kernels.index(self._a, [index._a for index in known]))
    source, found = _prepared(self, indices)
    after = source._a.ndim - len(found)
    arrays = [None if i is None else i._a.reshape(i._a.shape[: i._a.ndim - after]) for i in found]
    return make(_index_array(source._a, arrays))


def _index_array(a: Any, indices: Sequence[Any]) -> Any:
    if type(a) is MetaArray:
        if any(type(i) is MetaArray and kernels.is_mask(i) for i in indices):
            raise NotImplementedError(
                "indexing by a mask gives as many elements as the mask has true ones, and tensors on the meta device have "
                "no values; index by integers, or move both to another device first"
            )
        return meta(kernels.result_shape(a.shape, indices), a.dtype)
    return kernels.index(a, indices)


def _index_gradient(g: Tensor, sizes: tuple[int, ...], indices: Any) -> Tensor:
    zeros = fill._zeros.function(sizes, dtype=g.dtype, device=g.device)
    return _index_put_impl_.function(zeros, indices, g, True)


def _lay_out_indexed(made: Any, a: Any, indices: Sequence[Any]) -> Any:
    """As what an elementwise op makes of the array, which stays where it is along the dimensions of indices, and of the
    indices; those of a mask count as one vector."""
    dims: list[int] = []
    positions, dim = [], 0
    for index in indices:
        count = index.ndim if index is not None and kernels.is_mask(index) else 1
        if index is not None:
            dims += range(dim, dim + count)
            positions.append(None if kernels.is_mask(index) else index)
        dim += count
    if not dims:
        return result_layout.as_first(made, a)
    start = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0  # indices that are apart come first
    rest = [0 if a.shape[d] == 1 else s for d, s in enumerate(result_layout.strides_of(a)) if d not in dims]
    rank = made.ndim - len(rest)
    behind = (1,) * (len(rest) - start)
    operands = [(made.shape, (*rest[:start], *(0,) * rank, *rest[start:]))]
    for index in positions:
        shape, strides = (
            (made.shape[start : start + rank], (1,))
            if index is None
            else (index.shape, result_layout.strides_of(index))
        )
        operands.append(((*shape, *behind), (*strides, *behind)))
    return result_layout.arranged(made, elementwise(made.shape, tuple(operands)))


@op(
    "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    out_overload="Tensor_out",
    meta=shapes.by_kernel,
    layout=_lay_out_indexed,
    method=False,
    quiet=False,
    calls=_index_called,
    self=lambda g, self_sizes, indices: _index_gradient(g, self_sizes, indices),
)
def _index(a: Any, indices: Sequence[Any]) -> Any:
    return _index_array(a, indices)


index = _index.function

# --- writing ----------------------------------------------------------------------------------------------------------


def _put(a: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> None:
    if len(indices) > a.ndim:
        kernels.integers(a.shape, indices)  # raises, but for masks
    if type(a) is MetaArray:
        kernels.result_shape(a.shape, indices)
    elif not _filled_by_mask(a, indices, values, accumulate):
        kernels.put(a, indices, values, accumulate)


_put_apart = guarded(_put, expanded=True)


def _filled_by_mask(a: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> bool:
    """Write one number where a single mask says, in whatever type it comes; one without dimensions says all or nothing."""
    if accumulate or values.size != 1 or len(indices) > a.ndim or not _is_fill(indices):
        return False
    mask = next(i for i in indices if i is not None)
    if mask.dtype.kind != "b":
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
    if not mask.ndim:
        if mask:
            a[...] = values.reshape(()).astype(a.dtype)
        return True
    if a.dtype == values.dtype:
        return False
    kernels.put(a, indices, values.reshape(()).astype(a.dtype), False)
    return True


def _is_fill(indices: Sequence[Any]) -> bool:
    """Whether the indices are one mask, which one number may fill."""
    given = [i for i in indices if i is not None]
    return len(given) == 1 and kernels.is_mask(given[0] if isinstance(given[0], np.ndarray) else given[0]._a)


def _impl_called(
    self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool, unsafe: bool = False
) -> Tensor:
    if not accumulate and values._a.size == 1 and _is_fill(indices):
        _fill_by_mask(self, indices, values)
        return self
    _, found = _prepared(self, indices)
    plain = [None if i is None else i._a for i in indices]
    if found:
        _put_apart(self._a, plain, values._a, accumulate)
    return self


def _fill_by_mask(self: Tensor, indices: Sequence[Any], values: Tensor) -> None:
    """`masked_fill_` with a mask that has as many dimensions as the tensor has from the first it stands for."""
    mask = next(i for i in indices if i is not None)
    if mask._a.ndim or len(indices) > self._a.ndim:
        kernels.integers(self._a.shape, [None if i is None else i._a for i in indices])
    for _ in range(self._a.ndim - len(indices) + 1 - mask._a.ndim):
        mask = unsqueeze(mask, -1)
    self.masked_fill_(mask, item.function(values))


_ROW = "(Tensor{} self, Tensor?[] indices, Tensor values, bool accumulate=False{}) -> Tensor{}"
_FORMULAS: dict[str, Any] = {
    "self": lambda g, indices, accumulate: g if accumulate else _zero_at(g, indices),
    "values": lambda g, indices, values_sizes: _values_gradient(g, indices, values_sizes),
}


def _zero_at(g: Tensor, indices: Any) -> Tensor:
    zero = fill._zeros.function((), dtype=g.dtype, device=g.device)
    return _index_put.function(g, indices, zero)


def _values_gradient(g: Tensor, indices: Any, sizes: tuple[int, ...]) -> Tensor:
    """The gradient where values were written; values may have more (size one) dimensions than what they were written to."""
    if g.is_meta:  # a mask there has no values that would tell how many places it has; the gradient's shape is known
        return fill._zeros.function(sizes, dtype=g.dtype, device=g.device)
    g = index(g, indices)
    spare = len(sizes) - g._a.ndim
    return g if spare <= 0 else reshape(g, shape=(1,) * spare + g._a.shape)


@mutating(
    "_index_put_impl_" + _ROW.format("(a!)", ", bool unsafe=False", "(a!)"),
    all_flops=flops.index_put,
    calls=_impl_called,
    **_FORMULAS,
)
def _index_put_impl_(a: Any, indices: Sequence[Any], values: Any, accumulate: bool, unsafe: bool) -> None:
    _put_apart(a, indices, values, accumulate)


def _put_called(self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool) -> Tensor:
    return _index_put_impl_.function(self, indices, values, accumulate)


@mutating("index_put_" + _ROW.format("(a!)", "", "(a!)"), calls=_put_called, **_FORMULAS)
def _index_put_(a: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> None:
    _put_apart(a, indices, values, accumulate)


index_put_ = _index_put_.function


@explicit("index_put" + _ROW.format("", "", ""), all_flops=flops.index_put, **_FORMULAS)
def _index_put(self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool) -> Tensor:
    return index_put_(clone(self), indices, values, accumulate)
