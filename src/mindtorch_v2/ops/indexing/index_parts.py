"""What an index is made of, part by part: integers, slices, None and Ellipsis become select, slice and unsqueeze;
tensors, masks and sequences become index tensors. It does not read or write what they lead to.
"""

from __future__ import annotations

import operator
import sys
import warnings
from typing import Any

import numpy as np

from ...core import tap
from ...core.device import CPU
from ...core.tensor import Tensor, make
from ..creation.convert import as_tensor, filled_from, item
from ..creation.data import array_of
from ..shape.slice import select, slice_
from ..shape.view import unsqueeze
from .index import warn_bytes

BASIC = frozenset((int, slice, type(None), type(Ellipsis)))


def out_of_bounds(i: int, dim: int, size: int) -> IndexError:
    """The error for an integer index outside a dimension."""
    return IndexError(f"index {i} is out of bounds for dimension {dim} with size {size}")


def selected(self: Tensor, dim: int, i: int, real_dim: int) -> Tensor:
    """One element of a dimension, which the program knows as `real_dim`."""
    shape = self._a.shape
    if not shape and i != 0:
        raise out_of_bounds(i, 0, 0)
    if not shape:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a "
            "0-dim tensor to a number"
        )
    n = shape[dim]
    if not -n <= i < n:
        raise out_of_bounds(i, real_dim, n)
    return select(self, dim, i)


def _bound(value: Any) -> int | None:
    if value is None or type(value) is int:
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None


def slice_bounds(given: slice) -> tuple[int | None, int | None, int]:
    """Start, end and step of a slice; the step must be positive."""
    step = _bound(given.step)
    step = 1 if step is None else step
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        raise ValueError("step must be greater than zero")
    return _bound(given.start), _bound(given.stop), step


def sliced(self: Tensor, dim: int, given: slice, skip_whole: bool) -> Tensor:
    """A part of a dimension; the tensor itself where that is all of it and `skip_whole` is given."""
    start, end, step = slice_bounds(given)
    if self._a.ndim == 0:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if skip_whole and step == 1 and not start and (end is None or end >= self._a.shape[dim]):
        return self
    if tap.SLOT.recorder is not None:
        # The bounds as torch shows them where none are given.
        start, end = start or 0, sys.maxsize if end is None else end
    return slice_(self, dim, start, end, step)


def _flag(value: bool) -> Tensor:
    """The index that takes all (or nothing) of a dimension of size one."""
    return make(np.zeros(1 if value else 0, np.int64))


def _as_index(value: Any) -> Tensor:
    """A sequence or array as an index tensor."""
    given = isinstance(value, np.ndarray)
    a = value if given else array_of(value, None)
    if a.dtype.kind != "b" and a.dtype != np.uint8:
        a = a.astype(np.int64)
    if tap.SLOT.recorder is not None:
        return as_tensor(a) if given else filled_from(a, CPU)
    return make(np.ascontiguousarray(a).reshape(a.shape))


def _is_sequence(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, (Tensor, dict))


def _as_tuple(index: Any) -> tuple[Any, ...]:
    """A sequence that holds tensors, sequences, slices, None or Ellipsis counts as a tuple of indices."""
    if isinstance(index, tuple):
        return index
    if isinstance(index, (Tensor, np.ndarray)) or not _is_sequence(index) or len(index) >= 32:
        return (index,)
    for element in index:
        if element is None or element is Ellipsis or isinstance(element, (Tensor, slice)) or _is_sequence(element):
            if not isinstance(index, str):
                _warn_sequence()
            return tuple(index) if not isinstance(index, str) else (index,)
    return (index,)


def _warn_sequence() -> None:
    warnings.warn(
        "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; "
        "use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, "
        "x[torch.tensor(seq)], which will result either in an error or a different result",
        stacklevel=5,
    )


def _span(part: Any) -> int:
    """How many dimensions one part of an index stands for."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    if isinstance(part, Tensor) and part._a.dtype.kind in "bu":
        return int(part._a.ndim)
    return 1


def _normal(part: Any) -> Any:
    """One part of an index as an int, a bool, a slice, None, Ellipsis or a tensor."""
    if type(part) in BASIC or isinstance(part, int):
        return part
    if isinstance(part, Tensor):
        if part._a.ndim == 0 and part._a.dtype.kind in "iub":
            whole = item.function(part)
            return bool(whole) if part._a.dtype.kind in "bu" else whole
        return part
    if isinstance(part, np.integer):
        return int(part)
    if isinstance(part, np.ndarray) or (_is_sequence(part) and not isinstance(part, np.generic)):
        index = _as_index(part)
        return _normal(index) if index._a.ndim == 0 else index
    if hasattr(part, "__index__") and not isinstance(part, (np.bool_, float)):
        return operator.index(part)
    kind = type(part)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise IndexError(
        f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {name})"
    )


def taken_apart(self: Tensor, index: Any) -> tuple[Tensor, list[Tensor | None]]:
    """A view of the tensor for the simple parts of an index, and index tensors for the rest (by dimension)."""
    given = [_normal(part) for part in _as_tuple(index)]
    spans = [_span(part) for part in given]
    n = self._a.ndim
    if sum(spans) > n:
        if n == 0 and type(index) is int:
            selected(self, 0, index, 0)
        raise IndexError(f"too many indices for tensor of dimension {n}")
    result, dim, real_dim = self, 0, 0
    found: list[Tensor | None] = []
    covered = 0
    for part, span in zip(given, spans, strict=True):
        if part is None:
            result, dim = unsqueeze(result, dim), dim + 1
        elif part is Ellipsis:
            skipped = n - sum(spans)
            dim, real_dim = dim + skipped, real_dim + skipped
        elif isinstance(part, slice):
            if not part.start is part.stop is part.step is None:
                result = sliced(result, dim, part, skip_whole=True)
            dim += 1
        elif isinstance(part, int) and not isinstance(part, bool):
            result = selected(result, dim, part, real_dim)
        else:
            if isinstance(part, bool):
                result, part, span = unsqueeze(result, dim), _flag(part), 1
                real_dim -= 1
            found.extend([None] * (dim - covered))
            found.append(part)
            dim = covered = dim + span
        real_dim += span
    return result, found


def checked(found: list[Tensor | None]) -> list[Tensor | None]:
    """Index tensors; those of bytes, which stand for masks, come with a warning."""
    for index in found:
        if index is not None and index._a.dtype == np.uint8:
            warn_bytes()
    return found
