"""Rows of reductions: sums, means, products, extremes, norms. Variances are in `moments`, truth values in `truth`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core import dtype as _dtype
from ...core import tap
from ...core.errors import wrap_dim, wrap_dims
from ...core.meta import MetaArray
from ...dispatch.front import front
from ...dispatch.inside import inside
from ...dispatch.op import OPS, composite, explicit, in_place, op
from ...kernels.compiled import stand_in
from ...kernels.indexing import embedding as embedding_kernels
from ...kernels.passes import number
from ...kernels.precision import is_half, narrow
from ...kernels.reduction import few
from ...kernels.reduction import reduce as kernels
from .. import flops
from ..creation.data import recast
from ..creation.fill import zeros
from ..meta import shapes
from ..pointwise.arithmetic import div_
from ..shape.join import cat
from ..shape.view import expand, unsqueeze

_TYPE = "*, ScalarType? dtype=None"


def _np(dtype: Any) -> Any:
    return None if dtype is None else dtype.np


def spread(g: Any, sizes: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """What a reduction gave, given to every element that was reduced."""
    if g._a.ndim == 0:
        return expand(g, sizes)
    return expand(restored(g, sizes, dim, keepdim), sizes)


def restored(g: Any, sizes: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """What a reduction gave, with the reduced dimensions put back as ones; over all of them it is a number anyway."""
    if keepdim or not sizes or dim in (None, (), []):
        return g
    for d in sorted(wrap_dims(dim, len(sizes))):
        g = unsqueeze(g, d)
    return g


def reduced_count(sizes: tuple[int, ...], dim: Any) -> int:
    """How many elements go into one result."""
    if dim in (None, (), []):
        return math.prod(sizes)
    return math.prod(sizes[d] for d in wrap_dims(dim, len(sizes))) if sizes else 1


def settled(dim: Any, keepdim: bool, axis: Any, keepdims: Any) -> tuple[Any, bool]:
    """`dim` and `keepdim`, given either in torch's or in NumPy's spelling."""
    return (dim if axis is None else axis), (keepdim if keepdims is None else keepdims)


# --- sums and means ---------------------------------------------------------------------------------------------------

F32, F64, I64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_asarray, _add = np.asarray, np.add.reduce
_SMALL = 4096


@op(
    f"sum(Tensor self, {_TYPE}) -> Tensor",
    out_dtype="compute",
    all_flops=flops.reduction(1),
    meta=shapes.single,
    out=False,
    quiet=False,
    self=lambda g, self_sizes: expand(g, self_sizes),
)
def _sum(a: Any, dtype: Any) -> Any:
    if dtype is None:
        if (a.dtype is F32 or a.dtype is F64 or a.dtype is I64) and 0 < a.size <= _SMALL:
            return few.total(a)
        if a.dtype is I64:
            return _asarray(_add(a, None))
    return kernels.sum(a, dtype=_np(dtype))


def _is_one_float(a: Any, dim: Any, keepdim: bool, dtype: Any) -> bool:
    """Whether a reduction over the dimension that an array of none may be asked for is that of all."""
    one = type(dim) is int and -1 <= dim <= 0
    return one and not keepdim and dtype is None and (a.dtype is F32 or a.dtype is F64)


@op(
    f"sum.dim_IntList(Tensor self, int[]? dim, bool keepdim=False, {_TYPE}) -> Tensor",
    out_overload="IntList_out",
    out_dtype="compute",
    meta=shapes.along,
    node="SumBackward1",
    fast=(few.FOR_SUM_DIM, few.sum_dim),
    self=lambda g, self_sizes, dim, keepdim: spread(g, self_sizes, dim, keepdim),
)
def _sum_dim(a: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if not a.ndim and _is_one_float(a, dim, keepdim, dtype):
        return few.total(a)
    return kernels.sum(a, dim, keepdim, dtype=None if dtype is None else dtype.np)


_sum_all, sum_over = _sum.function, _sum_dim.function


@front("sum")
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None, axis: Any = None,
        keepdims: Any = None) -> Any:  # fmt: skip
    """Sum of all elements, or over some dimensions."""
    if dim is None and not keepdim and axis is None and keepdims is None and dtype is None and out is None:
        return _sum_all(input)
    dim, keepdim = settled(dim, keepdim, axis, keepdims)
    if dim is None and out is None and not keepdim:
        return _sum_all(input, dtype=dtype)
    if dtype is out is None:
        return sum_over(input, dim, keepdim)
    return sum_over(input, dim, keepdim, dtype=dtype, out=out)


@op(
    f"nansum(Tensor self, int[]? dim=None, bool keepdim=False, {_TYPE}) -> Tensor",
    out_dtype="compute",
    all_flops=flops.reduction(2),
    meta=shapes.along,
    self=lambda g, self, dim, keepdim: spread(g, self._a.shape, dim, keepdim) * self.isnan().logical_not(),
)
def _nansum(a: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return kernels.nansum(a, dim, keepdim, dtype=_np(dtype))


def _mean_gradient(g: Any, sizes: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    return spread(g, sizes, dim, keepdim) / reduced_count(sizes, dim)


_sum_inside, _sum_dim_inside = inside(_sum), inside(_sum_dim)
_divide = stand_in(np.true_divide)
_div_inside = inside(div_, kernel=lambda a, count: _divide(a, count, out=a))


def _in_float32(a: Any, dtype: Any) -> bool:
    """Whether a mean is rounded to 16 bits, once, at its end."""
    return is_half(a.dtype if dtype is None else dtype.np)


def _mean_calls(self: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    everything = dim is None and not keepdim
    if dtype is None and (self._a.dtype is F32 or self._a.dtype is F64):
        total = _sum_inside(self, None) if everything else _sum_dim_inside(self, dim, keepdim, None)
        return _div_inside(total, reduced_count(self._a.shape, dim))
    _mean_checked(self._a, dtype)
    if _in_float32(self._a, dtype):
        averaged = _mean_calls(self.to(_dtype.float32), dim, keepdim, None)
        return averaged.to(self.dtype if dtype is None else dtype)
    total = sum(self, dim, keepdim, dtype=dtype)
    return total.div_(reduced_count(self._a.shape, dim))


def _mean_checked(a: Any, dtype: Any) -> None:
    if dtype is None and _dtype.FROM_NUMPY[a.dtype].category < 2:
        kernels.mean(a)  # raises


def _averaged(a: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """The arithmetic of `_mean_calls`."""
    if dtype is None and (a.dtype is F32 or a.dtype is F64):
        everything = dim is None and not keepdim
        total = _asarray(_sum.kernel(a, None) if everything else _sum_dim.kernel(a, dim, keepdim, None))
        return _divide(total, number(reduced_count(a.shape, dim), a.dtype), out=total)
    if _in_float32(a, dtype):
        return narrow(_averaged(recast(a, F32), dim, keepdim, None), a.dtype if dtype is None else dtype.np)
    return kernels.mean(a, dim, keepdim, dtype=_np(dtype))


@op(
    f"mean(Tensor self, {_TYPE}) -> Tensor",
    out_overload="dtype_out",
    out_dtype="cast",
    all_flops=flops.reduction(1, 1),
    meta=shapes.single,
    calls=lambda self, dtype: _mean_calls(self, None, False, dtype),
    fast=(few.FOR_MEAN, few.mean),
    self=lambda g, self_sizes: _mean_gradient(g, self_sizes, None, False),
)
def _mean(a: Any, dtype: Any) -> Any:
    if dtype is None and (a.dtype is F32 or a.dtype is F64) and 0 < a.size <= _SMALL:
        return few.mean(a, dtype)
    return _averaged(a, None, False, dtype)


@op(
    f"mean.dim(Tensor self, int[]? dim, bool keepdim=False, {_TYPE}) -> Tensor",
    out_overload="out",
    out_dtype="cast",
    meta=shapes.along,
    node="MeanBackward1",
    fast=(few.FOR_MEAN_DIM, few.mean_dim),
    calls=_mean_calls,
    self=lambda g, self_sizes, dim, keepdim: _mean_gradient(g, self_sizes, dim, keepdim),
)
def _mean_dim(a: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if not a.ndim and _is_one_float(a, dim, keepdim, dtype):
        return few.mean(a, dtype)
    return _averaged(a, dim, keepdim, dtype)


_mean_all, _mean_over = _mean.function, _mean_dim.function


@front("mean")
def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None, axis: Any = None,
         keepdims: Any = None) -> Any:  # fmt: skip
    """Mean of all elements, or over some dimensions."""
    if dtype is out is axis is keepdims is None:
        return _mean_all(input) if dim is None and not keepdim else _mean_over(input, dim, keepdim)
    dim, keepdim = settled(dim, keepdim, axis, keepdims)
    if dim is None and not keepdim:
        return _mean.function(input, dtype=dtype, out=out)
    return _mean_dim.function(input, dim, keepdim, dtype=dtype, out=out)


@composite(f"nanmean(Tensor self, int[]? dim=None, bool keepdim=False, {_TYPE}) -> Tensor", out=True)
def _nanmean(self: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    counted = self.isnan().logical_not().sum(dim, keepdim)
    return _nansum.function(self, dim, keepdim, dtype=dtype) / counted


# --- products ---------------------------------------------------------------------------------------------------------


def _product_of_others(x: Any, dim: int) -> Any:
    """For each element, the product of all the others along a dimension."""
    n = x._a.shape[dim]
    one = x.new_ones(tuple(1 if d == dim else m for d, m in enumerate(x._a.shape)))
    before = cat([one, x.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = cat([one, x.narrow(dim, 1, n - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return before * after


def without_zeros(x: Any) -> bool:
    """Whether quotients by the elements are finite; where there are no values, they are taken to be."""
    return type(x._a) is MetaArray or bool((x._a != 0).all())


def _prod_gradient(g: Any, self: Any, result: Any) -> Any:
    if self._a.ndim == 0:
        return g.clone() if self._a.size else g
    if without_zeros(self):
        return g * (result / self).conj()
    flat = self.reshape(-1)
    return (g * _product_of_others(flat, 0).conj()).reshape(self._a.shape)


def _prod_dim_gradient(g: Any, self: Any, result: Any, dim: int, keepdim: bool) -> Any:
    if self._a.ndim == 0:
        return g.clone()
    g = restored(g, self._a.shape, dim, keepdim)
    if without_zeros(self):
        return g * (restored(result, self._a.shape, dim, keepdim) / self).conj()
    return g * _product_of_others(self, wrap_dim(dim, self._a.ndim)).conj()


@op(
    f"prod(Tensor self, {_TYPE}) -> Tensor",
    out_dtype="compute",
    all_flops=flops.reduction(1),
    meta=shapes.single,
    autocast="float32",
    out=False,
    fast=(few.FOR_PRODUCT, few.product_of_all),
    self=lambda g, self, result: _prod_gradient(g, self, result),
)
def _prod(a: Any, dtype: Any) -> Any:
    return kernels.prod(a, dtype=_np(dtype))


@op(
    f"prod.dim_int(Tensor self, int dim, bool keepdim=False, {_TYPE}) -> Tensor",
    out_overload="int_out",
    out_dtype="compute",
    meta=shapes.along,
    autocast="float32",
    node="ProdBackward1",
    fast=(few.FOR_PRODUCT_DIM, few.product),
    self=lambda g, self, result, dim, keepdim: _prod_dim_gradient(g, self, result, dim, keepdim),
)
def _prod_dim(a: Any, dim: int, keepdim: bool, dtype: Any) -> Any:
    return kernels.prod(a, dim, keepdim, dtype=_np(dtype))


@front("prod")
def prod(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None, axis: Any = None,
         keepdims: Any = None) -> Any:  # fmt: skip
    """Product of all elements, or over one dimension."""
    dim, keepdim = settled(dim, keepdim, axis, keepdims)
    if dim is None:
        return _prod.function(input, dtype=dtype)
    return _prod_dim.function(input, dim, keepdim, dtype=dtype, out=out)


# --- extremes ---------------------------------------------------------------------------------------------------------


def _shared_gradient(g: Any, self: Any, result: Any, dim: Any, keepdim: bool) -> Any:
    """Elements that are equal to the extreme share its gradient."""
    sizes = self._a.shape
    chosen = self == restored(result, sizes, dim, keepdim)
    count = chosen.sum(dim, keepdim=True) if dim not in (None, ()) else chosen.sum()
    return restored(g, sizes, dim, keepdim) * chosen / count


def _extreme_gradient(g: Any, self: Any, result: Any) -> Any:
    """The same over all elements, where a nan is the extreme."""
    is_nan = not result.is_meta and result.isnan().item()
    chosen = self.isnan() if is_nan else self == result
    return g * chosen / chosen.sum()


def _picked_gradient(g: Any, sizes: tuple[int, ...], dim: int, indices: Any, keepdim: bool) -> Any:
    """The gradient goes to the element that was picked."""
    if not sizes:
        return g
    if not keepdim:
        g, indices = unsqueeze(g, dim), unsqueeze(indices, dim)
    return zeros(sizes, dtype=g.dtype, device=g.device).scatter(dim, indices, g)


def _extreme_rows(name: str, whole: Any, along: Any, over: Any, pairwise: str, quick: tuple[Any, Any, Any]) -> None:
    """Rows and front of max or min: of all, along a dimension with indices, or of two tensors."""
    full = op(
        f"{name}(Tensor self) -> Tensor",
        out_overload="unary_out",
        all_flops=flops.reduction(1),
        meta=shapes.single,
        node=f"{name.title()}Backward1",
        fast=(few.FOR_ALL, quick[0]),
        self=_extreme_gradient,
    )(lambda a: whole(a))
    by_dim = op(
        f"{name}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        out_overload=f"dim_{name}",
        meta=shapes.pair_along,
        nondiff=(1,),
        fast=(few.FOR_DIM, quick[1]),
        self=lambda grads, self_sizes, dim, keepdim, result1: _picked_gradient(
            grads[0], self_sizes, dim, result1, keepdim
        ),
    )(lambda a, dim, keepdim: along(a, dim, keepdim))
    pair = composite(f"{name}.other(Tensor self, Tensor other) -> Tensor", out_overload="out", method=False, out=True)(
        lambda self, other: OPS[pairwise].function(self, other)
    )

    def public(input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None, other: Any = None,
               axis: Any = None, keepdims: Any = None) -> Any:  # fmt: skip
        if dim is out is other is axis is None:
            return full.function(input)
        if type(dim) is int and out is other is axis is keepdims is None:
            return by_dim.function(input, dim, keepdim)
        dim, keepdim = settled(dim, keepdim, axis, keepdims)
        second = other if other is not None else dim
        if second is None:
            return full.function(input, out=out)
        if isinstance(second, int) or not hasattr(second, "_a"):
            return by_dim.function(input, second, keepdim, out=out)
        row = pair if tap.SLOT.recorder is not None else OPS[pairwise]
        return row.function(input, second, **({} if out is None else {"out": out}))

    public.__name__ = public.__qualname__ = name
    front(name)(public)
    op(
        f"a{name}(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor",
        all_flops=flops.reduction(1),
        meta=shapes.along,
        fast=(few.FOR_EXTREME, quick[2]),
        self=lambda g, self, result, dim, keepdim: _shared_gradient(g, self, result, dim, keepdim),
    )(lambda a, dim, keepdim: over(a, dim, keepdim))


_QUICK_MAX = few.largest, few.max_dim, few.amax
_QUICK_MIN = few.least, few.min_dim, few.amin
_extreme_rows("max", kernels.max, kernels.max_dim, kernels.amax, "maximum", _QUICK_MAX)
_extreme_rows("min", kernels.min, kernels.min_dim, kernels.amin, "minimum", _QUICK_MIN)


@op(
    "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    all_flops=flops.reduction(1),
    meta=shapes.along,
    fast=(few.FOR_PLACE, few.argmax),
)
def _argmax(a: Any, dim: Any, keepdim: bool) -> Any:
    return kernels.argmax(a, dim, keepdim)


@op(
    "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    all_flops=flops.reduction(1),
    meta=shapes.along,
    fast=(few.FOR_PLACE, few.argmin),
)
def _argmin(a: Any, dim: Any, keepdim: bool) -> Any:
    return kernels.argmin(a, dim, keepdim)


def _aminmax_gradient(grads: Any, self: Any, dim: Any, keepdim: bool, low: Any, high: Any) -> Any:
    parts = [
        _shared_gradient(g, self, result, dim, keepdim)
        for g, result in zip(grads, (low, high), strict=True)
        if g is not None
    ]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


@op(
    "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    all_flops=flops.reduction(2),
    meta=shapes.pair_along,
    out="exact",
    self=lambda grads, self, dim, keepdim, result0, result1: _aminmax_gradient(
        grads, self, dim, keepdim, result0, result1
    ),
)
def _aminmax(a: Any, dim: Any, keepdim: bool) -> Any:
    return kernels.aminmax(a, dim, keepdim)


# --- norms and log-sums -----------------------------------------------------------------------------------------------


@op(
    "logsumexp(Tensor self, int[] dim, bool keepdim=False) -> Tensor",
    out_dtype="cast",
    all_flops=flops.reduction(4, 2),
    meta=shapes.along,
    fast=(few.FOR_LOGSUMEXP, few.logsumexp),
    self=lambda g, self, result, dim, keepdim: (
        restored(g, self._a.shape, dim, keepdim) * (self - restored(result, self._a.shape, dim, keepdim)).exp().conj()
    ),
)
def _logsumexp(a: Any, dim: Any, keepdim: bool) -> Any:
    return kernels.logsumexp(a, dim, keepdim)


def _norm_gradient(g: Any, self: Any, p: float, dim: Any, keepdim: bool, result: Any) -> Any:
    """Gradient of a vector norm, by the size of p."""
    sizes = self._a.shape
    g, result = restored(g, sizes, dim, keepdim), restored(result, sizes, dim, keepdim)
    if p == 0:
        return self.new_zeros(sizes)
    if p == 1:
        return self.sgn() * g
    if math.isinf(p):
        hit = self.abs() == result
        count = hit.sum(dim, keepdim=True) if dim not in (None, ()) else hit.sum()
        return self.sgn() * (g / count * hit)
    if p == 2:
        return g * (self / result).masked_fill_(result == 0, 0)
    powered = self.abs().pow(p - 1) if p > 1 else self.abs().pow(p - 1).masked_fill(self == 0, 0)
    return self.sgn() * powered * (g / result.pow(p - 1)).masked_fill(result == 0, 0)


@op(
    "linalg_vector_norm(Tensor self, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    all_flops=flops.vector_norm,
    meta=shapes.shape_rule(lambda a, ord, dim, keepdim, dtype: shapes.reduced(a, dim, keepdim)),
    fast=(few.FOR_NORM, few.norm),
    self=lambda g, self, ord, dim, keepdim, result: _norm_gradient(g, self, float(ord), dim, keepdim, result),
)
def _vector_norm(a: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return kernels.norm(a, float(ord), dim, keepdim, dtype=_np(dtype))


vector_norm = _vector_norm.function


@front("norm")
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None, dtype: Any = None) -> Any:
    """Norm of a vector, or of a matrix where `p` says so."""
    if p == "nuc":
        return OPS["linalg_matrix_norm.str_ord"].function(
            input, "nuc", tuple(range(input._a.ndim)) if dim is None else dim, keepdim, dtype=dtype, out=out
        )
    order = 2 if p in ("fro", None) else p
    return vector_norm(input, order, dim, keepdim, dtype=dtype, out=out)


_norm_along = explicit(
    "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[] dim, bool keepdim=False) -> Tensor",
    out_overload="out",
    all_flops=flops.vector_norm,
    node="NormBackward1",
    self=lambda g, self, p, dim, keepdim, result: _norm_gradient(g, self, float(p), dim, keepdim, result),
)(lambda self, p, dim, keepdim: vector_norm(self, p, dim, keepdim))
norm_along = _norm_along.function


@explicit(
    "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
    all_flops=lambda record: 3 * flops.broadcast(record.shapes[:2]) + 1,
    self=lambda g, self, other, p, result: _norm_gradient(g, self - other, float(p), None, False, result),
    other=lambda g, self, other, p, result: -_norm_gradient(g, self - other, float(p), None, False, result),
)
def _dist(self: Any, other: Any, p: Any) -> Any:
    return norm_along(self - other, p, tuple(range(max(self._a.ndim, other._a.ndim))))


def _renorm_gradient(g: Any, self: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    """Slices that were scaled down pass on the gradient through the scale and through their norm."""
    others = [d for d in range(self._a.ndim) if d != wrap_dim(dim, self._a.ndim)]
    size = vector_norm(self, p, others, True)
    inverse = (size + 1e-7).reciprocal()
    product = self.conj() * g
    through = (product.real if product.is_complex() else product).sum(others, True)
    slope = _norm_gradient(through, self, float(p), others, True, size)
    return ((g - slope * inverse) * inverse * maxnorm).where(size > maxnorm, g)


@op(
    "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
    all_flops=flops.reduction(3),
    meta=shapes.same_shape,
    self=lambda g, self, p, dim, maxnorm: _renorm_gradient(g, self, p, dim, maxnorm),
)
def _renorm(a: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    return embedding_kernels.renorm(a, p, dim, maxnorm)


in_place(_renorm)
