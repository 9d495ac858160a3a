"""Rows that look values up: searchsorted, bucketize, unique values, membership."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.meta import meta
from ...core.tensor import Tensor, make
from ...dispatch.front import front
from ...dispatch.op import op
from ...kernels.compiled import C
from ...kernels.reduction import sort as kernels
from ..meta import shapes

_OPTIONS = "*, bool out_int32=False, bool right=False"
_SEARCH = f"{_OPTIONS}, str? side=None, Tensor? sorter=None) -> Tensor"


@op(
    f"searchsorted.Tensor(Tensor sorted_sequence, Tensor self, {_SEARCH}",
    out_overload="Tensor_out",
    meta=shapes.searchsorted,
    method=False,
)
def _searchsorted(sequence: Any, values: Any, out_int32: bool, right: bool, side: Any, sorter: Any) -> Any:
    return kernels.searchsorted(sequence, values, out_int32=out_int32, right=right, side=side, sorter=sorter)


@op(f"searchsorted.Scalar(Tensor sorted_sequence, Scalar self, {_SEARCH}", meta=shapes.searchsorted, method=False)
def _searchsorted_number(sequence: Any, value: Any, out_int32: bool, right: bool, side: Any, sorter: Any) -> Any:
    values = np.asarray(value)
    return kernels.searchsorted(sequence, values, out_int32=out_int32, right=right, side=side, sorter=sorter)


@front("searchsorted")
def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False, side: Any = None,
    sorter: Any = None, out: Any = None,
) -> Tensor:  # fmt: skip
    """Where values would have to be put into sorted sequences to keep them sorted."""
    row = _searchsorted if isinstance(input, Tensor) else _searchsorted_number
    return row.function(sorted_sequence, input, out_int32=out_int32, right=right, side=side, sorter=sorter, out=out)


@op(
    f"bucketize.Tensor(Tensor self, Tensor boundaries, {_OPTIONS}) -> Tensor",
    out_overload="Tensor_out",
    meta=shapes.bucketize,
    method=False,
)
def _bucketize(values: Any, boundaries: Any, out_int32: bool, right: bool) -> Any:
    return kernels.bucketize(values, boundaries, out_int32=out_int32, right=right)


@op(f"bucketize.Scalar(Scalar self, Tensor boundaries, {_OPTIONS}) -> Tensor", meta=shapes.bucketize, method=False)
def _bucketize_number(value: Any, boundaries: Any, out_int32: bool, right: bool) -> Any:
    return kernels.bucketize(np.asarray(value), boundaries, out_int32=out_int32, right=right)


@front("bucketize")
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Any = None
) -> Tensor:
    """The number of the bucket, between sorted boundaries, that each value falls into."""
    row = _bucketize if isinstance(input, Tensor) else _bucketize_number
    return row.function(input, boundaries, out_int32=out_int32, right=right, out=out)


# --- unique -----------------------------------------------------------------------------------------------------------

_FLAGS = "bool return_inverse=False, bool return_counts=False"


@op(
    f"_unique2(Tensor self, bool sorted=True, {_FLAGS}) -> (Tensor, Tensor, Tensor)",
    meta=shapes.needs_values,
    out=False,
)
def _unique2(a: Any, sorted: bool, return_inverse: bool, return_counts: bool) -> Any:
    return kernels.unique(a, sorted, return_inverse, return_counts)


@op(
    f"unique_dim(Tensor self, int dim, bool sorted=True, {_FLAGS}) -> (Tensor, Tensor, Tensor)",
    meta=shapes.needs_values,
    out=False,
)
def _unique_dim(a: Any, dim: int, sorted: bool, return_inverse: bool, return_counts: bool) -> Any:
    return kernels.unique_dim(a, dim, sorted, return_inverse, return_counts)


@op(
    f"unique_consecutive(Tensor self, {_FLAGS}, int? dim=None) -> (Tensor, Tensor, Tensor)",
    meta=shapes.needs_values,
    out=False,
)
def _unique_consecutive(a: Any, return_inverse: bool, return_counts: bool, dim: int | None) -> Any:
    return kernels.unique_consecutive(a, return_inverse, return_counts, dim)


def _asked_for(found: Any, return_inverse: bool, return_counts: bool) -> Any:
    values, inverse, counts = found
    extras = ([inverse] if return_inverse else []) + ([counts] if return_counts else [])
    return (values, *extras) if extras else values


@front("unique")
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """The different elements (or slices along a dimension), in order."""
    if dim is None:
        found = _unique2.function(input, sorted, return_inverse, return_counts)
    else:
        found = _unique_dim.function(input, dim, sorted, return_inverse, return_counts)
    return _asked_for(found, return_inverse, return_counts)


@front("unique_consecutive")
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """The elements (or slices) without those equal to the one before."""
    found = _unique_consecutive.function(input, return_inverse, return_counts, dim)
    return _asked_for(found, return_inverse, return_counts)


# --- membership -------------------------------------------------------------------------------------------------------

_FEW = 4096  # up to so many pairs are compared each
_any: Any = np.logical_or.reduce
_ISIN = "*, bool assume_unique=False, bool invert=False) -> Tensor"


@op(
    f"isin.Tensor_Tensor(Tensor elements, Tensor test_elements, {_ISIN}",
    meta=shapes.result_rule(lambda elements, *rest: meta(elements.shape, np.bool_)),
    method=False,
)
def _isin(elements: Any, test_elements: Any, assume_unique: bool, invert: bool) -> Any:
    if 0 < elements.size * test_elements.size <= _FEW:
        made = None if C is None else C.isin(elements, test_elements, invert)
        if made is not None:
            return made
        found = _any(np.equal(elements[..., None], test_elements.reshape(-1)), -1)
        return np.logical_not(found) if invert else found
    return np.isin(elements, test_elements, assume_unique=assume_unique, invert=invert)


@front("isin")
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False, out: Any = None
) -> Any:
    """Which elements occur among others."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError(
            "isin() received an invalid combination of arguments - got "
            f"({type(elements).__name__}, {type(test_elements).__name__}), but at least one must be a Tensor"
        )
    given = [v if isinstance(v, Tensor) else make(np.asarray(v)) for v in (elements, test_elements)]
    return _isin.function(*given, assume_unique=assume_unique, invert=invert, out=out)
