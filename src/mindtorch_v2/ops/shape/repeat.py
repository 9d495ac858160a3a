"""Rows that repeat, roll and turn: the elements stay, their places change."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from ...core.device import contiguous_format
from ...core.dtype import FROM_NUMPY
from ...core.errors import wrap_dim, wrap_dims
from ...core.meta import MetaArray, meta
from ...core.tensor import Tensor
from ...dispatch.front import front
from ...dispatch.inplace import type_name
from ...dispatch.op import composite, op
from ...kernels import result_layout
from ...kernels.compiled import C
from ..meta import shapes
from .copies import clone
from .permute import transpose
from .view import expand, flatten, reshape, sizes_of, unsqueeze

# --- repeat -----------------------------------------------------------------------------------------------------------


def _repeat_gradient(g: Tensor, sizes: tuple[int, ...], repeats: Any) -> Tensor:
    """Sum over the copies: a dimension of n * r entries is r copies of n."""
    times = sizes_of("repeat", repeats)
    if 0 in times:
        return g.new_zeros(sizes)
    lead = len(times) - len(sizes)
    shape: list[int] = []
    copies = []
    for position, r in enumerate(times):
        if position < lead or r > 1:
            copies.append(len(shape))
            shape.append(r)
        if position >= lead:
            shape.append(sizes[position - lead])
    g = reshape(g, shape=tuple(shape))
    return g.sum(tuple(copies)) if copies else g


@op(
    "repeat(Tensor self, int[] repeats) -> Tensor",
    meta=shapes.by_kernel,
    out=False,
    self=lambda g, self_sizes, repeats: _repeat_gradient(g, self_sizes, repeats),
)
def _repeat(a: Any, repeats: Any) -> Any:
    times = sizes_of("repeat", repeats)
    if len(times) < a.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    lead = len(times) - a.ndim
    full = (1,) * lead + a.shape
    shape = tuple(n * r for n, r in zip(full, times, strict=True))
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    if type(a) is MetaArray:
        return meta(shape, a.dtype)
    whole = np.empty(shape, a.dtype)
    if not whole.size:
        return whole
    split = whole.reshape([m for pair in zip(times, full, strict=True) for m in pair])
    split[...] = a.reshape([m for n in full for m in (1, n)])
    return whole


repeat = _repeat.function


@composite("tile(Tensor self, int[] dims) -> Tensor")
def _tile(self: Tensor, dims: Any) -> Tensor:
    times = sizes_of("tile", dims)
    return repeat(self, repeats=(1,) * (self._a.ndim - len(times)) + times)


@op(
    "repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor",
    meta=shapes.repeat_interleave,
    out=False,
)
def _repeat_index(repeats: Any, output_size: int | None) -> Any:
    """0 as often as the first number says, 1 as often as the second, and so on."""
    if repeats.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.dtype not in (np.int64, np.int32):
        name = type_name(FROM_NUMPY[repeats.dtype])
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{name}'")
    if repeats.size and repeats.min() < 0:
        raise RuntimeError("repeats can not be negative")
    index = np.repeat(np.arange(repeats.size, dtype=repeats.dtype), repeats)
    if output_size is not None and output_size != index.size:
        raise RuntimeError("allocated size does not match required size")
    return index


@composite(
    "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor"
)
def _repeat_by_tensor(self: Tensor, repeats: Tensor, dim: int | None, output_size: int | None) -> Tensor:
    if dim is None:
        self, dim = flatten(self), 0
    n = self._a.shape[wrap_dim(dim, self._a.ndim)] if self._a.ndim else 1
    times = repeats
    if times._a.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if times._a.ndim == 0 or times._a.size == 1:
        times = expand(reshape(times, shape=(1,)), size=(n,))
    elif times._a.size != n:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {times._a.size} and "
            f"input.size({dim}) = {n}"
        )
    index = _repeat_index.function(times, output_size=output_size)
    return self.index_select(dim, index)


@composite("repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? output_size=None) -> Tensor")
def _repeat_by_number(self: Tensor, repeats: int, dim: int | None, output_size: int | None) -> Tensor:
    if dim is None:
        self, dim = flatten(self), 0
    dim = wrap_dim(dim, self._a.ndim)
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    shape = self._a.shape
    if not shape:
        self, shape = reshape(self, shape=(1,)), (1,)
    spread = expand(unsqueeze(self, dim + 1), size=(*shape[: dim + 1], repeats, *shape[dim + 1 :]))
    return flatten(clone(spread, memory_format=contiguous_format), dim, dim + 1)


@front("repeat_interleave")
def repeat_interleave(input: Any = None, repeats: Any = None, dim: Any = None, *, output_size: Any = None) -> Tensor:
    """Each element (or slice along a dimension) several times in a row."""
    if repeats is None or input is None:
        return _repeat_index.function(input if repeats is None else repeats, output_size=output_size)
    if isinstance(repeats, Tensor):
        return _repeat_by_tensor.function(input, repeats, dim, output_size=output_size)
    if not isinstance(repeats, (int, np.integer)):
        raise TypeError(
            f"repeat_interleave() received an invalid combination of arguments - got ({type(repeats).__name__}), but "
            "expected one of:\n * (Tensor repeats, int dim = None, *, int output_size = None)\n * (int repeats, int "
            "dim = None, *, int output_size = None)\n"
        )
    return _repeat_by_number.function(input, operator.index(repeats), dim, output_size=output_size)


# --- roll, flip, rot90 ------------------------------------------------------------------------------------------------


FORWARD, BACKWARD = slice(None), slice(None, None, -1)


def _as_tuple(value: Any) -> tuple[int, ...]:
    return tuple(operator.index(v) for v in value) if isinstance(value, (list, tuple)) else (operator.index(value),)


def _rolled(a: Any, shift: int, axis: int) -> Any:
    """A copy whose elements are moved along one dimension; those that leave it come in at the other end."""
    n = a.shape[axis]
    cut = shift % n if n else 0
    if not cut or type(a) is MetaArray:
        return a.copy()
    made, before = np.empty(a.shape, a.dtype), (FORWARD,) * axis
    made[(*before, slice(cut))] = a[(*before, slice(n - cut, n))]
    made[(*before, slice(cut, n))] = a[(*before, slice(n - cut))]
    return made


@op(
    "roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor",
    meta=shapes.by_kernel,
    layout=lambda made, a, shifts, dims: (
        result_layout.plain(made) if dims == () or dims == [] else result_layout.suggested(made, a)
    ),
    out=False,
    quiet=False,
    self=lambda g, shifts, dims: roll(g, tuple(-s for s in _as_tuple(shifts)), dims),
)
def _roll(a: Any, shifts: Any, dims: Any) -> Any:
    if C is not None and type(shifts) is int:
        made = C.roll(a, shifts, None if dims == () else dims)
        if made is not None:
            return made
    moves, axes = _as_tuple(shifts), _as_tuple(dims)
    if not moves:
        raise RuntimeError("`shifts` required")
    if not axes and len(moves) == 1:
        return _rolled(a.reshape(-1), moves[0], 0).reshape(a.shape)
    if len(moves) != len(axes):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(axes)}")
    if a.ndim == 0:
        raise IndexError(f"Dimension specified as {axes[0]} but tensor has no dimensions")
    a = a if a.flags.c_contiguous else a.copy()
    for move, dim in zip(moves, axes):
        a = _rolled(a, move, wrap_dim(dim, a.ndim))
    return a


roll = _roll.function


@functools.lru_cache(maxsize=256)
def _backwards(dims: tuple[int, ...], ndim: int) -> tuple[slice, ...]:
    """The index that turns these dimensions round."""
    axes = wrap_dims(dims, ndim)
    return tuple(BACKWARD if axis in axes else FORWARD for axis in range(ndim))


def _flipped(a: Any, dims: Any) -> Any:
    index = _backwards((dims,) if type(dims) is int else _as_tuple(dims), a.ndim)
    return a.copy(order="K") if type(a) is MetaArray else a[index].copy(order="K")


flip = op(
    "flip(Tensor self, int[] dims) -> Tensor",
    meta=shapes.by_kernel,
    layout=result_layout.as_first,
    out=False,
    quiet=False,
    self=lambda g, dims: flip(g, dims=dims),
)(_flipped).function


@composite("fliplr(Tensor self) -> Tensor")
def _fliplr(self: Tensor) -> Tensor:
    if self._a.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(self, dims=(1,))


@composite("flipud(Tensor self) -> Tensor")
def _flipud(self: Tensor) -> Tensor:
    if self._a.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(self, dims=(0,))


def _rotation(n: int, dims: Any) -> tuple[int, int]:
    """The two wrapped dimensions of a rotation."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if n < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {n}")
    first, second = (wrap_dim(d, n) for d in dims)
    if first == second:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    return first, second


def _lay_out_turned(made: Any, a: Any, k: int, dims: Any) -> Any:
    """A flipped copy, its two dimensions swapped for a quarter and three of them; a plain copy if nothing turns."""
    if k % 4 == 0:
        return result_layout.plain(made)
    strides = list(result_layout.strides_in(a, None))
    if k % 2:
        strides[dims[0]], strides[dims[1]] = strides[dims[1]], strides[dims[0]]
    return result_layout.arranged(made, tuple(strides))


def _rot90_called(self: Tensor, k: int, dims: Any) -> Tensor:
    first, second = _rotation(self._a.ndim, dims)
    k %= 4
    if k == 0:
        return clone(self)
    if k == 2:
        return flip(self, dims=(first, second))
    return transpose(flip(self, dims=(second if k == 1 else first,)), first, second)


@op(
    "rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
    meta=shapes.by_kernel,
    layout=_lay_out_turned,
    out=False,
    calls=_rot90_called,
    self=lambda g, k, dims: rot90(g, -k, dims),
)
def _rot90(a: Any, k: int, dims: Any) -> Any:
    first, second = _rotation(a.ndim, dims)
    k %= 4
    if k == 0:
        return a.copy(order="K")
    if k == 2:
        return _flipped(a, (first, second))
    return _flipped(a, second if k == 1 else first).swapaxes(first, second)


rot90 = _rot90.function
