"""Owns reductions to one value per slice: sums, means, products, extremes, norms, truth values and counts.

``dim`` is an int, a sequence of ints or None for all; variances live in ``moments``, order statistics in ``rank``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ...core.errors import wrap_dim, wrap_dims
from ..checks import is_float, not_implemented, type_name
from ..compiled import C, stand_in
from ..passes import number
from ..precision import narrow, wide
from ..totals import SMALL, Array, reduced, reduced_shape, sum_of_squares, total
from . import few

DType: TypeAlias = np.dtype[Any]
Dim: TypeAlias = int | Sequence[int] | None
Axes: TypeAlias = tuple[int, ...] | None

INT64 = np.dtype(np.int64)
FLOAT32 = np.dtype(np.float32)


# Up to this many elements all is in the calls.
FEW = 256

# ---------------------------------------------------------------------------------------------------- axes and types


def reduction_axes(dim: Dim, ndim: int) -> Axes:
    """NumPy's axes for ``dim``: None (or an empty ``dim``) reduces all, a 0-dim array has none to reduce."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return None
    axes = wrap_dims(dim, ndim)
    return axes if ndim else ()


def slice_size(a: Array, axes: Axes) -> int:
    """How many elements of ``a`` go into one result."""
    return a.size if axes is None else math.prod(a.shape[axis] for axis in axes)


def require_slice(name: str, a: Array, axis: int) -> None:
    """Refuse to pick an element along an empty axis."""
    if a.ndim and a.shape[axis] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")


# ---------------------------------------------------------------------------------------------------- sums and products


_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_add: Any = np.add.reduce
_divide, _multiply = stand_in(np.divide), stand_in(np.multiply)
_square, _sqrt = stand_in(np.square), stand_in(np.sqrt)


def plain_axis(a: Array, dim: Dim, dtype: DType | None) -> int | None:
    """The axis of a small reduction over one dimension, for which the usual questions take longer than all the rest."""
    if type(dim) is tuple and len(dim) == 1:
        dim = dim[0]
    if not isinstance(dim, int) or dtype is not None or not (a.dtype is _F32 or a.dtype is _F64):
        return None
    return dim if a.ndim > dim >= -a.ndim and 0 < a.size < SMALL and a.flags.c_contiguous else None


def _plain_tail(a: Array, dim: Dim, dtype: DType | None) -> int:
    """How many dimensions a small reduction over the last ones takes, 0 for any other reduction."""
    if type(dim) is list:
        dim = tuple(dim)
    if type(dim) is not tuple or dtype is not None or not (a.dtype is _F32 or a.dtype is _F64):
        return 0
    n, ndim = len(dim), a.ndim
    if dim != tuple(range(ndim - n, ndim)) and dim != tuple(range(-n, 0)):
        return 0
    return n if 0 < n <= ndim and 0 < a.size < SMALL and a.flags.c_contiguous else 0


def _tail_added_up(a: Array, n: int, keepdim: bool) -> Array:
    """The sum over the last ``n`` dimensions of few floats."""
    kept = a.shape[: a.ndim - n]
    summed = added_up(a.reshape(*kept, -1), len(kept), False)
    return summed.reshape(kept + (1,) * n) if keepdim else summed


def added_up(a: Array, axis: int, keepdim: bool) -> Array:
    """``add.reduce`` of few floats, in the same order."""
    made = None if C is None else C.add_up(a, axis, keepdim)
    return np.asarray(_add(a, axis, None, None, keepdim)) if made is None else made


def sum(a: Array, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Array:
    """Sum; integers and bools add up in int64."""
    if dtype is None and 0 < a.size <= SMALL and type(dim) in _DIMS:
        made = _sum_of_few(a, dim, keepdim)
        if made is not None:
            return made
    if type(dim) is tuple and len(dim) == 1 and type(dim[0]) is int:
        dim = dim[0]
    if dtype is None and type(dim) is int and a.ndim == 2 and a.size >= SMALL and (a.dtype is _F32 or a.dtype is _F64):
        if dim in (0, 1):
            return total(a, (dim,), keepdim)
    axis = plain_axis(a, dim, dtype)
    if axis is not None:
        return added_up(a, axis, keepdim)
    tail = _plain_tail(a, dim, dtype)
    if tail:
        return _tail_added_up(a, tail, keepdim)
    axes = reduction_axes(dim, a.ndim)
    if dtype is None:
        dtype = INT64 if a.dtype.kind in "biu" else a.dtype
    if dtype.kind in "iu" and a.dtype.kind in "biu":
        if a.dtype.kind == "b" and axes is None and not keepdim:
            return np.array(np.count_nonzero(a), dtype)
        return reduced(np.add, a, axes, keepdim, dtype)
    return narrow(total(wide(a.astype(dtype, copy=False)), axes, keepdim), dtype)


_DIMS = frozenset((int, tuple, list))


def _sum_of_few(a: Array, dim: Any, keepdim: bool) -> Array | None:
    """What the function for few numbers finds, so that they have one sum whichever way led here; or None."""
    if C is None or not (a.dtype is _F32 or a.dtype is _F64 or a.dtype is INT64) or dim == () or dim == []:
        return None
    try:
        made: Array = few.sum_dim(a, dim, keepdim, None)
    except ValueError:
        return None
    return made


def nansum(a: Array, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Array:
    """Sum with NaN counted as zero."""
    reduction_axes(dim, a.ndim)
    if a.dtype.kind == "c":
        raise RuntimeError("nansum on CPU does not support complex inputs")
    if not is_float(a.dtype):
        return sum(a, dim, keepdim, dtype=dtype)
    summed = sum(a, dim, keepdim, dtype=dtype)
    if not np.isnan(summed).any():  # a nan among the terms would show
        return summed
    x = wide(a)
    return sum(np.where(np.isnan(x), x.dtype.type(0), x), dim, keepdim, dtype=dtype or a.dtype)


def mean(a: Array, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Array:
    """Arithmetic mean; NaN over nothing."""
    axis = plain_axis(a, dim, dtype)
    if axis is not None:
        added = added_up(a, axis, keepdim)
        return _divide(added, number(a.shape[axis], a.dtype), out=added)
    tail = _plain_tail(a, dim, dtype)
    if tail:
        added = _tail_added_up(a, tail, keepdim)
        return _divide(added, number(a.size // added.size, a.dtype), out=added)
    out = dtype or a.dtype
    if out.kind in "biu":
        which = "Input" if dtype is None else "Optional"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {which} dtype must be either a floating point or complex dtype. "
            f"Got: {type_name(out)}"
        )
    axes = reduction_axes(dim, a.ndim)
    return narrow(average(wide(a.astype(out, copy=False)), axes, keepdim), out)


def average(a: Array, axes: Axes, keepdim: bool = False) -> Array:
    """Mean of a wide float or complex array over NumPy axes."""
    summed = total(a, axes, keepdim)
    n = slice_size(a, axes)
    if n == 0:
        summed.fill(complex(math.nan, math.nan) if summed.dtype.kind == "c" else math.nan)
        return summed
    return np.divide(summed, n, out=summed)


def prod(a: Array, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None) -> Array:
    """Product over one dimension or all; integers and bools multiply in int64."""
    axis = reduction_axes(dim, a.ndim)
    if dtype is None:
        dtype = INT64 if a.dtype.kind in "biu" else a.dtype
    x = wide(a.astype(dtype, copy=False))
    return narrow(reduced(np.multiply, _halved(x, axis), axis, keepdim), dtype)


def _halved(x: Array, axes: Axes) -> Array:
    """What has the products over ``axes`` that ``x`` has, but few elements: one half times the other has a vector loop,
    `reduce` has none but across rows."""
    if x.dtype.kind != "f" or x.size <= SMALL or not x.flags.c_contiguous or axes not in (None, (x.ndim - 1,)):
        return x
    rows = x if axes else x.reshape((1,) * (x.ndim - 1) + (-1,))
    while (n := rows.shape[-1]) > 8:
        half = n // 2
        products = _multiply(rows[..., :half], rows[..., half : 2 * half])
        if n % 2:
            products[..., 0] *= rows[..., -1]
        rows = products
    return rows


# ---------------------------------------------------------------------------------------------------- extremes


def _extreme(ufunc: np.ufunc, a: Array, axes: Axes, keepdim: bool) -> Array:
    if a.dtype.kind == "b":
        ufunc = np.logical_or if ufunc is np.maximum else np.logical_and
    made = _extreme_of_rows(ufunc, a, axes, keepdim)
    if made is not None:
        return made
    if axes == (a.ndim - 1,) and a.size > SMALL and (a.dtype is _F32 or a.dtype is _F64) and a.flags.c_contiguous:
        # Row by row in one call, which for floats takes less than ``reduce`` along the last axis.
        rows: Array = ufunc.reduceat(a.reshape(-1), np.arange(0, a.size, a.shape[-1]))
        return rows.reshape((*a.shape[:-1], 1) if keepdim else a.shape[:-1])
    return narrow(reduced(ufunc, wide(a), axes, keepdim), a.dtype)


def _extreme_of_rows(ufunc: np.ufunc, a: Array, axes: Axes, keepdim: bool) -> Array | None:
    """The extreme over the last dimensions by the compiled loop; None where it does not take the array."""
    if C is None or a.dtype.kind != "f" or a.size < SMALL:
        return None
    axes = tuple(range(a.ndim)) if axes is None else axes
    if sorted(axes) != list(range(a.ndim - len(axes), a.ndim)):
        return None
    result = np.empty(reduced_shape(a.shape, axes, keepdim), a.dtype)
    return result if C.extreme_rows(a, ufunc is np.minimum, result) else None


def _extreme_checked(name: str, ufunc: np.ufunc, a: Array, dim: Dim, keepdim: bool) -> Array:
    axes = reduction_axes(dim, a.ndim)
    if a.size == 0 and axes is None:
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )
    for axis in () if axes is None else (dim,) if isinstance(dim, int) else dim or ():
        require_slice(name, a, axis)
    if a.dtype.kind == "c" and a.size:
        kernel = {"amax": "max_values_cpu", "amin": "min_values_cpu"}.get(name, f"{name}_all")
        raise not_implemented(kernel, a.dtype)
    return _extreme(ufunc, a, axes, keepdim)


def amax(a: Array, dim: Dim = None, keepdim: bool = False) -> Array:
    """Largest value; NaN wins."""
    return _extreme_checked("amax", np.maximum, a, dim, keepdim)


def amin(a: Array, dim: Dim = None, keepdim: bool = False) -> Array:
    """Smallest value; NaN wins."""
    return _extreme_checked("amin", np.minimum, a, dim, keepdim)


def max(a: Array) -> Array:
    """Largest value of all; NaN wins."""
    return _extreme_checked("max", np.maximum, a, None, False)


def min(a: Array) -> Array:
    """Smallest value of all; NaN wins."""
    return _extreme_checked("min", np.minimum, a, None, False)


def max_dim(a: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """Largest value along ``dim`` and where it first stands; the first NaN wins."""
    return _extreme_dim("max", a, dim, keepdim)


def min_dim(a: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """Smallest value along ``dim`` and where it first stands; the first NaN wins."""
    return _extreme_dim("min", a, dim, keepdim)


def _extreme_dim(name: str, a: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    axis = wrap_dim(dim, a.ndim)
    require_slice(name, a, axis)
    if a.dtype.kind == "c":
        raise RuntimeError(f"{name}(): does not support complex input")
    if a.ndim == 0:
        return a.copy(), np.zeros((), INT64)
    values = _extreme(np.maximum if name == "max" else np.minimum, a, (axis,), True)
    where = _first_place(name, a, axis, values)
    return (values, where) if keepdim else (values.squeeze(axis), where.squeeze(axis))


def _first_place(name: str, a: Array, axis: int, values: Array | None = None) -> Array:
    """Where the extreme along ``axis`` first stands (dimension kept); ``values`` are the extremes if known."""
    x = wide(a)
    if axis == a.ndim - 1 or a.size <= SMALL or a.shape[axis] == 0:
        pick: Any = x.argmax if name == "max" else x.argmin
        return np.asarray(pick(axis=axis, keepdims=True))
    # NumPy would transpose: take the extreme of the places that hold the value instead, counted from the far end.
    if values is None:
        values = _extreme(np.maximum if name == "max" else np.minimum, a, (axis,), True)
    there = a == values
    if x.dtype.kind == "f":
        there |= np.isnan(x)
    n = a.shape[axis]
    countdown = np.arange(n - 1, -1, -1, dtype=np.int32).reshape(-1, *(1,) * (a.ndim - axis - 1))
    return np.asarray(n - 1 - reduced(np.maximum, np.multiply(there, countdown), (axis,), True, INT64))


def argmax(a: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """Index of the first largest value, of the flattened array when ``dim`` is None; the first NaN wins."""
    return _arg_extreme("argmax", a, dim, keepdim)


def argmin(a: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """Index of the first smallest value, of the flattened array when ``dim`` is None; the first NaN wins."""
    return _arg_extreme("argmin", a, dim, keepdim)


def _arg_extreme(name: str, a: Array, dim: int | None, keepdim: bool) -> Array:
    if dim is not None and 0 < a.size <= FEW and -a.ndim <= dim < a.ndim and a.dtype.char in "fd":
        found: Array = (a.argmax if name == "argmax" else a.argmin)(dim, keepdims=keepdim)
        return np.asarray(found)
    if a.dtype.kind in "bc":
        raise RuntimeError(f"{name}(): does not support {'bool' if a.dtype.kind == 'b' else 'complex'} input")
    axis = None if dim is None else wrap_dim(dim, a.ndim)
    if axis is not None:
        require_slice(name, a, axis)
    elif a.size == 0:
        raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
    if axis is not None and a.ndim:
        where = _first_place(name[3:], a, axis)
        return where if keepdim else where.squeeze(axis)
    x = wide(a)
    pick: Any = x.argmax if name == "argmax" else x.argmin
    return np.asarray(pick(keepdims=keepdim))


def aminmax(a: Array, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
    """Smallest and largest value over one dimension or all; NaN wins in both."""
    if dim is None:
        if a.size == 0:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            )
    else:
        axis = wrap_dim(dim, a.ndim)
        if a.ndim and a.shape[axis] == 0:
            raise IndexError(f"aminmax: Expected reduction dim {axis} to have non-zero size.")
    if a.dtype.kind == "c":
        raise not_implemented("aminmax_cpu", a.dtype)
    axes = reduction_axes(dim, a.ndim)
    return _extreme(np.minimum, a, axes, keepdim), _extreme(np.maximum, a, axes, keepdim)


# ---------------------------------------------------------------------------------------------------- norms


def logsumexp(a: Array, dim: Dim, keepdim: bool = False) -> Array:
    """``log(sum(exp(a)))`` without overflow; -inf over nothing. Integers are taken as float32."""
    axes = reduction_axes(dim, a.ndim)
    x = wide(a.astype(FLOAT32) if a.dtype.kind in "biu" else a)
    out = FLOAT32 if a.dtype.kind in "biu" else a.dtype
    if slice_size(x, axes) == 0:
        every = tuple(range(a.ndim)) if axes is None else axes
        return np.full(reduced_shape(a.shape, every, keepdim), -math.inf, out)
    peak = reduced(np.maximum, x.real, axes, True)
    peak = np.where(np.isinf(peak), peak.dtype.type(0), peak)
    exp = np.asarray(x - peak)
    result = np.log(total(np.exp(exp, out=exp), axes, keepdim))
    return narrow(result + peak.reshape(np.shape(result)), out)


def norm(a: Array, p: float = 2, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Array:
    """Vector norm: ``sum(|a|**p)**(1/p)``; 0 counts what is not zero, ±inf are the extremes of ``|a|``."""
    axis = plain_axis(a, dim, dtype) if p == 2 else None
    if axis is not None:
        summed = added_up(_square(a), axis, keepdim)
        return _sqrt(summed, out=summed)
    _check_norm_types(a, dtype)
    axes = reduction_axes(dim, a.ndim)
    if a.size == 0 and (p < 0 or p == math.inf):
        _check_norm_identity(a, p, dim)
    out = dtype or a.dtype
    x = wide(a.astype(out, copy=False))
    real = np.dtype(f"f{out.itemsize // 2}") if out.kind == "c" else out
    if p == 2 and x.dtype.kind != "c":
        return narrow(np.sqrt(sum_of_squares(x, axes, keepdim)), real)
    if p == 0:
        return narrow(reduced(np.add, x != 0, axes, keepdim, INT64), real)
    size = np.asarray(np.abs(x))
    if math.isinf(p):
        return narrow(reduced(np.maximum if p > 0 else np.minimum, size, axes, keepdim), real)
    if p == 1:
        return narrow(total(size, axes, keepdim), real)
    if p == 2:
        return narrow(np.sqrt(sum_of_squares(size, axes, keepdim)), real)
    np.power(size, p, out=size)
    return narrow(np.power(total(size, axes, keepdim), 1 / p), real)


def _check_norm_types(a: Array, dtype: DType | None) -> None:
    if dtype is None and a.dtype.kind not in "biu":
        return
    given = type_name(a.dtype)
    if a.dtype.kind in "biu":
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {given}")
    if dtype is None:
        return
    wanted = type_name(dtype)
    if dtype.kind in "biu":
        raise RuntimeError(f"linalg.vector_norm: dtype should be floating point or complex, but got {wanted}")
    if (a.dtype.kind == "c") != (dtype.kind == "c"):
        kind = "complex" if a.dtype.kind == "c" else "real"
        raise RuntimeError(f"linalg.vector_norm: dtype should be {kind} for {kind} inputs, but got {wanted}")
    if dtype != a.dtype and dtype.itemsize <= a.dtype.itemsize:
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({given}) should be convertible without narrowing to the "
            f"specified dtype ({wanted})"
        )


def _check_norm_identity(a: Array, p: float, dim: Dim) -> None:
    start = f"linalg.vector_norm cannot compute the {p:g} norm on "
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        raise RuntimeError(start + "an empty tensor because the operation does not have an identity")
    for axis in (dim,) if isinstance(dim, int) else dim:
        if a.shape[axis] == 0:
            raise RuntimeError(
                f"{start}the dimension {axis}because this dimension is empty and the operation does not have an "
                "identity"
            )


# ---------------------------------------------------------------------------------------------------- truth and counts


def all(a: Array, dim: Dim = None, keepdim: bool = False) -> Array:
    """Whether every element is true; uint8 answers in uint8."""
    return _truth(np.logical_and, a, dim, keepdim)


def any(a: Array, dim: Dim = None, keepdim: bool = False) -> Array:
    """Whether some element is true; uint8 answers in uint8."""
    return _truth(np.logical_or, a, dim, keepdim)


def _truth(ufunc: np.ufunc, a: Array, dim: Dim, keepdim: bool) -> Array:
    # An empty dim reduces nothing here, unlike in the other reductions.
    none = dim is not None and not isinstance(dim, int) and len(dim) == 0
    axes = () if none else reduction_axes(dim, a.ndim)
    result = reduced(ufunc, wide(a), axes, keepdim)
    return narrow(result, a.dtype if a.dtype == np.uint8 else np.dtype(np.bool_))


def count_nonzero(a: Array, dim: Dim = None) -> Array:
    """How many elements are not zero, as int64."""
    axes = reduction_axes(dim, a.ndim)
    x = wide(a)
    if axes is None:
        return np.array(np.count_nonzero(x), INT64)
    return reduced(np.add, x != 0, axes, False, INT64)


# ---------------------------------------------------------------------------------------------------- hashes


def hash_tensor(a: Array, dim: Dim = None, keepdim: bool = False, mode: int = 0) -> Array:
    """The bits of the elements, as 64-bit numbers, xor-ed together."""
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if a.dtype.kind == "c":
        raise not_implemented("xor_sum_cpu", a.dtype)
    axes = reduction_axes(dim, a.ndim)
    if axes is None and a.size == 0:
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
            "with the 'dim' argument."
        )
    for axis in axes or ():
        if a.shape[axis] == 0:
            raise IndexError(f"hash_tensor: Expected reduction dim {axis} to have non-zero size.")
    wider = a.astype(np.float64 if is_float(a.dtype) else np.int64)
    return reduced(np.bitwise_xor, wider.view(np.uint64), axes, keepdim, np.dtype(np.uint64))
