"""Owns reductions of a few numbers, where the questions that `reduce` asks take longer than all the rest.

Each comes with the condition under which it may stand for the kernel in `reduce`, as text for generated code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import C, stand_in
from ..passes import NUMBERS
from ..totals import Array

F32, BOOL = np.dtype(np.float32), np.dtype(np.bool_)


class _Ones(dict[int, Any]):
    """Vectors of ones by length: a product with them sums a small array in a quarter of the time of `add.reduce`."""

    def __missing__(self, n: int) -> Any:
        ones = self[n] = np.ones(n, np.float32)
        return ones


ONES = _Ones()

# Conditions in generated code for the arrays that these functions take.
_OF_NUMBERS = "(input._a.dtype is F32 or input._a.dtype is F64 or input._a.dtype is I64)"
FOR_ALL = f"0 < input._a.size <= 4096 and {_OF_NUMBERS}"
FOR_DIM = f"type(dim) is int and {FOR_ALL} and input._a.flags.c_contiguous"
# Counting does not stop at the first element that decides.
FOR_TRUTH = f"input._a.size <= 4096 and (input._a.dtype is BOOL or {_OF_NUMBERS})"
FOR_TRUTH_DIM = f"type(dim) is int and {FOR_TRUTH} and input._a.flags.c_contiguous"
_OF_FLOATS = "0 < input._a.size <= 4096 and (input._a.dtype is F32 or input._a.dtype is F64)"
FOR_PLACE = f"(dim is None or type(dim) is int) and {FOR_ALL} and input._a.flags.c_contiguous"
FOR_MEAN = f"dtype is None and {_OF_FLOATS}"


def _compiled(condition: str) -> str:
    """A condition for what is not done here without the compiled loops."""
    return "False" if C is None else condition


_DIMS = "type(dim) is tuple and 0 < input._a.ndim <= 4 and dim == (0, 1, 2, 3)[:input._a.ndim] and not keepdim"
_DIMS = "(type(dim) is tuple or type(dim) is list) and dim"
FOR_SUM_DIM = _compiled(
    f"(type(dim) is int or {_DIMS}) and dtype is None and 0 < input._a.size <= 4096 and {_OF_NUMBERS}"
)
FOR_EXTREME = (
    f"(type(dim) is int or type(dim) is tuple or type(dim) is list) and {FOR_ALL} and input._a.flags.c_contiguous"
)
FOR_MEAN_DIM = _compiled(f"type(dim) is int and dtype is None and {_OF_FLOATS}")
FOR_NORM = _compiled(f"ord == 2 and dtype is None and (dim is None or type(dim) is int) and {_OF_FLOATS}")
FOR_ORDER = _compiled(f"type(dim) is int and 0 < input._a.size <= 4096 and {_OF_NUMBERS}")
FOR_SORT = _compiled(f"type(dim) is int and 0 < {FOR_TRUTH}")
FOR_CUMSUM = _compiled(f"type(dim) is int and dtype is None and {FOR_TRUTH}")
FOR_LOGSUMEXP = _compiled(f"type(dim) is int and {_OF_FLOATS}")
FOR_MEDIAN = _compiled(f"0 < input._a.size <= 1024 and {_OF_NUMBERS}")
FOR_PRODUCT = _compiled(f"dtype is None and {FOR_ALL}")
FOR_PRODUCT_DIM = _compiled(f"type(dim) is int and {FOR_PRODUCT}")
FOR_MOMENTS = _compiled(f"(dim is None or type(dim) is int) and {_OF_FLOATS}")
_IN_TURN = tuple(tuple(range(n)) for n in range(65))
_add: Any = np.add.reduce
_maximum: Any = np.maximum.reduce
_minimum: Any = np.minimum.reduce
_not_equal = stand_in(np.not_equal)
_and: Any = np.logical_and.reduce
_or: Any = np.logical_or.reduce


def mean(a: Array, dtype: Any) -> Any:
    """``mean`` of a few floats."""
    made = None if C is None else C.add_up(a, None, False, a.size)
    return total(a) / a.dtype.type(a.size) if made is None else made


def total(a: Array) -> Any:
    """``sum`` of a few floats."""
    made = None if C is None else C.add_up(a, None, False)
    if made is not None:
        return made
    return a.reshape(-1).dot(ONES[a.size]) if a.dtype is F32 else _add(a, None)


def _or_refused(made: Any) -> Any:
    """What a compiled loop made; ValueError where it did not take the array, which may overflow or lie otherwise."""
    if made is None:
        raise ValueError
    return made


def sum_dim(a: Array, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """``sum`` of a few numbers over one dimension or several."""
    if type(dim) is int:
        return _or_refused(C.add_up(a, dim, keepdim))
    if len(dim) == 1:
        made = C.add_up(a, dim[0], keepdim)
    else:
        whole = not keepdim and len(dim) == a.ndim and tuple(dim) == _IN_TURN[a.ndim]
        made = C.add_up(a, None, False) if whole else None
    return np.asarray(_add(a, tuple(dim), None, None, keepdim), order="C") if made is None else made


def mean_dim(a: Array, dim: int, keepdim: bool, dtype: Any) -> Any:
    """``mean`` of a few floats over one dimension."""
    n = a.shape[dim] if -a.ndim <= dim < a.ndim else 1  # a dimension that is not there is refused by the loop
    return _or_refused(C.add_up(a, dim, keepdim, n))


def var(a: Array, dim: int | None, correction: float | None, keepdim: bool) -> Any:
    """``var`` of a few floats."""
    return _or_refused(C.variance(a, dim, keepdim, 1 if correction is None else correction, False))


def std(a: Array, dim: int | None, correction: float | None, keepdim: bool) -> Any:
    """``std`` of a few floats."""
    return _or_refused(C.variance(a, dim, keepdim, 1 if correction is None else correction, True))


def norm(a: Array, ord: Any, dim: int | None, keepdim: bool, dtype: Any) -> Any:
    """The length of a few floats as one vector, or of the vectors along one dimension."""
    return _or_refused(C.length(a, dim, keepdim))


def product(a: Array, dim: int | None, keepdim: bool, dtype: Any) -> Any:
    """``prod`` of a few numbers."""
    return _or_refused(C.multiply_up(a, dim, keepdim))


def product_of_all(a: Array, dtype: Any) -> Any:
    """``prod`` of a few numbers over all dimensions."""
    return product(a, None, False, dtype)


def _extreme(reduce: Any, a: Array, dim: Any, keepdim: bool, least: bool) -> Any:
    if type(dim) is tuple or type(dim) is list:
        if dim:
            return np.asarray(reduce(a, tuple(dim), None, None, keepdim), order="C")
        dim = None
    made = None if C is None else C.extreme(a, dim, keepdim, least)
    return reduce(a, dim, None, None, keepdim) if made is None else made


def largest(a: Array) -> Any:
    """``max`` of a few numbers."""
    return _extreme(_maximum, a, None, False, False)


def least(a: Array) -> Any:
    """``min`` of a few numbers."""
    return _extreme(_minimum, a, None, False, True)


def amax(a: Array, dim: Any, keepdim: bool) -> Any:
    """``amax`` over one dimension, several or all."""
    return _extreme(_maximum, a, dim, keepdim, False)


def amin(a: Array, dim: Any, keepdim: bool) -> Any:
    """``amin`` over one dimension, several or all."""
    return _extreme(_minimum, a, dim, keepdim, True)


def max_dim(a: Array, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """``max_dim`` of a few numbers."""
    made = None if C is None else C.extreme_and_place(a, dim, keepdim, False)
    return (_maximum(a, dim, None, None, keepdim), a.argmax(dim, keepdims=keepdim)) if made is None else made


def min_dim(a: Array, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """``min_dim`` of a few numbers."""
    made = None if C is None else C.extreme_and_place(a, dim, keepdim, True)
    return (_minimum(a, dim, None, None, keepdim), a.argmin(dim, keepdims=keepdim)) if made is None else made


def argmax(a: Any, dim: int | None, keepdim: bool) -> Any:
    """``argmax`` of a few numbers."""
    made = None if C is None else C.extreme_and_place(a, dim, keepdim, False)
    return a.argmax(dim, keepdims=keepdim) if made is None else made[1]


def argmin(a: Any, dim: int | None, keepdim: bool) -> Any:
    """``argmin`` of a few numbers."""
    made = None if C is None else C.extreme_and_place(a, dim, keepdim, True)
    return a.argmin(dim, keepdims=keepdim) if made is None else made[1]


def cumsum(a: Array, dim: int, dtype: Any) -> Any:
    """``cumsum`` of a few numbers or truth values."""
    return _or_refused(C.running_sum(a, dim))


def logsumexp(a: Array, dim: int, keepdim: bool) -> Any:
    """``logsumexp`` of a few floats."""
    return _or_refused(C.log_sum_exp(a, dim, keepdim))


def sort(a: Array, dim: int, descending: bool) -> Any:
    """``sort`` of a few numbers."""
    return _or_refused(C.ordered(a, dim, None, descending))


def topk(a: Array, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    """``topk`` of a few numbers."""
    return _or_refused(C.ordered(a, dim, k, largest))


def kthvalue(a: Array, k: int, dim: int, keepdim: bool) -> Any:
    """``kthvalue`` of a few numbers."""
    return _or_refused(C.ranked(a, dim, keepdim, k - 1 if type(k) is int else k, False))


def median_dim(a: Array, dim: int, keepdim: bool) -> Any:
    """``median`` of a few numbers along one dimension."""
    return _or_refused(C.ranked(a, dim, keepdim, None, True))


def median(a: Array) -> Any:
    """``median`` of a few numbers."""
    return _or_refused(C.ranked(a, None, False, None, True))[0]


def all_of(a: Array) -> Any:
    """``all`` of numbers or truth values."""
    return np.array(np.count_nonzero(a) == a.size)


def _truth(a: Array) -> Any:
    return a if a.dtype is BOOL else _not_equal(a, NUMBERS[a.dtype].zero)


def all_dim(a: Array, dim: int, keepdim: bool) -> Any:
    """``all`` along one dimension of numbers or truth values."""
    return _extreme(_and, _truth(a), dim, keepdim, True)


def any_dim(a: Array, dim: int, keepdim: bool) -> Any:
    """``any`` along one dimension of numbers or truth values."""
    return _extreme(_or, _truth(a), dim, keepdim, False)


def any_of(a: Array) -> Any:
    """``any`` of numbers or truth values."""
    return np.array(np.count_nonzero(a) > 0)
