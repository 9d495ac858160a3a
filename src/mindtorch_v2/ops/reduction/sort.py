"""Rows of order: sorting, ranks, running totals, differences."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ...core.errors import wrap_dim, wrap_dims
from ...core.tensor import Tensor
from ...dispatch.front import front
from ...dispatch.op import OPS, composite, in_place, op
from ...kernels import result_layout
from ...kernels.reduction import few, rank, scan
from ...kernels.reduction import sort as kernels
from .. import flops
from ..creation.fill import zeros
from ..meta import shapes
from ..pointwise.arithmetic import div, over, times
from ..shape.join import cat
from .reduce import _picked_gradient, without_zeros


def _scattered(g: Any, indices: Any, dim: int) -> Any:
    """Gradients put back where their values came from."""
    return g if g._a.ndim == 0 else zeros(g._a.shape, dtype=g.dtype, device=g.device).scatter(dim, indices, g)


def _placed(g: Any, sizes: tuple[int, ...], indices: Any, dim: int) -> Any:
    return g if not sizes else zeros(sizes, dtype=g.dtype, device=g.device).scatter_add(dim, indices, g)


# --- sorting ----------------------------------------------------------------------------------------------------------


@op(
    "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    out_overload="values",
    meta=shapes.two_of_same_shape,
    layout=result_layout.as_first,
    fast=(few.FOR_SORT, few.sort),
    self=lambda grads, dim, result1: _scattered(grads[0], result1, dim),
    nondiff=(1,),
)
def _sort(a: Any, dim: int, descending: bool) -> Any:
    return kernels.sort(a, dim, descending)


@op(
    "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    out_overload="values_stable",
    meta=shapes.two_of_same_shape,
    layout=result_layout.as_first,
    node="SortBackward1",
    self=lambda grads, dim, result1: _scattered(grads[0], result1, dim),
    nondiff=(1,),
)
def _sort_stable(a: Any, stable: Any, dim: int, descending: bool) -> Any:
    return kernels.sort(a, dim, descending, bool(stable))


@front("sort")
def sort(input: Any, dim: int = -1, descending: bool = False, stable: Any = None, *, out: Any = None,
         axis: Any = None) -> Any:  # fmt: skip
    """The elements in order along a dimension, and where they were."""
    dim = dim if axis is None else axis
    if stable is None:
        return _sort.function(input, dim, descending, out=out)
    return _sort_stable.function(input, stable=stable, dim=dim, descending=descending, out=out)


@composite("argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor")
def _argsort(self: Any, dim: int, descending: bool) -> Any:
    return _sort.function(self, dim, descending)[1]


@composite("argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor")
def _argsort_stable(self: Any, stable: bool, dim: int, descending: bool) -> Any:
    return _sort_stable.function(self, stable=stable, dim=dim, descending=descending)[1]


@front("argsort")
def argsort(input: Any, dim: int = -1, descending: bool = False, stable: Any = None, *, axis: Any = None) -> Any:
    """Where the elements of the sorted tensor are."""
    dim = dim if axis is None else axis
    if stable is not None:
        return _argsort_stable.function(input, stable=stable, dim=dim, descending=descending)
    return _argsort.function(input, dim, descending)


@composite("msort(Tensor self) -> Tensor", out=True)
def _msort(self: Any) -> Any:
    return _sort.function(self, 0)[0]


@op(
    "topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
    out_overload="values",
    meta=shapes.topk,
    fast=(few.FOR_ORDER, few.topk),
    self=lambda grads, self_sizes, dim, result1: _placed(grads[0], self_sizes, result1, dim),
    nondiff=(1,),
)
def _topk(a: Any, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    return kernels.topk(a, int(k), dim, largest, sorted)


# --- ranks ------------------------------------------------------------------------------------------------------------


def _rank_rows(name: str, whole: Any, along: Any, quick: Any, quick_along: Any) -> None:
    """Rows and front of median and nanmedian."""
    first = op(
        f"{name}(Tensor self) -> Tensor",
        meta=shapes.single,
        out=False,
        fast=quick,
        self=lambda g, self, result: _even(g, self, result),
    )(lambda a: whole(a))
    by_dim = op(
        f"{name}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        out_overload="dim_values",
        meta=shapes.pair_along,
        node=f"{name.title()}Backward1",
        fast=quick_along,
        self=lambda grads, self_sizes, dim, keepdim, result1: _picked_gradient(
            grads[0], self_sizes, dim, result1, keepdim
        ),
        nondiff=(1,),
    )(lambda a, dim, keepdim: along(a, dim, keepdim))

    def public(input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None, axis: Any = None,
               keepdims: Any = None) -> Any:  # fmt: skip
        dim = dim if axis is None else axis
        keepdim = keepdim if keepdims is None else keepdims
        return first.function(input) if dim is None else by_dim.function(input, dim, keepdim, out=out)

    public.__name__ = public.__qualname__ = name
    front(name)(public)


def _even(g: Any, self: Any, result: Any) -> Any:
    """Elements equal to the median share its gradient (or the NaNs, if it is one)."""
    chosen = self.isnan() if np.isnan(result._a) else self == result
    return g * chosen / chosen.sum()


_QUICK = (few.FOR_MEDIAN, few.median), (few.FOR_ORDER, few.median_dim)
_rank_rows("median", rank.median, rank.median_dim, *_QUICK)
_rank_rows("nanmedian", rank.nanmedian, rank.nanmedian_dim, None, None)


@op(
    "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    out_overload="values",
    meta=shapes.pair_along,
    self=lambda grads, self_sizes, dim, keepdim, result1: _picked_gradient(grads[0], self_sizes, dim, result1, keepdim),
    nondiff=(1,),
)
def _mode(a: Any, dim: int, keepdim: bool) -> Any:
    return rank.mode(a, dim, keepdim)


@op(
    "kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    out_overload="values",
    meta=shapes.kthvalue,
    fast=(few.FOR_ORDER, few.kthvalue),
    out="exact",
    self=lambda grads, self_sizes, dim, keepdim, result1: _picked_gradient(grads[0], self_sizes, dim, result1, keepdim),
    nondiff=(1,),
)
def _kthvalue(a: Any, k: int, dim: int, keepdim: bool) -> Any:
    return rank.kthvalue(a, int(k), dim, keepdim)


def _quantile_of(self: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, ignore: bool) -> Any:
    """Quantiles as sums of sorted elements, so that gradients come from the parts."""
    points = q if hasattr(q, "_a") else self.new_tensor(q)
    rank.check_quantile(self._a, points._a, dim, interpolation)
    flat = self.reshape(-1) if dim is None else self
    axis = -1 if dim is None else wrap_dim(dim, self._a.ndim)
    ordered = sort(flat if flat._a.ndim else flat.reshape(1), axis)[0].movedim(axis, -1)
    missing = ordered.isnan()
    n = ordered._a.shape[-1]
    last = (n - 1 - missing.sum(-1, keepdim=True)).clamp(min=0) if ignore else self.new_full((1,), n - 1)
    ranks = points.reshape(-1) * last
    if not ignore:
        ranks = ranks.masked_fill(missing.any(-1, keepdim=True), n - 1)
    result = _between(ordered, ranks, interpolation).movedim(-1, 0)
    if keepdim and dim is None:
        result = result.reshape(result._a.shape[0], *(1,) * self._a.ndim)
    elif keepdim and self._a.ndim:
        result = result.unsqueeze(axis + 1)
    return result if points._a.ndim else result.squeeze(0)


def _between(ordered: Any, ranks: Any, interpolation: str) -> Any:
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    shape = (*ordered._a.shape[:-1], ranks._a.shape[-1])
    below = ranks.floor().long().expand(shape)
    low = ordered.gather(-1, below)
    if interpolation in ("lower", "higher", "nearest"):
        return low
    high = ordered.gather(-1, ranks.ceil().long().expand(shape))
    weight = (
        ranks - ranks.floor() if interpolation == "linear" else ranks.new_full((1,), 0.5) * (ranks != ranks.floor())
    )
    return low.lerp(high, weight.to(low.dtype))


@composite(
    "quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
    autocast="float32",
    out=True,
)
def _quantile(self: Any, q: Any, dim: Any, keepdim: bool, interpolation: str) -> Any:
    return _quantile_of(self, q, dim, keepdim, interpolation, False)


@composite(
    "nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
    autocast="float32",
    out=True,
)
def _nanquantile(self: Any, q: Any, dim: Any, keepdim: bool, interpolation: str) -> Any:
    return _quantile_of(self, q, dim, keepdim, interpolation, True)


def _with_number(row: Any, ignore: bool) -> None:
    """The overload of a quantile for one number, and the front of both."""
    text = row.text.replace("(Tensor self, Tensor q", ".scalar(Tensor self, float q")
    of_number = composite(text, autocast="float32", out=True)(
        lambda self, q, dim, keepdim, interpolation: _quantile_of(self, q, dim, keepdim, interpolation, ignore)
    )

    def public(input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear",
               out: Any = None) -> Any:  # fmt: skip
        if not isinstance(q, (Tensor, int, float)):
            q = input.new_tensor(q)
        function = row.function if isinstance(q, Tensor) else of_number.function
        return function(input, q, dim, keepdim, interpolation=interpolation, out=out)

    public.__name__ = public.__qualname__ = row.name
    front(row.name)(public)


_with_number(_quantile, False)
_with_number(_nanquantile, True)


# --- running totals ---------------------------------------------------------------------------------------------------


def _reversed_sum(g: Any, dim: int) -> Any:
    return g if g._a.ndim == 0 else g.flip(dim).cumsum(dim).flip(dim)


@op(
    "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    out_dtype="compute",
    all_flops=flops.reduction(1),
    meta=shapes.same_shape,
    fast=(few.FOR_CUMSUM, few.cumsum),
    self=lambda g, dim: _reversed_sum(g, dim),
)
def _cumsum(a: Any, dim: int, dtype: Any) -> Any:
    return scan.cumsum(a, dim, dtype=None if dtype is None else dtype.np)


@op(
    "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    out_dtype="compute",
    all_flops=flops.reduction(1),
    meta=shapes.same_shape,
    self=lambda g, self, dim, result: _cumprod_gradient(g, self, dim, result),
)
def _cumprod(a: Any, dim: int, dtype: Any) -> Any:
    return scan.cumprod(a, dim, dtype=None if dtype is None else dtype.np)


in_place(_cumsum)
in_place(_cumprod)


def _cumprod_gradient(g: Any, self: Any, dim: int, result: Any) -> Any:
    if self._a.ndim == 0:
        return g
    if without_zeros(self):
        return _reversed_sum(g * result.conj(), dim) / self.conj()
    # Where a zero is among the factors no quotient helps: each element's own running product without it.
    parts = []
    for i in range(self._a.shape[dim]):
        mask = np.zeros(self._a.shape[dim], bool)
        mask[i] = True
        shape = [1] * self._a.ndim
        shape[dim] = -1
        without = self.masked_fill(_mask(self, mask.reshape(shape)), 1).cumprod(dim)
        length = self._a.shape[dim] - i
        parts.append((g.narrow(dim, i, length) * without.narrow(dim, i, length).conj()).sum(dim, True))
    return OPS["cat"].function(parts, dim)


def _mask(like: Any, array: Any) -> Any:
    return like.new_tensor(array, dtype=OPS["eq.Tensor"].function(like, like).dtype)


@op(
    "logcumsumexp(Tensor self, int dim) -> Tensor",
    all_flops=flops.reduction(1),
    meta=shapes.same_shape,
    self=lambda g, self, dim, result: _logcumsumexp_gradient(g, self, dim, result),
)
def _logcumsumexp(a: Any, dim: int) -> Any:
    return scan.logcumsumexp(a, dim)


def _logcumsumexp_gradient(g: Any, self: Any, dim: int, result: Any) -> Any:
    if self._a.ndim == 0:
        return g
    if g._a.dtype.kind == "c":
        logs = (g.conj().log() - result).flip(dim).logcumsumexp(dim).flip(dim)
        return (logs + self).exp().conj()

    def half(chosen: Any) -> Any:
        """The part of the gradient with one sign; the least number instead of log 0 keeps second derivatives finite."""
        least = float(ml_dtypes.finfo(g._a.dtype).min)  # type: ignore[no-untyped-call]
        logs = g.abs().masked_fill(chosen.logical_not(), 1).log().masked_fill(chosen.logical_not(), least)
        return ((logs - result).flip(dim).logcumsumexp(dim).flip(dim) + self).exp()

    return half(g > 0) - half(g < 0)


@op(
    "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    all_flops=flops.reduction(1),
    meta=shapes.two_of_same_shape,
    self=lambda grads, self_sizes, dim, result1: _placed(grads[0], self_sizes, result1, dim),
    nondiff=(1,),
)
def _cummax(a: Any, dim: int) -> Any:
    return scan.cummax(a, dim)


@op(
    "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    all_flops=flops.reduction(1),
    meta=shapes.two_of_same_shape,
    self=lambda grads, self_sizes, dim, result1: _placed(grads[0], self_sizes, result1, dim),
    nondiff=(1,),
)
def _cummin(a: Any, dim: int) -> Any:
    return scan.cummin(a, dim)


# --- differences and integrals ----------------------------------------------------------------------------------------


@composite("diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", out=True)
def _diff(self: Any, n: int, dim: int, prepend: Any, append: Any) -> Any:
    if self._a.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:
        return self.clone()
    parts = [t for t in (prepend, self, append) if t is not None]
    whole = OPS["cat"].function(parts, dim) if len(parts) > 1 else self
    for _ in range(min(n, whole._a.shape[dim])):
        length = whole._a.shape[dim]
        after, before = whole.narrow(dim, 1, length - 1), whole.narrow(dim, 0, length - 1)
        whole = after.logical_xor(before) if whole._a.dtype.kind == "b" else after - before
    return whole


def _neighbours(t: Any, dim: int) -> tuple[Any, Any]:
    """All but the last and all but the first entry along a dimension."""
    most = max(t._a.shape[dim] - 1, 0)
    return t.narrow(dim, 0, most), t.narrow(dim, t._a.shape[dim] - most, most)


def _widths(y: Any, x: Any, dim: int) -> Any:
    """The distances between the places of neighbours, in dimensions that broadcast against `y`."""
    if x._a.ndim == 1:
        x = x.view([-1 if d == wrap_dim(dim, y._a.ndim) else 1 for d in range(y._a.ndim)])
    elif x._a.ndim < y._a.ndim:
        x = x.view((1,) * (y._a.ndim - x._a.ndim) + x._a.shape)
    left, right = _neighbours(x, dim)
    return right - left


def _areas(y: Any, widths: Any, dim: int) -> Any:
    """Twice the areas of the trapezoids between neighbours."""
    left, right = _neighbours(y, dim)
    return (left + right) * widths


def _integral_at(y: Any, x: Any, dim: int) -> Any:
    if y._a.shape[dim] == 0:
        return y.new_zeros(y._a.shape).sum(dim)
    return over(_areas(y, _widths(y, x, dim), dim).sum(dim), 2.0)


def _integral(y: Any, dx: Any, dim: int) -> Any:
    if y._a.shape[dim] == 0:
        return y.new_zeros(y._a.shape).sum(dim)
    ends = times(y.select(dim, 0) + y.select(dim, -1), 0.5)
    return times(y.sum(dim) - ends, dx)


def _running_integral(y: Any, dx: Any, dim: int) -> Any:
    left, right = _neighbours(y, dim)
    return times(left + right, dx / 2.0).cumsum(dim)


def _running_integral_at(y: Any, x: Any, dim: int) -> Any:
    return over(_areas(y, _widths(y, x, dim), dim).cumsum(dim), 2.0)


def _integral_rows(name: str, step: str, even: Any, at: Any) -> Any:
    """Both overloads of an integral by the trapezoid rule, for even steps and for places, and their front."""
    by_step = composite(f"{name}.dx(Tensor y, *, {step} dx=1, int dim=-1) -> Tensor", method=False)(even)
    by_place = composite(f"{name}.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", method=False)(at)

    def public(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
        if x is not None:
            return by_place.function(y, x, dim=dim)
        return by_step.function(y, dx=1 if dx is None else dx, dim=dim)

    public.__name__ = public.__qualname__ = name
    return front(name)(public)


trapezoid = _integral_rows("trapezoid", "Scalar", _integral, _integral_at)
_integral_rows(
    "trapz", "float", lambda y, dx, dim: trapezoid(y, dx=dx, dim=dim), lambda y, x, dim: trapezoid(y, x, dim=dim)
)
cumulative_trapezoid = _integral_rows("cumulative_trapezoid", "Scalar", _running_integral, _running_integral_at)


# --- gradients along dimensions ---------------------------------------------------------------------------------------


def _slopes(x: Any, dim: int, h: Any, edge_order: int) -> Any:
    """Differences over distances: central ones inside, one-sided ones at both ends."""
    n = x._a.shape[dim]

    def part(start: int) -> Any:
        return x.narrow(dim, start, 1)

    by = div.function if isinstance(h, Tensor) else over
    if edge_order == 1:
        first, last = by(part(1) - part(0), h), by(part(n - 1) - part(n - 2), h)
    else:
        first = by(times(part(0), -1.5) + times(part(1), 2) - times(part(2), 0.5), h)
        last = by(times(part(n - 1), 1.5) - times(part(n - 2), 2) + times(part(n - 3), 0.5), h)
    inner = over(by(x.narrow(dim, 2, n - 2) - x.narrow(dim, 0, n - 2), h), 2)
    return cat([first, inner, last], dim)


def _slopes_at(x: Any, dim: int, places: Any, edge_order: int) -> Any:
    """As `_slopes`, for values at uneven places: weights that make the differences exact for parabolas."""
    n = x._a.shape[dim]
    shape = [1] * x._a.ndim
    shape[dim] = -1
    steps = (places.narrow(0, 1, places._a.shape[0] - 1) - places.narrow(0, 0, places._a.shape[0] - 1)).reshape(shape)
    before, after = steps.narrow(dim, 0, n - 2), steps.narrow(dim, 1, n - 2)
    both = before + after
    inner = (
        x.narrow(dim, 0, n - 2) * (-after / (before * both))
        + x.narrow(dim, 1, n - 2) * ((after - before) / (before * after))
        + x.narrow(dim, 2, n - 2) * (before / (after * both))
    )

    def edge(at: int, step: int, weight_of: Any, next_of: Any) -> Any:
        """The end at `at`, from the values that lie `step` further in."""
        if edge_order == 1:
            return (x.narrow(dim, at + step, 1) - x.narrow(dim, at, 1)) / (weight_of * step)
        a, b = weight_of, next_of
        near, middle, far = (x.narrow(dim, at + i * step, 1) for i in range(3))
        return (near * -((a * 2 + b) / (a * (a + b))) + middle * ((a + b) / (a * b)) - far * (a / (b * (a + b)))) * step

    def step_at(i: int) -> Any:
        return steps.narrow(dim, min(max(i, 0), n - 2), 1)

    first = edge(0, 1, step_at(0), step_at(1))
    last = edge(n - 1, -1, step_at(n - 2), step_at(n - 3))
    return cat([first, inner, last], dim)


def _check_gradient(self: Any, spacing: Any, dim: Any, dims: list[int], edge_order: int) -> None:
    start = "torch.gradient "
    if edge_order not in (1, 2):
        raise RuntimeError(start + "only supports edge_order=1 and edge_order=2.")
    if isinstance(spacing, (list, tuple)) and dim is None and len(spacing) != self._a.ndim:
        raise RuntimeError(
            f"{start}expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = "
            f"{self._a.ndim}', since dim argument was not given, but got a list of length {len(spacing)}"
        )
    if isinstance(spacing, (list, tuple)) and len(spacing) != len(dims):
        raise RuntimeError(
            f"{start}expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the same "
            f"length, but got a spacing argument of length {len(spacing)} and a dim argument of length {len(dims)}."
        )
    if any(self._a.shape[d] < edge_order + 1 for d in dims):
        raise RuntimeError(start + "expected each dimension size to be at least edge_order+1")
    for places in spacing if isinstance(spacing, (list, tuple)) else ():
        if isinstance(places, Tensor) and places._a.ndim != 1:
            raise RuntimeError(
                f"{start}expected each element of spacing to have one dimension, but got an element with "
                f"{places._a.ndim} dimensions!"
            )


def _gradients(self: Any, spacing: Any, dim: Any, edge_order: int) -> Any:
    """Slopes along each of the dimensions."""
    named = [dim] if isinstance(dim, int) else list(range(self._a.ndim)) if dim is None else list(dim)
    dims = list(wrap_dims(named, self._a.ndim)) if named else []
    _check_gradient(self, spacing, dim, dims, edge_order)
    distances = list(spacing) if isinstance(spacing, (list, tuple)) else [1 if spacing is None else spacing] * len(dims)
    return tuple(
        (_slopes_at if isinstance(h, Tensor) and h._a.ndim else _slopes)(self, d, h, edge_order)
        for d, h in zip(dims, distances, strict=True)
    )


# The overloads of `gradient`, by what is given as spacing and whether the dimensions are a list.
_GRADIENTS = {
    "scalarint": "Scalar? spacing=None, int? dim=None", "scalararray": "Scalar spacing, int[] dim",
    "scalarrayint": "Scalar[] spacing, int? dim=None", "scalarrayarray": "Scalar[] spacing, int[] dim",
    "tensorarrayint": "Tensor[] spacing, int? dim=None", "tensorarray": "Tensor[] spacing, int[] dim",
}  # fmt: skip
_gradient_rows = {
    overload: composite(
        f"gradient.{overload}(Tensor self, *, {arguments}, int edge_order=1) -> Tensor[]", method=False
    )(_gradients)
    for overload, arguments in _GRADIENTS.items()
}
_gradient_rows["array"] = composite(
    "gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]", method=False
)(lambda self, dim, edge_order: _gradients(self, None, dim, edge_order))


@front("gradient")
def gradient(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> Any:
    """How fast a function changes whose values are given, along each dimension."""
    several = isinstance(dim, (list, tuple))
    if spacing is None and several:
        return _gradient_rows["array"].function(input, dim=dim, edge_order=edge_order)
    kind = "scalar"
    if isinstance(spacing, (list, tuple)):
        kind = "tensorarray" if any(isinstance(h, Tensor) for h in spacing) else "scalarray"
    name = "tensorarray" if kind == "tensorarray" and several else kind + ("array" if several else "int")
    return _gradient_rows[name].function(input, spacing=spacing, dim=dim, edge_order=edge_order)
