"""Rows that count elements into bins. The counting itself is in `kernels.reduction.histogram`."""

from __future__ import annotations

from typing import Any

from ...core.meta import meta
from ...core.tensor import Tensor
from ...dispatch.compute import result_type
from ...dispatch.front import front
from ...dispatch.op import composite, op
from ...kernels.reduction import histogram as kernels
from ..meta import shapes


@op("bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor", meta=shapes.needs_values, out=False)
def _bincount(a: Any, weights: Any, minlength: int) -> Any:
    return kernels.bincount(a, weights, minlength)


@op(
    "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    meta=shapes.result_rule(lambda a, bins, *rest: meta((bins,), a.dtype)),
)
def _histc(a: Any, bins: int, min: Any, max: Any) -> Any:
    return kernels.histc(a, bins, min, max)


_WEIGHED = "Tensor? weight=None, bool density=False"
_RESULTS = "(Tensor hist, Tensor bin_edges)"


@op(
    f"histogram.bins_tensor(Tensor self, Tensor bins, *, {_WEIGHED}) -> {_RESULTS}",
    meta=shapes.result_rule(lambda a, edges, *rest: (meta((edges.size - 1,), a.dtype), shapes.like(edges))),
)
def _histogram_edges(a: Any, bins: Any, weight: Any, density: bool) -> Any:
    return kernels.histogram(a, bins, weight=weight, density=density)


@op(
    f"histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, {_WEIGHED}) -> {_RESULTS}",
    meta=shapes.result_rule(lambda a, bins, *rest: (meta((bins,), a.dtype), meta((bins + 1,), a.dtype))),
)
def _histogram_count(a: Any, bins: int, range: Any, weight: Any, density: bool) -> Any:
    return kernels.histogram(a, bins, range=range, weight=weight, density=density)


@front("histogram")
def histogram(input: Tensor, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False,
              out: Any = None) -> Any:  # fmt: skip
    """Counts, or weights, in bins given by their number or by their edges."""
    if not isinstance(bins, Tensor):
        return _histogram_count.function(input, bins, range=range, weight=weight, density=density, out=out)
    if range is not None:
        raise TypeError("histogram(): range is for a number of bins; bins given by their edges have their own")
    return _histogram_edges.function(input, bins, weight=weight, density=density, out=out)


_SPANNED = "float[]? range=None, Tensor? weight=None, bool density=False"


@op(
    f"_histogramdd_bin_edges(Tensor self, int[] bins, *, {_SPANNED}) -> Tensor[]",
    meta=shapes.result_rule(lambda a, bins, *rest: [meta((n + 1,), a.dtype) for n in bins]),
    method=False,
    spread=False,
)
def _bin_edges(a: Any, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    return list(kernels.histogramdd(a, bins, range=range, weight=weight)[1])


@op(
    f"_histogramdd_from_bin_cts(Tensor self, int[] bins, *, {_SPANNED}) -> Tensor",
    meta=shapes.result_rule(lambda a, bins, *rest: meta(tuple(bins), a.dtype)),
    method=False,
    spread=False,
)
def _from_counts(a: Any, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    return kernels.histogramdd(a, bins, range=range, weight=weight, density=density)[0]


@op(
    f"_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, {_WEIGHED}) -> Tensor",
    meta=shapes.result_rule(lambda a, bins, *rest: meta(tuple(e.size - 1 for e in bins), a.dtype)),
    method=False,
)
def _from_edges(a: Any, bins: Any, weight: Any, density: bool) -> Any:
    return kernels.histogramdd(a, bins, weight=weight, density=density)[0]


@composite(f"histogramdd(Tensor self, int[] bins, {_SPANNED}) -> (Tensor hist, Tensor[] bin_edges)", method=False)
def _histogramdd(self: Any, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    named = result_type(_histogramdd)
    if not isinstance(bins, int) and any(isinstance(edges, Tensor) for edges in bins):
        return named(_from_edges.function(self, bins, weight=weight, density=density), tuple(bins))
    counts = [bins] * (self._a.shape[-1] if self._a.ndim else 0) if isinstance(bins, int) else bins
    given = {"range": range, "weight": weight, "density": density}
    edges = _bin_edges.function(self, counts, **given)
    return named(_from_counts.function(self, counts, **given), edges)
