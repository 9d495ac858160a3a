"""`x[index]` and `x[index] = value`: what an index means, in terms of the ops it is made of.

Integers, slices, None and Ellipsis become select, slice and unsqueeze; tensors, masks and sequences become `index`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import overrides
from ...autograd.grad_mode import is_grad_enabled
from ...autograd.graph import make_view
from ...core import tap
from ...core.errors import refuse_shared
from ...core.storage import Storage, View, view_version
from ...core.tensor import FAST, PLAIN, Tensor, bump, make, new
from ...dispatch.inplace import type_name
from ...kernels.compiled import unsqueezed
from ...kernels.fitting import fitting
from ...kernels.indexing import advanced as kernels
from ...kernels.result_layout import is_row_major
from ..creation import fill
from ..shape.copies import alias_of
from ..shape.slice import select
from ..shape.view import _view, expand, unsqueeze
from .index import index as index_op
from .index import index_put_
from .index_parts import BASIC, checked, selected, sliced, taken_apart

copy_ = fill._copy_.function
fill_ = fill.fill_
NAMESPACE, HELPER = tap.NAMESPACE, tap.HELPER

# --- reading ----------------------------------------------------------------------------------------------------------


def _unwatched(t: Tensor) -> bool:
    """Whether a plain tensor takes no part in a graph, and no recorder or mode wants to see ops."""
    if NAMESPACE["HOOK"] or t._ag is not None or type(t) not in FAST:
        return False
    view = t._view
    return view is None or view.base._ag is None


def _nones(parts: tuple[Any, ...]) -> int:
    """How often None is in an index of integers, forward slices, None and Ellipsis; -1 for an index of anything else.

    Without None, such an index means to NumPy what it means to torch."""
    count = 0
    for part in parts:
        kind = type(part)
        if kind is slice:
            step = part.step
            if step is not None and (type(step) is not int or step <= 0):
                return -1
        elif part is None:
            count += 1
        elif kind is not int and part is not Ellipsis:
            return -1
    return count


def _viewed(self: Tensor, array: Any) -> Tensor:
    """A tensor on a view of an unwatched one."""
    if HELPER is not None:
        seen: Tensor = HELPER.look(self, array)
        return seen
    t: Tensor = new(Tensor)
    t._a, t._ag, t._view = array, None, None
    storage = self._v
    if storage is None:
        storage = self._v = Storage()
    t._v = storage
    if is_grad_enabled():
        before = self._view
        if before is None:
            t._view = View(self, storage.version if type(storage) is Storage else view_version(storage))
        else:
            make_view(t, self, None)
    return t


def _quickly(self: Tensor, parts: tuple[Any, ...]) -> Tensor | None:
    """One view or copy of an unwatched tensor in place of several, where nobody can tell the difference; None where the
    index is not that simple."""
    a = self._a
    try:
        nones = _nones(parts)
        if nones == 0:
            # The ellipsis keeps a single element an array.
            return _viewed(self, a[parts if Ellipsis in parts else (*parts, ...)])
        if nones > 0:
            return _quickly_unsqueezed(self, parts) if nones == 1 else None
        plain = None if _split_index is None else _split_index(parts, a.ndim)
        if plain is not None:
            basic, picked, axis = plain
            if basic is not None:
                a = a[basic]
            if not picked:
                return _viewed(self, a)
            return make(_taken(a, picked, axis)) if is_row_major(a) else None  # the order of results is the row's
        found = _split(a, parts)
        if found is None or type(None) in map(type, parts):  # NumPy gives a dimension of None other steps
            return None
        array, indices = found
        if not indices:
            return _viewed(self, array)
        return make(kernels.index(array, indices)) if is_row_major(array) else None
    except (IndexError, TypeError):
        return None


_split_index: Any = None if HELPER is None else HELPER.split_index
if HELPER is not None:
    HELPER.connect_indices(*map(np.dtype, (np.int64, np.int32, np.bool_)))


def _taken(a: Any, picked: tuple[Any, ...], axis: int) -> Any:
    """A new array of what an index takes, along one axis if that is not -1."""
    if axis >= 0:
        return a.take(picked[axis], axis)
    made = a[picked]
    return made if made.flags.c_contiguous else np.ascontiguousarray(made)


def _quickly_unsqueezed(self: Tensor, parts: tuple[Any, ...]) -> Tensor | None:
    """As `_quickly`, with one None behind which all is taken as it is: the steps of the new dimension are then those that
    `unsqueeze` gives it."""
    a = self._a
    dim, rest, cut, unseen = 0, 0, False, True
    for part in parts:
        if part is None:
            unseen = False
        elif part is Ellipsis:
            dim = -1 if unseen else dim
        elif type(part) is slice:
            whole = part.start is part.stop is part.step is None
            if not unseen and not whole:
                return None
            dim += dim >= 0 and unseen
            rest += not unseen
            cut = cut or not whole
        elif unseen:
            cut = True
        else:
            return None
    if cut:
        before = parts[: parts.index(None)]
        a = a[before if dim < 0 else (*before, ...)]
    if dim < 0:
        dim = a.ndim - rest
    return _viewed(self, unsqueezed(a, dim)) if 0 <= dim <= a.ndim - rest else None


def _split(a: Any, parts: tuple[Any, ...]) -> tuple[Any, list[Any]] | None:
    """A view of an array for the integers, slices and None of an index, and the index arrays to take from it; None where
    an index holds anything else. An index that does not fit is an IndexError."""
    if len(parts) == 1 and type(parts[0]) is Tensor and parts[0]._a.ndim:
        array = _index_array(parts[0])
        return None if array is None else (a, [array])
    basic: list[Any] = []
    picked: list[Any] = []
    ellipsis, taken = -1, 0
    for part in parts:
        kind = type(part)
        if kind is slice and (part.step is None or (type(part.step) is int and part.step > 0)):
            basic.append(part)
            picked.append(None)
        elif part is None:
            basic.append(None)
            picked.append(None)
            continue
        elif kind is int:
            basic.append(part)
        elif part is Ellipsis and ellipsis < 0:
            ellipsis = len(picked)
            basic.append(part)
            continue
        else:
            array = _index_array(part)
            if array is None:
                return None
            if array.ndim:
                span = array.ndim if array.dtype is _BOOL else 1
                basic.extend([_WHOLE] * span)
                picked.append(array)
                taken += span - 1
            else:
                basic.append(int(array))
        taken += 1
    if ellipsis >= 0:
        picked[ellipsis:ellipsis] = [None] * (a.ndim - taken)
    else:
        basic.append(Ellipsis)
    while picked and picked[-1] is None:
        picked.pop()
    return a[tuple(basic)], picked


def _index_array(part: Any) -> Any:
    """The array of a plain index tensor, array or list of integers or truth values, not empty; None for anything else."""
    kind = type(part)
    if kind is Tensor:
        part = part._a
    elif kind is list:
        if not part or type(part[0]) not in _LISTED:
            return None
        try:
            part = np.array(part)
        except ValueError:
            return None
        if part.ndim != 1:
            return None
    elif kind is np.int64:
        return part
    elif kind is not np.ndarray:
        return None
    dtype = part.dtype
    if dtype is _INT64 or dtype is _INT32 or (dtype is _BOOL and part.ndim):
        return part if part.size else None
    return None


_LISTED = frozenset((int, bool))
_BOOL = np.dtype(np.bool_)
_WHOLE = slice(None)


def _chain(self: Tensor, parts: tuple[Any, ...]) -> Tensor:
    """select, slice and unsqueeze for an index of integers, slices, None and Ellipsis."""
    n = self._a.ndim
    given = len(parts)
    if given > n or Ellipsis in parts:
        given = sum([part is not None and part is not Ellipsis for part in parts])
        if given > n:
            raise IndexError(f"too many indices for tensor of dimension {n}")
    result, dim, real_dim = self, 0, 0
    for part in parts:
        if type(part) is slice:
            if not part.start is part.stop is part.step is None:
                result = sliced(result, dim, part, skip_whole=True)
            dim, real_dim = dim + 1, real_dim + 1
        elif part is None:
            result, dim = unsqueeze(result, dim), dim + 1
        elif part is Ellipsis:
            dim, real_dim = dim + n - given, real_dim + n - given
        else:
            result, real_dim = selected(result, dim, part, real_dim), real_dim + 1
    return alias_of(self) if result is self else result


def getitem(self: Tensor, index: Any) -> Tensor:
    """`self[index]`."""
    kind = type(index)
    if kind is int:
        try:
            return select(self, 0, index)
        except IndexError:
            return selected(self, 0, index, 0)
    if index is None and not NAMESPACE["HOOK"] and type(self) in FAST:
        return unsqueeze(self, 0)
    if kind in _QUICK and _unwatched(self):
        found = _quickly(self, index if kind is tuple else (index,))
        if found is not None:
            return found
    basic = kind is tuple and BASIC.issuperset(map(type, index))
    if kind is tuple and not basic:
        plain = _plain_parts(self, index)
        if plain is not None:
            picked, indices = plain
            result = self
            for dim, i, real_dim in picked:
                result = selected(result, dim, i, real_dim)
            return index_op(result, indices)
    if NAMESPACE["MODES"] or type(self) not in PLAIN or (not basic and kind not in _SIMPLE and _takes_over(index)):
        handled = _offered(Tensor.__getitem__, self, index)
        if handled is not NotImplemented:
            return handled
    if basic:
        return _chain(self, index)
    if index is None:
        return unsqueeze(self, 0)
    if index is Ellipsis:
        return alias_of(self)
    if kind is slice:
        return sliced(self, 0, index, skip_whole=False)
    if kind is Tensor and index._a.ndim and self._a.ndim:
        return index_op(self, checked([index]))
    if kind is list and self._a.ndim:
        listed = _list_index(index)
        if listed is not None:
            return index_op(self, [listed])
    result, tensors = taken_apart(self, index)
    if tensors:
        return index_op(result, checked(tensors))
    return alias_of(self) if result is self else result


def _plain_parts(self: Tensor, parts: tuple[Any, ...]) -> tuple[list[tuple[int, int, int]], list[Tensor | None]] | None:
    """What a plain tensor is indexed by where that is index tensors, whole slices and integers alone: what `selected` takes
    for each integer, and the indices for what is left. None for any other index."""
    watched = NAMESPACE["HOOK"] and not NAMESPACE["RECORDING"]
    if watched or type(self) not in FAST or not 0 < len(parts) <= self._a.ndim:
        return None
    picked: list[tuple[int, int, int]] = []
    found: list[Tensor | None] = []
    for part in parts:
        kind = type(part)
        if kind is Tensor and part._a.ndim and part._a.dtype is _INT64 and part._a.size:
            found.append(part)
        elif kind is slice and part.start is part.stop is part.step is None:
            found.append(None)
        elif kind is int:
            picked.append((len(found), part, len(found) + len(picked)))
        else:
            return None
    return (picked, found) if found and found[-1] is not None else None


_INT64, _INT32 = np.dtype(np.int64), np.dtype(np.int32)
_QUICK = frozenset((tuple, slice, type(Ellipsis), Tensor, list, np.int64, np.ndarray))
_SIMPLE = frozenset((int, slice, Tensor, type(None), type(Ellipsis), bool))


def _list_index(index: list[Any]) -> Tensor | None:
    """A list of integers as an index tensor; None for any other."""
    if not index or type(index[0]) is not int or NAMESPACE["HOOK"]:
        return None
    try:
        a = np.array(index)
    except ValueError:
        return None
    return make(a) if a.dtype == np.int64 and a.ndim == 1 else None


def _takes_over(index: Any) -> bool:
    if type(index) is tuple and _SIMPLE.issuperset(map(type, index)):
        return False
    return bool(overrides.overloaded(index if isinstance(index, (tuple, list)) else (index,)))


def _offered(function: Any, self: Tensor, *rest: Any) -> Any:
    """Let subclasses and modes have the call."""
    given = (self, *rest)
    if not overrides.has_torch_function(given):
        return NotImplemented
    takers = overrides.overloaded(given)
    return overrides.offer(function, takers, given, {})


# --- writing ----------------------------------------------------------------------------------------------------------


def _number_for(value: Any, np_dtype: Any) -> Any:
    """A Python number that fits an element type; RuntimeError where it does not. 16-bit floats get what fits a double."""
    if type(value) is int and not -(2**63) <= value < 2**64:
        raise ValueError("Overflow when unpacking long long")
    return fitting(value, _DOUBLE if np_dtype.itemsize == 2 and np_dtype.kind in "fV" else np_dtype)


_DOUBLE = np.dtype(np.float64)


def _assigned(self: Tensor, value: Any) -> Any:
    """The value of an assignment: a tensor, or a number that fits."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float, complex, np.integer)):
        return _number_for(value.item() if isinstance(value, np.generic) else value, self._a.dtype)
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise TypeError(f"can't assign a {name} to a torch.{type_name(self.dtype)}Tensor")


def _without_ones(value: Tensor) -> Tensor:
    """A value without its leading dimensions of size one."""
    shape = value._a.shape
    first = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return _view.function(value, size=shape[first:]) if first else value


def _write(target: Tensor, value: Any) -> None:
    """Copy a value into a view, broadcasting it; a number as the tensor of no dimensions that torch makes of it."""
    if not isinstance(value, Tensor):
        value = make(np.asarray(value).astype(target._a.dtype))
    if value._a.shape == target._a.shape:
        copy_(target, value)
    elif value._a.ndim == 0:
        fill_(target, value)
    else:
        small = _without_ones(value)
        copy_(target, small if small._a.shape == target._a.shape else expand(small, size=target._a.shape))


def _write_at(target: Tensor, found: list[Tensor | None], value: Any) -> None:
    if isinstance(value, Tensor):
        if value._a.ndim:
            value = _without_ones(value)
    else:
        value = make(np.asarray(value).astype(target._a.dtype))
    index_put_(target, checked(found), value)


def _write_quickly(self: Tensor, index: Any, value: Any) -> bool:
    """Assign by NumPy alone where nobody watches: no graph, no recorder, an index that means the same to both."""
    a = self._a
    if not _unwatched(self) or type(a) is not np.ndarray or 0 in a.strides:
        return False
    if type(value) in _NUMBERS:
        value = _number_for(value, a.dtype)
    elif type(value) is Tensor and (_unwatched(value) or not is_grad_enabled()):
        value = value._a
        if type(value) is not np.ndarray or (value.dtype.kind == "c" and a.dtype.kind != "c"):
            return False
    else:
        return False
    parts = index if type(index) is tuple else (index,)
    try:
        if type(index) is not Tensor and _nones(parts) >= 0:
            if type(value) is np.ndarray and (value.base is not None or value is a):
                _refuse_shared(a[index], value)
            a[index] = value
        elif not _put_quickly(a, parts, value):
            return False
    except (IndexError, TypeError, ValueError, OverflowError):
        return False
    storage = self._v
    if type(storage) is Storage:
        storage.version += 1
    else:
        bump(self)
    return True


def _refuse_shared(target: Any, value: Any) -> None:
    """Refuse a value that lies in part where it is to be written; one that is spread to fit is not looked at."""
    if type(target) is np.ndarray and target.shape == value.shape:
        refuse_shared(target, value)


def _put_quickly(a: Any, parts: tuple[Any, ...], value: Any) -> bool:
    """Write a value where index arrays say; False for what is not plain, or has its own rules as it is empty."""
    plain = None if _split_index is None else _split_index(parts, a.ndim)
    if plain is not None:
        target, indices = a if plain[0] is None else a[plain[0]], plain[1]
    else:
        found = _split(a, parts)
        if found is None:
            return False
        target, indices = found[0], tuple([_WHOLE if i is None else i for i in found[1]])
    if not indices:
        target[...] = value
        return True
    if type(value) is np.ndarray:
        if value.dtype is not a.dtype or not value.size:
            return False
        if value.base is not None or value is a:
            refuse_shared(target, value, True)
    if not target.size:
        return False
    target[indices] = value
    return True


_NUMBERS = frozenset((int, float, bool))


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`."""
    if _write_quickly(self, index, value):
        return
    if overrides.has_torch_function((self, index, value)):
        handled = _offered(Tensor.__setitem__, self, index, value)
        if handled is not NotImplemented:
            return
    value = _assigned(self, value)
    kind = type(index)
    if index is False:
        return
    if index is Ellipsis:
        _write(self, value)
    elif index is None or index is True:
        _write(unsqueeze(self, 0), value)
    elif kind is int:
        _write(selected(self, 0, index, 0), value)
    elif kind is slice:
        _write(sliced(self, 0, index, skip_whole=True), value)
    else:
        target, found = taken_apart(self, index)
        if found:
            _write_at(target, found, value)
        else:
            _write(target, value)


getitem.__name__ = getitem.__qualname__ = "__getitem__"
setitem.__name__ = setitem.__qualname__ = "__setitem__"
Tensor.__getitem__ = getitem  # type: ignore[method-assign]
Tensor.__setitem__ = setitem  # type: ignore[method-assign]
