"""Indexing by index tensors and masks: the rows `index` and `index_put`, which `x[...]` is made of (see `getitem`)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._meta import MetaArray, meta
from .._op import explicit, mutating, op
from .._tensor import Tensor, make
from ..kernels import advanced as kernels
from . import creation, inner
from .convert import item
from .copies import clone
from .permute import permute
from .view import expand, reshape, unsqueeze

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
        places = index.nonzero()
        found += [inner.select(places, 1, d) for d in range(index._a.ndim)]
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
        places = first.nonzero()
        return [inner.select(places, 1, dim) for dim in range(len(shape))]
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
        return meta(kernels.result_shape(a.shape, indices), a.dtype)
    return kernels.index(a, indices)


def _index_gradient(g: Tensor, sizes: tuple[int, ...], indices: Any) -> Tensor:
    zeros = creation._zeros.function(sizes, dtype=g.dtype, device=g.device)
    return _index_put_impl_.function(zeros, indices, g, True)


@op(
    "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
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
    if type(a) is MetaArray:
        kernels.result_shape(a.shape, indices)
    elif not _filled_by_mask(a, indices, values, accumulate):
        kernels.put(a, indices, values, accumulate)


def _filled_by_mask(a: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> bool:
    """Write one number where a single mask says, in whatever type it comes."""
    if accumulate or values.size != 1 or a.dtype == values.dtype or not _is_fill(indices):
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
        _put(self._a, plain, values._a, accumulate)
    return self


def _fill_by_mask(self: Tensor, indices: Sequence[Any], values: Tensor) -> None:
    """`masked_fill_` with a mask that has as many dimensions as the tensor has from the first it stands for."""
    kernels.integers(self._a.shape, [None if i is None else i._a for i in indices])
    mask = next(i for i in indices if i is not None)
    for _ in range(self._a.ndim - len(indices) + 1 - mask._a.ndim):
        mask = unsqueeze(mask, -1)
    self.masked_fill_(mask, item.function(values))


_ROW = "(Tensor{} self, Tensor?[] indices, Tensor values, bool accumulate=False{}) -> Tensor{}"
_FORMULAS: dict[str, Any] = {
    "self": lambda g, indices, accumulate: g if accumulate else _zero_at(g, indices),
    "values": lambda g, indices, values_sizes: _sum_like(index(g, indices), values_sizes),
}


def _zero_at(g: Tensor, indices: Any) -> Tensor:
    zero = creation._zeros.function((), dtype=g.dtype, device=g.device)
    return _index_put.function(g, indices, zero)


def _sum_like(g: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """A gradient for values that may have more (size one) dimensions than what they were written to."""
    spare = len(sizes) - g._a.ndim
    return g if spare <= 0 else reshape(g, shape=(1,) * spare + g._a.shape)


@mutating("_index_put_impl_" + _ROW.format("(a!)", ", bool unsafe=False", "(a!)"), calls=_impl_called, **_FORMULAS)
def _index_put_impl_(a: Any, indices: Sequence[Any], values: Any, accumulate: bool, unsafe: bool) -> None:
    _put(a, indices, values, accumulate)


def _put_called(self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool) -> Tensor:
    return _index_put_impl_.function(self, indices, values, accumulate)


@mutating("index_put_" + _ROW.format("(a!)", "", "(a!)"), calls=_put_called, **_FORMULAS)
def _index_put_(a: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> None:
    _put(a, indices, values, accumulate)


index_put_ = _index_put_.function


@explicit("index_put" + _ROW.format("", "", ""), **_FORMULAS)
def _index_put(self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool) -> Tensor:
    return index_put_(clone(self), indices, values, accumulate)
