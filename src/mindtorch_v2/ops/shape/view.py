"""Rows of views that keep every element: other sizes, dimensions of size one, expansion.

Other orders of dimensions are in `permute`, views of a part of the memory in `slice`, changes of a tensor's own shape in
`resize`, plain copies in `copies`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.grad_mode import is_grad_enabled
from ...autograd.graph import edge
from ...core import device, tap
from ...core.dtype import FROM_NUMPY
from ...core.dtype import dtype as DType
from ...core.errors import dim_error, shape_text, wrap_dim, wrap_dims
from ...core.layouts import in_bytes, viewed
from ...core.meta import MetaArray
from ...core.size import Size
from ...core.tensor import FAST, LAZY, Conjugated, Tensor, alias, element_strides, make, storage_of
from ...dispatch.codegen import MISSING
from ...dispatch.front import front
from ...dispatch.inplace import type_name
from ...dispatch.inside import inside
from ...dispatch.op import composite, view
from ...kernels.compiled import F32, C, looked_at, unsqueezed
from ...kernels.reduction.reduce import sum as sum_array
from ...kernels.result_layout import is_row_major, strides_of
from .copies import clone, contiguous

# --- sizes ------------------------------------------------------------------------------------------------------------


def infer_size(shape: tuple[int, ...], numel: int) -> tuple[int, ...]:
    """A shape with its -1 filled in."""
    known, unknown = 1, -1
    for position, n in enumerate(shape):
        if n == -1:
            if unknown >= 0:
                raise RuntimeError("only one dimension can be inferred")
            unknown = position
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {position} of shape {shape_text(shape)}")
        else:
            known *= n
    if unknown < 0:
        if known != numel:
            raise RuntimeError(f"shape '{shape_text(shape)}' is invalid for input of size {numel}")
        return tuple(shape)
    if known == 0 and numel == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {shape_text(shape)} because the unspecified dimension "
            "size -1 can be any value and is ambiguous"
        )
    if known == 0 or numel % known:
        raise RuntimeError(f"shape '{shape_text(shape)}' is invalid for input of size {numel}")
    return (*shape[:unknown], numel // known, *shape[unknown + 1 :])


def sizes_of(name: str, given: Any) -> tuple[int, ...]:
    """Sizes as plain ints, from an int or a sequence of anything that counts as one."""
    if isinstance(given, (int, np.integer)):
        return (int(given),)
    if isinstance(given, Tensor) and given._a.ndim == 0:
        return (int(given._a),)
    sizes = []
    for position, n in enumerate(given, 1):
        if not isinstance(n, (int, np.integer, Tensor)):
            raise TypeError(
                f"{name}(): argument 'shape' failed to unpack the object at pos {position} with error \"type must be "
                f'tuple of ints,but got {type(n).__name__}"'
            )
        sizes.append(operator.index(n))
    return tuple(sizes)


def _keeps_strides(a: Any) -> bool:
    """Whether strides of another shape follow from those of `a`, where NumPy makes up some for dimensions of one element."""
    return type(a) is np.ndarray and a.size > 0 and not is_row_major(a)


def view_array(a: Any, shape: tuple[int, ...]) -> Any:
    """`a` in another shape on the same memory, or None where strides do not allow it."""
    if _keeps_strides(a):
        strides = viewed(a.shape, strides_of(a), shape)
        return None if strides is None else looked_at(a, shape, in_bytes(strides, a.dtype.itemsize))
    try:
        return a.reshape(shape, copy=False)
    except ValueError:
        return None


@view(
    "view(Tensor(a) self, int[] size) -> Tensor(a)",
    spread=False,
    asked=None if C is None else C.reshape,
    self=lambda g, self_sizes: inner_reshape(g, self_sizes),
)
def _view(a: Any, size: Any) -> Any:
    if not _keeps_strides(a):
        try:
            result = a.reshape(size)
            base = result.base
            # Where NumPy had to copy, the base is neither. It takes any negative number for -1.
            if (base is a or base is a.base) and (result.shape == size or -1 in size):
                return result
        except (TypeError, ValueError):
            pass
    result = view_array(a, infer_size(sizes_of("view", size), a.size))
    if result is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return result


_view_ints = _view.function


@composite("view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)")
def _view_dtype(self: Tensor, dtype: DType) -> Tensor:
    """Other elements on the same bytes; takes no part in autograd."""
    if type(self) in LAZY:
        kind = "conjugate view tensors" if type(self) is Conjugated else "tensors with negative bit set"
        raise RuntimeError(f"torch.Tensor.view is not supported for {kind} when converting to a different dtype.")
    return alias(reinterpreted(self._a, dtype), storage_of(self))


def reinterpreted(a: Any, d: DType) -> Any:
    """The bytes of `a` as elements of another dtype."""
    have, want = a.dtype.itemsize, d.np.itemsize
    names = f"{type_name(FROM_NUMPY[a.dtype])} as {type_name(d)} (different element sizes)"
    if have == want:
        return a.view(d.np)
    if a.ndim == 0:
        raise RuntimeError(f"self.dim() cannot be 0 to view {names}")
    if a.size and a.strides[-1] != have:
        raise RuntimeError(f"self.stride(-1) must be 1 to view {names}, but got {a.strides[-1] // have}")
    ratio = want // have
    if want > have:
        if a.shape[-1] % ratio:
            raise RuntimeError(f"self.size(-1) must be divisible by {ratio} to view {names}, but got {a.shape[-1]}")
        for axis, stride in enumerate(a.strides[:-1]):
            if stride % want:
                raise RuntimeError(
                    f"self.stride({axis}) must be divisible by {ratio} to view {names}, but got {stride // have}"
                )
    return a.view(d.np)


@front("view")
def view_as_given(input: Tensor, *shape: Any, size: Any = MISSING, dtype: Any = None) -> Tensor:
    """The same memory in another shape, or as another dtype."""
    if shape:
        first = shape[0]
        if type(first) is int:
            return _view_ints(input, shape)
        if isinstance(first, DType):
            dtype = first
        else:
            size = first if len(shape) == 1 else shape
    if dtype is not None:
        return _view_dtype.function(input, dtype)
    if size is MISSING or isinstance(size, (float, str)):
        got = "" if size is MISSING else type(size).__name__
        raise TypeError(
            f"view() received an invalid combination of arguments - got ({got}), but expected one of:\n"
            " * (torch.dtype dtype)\n * (tuple of ints size)\n"
        )
    return _view.function(input, size=size)


@view("_unsafe_view(Tensor self, int[] size) -> Tensor", self=lambda g, self_sizes: inner_reshape(g, self_sizes))
def _unsafe_view(a: Any, size: tuple[int, ...]) -> Any:
    return a.reshape(size)


@view(
    "_reshape_alias(Tensor(a) self, int[] size, int[] stride) -> Tensor(a)",
    self=lambda g, self_sizes: inner_reshape(g, self_sizes),
)
def _reshape_alias(a: Any, size: tuple[int, ...], stride: tuple[int, ...]) -> Any:
    made = view_array(a, size)
    if made is None:
        raise RuntimeError(
            f"_reshape_alias: size {list(size)} takes a copy of a tensor of size {list(a.shape)}; use reshape() instead"
        )
    return made


def _is_unseen(self: Tensor) -> bool:
    """Whether nobody can tell which ops a result came from."""
    return not tap.NAMESPACE["HOOK"] and type(self) in FAST and edge(self) is None


def unsafe_view(self: Tensor, size: tuple[int, ...]) -> Any:
    """A new tensor, which nobody else has, in another size; what comes of it is no view of anything."""
    t: Tensor = _unsafe_view.function(self, size)
    t._view = None
    return t


def reshaped(self: Tensor, size: tuple[int, ...]) -> Tensor:
    """A view of that size where possible, else a copy."""
    a = self._a
    if a.flags.c_contiguous:
        return _view_ints(self, size)
    possible = view_array(a, size)
    if possible is not None:
        return _reshape_alias.function(self, size, element_strides(possible))
    if _is_unseen(self):
        return make(a.reshape(size))
    return unsafe_view(clone(self, memory_format=device.contiguous_format), size)


@composite("reshape(Tensor(a) self, int[] shape) -> Tensor(a)")
def _reshape(self: Tensor, shape: Any) -> Tensor:
    if type(shape) is tuple:
        a = self._a
        try:
            if a.flags.c_contiguous:
                return _view_ints(self, shape)
            if type(a) is np.ndarray and _is_unseen(self):
                result = a.reshape(shape)
                if result.base is not a and (a.base is None or result.base is not a.base):
                    return make(result)
        except (TypeError, ValueError):
            pass  # not plain sizes, or wrong ones, which the longer way tells
    return reshaped(self, infer_size(sizes_of("reshape", shape), self._a.size))


def _reshaped_inside(self: Tensor, shape: tuple[int, ...]) -> Any:
    return inner_view(self, shape) if self._a.flags.c_contiguous else _reshape.kernel(self, shape)


reshape, inner_view, inner_reshape = _reshape.function, inside(_view), inside(_reshape, _reshaped_inside)


@composite("view_as(Tensor(a) self, Tensor other) -> Tensor(a)")
def _view_as(self: Tensor, other: Tensor) -> Tensor:
    return _view.function(self, size=other._a.shape)


@composite("reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)")
def _reshape_as(self: Tensor, other: Tensor) -> Tensor:
    return reshape(self, shape=other._a.shape)


@composite("flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)")
def _flatten(self: Tensor, start_dim: int, end_dim: int) -> Tensor:
    shape = self._a.shape
    n = len(shape)
    if end_dim == -1 and 0 <= start_dim < n - 1 and self._a.size and self._a.flags.c_contiguous:
        return _view_ints(self, (*shape[:start_dim], -1))
    start, end = start_dim + n if start_dim < 0 else start_dim, end_dim + n if end_dim < 0 else end_dim
    if not (0 <= start < n and 0 <= end < n):
        start, end = wrap_dim(start_dim, n), wrap_dim(end_dim, n)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return reshaped(self, (1,))
    if start == end:
        return self
    if start == 0 and end == n - 1:
        size: tuple[int, ...] = (self._a.size,)
    else:
        size = (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])
    return _view_ints(self, size) if self._a.flags.c_contiguous else reshaped(self, size)


flatten = _flatten.function


@composite("unflatten.int(Tensor(a) self, int dim, int[] sizes) -> Tensor(a)")
def _unflatten(self: Tensor, dim: int, sizes: Any) -> Tensor:
    shape = self._a.shape
    dim = wrap_dim(dim, len(shape))
    if not shape:
        raise RuntimeError(f"unflatten: dimension specified as {dim} but tensor has no dimensions")
    given = sizes_of("unflatten", sizes)
    if not given:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        inferred = infer_size(given, shape[dim])
    except RuntimeError as error:
        if "is invalid for input" not in str(error):
            raise
        raise RuntimeError(
            f"unflatten: Provided sizes {shape_text(given)} don't multiply up to the size of dim {dim} ({shape[dim]}) "
            "in the input tensor"
        ) from None
    return _view.function(self, size=(*shape[:dim], *inferred, *shape[dim + 1 :]))


@composite("ravel(Tensor(a) self) -> Tensor(a)")
def _ravel(self: Tensor) -> Tensor:
    return _view_ints(contiguous(self), (-1,))


# --- dimensions of size one -------------------------------------------------------------------------------------------


@view(
    "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
    asked=None if C is None else C.unsqueeze,
    self=lambda g, dim: squeeze_dim(g, dim),
)
def _unsqueeze(a: Any, dim: int) -> Any:
    shape = a.shape
    if dim < 0:
        dim += len(shape) + 1
    if not 0 <= dim <= len(shape):
        raise dim_error(dim if dim >= 0 else dim - len(shape) - 1, len(shape) + 1)
    return unsqueezed(a, dim)


unsqueeze = _unsqueeze.function


def unsqueezed_to(g: Tensor, sizes: tuple[int, ...], dims: Any = None) -> Tensor:
    """The gradient of squeezing (some dimensions of) a tensor of `sizes`."""
    among = range(len(sizes)) if dims is None else wrap_dims(dims, len(sizes))
    for d in sorted(among):
        if sizes and sizes[d] == 1:
            g = unsqueeze(g, d)
    return g


@view("squeeze(Tensor(a) self) -> Tensor(a)", self=lambda g, self_sizes: unsqueezed_to(g, self_sizes))
def _squeeze(a: Any) -> Any:
    return a.squeeze()


@view(
    "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
    node="SqueezeBackward1",
    self=lambda g, self_sizes, dim: unsqueezed_to(g, self_sizes, dim),
)
def _squeeze_dim(a: Any, dim: int) -> Any:
    shape = a.shape
    if not -len(shape) <= dim < len(shape):
        wrap_dim(dim, len(shape))
        return a
    return a.squeeze(dim) if shape[dim] == 1 else a


squeeze_dim = _squeeze_dim.function


@view(
    "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
    node="SqueezeBackward2",
    self=lambda g, self_sizes, dim: unsqueezed_to(g, self_sizes, dim),
)
def _squeeze_dims(a: Any, dim: tuple[int, ...]) -> Any:
    return a.squeeze(tuple(d for d in wrap_dims(tuple(dim), a.ndim) if a.ndim and a.shape[d] == 1))


def dims_given(dims: tuple[Any, ...], dim: Any, axis: Any) -> Any:
    """What `squeeze` was asked to squeeze: None (all), an int or several."""
    if axis is not None:
        dim = axis
    if dims:
        dim = dims[0] if len(dims) == 1 else dims
    return dim


@front("squeeze")
def squeeze(input: Tensor, *dims: Any, dim: Any = None, axis: Any = None) -> Tensor:
    """Without (some) dimensions of size one."""
    if len(dims) == 1 and type(dims[0]) is int and dim is axis is None:
        return squeeze_dim(input, dims[0])
    wanted = dims_given(dims, dim, axis)
    if wanted is None:
        return _squeeze.function(input)
    if isinstance(wanted, (tuple, list)):
        return _squeeze_dims.function(input, tuple(wanted))
    return squeeze_dim(input, operator.index(wanted))


# --- expansion --------------------------------------------------------------------------------------------------------


def expanded_shape(a: Any, size: tuple[int, ...]) -> list[int]:
    """The shape `a` has once expanded to `size`, -1 standing for "as it is"."""
    lead = len(size) - a.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand({type_text(a)}{{{shape_text(a.shape)}}}, size={shape_text(size)}): the number of sizes provided "
            f"({len(size)}) must be greater or equal to the number of dimensions in the tensor ({a.ndim})"
        )
    target = list(size)
    for position in reversed(range(len(size))):  # of several faults torch names the last
        n = size[position]
        if position < lead:
            if n < 0:
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing dimension "
                    f"{position}"
                )
            continue
        have = a.shape[position - lead]
        if n == -1:
            target[position] = have
        elif have != n and (have != 1 or n < 0):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({have}) at non-singleton "
                f"dimension {position}.  Target sizes: {shape_text(size)}.  Tensor sizes: {shape_text(a.shape)}"
            )
    return target


def _expanded(a: Any, size: Any, implicit: bool = False) -> Any:
    have, steps = a.shape, a.strides
    lead = len(size) - len(have) if type(size) is tuple else -1
    strides = [0] * lead
    if lead >= 0:
        for want, n, stride in zip(size[lead:] if lead else size, have, steps):
            if want == n:
                strides.append(stride)
            elif n == 1 and type(want) is int and want >= 0:
                strides.append(0)
            else:
                break
    target = size
    if lead < 0 or len(strides) != len(size) or (lead and min(size[:lead]) < 0):
        target = expanded_shape(a, sizes_of("expand", size))
        lead = len(target) - len(have)
        strides = [0] * lead
        strides += [0 if n == 1 and want != 1 else s for n, want, s in zip(have, target[lead:], steps)]
    if a.flags.c_contiguous and a.size and type(a) is not MetaArray:
        return np.ndarray(target, a.dtype, a, 0, strides)
    return np.lib.stride_tricks.as_strided(a, target, strides, subok=True)


def type_text(a: Any) -> str:
    """How messages call a tensor's type."""
    return f"torch.{type_name(FROM_NUMPY[a.dtype])}Tensor"


expand_row = view(
    "expand(Tensor(a) self, int[] size, *, bool implicit=False) -> Tensor(a)",
    asked=None if C is None else C.expand,
    self=lambda g, self_sizes: sum_to_size(g, self_sizes),
)(_expanded)
expand = expand_row.function


@composite("expand_as(Tensor(a) self, Tensor other) -> Tensor(a)")
def _expand_as(self: Tensor, other: Tensor) -> Tensor:
    return expand(self, size=other._a.shape)


@composite("broadcast_to(Tensor(a) self, int[] size) -> Tensor(a)")
def _broadcast_to(self: Tensor, size: Any) -> Tensor:
    return expand(self, size=size)


broadcast_to = _broadcast_to.function


def common_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that shapes broadcast to; the error names the first two that do not fit."""
    result: tuple[int, ...] = ()
    for shape in shapes:
        try:
            result = np.broadcast_shapes(result, shape)
        except ValueError:
            lead = max(len(result), len(shape))
            for back in range(1, lead + 1):
                m = result[-back] if back <= len(result) else 1
                n = shape[-back] if back <= len(shape) else 1
                if m != n and 1 not in (m, n):
                    raise RuntimeError(
                        f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton dimension "
                        f"{lead - back}"
                    ) from None
    return result


@composite("broadcast_tensors(Tensor[] tensors) -> Tensor[]")
def _broadcast_tensors(tensors: Sequence[Tensor]) -> list[Tensor]:
    shapes = [t._a.shape for t in tensors]
    shape = shapes[0] if shapes and shapes.count(shapes[0]) == len(shapes) else common_shape(shapes)
    return [t if t._a.shape == shape else expand(t, size=shape) for t in tensors]


@front("broadcast_tensors")
def broadcast_tensors(*tensors: Any) -> Any:
    """Tensors expanded to their common shape."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    return tuple(_broadcast_tensors.function(tensors))


@front("broadcast_shapes")
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that shapes broadcast to."""
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    result: list[int] = [1] * max((len(s) for s in given), default=0)
    for number, shape in enumerate(given):
        if any(n < 0 for n in shape):
            raise ValueError("Attempting to broadcast a dimension with negative length!")
        for back in range(-1, -1 - len(shape), -1):
            n = shape[back]
            if n == 1 or n == result[back]:
                continue
            if result[back] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {n} at {back}! Mismatching argument at index "
                    f"{number} had {shape}; but expected shape should be broadcastable to {result}"
                )
            result[back] = n
    return Size(result)


def sum_to_size(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum what broadcasting spread out."""
    from_, to = g._a.shape, tuple(shape)
    if from_ == to:
        return g
    if not to:
        return g.sum()
    lead = len(from_) - len(to)
    dims = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(to) if n == 1 and from_[i + lead] != 1)
    if dims and type(g) is Tensor and g._a.dtype is F32 and not tap.NAMESPACE["HOOK"] and not is_grad_enabled():
        summed_array = sum_array(g._a, dims[0] if len(dims) == 1 else dims)  # where only values count
        return make(summed_array.reshape(to))
    summed = g.sum(dims, keepdim=True) if dims else g
    return _view.function(summed, size=to) if lead else summed


@composite("sum_to_size(Tensor self, int[] size) -> Tensor")
def _sum_to_size(self: Tensor, size: Any) -> Tensor:
    shape, have = sizes_of("sum_to_size", size), self._a.shape
    lead = len(have) - len(shape)
    if lead < 0 or any(n not in (1, have[lead + i]) for i, n in enumerate(shape)):
        raise RuntimeError(f"size {{{shape_text(shape)}}} is not expandable to size {{{shape_text(have)}}}.")
    return sum_to_size(self, shape) if shape else self.sum()
