"""Owns reading and writing at given positions: gather and scatter, index_*, take and put, masks.

Every function returns a new array and leaves its inputs alone, unless it is told by ``out`` to write into one (its
first input, as a rule); gradients stand beside their forward functions. Index tuples are in ``advanced``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from ...core.errors import broadcast_error, shape_text, wrap_dim
from ..checks import not_implemented, type_name
from ..compiled import C
from ..fitting import fitting
from ..floating import spreading
from ..precision import narrow, wide
from ..totals import Array
from .accumulate import add_elements, add_rows
from .advanced import index as index

INT64 = np.dtype(np.int64)
UNSIGNED = {INT64: np.uint64, np.dtype(np.int32): np.uint32}
# More indices than this are taken some rows at a time, this many in all, so that positions made of them stay in the cache.
MANY = 1 << 15
AT_ONCE = 1 << 17
FEW = 4096  # elements, up to which one compiled call does all
Number: TypeAlias = bool | int | float | complex


# ---------------------------------------------------------------------------------------------------- checks


def _require_in_range(index: Array, size: int, error: type[Exception], text: str) -> None:
    """Refuse indices outside ``[0, size)``; ``text`` may name the first such one as ``{index}``."""
    if index.size and _leaves(index, size):
        flat = index.reshape(-1)
        first = flat[(flat < 0) | (flat >= size)][0]
        raise error(text.replace("{index}", str(first)))


def _leaves(index: Array, size: int) -> bool:
    """Whether any index lies outside ``[0, size)``."""
    inside = C.inside(index, size) if C is not None else None
    if inside is not None:
        return not inside
    if index.size <= 32:  # Python is quicker than a reduction then
        few = index.reshape(-1).tolist()
        return bool(min(few) < 0 or max(few) >= size)
    unsigned = UNSIGNED.get(index.dtype)
    if unsigned is not None:  # negative ones are the largest then, so that one pass finds either
        return bool(index.view(unsigned).max() >= size)
    return bool(index.min() < 0 or index.max() >= size)


def _out_of_bounds(index: Array, size: int, axis: int) -> None:
    text = f"index {{index}} is out of bounds for dimension {axis} with size {size}"
    _require_in_range(index, size, RuntimeError, text)


def _flat_positions(shape: tuple[int, ...], axis: int, index: Array) -> Array:
    """Positions in a flattened C-ordered array of ``shape`` of the elements that ``index`` names along ``axis``."""
    wanted = index.shape
    spread = _line_starts if index.size > 4096 else _remembered_line_starts
    stride = math.prod(shape[axis + 1 :])
    flat = index if stride == 1 and index.dtype == INT64 else index.astype(INT64, copy=False) * stride
    return flat if len(wanted) == 1 else flat + spread(shape, axis, wanted)


def _line_starts(shape: tuple[int, ...], axis: int, wanted: tuple[int, ...]) -> Array:
    """Where in flat memory the line along ``axis`` begins that each element of an index of shape ``wanted`` is on."""
    starts = np.zeros((1,) * len(wanted), INT64)
    for d, n in enumerate(wanted):
        if d != axis and n > 1:
            starts = starts + (np.arange(n) * math.prod(shape[d + 1 :])).reshape(-1, *(1,) * (len(wanted) - d - 1))
    return starts


_remembered_line_starts = functools.lru_cache(maxsize=64)(_line_starts)


def _target(a: Array, out: Array | None) -> Array:
    """A flat array that holds ``a``: the memory of ``out`` where it can be used, else a copy."""
    return a.reshape(-1).copy() if out is None or not out.flags.c_contiguous else out.reshape(-1)


def _stored(flat: Array, a: Array, out: Array | None) -> Array:
    """A finished flat result in the shape and type of ``a``, put into ``out`` where one is given."""
    result = narrow(flat, a.dtype).reshape(a.shape)
    if out is None:
        return result
    if not np.may_share_memory(result, out):
        out[...] = result
    return out


def _lines(a: Array) -> Array:
    """``a`` with at least one dimension."""
    return a if a.ndim else a.reshape(1)


# ---------------------------------------------------------------------------------------------------- gather, scatter


def _put_few(
    put: Any, a: Array, dim: int, index: Array, source: Array | Number, adds: bool, out: Array | None
) -> Array | None:
    """``a``, or a copy of it, with few values put or added by a compiled loop; None where that does not take them."""
    if a.size > FEW:
        return None
    result = a.copy() if out is None else out
    return result if put(result, dim, index, source, adds) else None


def gather(a: Array, dim: int, index: Array) -> Array:
    """``out[i][j] = a[index[i][j]][j]`` for ``dim`` 0, and likewise for others."""
    if C is not None and (few := C.take_along_axis(a, dim, index)) is not None:
        return np.asarray(few)
    axis = wrap_dim(dim, a.ndim)
    if index.size == 0:
        return np.empty(index.shape, a.dtype)
    if index.dtype not in (INT64, np.int32):
        raise RuntimeError("gather(): Expected dtype int32/int64 for index")
    x, i = _lines(a), _lines(index)
    if x.ndim != i.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for d, (n, limit) in enumerate(zip(i.shape, x.shape)):
        if d != axis and n > limit:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {shape_text(i.shape)} to be no larger than self "
                f"{shape_text(x.shape)} apart from dimension {axis}"
            )
    if C is not None and x.size and axis == x.ndim - 1 and i.shape[:-1] == x.shape[:-1]:
        result = np.empty(index.shape, a.dtype)
        if C.gather(x, i, result):
            return result
    _out_of_bounds(i, x.shape[axis], axis)
    if i.size > MANY and 0 < axis == x.ndim - 1 and i.shape[:-1] == x.shape[:-1]:
        return _gather_rows(x, i)
    return x.reshape(-1).take(_flat_positions(x.shape, axis, i)).reshape(index.shape)


def _row_positions(index: Array, width: int) -> Iterator[tuple[slice, Array]]:
    """Some rows at a time: which ones, and the flat positions, in a part of just these rows of a matrix of ``width``
    columns, of what ``index`` names. They are overwritten with the next ones."""
    rows, n = index.shape
    step = min(max(AT_ONCE // n, 1), rows)
    starts = np.arange(0, step * width, width)[:, None]
    positions = np.empty((step, n), INT64)
    for first in range(0, rows, step):
        part = slice(first, first + step)
        some = index[part]
        with spreading(n):
            np.add(some, starts[: len(some)], out=positions[: len(some)])
        yield part, positions[: len(some)]


def _gather_rows(x: Array, index: Array) -> Array:
    """``gather`` along the last axis, all else being equal, with indices in range."""
    width, n = x.shape[-1], index.shape[-1]
    lines, result = x.reshape(-1, width), np.empty((index.size // n, n), x.dtype)
    for part, positions in _row_positions(index.reshape(-1, n), width):
        # Nothing is out of range, and "wrap" looks at it fastest.
        lines[part].reshape(-1).take(positions, None, result[part], "wrap")
    return result.reshape(index.shape)


def _add_to_rows(a: Array, index: Array, src: Array) -> Array:
    """``scatter_add`` along the last axis, all else being equal, with indices in range."""
    width, n = a.shape[-1], index.shape[-1]
    result, added = wide(a.copy()).reshape(-1, width), wide(src).reshape(-1, n)
    for part, positions in _row_positions(index.reshape(-1, n), width):
        np.add.at(result[part].reshape(-1), positions.reshape(-1), added[part].reshape(-1))
    return narrow(result, a.dtype).reshape(a.shape)


def _scatter_target(
    a: Array, dim: int, index: Array, src: Array | None, out: Array | None = None
) -> tuple[Array, Array, Array | None]:
    """A flat array to write into, the flat positions to write to, and the part of ``src`` that goes there."""
    axis = wrap_dim(dim, a.ndim)
    if index.size and index.dtype not in (INT64, np.int32):
        raise RuntimeError("scatter(): Expected dtype int32/int64 for index")
    if src is not None and src.dtype != a.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    flat = _target(a, out)
    if index.size == 0:
        return flat, np.zeros(0, INT64), None if src is None else np.zeros(0, src.dtype)
    x, i = _lines(a), _lines(index)
    if x.ndim != i.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    source = None if src is None else _lines(src)
    if source is not None and source.ndim != i.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    _check_scatter_sizes(x.shape, i.shape, None if source is None else source.shape, axis)
    _out_of_bounds(i, x.shape[axis], axis)
    if source is not None:
        source = source[tuple(slice(n) for n in i.shape)].reshape(-1)
    return flat, _flat_positions(x.shape, axis, i).reshape(-1), source


def _check_scatter_sizes(
    shape: tuple[int, ...], index: tuple[int, ...], src: tuple[int, ...] | None, axis: int
) -> None:
    fits = all(n <= limit for d, (n, limit) in enumerate(zip(index, shape)) if d != axis)
    if src is None:
        if not fits:
            raise RuntimeError(
                f"Expected index {shape_text(index)} to be no larger than self {shape_text(shape)} apart from "
                f"dimension {axis}"
            )
    elif not fits or any(n > limit for n, limit in zip(index, src)):
        raise RuntimeError(
            f"Expected index {shape_text(index)} to be no larger than self {shape_text(shape)} apart from dimension "
            f"{axis} and to be no larger size than src {shape_text(src)}"
        )


def scatter(
    a: Array,
    dim: int,
    index: Array,
    src: Array | Number,
    *,
    reduce: str | None = None,
    out: Array | None = None,
) -> Array:
    """``a`` with ``src`` (an array or one number) written, added or multiplied where ``index`` says along ``dim``.

    The last of several values for one place stays.
    """
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if not isinstance(src, np.ndarray):
        src = fitting(src, a.dtype)
    if C is not None and reduce is None:
        few = _put_few(C.put_along_axis, a, dim, index, src, False, out)
        if few is not None:
            return few
    flat, where, part = _scatter_target(a, dim, index, src if isinstance(src, np.ndarray) else None, out)
    values: Any = np.asarray(src).astype(a.dtype) if part is None else part
    if reduce is None:
        flat[where] = values
        return _stored(flat, a, out)
    result = wide(flat)
    ufunc = np.add if reduce == "add" else np.multiply
    ufunc.at(result, where, wide(values))
    return _stored(result, a, out)


def _last(dim: int, a: Array, index: Array, src: Array) -> bool:
    """Whether ``dim`` is the last dimension, and the arrays differ in no other."""
    return dim in (-1, a.ndim - 1) and index.shape == src.shape and index.shape[:-1] == a.shape[:-1] and a.ndim > 0


def scatter_add(a: Array, dim: int, index: Array, src: Array, *, out: Array | None = None) -> Array:
    """``a`` with ``src`` added where ``index`` says along ``dim``."""
    few = None if C is None else _put_few(C.put_along_axis, a, dim, index, src, True, out)
    if few is not None:
        return few
    if C is not None and out is None and _last(dim, a, index, src):
        result = a.copy()
        if C.index_add(result, index, src):
            return result
    if C is None and out is None and index.size > MANY and index.dtype in UNSIGNED and src.dtype == a.dtype:
        if a.ndim > 1 and _last(dim, a, index, src):
            _out_of_bounds(index, a.shape[-1], a.ndim - 1)
            return _add_to_rows(a, index, src)
    flat, where, part = _scatter_target(a, dim, index, src, out)
    assert part is not None
    result = wide(flat)
    add_elements(result, where, wide(part))
    return _stored(result, a, out)


REDUCTIONS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "mean": np.add,
    "amax": np.maximum,
    "amin": np.minimum,
}
ALIASES = {"max": "amax", "min": "amin"}


def scatter_reduce(
    a: Array,
    dim: int,
    index: Array,
    src: Array,
    reduce: str,
    *,
    include_self: bool = True,
    out: Array | None = None,
) -> Array:
    """``a`` reduced with the elements of ``src`` that ``index`` sends to each place along ``dim``.

    Without ``include_self``, places that receive something forget what they held.
    """
    reduce = ALIASES.get(reduce, reduce)
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    flat, where, part = _scatter_target(a, dim, index, src, out)
    if (a.dtype.kind == "c" and reduce in ("amax", "amin")) or (a.dtype.kind == "b" and reduce == "mean"):
        raise not_implemented(f"scatter_gather_tensor_cpu_reduce_{reduce}", a.dtype)
    assert part is not None
    result = wide(flat)
    if not include_self:
        result[where] = _identity(reduce, result.dtype)
    REDUCTIONS[reduce].at(result, where, wide(part))
    if reduce == "mean":
        count = np.bincount(where, minlength=result.size)
        count = np.maximum(count + include_self, 1)
        result = result // count if result.dtype.kind in "iu" else result / count.astype(result.real.dtype)
    return _stored(result, a, out)


def _identity(reduce: str, dtype: np.dtype[Any]) -> Number:
    """What leaves a reduction unchanged."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.kind == "f":
        return -math.inf if reduce == "amax" else math.inf
    if dtype.kind == "b":
        return reduce == "amin"
    limits = np.iinfo(dtype)
    return int(limits.min if reduce == "amax" else limits.max)


# ---------------------------------------------------------------------------------------------------- index_*


def index_select(a: Array, dim: int, index: Array, *, out: Array | None = None) -> Array:
    """The slices of ``a`` along ``dim`` that ``index`` names."""
    axis = wrap_dim(dim, a.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype not in (INT64, np.int32):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if a.ndim == 0 and index.size != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)")
    if axis > 0:
        text = f"INDICES element is out of DATA bounds, id={{index}} axis_dim={a.shape[axis]}"
        _require_in_range(index, a.shape[axis], RuntimeError, text)
    else:
        _require_in_range(index, a.shape[0] if a.ndim else 1, IndexError, "index out of range in self")
    if a.ndim == 0:
        return a.copy()
    # Indices are in range: clipping spares NumPy the buffer it needs where it may have to raise.
    return a.take(index.reshape(-1), axis=axis) if out is None else a.take(index.reshape(-1), axis, out, "clip")


def index_add(a: Array, dim: int, index: Array, source: Array, *, alpha: Number = 1, out: Array | None = None) -> Array:
    """``a`` with ``alpha`` times the slices of ``source`` added to the slices that ``index`` names."""
    if C is not None and alpha == 1:
        few = _put_few(C.put_slices, a, dim, index, source, True, out)
        if few is not None:
            return few
    axis = wrap_dim(dim, a.ndim)
    _check_index_add(a, axis, index, source)
    added = wide(source)
    if alpha != 1:
        added = added * added.dtype.type(alpha)
    if a.ndim == 0:
        return _stored(wide(a) + added.reshape(()) if index.size else a.copy(), a, out)
    outer, n, inner = math.prod(a.shape[:axis]), a.shape[axis], math.prod(a.shape[axis + 1 :])
    result = wide(_target(a, out)).reshape(outer * n, inner)
    rows = (np.arange(outer)[:, None] * n + index).reshape(-1)
    add_rows(result, rows, added.reshape(outer * index.size, inner))
    return _stored(result, a, out)


def _check_index_add(a: Array, axis: int, index: Array, source: Array) -> None:
    if index.ndim > 1:
        raise IndexError(
            f"index_add_(): Index is supposed to be a vector, but got dim: {index.ndim} with type: "
            f"{type_name(index.dtype)} and size: {shape_text(index.shape)}"
        )
    if index.dtype not in (INT64, np.int32):
        raise RuntimeError(f"index_add_(): Expected dtype int32/int64 for index but got: {type_name(index.dtype)}")
    if a.dtype != source.dtype:
        raise RuntimeError(
            f"index_add_(): self ({type_name(a.dtype)}) and source ({type_name(source.dtype)}) must have the same "
            "scalar type"
        )
    slices = source.shape[axis] if source.ndim > axis else 1
    if index.size != slices:
        raise RuntimeError(
            f"index_add_(): Number of indices ({index.size}) should be equal to source.size(dim): ({slices}), for "
            f"dim: {axis}"
        )
    if a.ndim != source.ndim or a.shape[:axis] + a.shape[axis + 1 :] != source.shape[:axis] + source.shape[axis + 1 :]:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{shape_text(a.shape)} source.shape = {shape_text(source.shape)}"
        )
    if a.ndim <= 1 and index.size and not 0 <= index.min() <= index.max() < a.size:
        raise IndexError("index out of range in self")
    _out_of_bounds(index, a.shape[axis] if a.ndim else 1, axis)


def index_copy(a: Array, dim: int, index: Array, source: Array, *, out: Array | None = None) -> Array:
    """``a`` with the slices that ``index`` names replaced by those of ``source``."""
    few = None if C is None else _put_few(C.put_slices, a, dim, index, source, False, out)
    if few is not None:
        return few
    axis = wrap_dim(dim, a.ndim)
    _check_index_copy(a, axis, index, source)
    result = a.copy() if out is None else out
    lines = np.moveaxis(_lines(result), axis, 0)
    lines[index.reshape(-1)] = np.moveaxis(_lines(source), min(axis, max(source.ndim - 1, 0)), 0)
    return result


def _check_index_copy(a: Array, axis: int, index: Array, source: Array) -> None:
    if index.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    if source.ndim and a.ndim and source.ndim != a.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({a.ndim})"
        )
    if index.dtype != INT64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {type_name(index.dtype)}")
    if a.dtype != source.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{type_name(a.dtype)} and (source) {type_name(source.dtype)}"
        )
    own, given = (shape[:axis] + shape[axis + 1 :] for shape in (a.shape, source.shape))
    if own != given:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{' '.join(map(str, own))} at dimension {axis} and source slice shape: {' '.join(map(str, given))} at "
            "dimension 0."
        )
    slices = source.shape[axis] if source.ndim else 1
    if index.size != slices:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.size}) should be equal to source.size(dim) ({slices})"
        )
    size = a.shape[axis] if a.ndim else 1
    text = f"index_copy_(): index {{index}} is out of bounds for dimension {axis} with size {size}"
    _require_in_range(index, size, IndexError, text)


def index_fill(a: Array, dim: int, index: Array, value: Array | Number, *, out: Array | None = None) -> Array:
    """``a`` with the slices that ``index`` names (negative ones count from the end) filled with ``value``."""
    if not isinstance(value, (np.ndarray, complex)):
        value = fitting(value, a.dtype)
    if C is not None and not isinstance(value, np.ndarray):
        few = _put_few(C.put_slices, a, dim, index, value, False, out)
        if few is not None:
            return few
    if index.dtype != INT64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    axis = wrap_dim(dim, a.ndim)
    if isinstance(value, np.ndarray) and value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if np.iscomplexobj(value) and a.dtype.kind != "c":
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    size = a.shape[axis] if a.ndim else 1
    wrapped = np.where((index < 0) & (index >= -size), index + size, index)
    text = f"index {{index}} is out of bounds for dimension {axis} with size {size}"
    _require_in_range(wrapped, size, IndexError, text)
    result = a.copy() if out is None else out
    np.moveaxis(_lines(result), axis, 0)[wrapped] = np.asarray(value).astype(a.dtype)
    return result


# ---------------------------------------------------------------------------------------------------- take, put, masks


def _flat_indices(name: str, a: Array, index: Array) -> Array:
    """Indices into the flattened ``a``, negative ones counted from its end."""
    if index.dtype != INT64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {type_name(index.dtype)}")
    if index.size and (index.min() < -a.size or index.max() >= a.size):
        flat = index.reshape(-1)
        first = flat[(flat < -a.size) | (flat >= a.size)][0]
        raise IndexError(f"out of range: tried to access index {first} on a tensor of {a.size} elements.")
    return index


def take(a: Array, index: Array) -> Array:
    """Elements of the flattened ``a``, in the shape of ``index``."""
    if a.size == 0 and index.size and index.dtype == INT64:
        raise IndexError("take(): tried to take from an empty tensor")
    return np.asarray(a.reshape(-1).take(_flat_indices("take", a, index)))


def put(a: Array, index: Array, source: Array, accumulate: bool = False, *, out: Array | None = None) -> Array:
    """``a`` with the elements of ``source`` written (or added) at flat positions ``index``."""
    where = _flat_indices_of_put(a, index, source)
    result = _target(a, out)
    if not accumulate:
        result[where] = source.reshape(-1)
        return _stored(result, a, out)
    summed = wide(result)
    add_elements(summed, where, wide(source.reshape(-1)))
    return _stored(summed, a, out)


def _flat_indices_of_put(a: Array, index: Array, source: Array) -> Array:
    if index.dtype != INT64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {type_name(index.dtype)}")
    if a.dtype != source.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = {type_name(a.dtype)} and "
            f"source.dtype = {type_name(source.dtype)}"
        )
    if index.size != source.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.size}, index.numel() = {index.size}"
        )
    return _flat_indices("put_", a, index).reshape(-1)


def _broadcast_mask(a: Array, mask: Array) -> tuple[Array, Array]:
    try:
        spread, spread_mask = np.broadcast_arrays(a, mask)
    except ValueError:
        raise broadcast_error(mask.shape, a.shape) from None
    return spread, spread_mask


def masked_select(a: Array, mask: Array) -> Array:
    """The elements of ``a`` where ``mask`` is true, in order; both broadcast."""
    if mask.dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    spread, spread_mask = _broadcast_mask(a, mask)
    return np.asarray(spread[spread_mask]).reshape(-1)


def masked_scatter(a: Array, mask: Array, source: Array) -> Array:
    """``a`` with the elements of ``source``, in order, where ``mask`` is true."""
    if mask.dtype.kind != "b":
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {type_name(mask.dtype)}"
        )
    if a.dtype != source.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{type_name(a.dtype)} and {type_name(source.dtype)}"
        )
    spread, spread_mask = _broadcast_mask(a, mask)
    result = spread.copy()
    needed = int(np.count_nonzero(spread_mask))
    if needed > source.size:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    result[spread_mask] = source.reshape(-1)[:needed]
    return result


def masked_scatter_backward(grad: Array, mask: Array, shape: tuple[int, ...]) -> Array:
    """Gradient of ``masked_scatter`` with respect to a source of ``shape``."""
    selected = masked_select(grad, mask)
    result = np.zeros(math.prod(shape), grad.dtype)
    result[: selected.size] = selected
    return result.reshape(shape)
