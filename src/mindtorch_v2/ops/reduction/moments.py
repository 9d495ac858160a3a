"""Rows of variances and standard deviations, alone and with the mean."""

from __future__ import annotations

import math
import operator
from typing import Any

from ...core.tap import SLOT
from ...dispatch.front import front
from ...dispatch.op import composite, op
from ...kernels.reduction import few
from ...kernels.reduction import moments as kernels
from .. import flops
from ..meta import shapes
from ..pointwise.arithmetic import times
from .reduce import mean, reduced_count, restored, settled


def _degrees(sizes: tuple[int, ...], dim: Any, correction: Any) -> float:
    left = reduced_count(sizes, dim) - (1 if correction is None else correction)
    return left if left > 0 else math.nan


def _var_gradient(g: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    sizes = self._a.shape
    centre = self - (mean(self) if dim in (None, ()) else mean(self, dim, True))
    return times(restored(g, sizes, dim, keepdim), 2.0 / _degrees(sizes, dim, correction)) * centre


def _std_gradient(g: Any, self: Any, result: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    scaled = (g / times(result, 2)).masked_fill(result == 0, 0)
    return _var_gradient(scaled, self, dim, correction, keepdim)


def _with_mean(moment: Any, g: Any, self: Any, dim: Any, keepdim: bool) -> Any:
    """The gradient of a moment, or None, and that of the mean beside it."""
    if g is None:
        return moment
    sizes = self._a.shape
    share = restored(g, sizes, dim, keepdim) / reduced_count(sizes, dim)
    return share.expand(sizes) if moment is None else moment + share


def _moment_rows(name: str, kernel: Any, quick: Any, formula: Any, both: Any, both_formula: Any) -> None:
    """Rows and front of var or std, alone and with the mean."""
    all_flops = flops.reduction(4, 2 if name == "var" else 3)
    part = op(
        f"{name}.correction(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
        out_dtype="cast",
        meta=shapes.variance,
        all_flops=all_flops,
        fast=(few.FOR_MOMENTS, quick),
        self=formula,
    )(lambda a, dim, correction, keepdim: kernel(a, dim, 1 if correction is None else correction, keepdim))
    pair = op(
        f"{name}_mean.correction(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) "
        "-> (Tensor, Tensor)",
        meta=shapes.variance_and_mean,
        all_flops=all_flops,
        out=False,
        self=both_formula,
    )(lambda a, dim, correction, keepdim: both(a, dim, 1 if correction is None else correction, keepdim))

    def public(row: Any, public_name: str) -> None:
        returns = row.schema.text.rpartition("->")[2]
        over_all = composite(f"{public_name}(Tensor self, bool unbiased=True) ->{returns}", out=False)(
            lambda self, unbiased: row.function(self, None, correction=operator.index(unbiased))
        )
        over_some = composite(
            f"{public_name}.dim(Tensor self, int[]? dim, bool unbiased=True, bool keepdim=False) ->{returns}",
            out_overload="out",
            out=row.has_out,
        )(
            lambda self, dim, unbiased, keepdim: row.function(
                self, dim, correction=operator.index(unbiased), keepdim=keepdim
            )
        )

        def moment(input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None,
                   out: Any = None, axis: Any = None, keepdims: Any = None) -> Any:  # fmt: skip
            if type(dim) is int and correction is out is axis is keepdims is None and SLOT.recorder is None:
                return row.function(
                    input, dim, correction=1 if unbiased is None else operator.index(unbiased), keepdim=keepdim
                )
            dim, keepdim = settled(dim, keepdim, axis, keepdims)
            if isinstance(dim, bool):
                dim, unbiased = None, dim
            options = {} if out is None else {"out": out}
            if correction is None and dim is not None:
                return over_some.function(input, dim, True if unbiased is None else unbiased, keepdim, **options)
            if correction is None and unbiased is not None:
                if out is None and not keepdim:
                    return over_all.function(input, unbiased)
                correction = 1 if unbiased else 0
            return row.function(input, dim, correction=correction, keepdim=keepdim, **options)

        moment.__name__ = moment.__qualname__ = public_name
        front(public_name)(moment)

    public(part, name)
    public(pair, f"{name}_mean")


_moment_rows(
    "var",
    kernels.var,
    few.var,
    lambda g, self, dim, correction, keepdim: _var_gradient(g, self, dim, correction, keepdim),
    kernels.var_mean,
    lambda grads, self, dim, correction, keepdim: _with_mean(
        None if grads[0] is None else _var_gradient(grads[0], self, dim, correction, keepdim),
        grads[1],
        self,
        dim,
        keepdim,
    ),
)
_moment_rows(
    "std",
    kernels.std,
    few.std,
    lambda g, self, result, dim, correction, keepdim: _std_gradient(g, self, result, dim, correction, keepdim),
    kernels.std_mean,
    lambda grads, self, result0, dim, correction, keepdim: _with_mean(
        None if grads[0] is None else _std_gradient(grads[0], self, result0, dim, correction, keepdim),
        grads[1],
        self,
        dim,
        keepdim,
    ),
)
