"""Rows that read and write along one dimension, or at flat positions: gather, scatter, index_*, take and put."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ...autograd.engine import door
from ...core.dtype import int64
from ...core.errors import shape_text, wrap_dim
from ...core.meta import MetaArray, meta
from ...core.tensor import Tensor
from ...dispatch.front import front
from ...dispatch.op import composite, explicit, mutating, op
from ...dispatch.overlap import guarded
from ...kernels.checks import type_name
from ...kernels.compiled import C
from ...kernels.indexing import gather_scatter as kernels
from .. import flops
from ..creation import fill
from ..creation.convert import tensor
from ..meta import shapes
from ..pointwise.arithmetic import floor_divide
from ..shape.copies import clone
from ..shape.view import broadcast_to, expand, reshape


def zeros_of(g: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Zeros of another size, else as `g`."""
    return fill._zeros.function(sizes, dtype=g.dtype, device=g.device)


def _is_meta(a: Any) -> bool:
    return type(a) is MetaArray


# --- gather -----------------------------------------------------------------------------------------------------------


@op(
    "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    meta=shapes.by_kernel,
    out="exact",
    self=lambda g, self_sizes, dim, index, sparse_grad: (
        door.gather_sparse_backward(g, self_sizes, dim, index)
        if sparse_grad
        else scatter_add_(zeros_of(g, self_sizes), dim, index, g)
    ),
)
def _gather(a: Any, dim: int, index: Any, sparse_grad: bool) -> Any:
    return meta(index.shape, a.dtype) if _is_meta(a) else kernels.gather(a, dim, index)


gather = _gather.function


@composite("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", out=True)
def _take_along_dim(self: Tensor, indices: Tensor, dim: int | None) -> Tensor:
    if indices._a.dtype != np.int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {type_name(indices._a.dtype)}"
        )
    if dim is None:
        return gather(reshape(self, shape=(-1,)), 0, reshape(indices, shape=(-1,)))
    rank = self._a.ndim
    if rank != indices._a.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{rank} dimensions for input, and {indices._a.ndim} dimensions for indices"
        )
    dim = wrap_dim(dim, rank)
    own, given = list(self._a.shape), list(indices._a.shape)
    common = [m if n == 1 else n for m, n in zip(own, given, strict=True)]
    source = broadcast_to(self, size=(*common[:dim], own[dim], *common[dim + 1 :]))
    wanted = broadcast_to(indices, size=(*common[:dim], given[dim], *common[dim + 1 :]))
    return gather(source, dim, wanted.remainder(own[dim]) if own[dim] else wanted)


# --- scatter ----------------------------------------------------------------------------------------------------------


def _scatter_rows(overload: str, value: str, keywords: str, node: str, formulas: dict[str, Any]) -> tuple[Any, Any]:
    """The functional and the in-place row of one overload of scatter."""

    def kernel(a: Any, dim: int, index: Any, src: Any, reduce: Any = None) -> Any:
        return a.copy() if _is_meta(a) else kernels.scatter(a, dim, index, src, reduce=reduce)

    def kernel_(a: Any, dim: int, index: Any, src: Any, reduce: Any = None) -> None:
        if not _is_meta(a):
            kernels.scatter(a, dim, index, src, reduce=reduce, out=a)

    arguments = f"int dim, Tensor index, {value}{keywords}"
    functional = op(
        f"scatter.{overload}(Tensor self, {arguments}) -> Tensor", meta=shapes.by_kernel, node=node, **formulas
    )(kernel)
    in_place = mutating(f"scatter_.{overload}(Tensor(a!) self, {arguments}) -> Tensor(a!)", node=node, **formulas)(
        guarded(kernel_)
    )
    return functional, in_place


_SELF: dict[str, Any] = {"self": lambda g, dim, index: scatter(g, dim, index, 0)}
_BY_SRC = _scatter_rows(
    "src", "Tensor src", "", "ScatterBackward0", {**_SELF, "src": lambda g, dim, index: gather(g, dim, index)}
)
_BY_VALUE = _scatter_rows("value", "Scalar value", "", "ScatterBackward1", _SELF)
_REDUCED = _scatter_rows("reduce", "Tensor src", ", *, str reduce", "ScatterBackward2", {})
_VALUE_REDUCED = _scatter_rows("value_reduce", "Scalar value", ", *, str reduce", "ScatterBackward3", {})


def _scatter(place: int, input: Tensor, dim: int, index: Tensor, src: Any, reduce: Any, options: Any) -> Tensor:
    if isinstance(src, Tensor):
        rows = _BY_SRC if reduce is None else _REDUCED
    else:
        rows = _BY_VALUE if reduce is None else _VALUE_REDUCED
    if reduce is not None:
        options["reduce"] = reduce
    return rows[place].function(input, dim, index, src, **options)


def _source(name: str, src: Any, value: Any) -> Any:
    given = src if value is None else value
    if given is None:
        raise TypeError(f'{name}() missing 1 required positional arguments: "src"')
    return given


@front("scatter")
def scatter(
    input: Tensor, dim: Any = None, index: Any = None, src: Any = None, *, value: Any = None, reduce: Any = None,
    out: Any = None, axis: Any = None,
) -> Tensor:  # fmt: skip
    """A copy with values written where `index` says along a dimension."""
    options = {} if out is None else {"out": out}
    return _scatter(0, input, dim if axis is None else axis, index, _source("scatter", src, value), reduce, options)


@front("scatter_")
def scatter_(
    input: Tensor, dim: Any = None, index: Any = None, src: Any = None, *, value: Any = None, reduce: Any = None,
    axis: Any = None,
) -> Tensor:  # fmt: skip
    """Write values where `index` says along a dimension."""
    return _scatter(1, input, dim if axis is None else axis, index, _source("scatter_", src, value), reduce, {})


_ADD: dict[str, Any] = {"self": lambda g: g, "src": lambda g, dim, index: gather(g, dim, index)}


@op(
    "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    all_flops=flops.elements_of(2),
    meta=shapes.by_kernel,
    **_ADD,
)
def _scatter_add(a: Any, dim: int, index: Any, src: Any) -> Any:
    return a.copy() if _is_meta(a) else kernels.scatter_add(a, dim, index, src)


@mutating(
    "scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)", node="ScatterAddBackward0", **_ADD
)
@guarded
def _scatter_add_(a: Any, dim: int, index: Any, src: Any) -> None:
    if not _is_meta(a):
        kernels.scatter_add(a, dim, index, src, out=a)


scatter_add, scatter_add_ = _scatter_add.function, _scatter_add_.function


def _reduce_gradients(
    g: Any, self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool, result: Any
) -> tuple[Any, Any]:
    """Gradients of a reduction at indices with respect to what was there and what came."""
    if reduce == "sum":
        own, sent = g, gather(g, dim, index)
    elif reduce == "mean":
        start = g.new_ones(g.shape) if include_self else g.new_zeros(g.shape)
        count = scatter_add(start, dim, index, src.new_ones(src.shape))
        own = g / count.clamp(min=1)
        sent = gather(own, dim, index)
    elif reduce == "prod":
        own, sent = _product_gradients(g, self, dim, index, src, include_self, result)
    else:
        mine = (self == result).to(g.dtype)
        theirs = (src == gather(result, dim, index)).to(g.dtype)
        share = g / scatter_add(mine, dim, index, theirs)
        own, sent = mine * share, theirs * gather(share, dim, index)
    return (own if include_self else scatter(own, dim, index, 0)), sent


def _product_gradients(
    g: Any, self: Any, dim: int, index: Any, src: Any, include_self: bool, result: Any
) -> tuple[Any, Any]:
    nonzero = self.masked_fill(self == 0, 1)
    others = scatter_reduce(nonzero, dim, index, src, "prod", include_self=include_self)
    own = g * others / nonzero
    zero = src == 0
    zeros = gather(scatter_add(self.new_zeros(self.shape), dim, index, zero.to(self.dtype)), dim, index)
    # A zero that stands alone gets the product of the others; of several zeros none gets anything.
    alone = zero & (zeros == 1)
    without = scatter_reduce(self, dim, index, src.masked_fill(alone, 1), "prod", include_self=include_self)
    quotient = gather(g * result, dim, index) / src.masked_fill(zero, 1)
    return own, gather(g * without, dim, index).where(alone, quotient)


_REDUCE = "Tensor{} self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor{}"
_REDUCE_FORMULA: dict[str, Any] = {
    "self__src": lambda g, self, dim, index, src, reduce, include_self, result, needs: _reduce_gradients(
        g, self, dim, index, src, reduce, include_self, result
    )
}


@op(
    "scatter_reduce.two(" + _REDUCE.format("", ""),
    all_flops=flops.elements_of(2),
    meta=shapes.by_kernel,
    **_REDUCE_FORMULA,
)
def _scatter_reduce(a: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> Any:
    return a.copy() if _is_meta(a) else kernels.scatter_reduce(a, dim, index, src, reduce, include_self=include_self)


@mutating("scatter_reduce_.two(" + _REDUCE.format("(a!)", "(a!)"), node="ScatterReduceBackward0", **_REDUCE_FORMULA)
@guarded
def _scatter_reduce_(a: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> None:
    if not _is_meta(a):
        kernels.scatter_reduce(a, dim, index, src, reduce, include_self=include_self, out=a)


scatter_reduce = _scatter_reduce.function


# --- index_* ----------------------------------------------------------------------------------------------------------


def _few_selected(a: Any, dim: int, index: Any) -> Any:
    """Few slices along a later dimension; ValueError for what is not there, and for indices that are not plain."""
    if not -a.ndim <= dim < a.ndim or index.ndim != 1 or not C.inside(index, a.shape[dim]):
        raise ValueError
    return a.take(index, dim, mode="clip")


@op(
    "index_select(Tensor self, int dim, Tensor index) -> Tensor",
    meta=shapes.by_kernel,
    out="exact",
    quiet=False,
    fast=None if C is None else ("type(dim) is int and dim != 0 and input._a.size <= 4096", _few_selected),
    self=lambda g, self_sizes, dim, index: index_select_backward(g, self_sizes, dim, index),
)
def _index_select(a: Any, dim: int, index: Any) -> Any:
    return _index_select_array(a, dim, index)


def _index_select_array(a: Any, dim: int, index: Any) -> Any:
    if _is_meta(a):
        axis = wrap_dim(dim, a.ndim)
        return meta((*a.shape[:axis], index.size, *a.shape[axis + 1 :]) if a.ndim else (), a.dtype)
    return kernels.index_select(a, dim, index)


index_select = _index_select.function


def _index_select_gradient(grad: Tensor, self_sizes: Any, dim: int, index: Tensor) -> Tensor:
    g = grad if self_sizes else reshape(grad, shape=(1,) * index._a.ndim)
    return index_add_(zeros_of(grad, self_sizes), dim, index, g if self_sizes else grad)


_index_select_backward = composite(
    "index_select_backward(Tensor grad, int[] self_sizes, int dim, Tensor index) -> Tensor", method=False
)(_index_select_gradient)
index_select_backward = _index_select_backward.function


def _like_source(g: Any, sizes: tuple[int, ...]) -> Any:
    """The gradient of the slices of a source, which may have no dimension."""
    return g if g._a.shape == sizes else reshape(g, shape=sizes)


_INDEX_ADD = "Tensor{} self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor{}"
_INDEX_ADD_FORMULAS: dict[str, Any] = {
    "self": lambda g: g,
    "source": lambda g, dim, index, source_sizes, alpha: _like_source(
        index_select(g, dim, index) if alpha == 1 else index_select(g, dim, index) * alpha, source_sizes
    ),
}


@op(
    "index_add(" + _INDEX_ADD.format("", ""),
    all_flops=lambda record: (1 + flops.is_not_one(record, 4)) * flops.numel(record, 3),
    meta=shapes.by_kernel,
    **_INDEX_ADD_FORMULAS,
)
def _index_add(a: Any, dim: int, index: Any, source: Any, alpha: Any) -> Any:
    return a.copy() if _is_meta(a) else kernels.index_add(a, dim, index, source, alpha=alpha)


@mutating("index_add_(" + _INDEX_ADD.format("(a!)", "(a!)"), node="IndexAddBackward0", **_INDEX_ADD_FORMULAS)
@guarded
def _index_add_(a: Any, dim: int, index: Any, source: Any, alpha: Any) -> None:
    if not _is_meta(a):
        kernels.index_add(a, dim, index, source, alpha=alpha, out=a)


index_add, index_add_ = _index_add.function, _index_add_.function

_INDEX_COPY = "Tensor{} self, int dim, Tensor index, Tensor source) -> Tensor{}"
_INDEX_COPY_FORMULAS: dict[str, Any] = {
    "self": lambda g, dim, index: index_fill(g, dim, index, 0),
    "source": lambda g, dim, index, source_sizes: _like_source(index_select(g, dim, index), source_sizes),
}


@op("index_copy(" + _INDEX_COPY.format("", ""), meta=shapes.by_kernel, autocast="promote", **_INDEX_COPY_FORMULAS)
def _index_copy(a: Any, dim: int, index: Any, source: Any) -> Any:
    return a.copy() if _is_meta(a) else kernels.index_copy(a, dim, index, source)


@mutating("index_copy_(" + _INDEX_COPY.format("(a!)", "(a!)"), node="IndexCopyBackward0", **_INDEX_COPY_FORMULAS)
@guarded
def _index_copy_(a: Any, dim: int, index: Any, source: Any) -> None:
    if not _is_meta(a):
        kernels.index_copy(a, dim, index, source, out=a)


# --- index_fill -------------------------------------------------------------------------------------------------------

_KEEP: dict[str, Any] = {"self": lambda g, dim, index: index_fill(g, dim, index, 0)}
_KEEP_VALUE: dict[str, Any] = {
    **_KEEP,
    "value": lambda g, dim, index: index_fill(zeros_of(g, g._a.shape), dim, index, 1).mul(g).sum(),
}


def _fill_kernel(a: Any, dim: int, index: Any, value: Any) -> None:
    if not _is_meta(a):
        kernels.index_fill(a, dim, index, value, out=a)


def _index_fill_rows(overload: str, value: str, node: str, formulas: dict[str, Any]) -> tuple[Any, Any]:
    """The functional and the in-place row of one overload of index_fill."""
    tail = f"int dim, Tensor index, {value} value) -> Tensor"
    in_place = mutating(f"index_fill_.{overload}(Tensor(a!) self, {tail}(a!)", node=node, **formulas)(_fill_kernel)
    functional = explicit(f"index_fill.{overload}(Tensor self, {tail}", node=node, **formulas)(
        lambda self, dim, index, value: in_place.function(clone(self), dim, index, value)
    )
    return functional, in_place


_FILL_NUMBER = _index_fill_rows("int_Scalar", "Scalar", "IndexFillBackward0", _KEEP)
_FILL_TENSOR = _index_fill_rows("int_Tensor", "Tensor", "IndexFillBackward1", _KEEP_VALUE)


@front("index_fill")
def index_fill(input: Tensor, dim: Any = None, index: Any = None, value: Any = None, *, axis: Any = None) -> Tensor:
    """A copy with the slices that `index` names filled with one value."""
    row = (_FILL_TENSOR if isinstance(value, Tensor) else _FILL_NUMBER)[0]
    return row.function(input, dim if axis is None else axis, index, value)


@front("index_fill_")
def index_fill_(input: Tensor, dim: Any = None, index: Any = None, value: Any = None, *, axis: Any = None) -> Tensor:
    """Fill the slices that `index` names with one value."""
    row = (_FILL_TENSOR if isinstance(value, Tensor) else _FILL_NUMBER)[1]
    return row.function(input, dim if axis is None else axis, index, value)


# --- index_reduce -----------------------------------------------------------------------------------------------------


def _spread_index(a: Any, dim: int, index: Any, source: Any) -> Any:
    """A vector of indices as the index of a scatter along `dim`."""
    axis = wrap_dim(dim, a.ndim)
    if index.ndim > 1:
        raise IndexError("index_reduce_(): Index is supposed to be a vector")
    if source.dtype != a.dtype:
        raise RuntimeError("index_reduce_(): self and source must have the same scalar type")
    slices = source.shape[axis] if source.ndim else 1
    if index.size != slices:
        raise RuntimeError("index_reduce_(): Number of indices should be equal to source.size(dim)")
    shape = [1] * max(source.ndim, 1)
    shape[axis] = index.size
    return np.broadcast_to(index.reshape(shape), source.shape or (1,))


_INDEX_REDUCTIONS = {"prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}


def _reduction(reduce: str) -> str:
    if reduce not in _INDEX_REDUCTIONS:
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    return reduce


def _index_reduce_gradients(
    g: Any, self: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool, result: Any
) -> tuple[Any, Any]:
    """Those of `scatter_reduce` with the index spread over the source."""
    if not self._a.ndim or not source._a.ndim:
        spread = reshape(index, shape=source._a.shape)
    else:
        axis = wrap_dim(dim, self._a.ndim)
        shape = [1] * source._a.ndim
        shape[axis] = index._a.size
        spread = expand(reshape(index, shape=tuple(shape)), size=source._a.shape)
    return _reduce_gradients(g, self, dim, spread, source, reduce, include_self, result)


_INDEX_REDUCE = (
    "Tensor{} self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor{}"
)
_INDEX_REDUCE_FORMULA: dict[str, Any] = {
    "self__source": lambda g, self, dim, index, source, reduce, include_self, result, needs: _index_reduce_gradients(
        g, self, dim, index, source, reduce, include_self, result
    )
}


@op(
    "index_reduce(" + _INDEX_REDUCE.format("", ""),
    all_flops=flops.elements_of(3),
    meta=shapes.by_kernel,
    **_INDEX_REDUCE_FORMULA,
)
def _index_reduce(a: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool) -> Any:
    result = a.copy()
    _reduce_into(result, dim, index, source, reduce, include_self)
    return result


@mutating("index_reduce_(" + _INDEX_REDUCE.format("(a!)", "(a!)"), node="IndexReduceBackward0", **_INDEX_REDUCE_FORMULA)
@guarded
def _index_reduce_(a: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool) -> None:
    _reduce_into(a, dim, index, source, reduce, include_self)


def _reduce_into(a: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool) -> None:
    if not _is_meta(a):
        spread = _spread_index(a, dim, index, source)
        kernels.scatter_reduce(a, dim, spread, source, _reduction(reduce), include_self=include_self, out=a)


# --- flat positions ---------------------------------------------------------------------------------------------------


@op(
    "take(Tensor self, Tensor index) -> Tensor",
    meta=shapes.by_kernel,
    out="exact",
    self=lambda g, self_sizes, index: put_(zeros_of(g, self_sizes), index, g, True),
)
def _take(a: Any, index: Any) -> Any:
    return meta(index.shape, a.dtype) if _is_meta(a) else kernels.take(a, index)


take = _take.function

_PUT: dict[str, Any] = {
    "self": lambda g, index, accumulate: g if accumulate else put(g, index, zeros_of(g, index._a.shape)),
    "source": lambda g, index, source_sizes: reshape(take(g, index), shape=source_sizes),
}


@mutating(
    "put_(Tensor(a!) self, Tensor index, Tensor source, bool accumulate=False) -> Tensor(a!)",
    node="PutBackward0",
    **_PUT,
)
@guarded
def _put_(a: Any, index: Any, source: Any, accumulate: bool) -> None:
    if not _is_meta(a):
        kernels.put(a, index, source, accumulate, out=a)


put_ = _put_.function


@explicit(
    "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
    all_flops=flops.index_put,
    out=False,
    **_PUT,
)
def _put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    return put_(clone(self), index, source, accumulate)


put = _put.function


@front("unravel_index")
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Coordinates of flat positions in a tensor of some shape."""
    if indices._a.dtype.kind not in "iu":
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = (shape,) if isinstance(shape, int) else tuple(operator.index(n) for n in shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {shape_text(sizes)}")
    if not sizes:
        return ()
    below = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    flat = indices.unsqueeze(-1)
    quotients = floor_divide.function(flat, tensor(below, dtype=int64, device=indices.device))
    coordinates = quotients.remainder(tensor(sizes, dtype=int64, device=indices.device))
    found: tuple[Tensor, ...] = coordinates.unbind(-1)
    return found
