"""From Python data to arrays: what dtype numbers, nested sequences, arrays and tensors have together, and what is wrong
with those that make no tensor. It knows no operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core import dtype
from ...core.dtype import FROM_NUMPY, promote_types
from ...core.dtype import dtype as DType
from ...core.tensor import Tensor
from ...kernels.floating import quiet
from ...kernels.precision import cast
from ...kernels.result_layout import as_first

_INT64 = np.dtype(np.int64)
_LISTS = {list}
_NUMBERS = (bool, int, float, complex, np.generic)


def array_of(data: Any, d: Any) -> Any:
    """An array of given or found-out dtype from numbers, nested sequences, arrays or tensors."""
    plain = _plain_array(data, d)
    if plain is not None:
        return plain
    wanted: DType | None = dtype.as_dtype(d)
    if isinstance(data, (Tensor, np.ndarray)):
        source = data._a if isinstance(data, Tensor) else usable(data)
        if wanted is None or wanted.np is source.dtype:
            return recast(source, source.dtype)
        with quiet():
            return recast(source, wanted.np)
    leaf = _leaf(data)
    if isinstance(leaf, str):
        raise _text_error(data)
    if not isinstance(leaf, (*_NUMBERS, np.ndarray, Tensor, list, tuple)):
        if not any(hasattr(leaf, name) for name in ("__array__", "__array_interface__", "__len__")):
            return _converted(leaf, wanted)
    if _holds_tensors(data):
        data, wanted = _unwrapped(data), wanted or _common_dtype(data)
    a = _array(data)
    if wanted is None:
        wanted = _found_dtype(a, leaf)
    return a if a.dtype == wanted.np else _cast(a, wanted)


def _plain_array(data: Any, d: DType | None) -> Any:
    """An array of a Python number, or of a list of nothing but floats or integers, or of such lists; None for all else, and
    for what is not of the dtype that is wanted."""
    kind = type(data)
    if kind is list and data:
        kinds = set(map(type, data))
        if kinds == _LISTS:
            kinds = {type(number) for row in data for number in row}
        if len(kinds) != 1:
            return None
        kind = kinds.pop()
    try:
        if kind is float and (d is None or d is dtype.float32 or d is dtype.float64):
            with quiet():
                return np.array(data, (d or dtype.get_default_dtype()).np)
        if kind is int:
            if type(d) is DType and d.category == 1:
                return np.array(data, d.np)
            a = np.array(data)
            wanted = _INT64 if d is None else d.np if d is dtype.float32 or d is dtype.float64 else None
            return None if a.dtype is not _INT64 or wanted is None else a if wanted is _INT64 else a.astype(wanted)
        if kind is bool and (d is None or d is dtype.bool_):
            return np.array(data, np.bool_)
    except (ValueError, OverflowError):  # the long way says which rows or numbers do not fit
        return None
    return None


def usable(ndarray: Any) -> Any:
    """A NumPy array as a tensor holds it, on the same memory; ValueError where torch's tensors cannot look at that."""
    found = dtype.from_numpy_dtype(ndarray.dtype)
    if min(ndarray.strides, default=0) < 0:
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array  with array.copy().)"
        )
    a = ndarray if type(ndarray) is np.ndarray else ndarray.view(np.ndarray)
    return a if a.dtype is found.np else a.view(found.np)


def recast(a: Any, to: np.dtype[Any]) -> Any:
    """A copy of an array in another dtype, or its own, that lies in memory in the same order."""
    if 0 in a.strides and type(a) is np.ndarray:
        a = np.ascontiguousarray(a)  # elements that share memory have no order to keep
    if a.dtype.kind == "c" and to.kind not in "cb":
        return as_first(recast(a.real, to), a)
    if a.dtype.kind == "f" and to.kind in "iu":
        return _truncated(a, to)
    return cast(a, to)


def _truncated(a: Any, to: np.dtype[Any]) -> Any:
    """Floats as integers; small types wrap around through int64 as C does."""
    return a.astype(np.int64).astype(to) if to.itemsize < 4 else a.astype(to)


def _leaf(data: Any) -> Any:
    """The first element of nested sequences."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data


def _converted(leaf: Any, wanted: DType | None) -> Any:
    """An object that can be taken as a number, by itself."""
    if hasattr(leaf, "__index__"):
        return np.asarray(int(leaf)).astype((wanted or dtype.int64).np)
    if hasattr(leaf, "__float__"):
        return np.asarray(float(leaf)).astype((wanted or dtype.get_default_dtype()).np)
    raise RuntimeError(f"Could not infer dtype of {type(leaf).__name__}")


# --- tensors among the elements ---------------------------------------------------------------------------------------


def _holds_tensors(data: Any) -> bool:
    if not isinstance(data, (list, tuple)) or not data:
        return False
    if isinstance(data[0], (list, tuple)):
        return any(_holds_tensors(d) for d in data)
    return any(isinstance(d, Tensor) for d in data)


def _elements(data: Any) -> Iterator[Any]:
    if isinstance(data, (list, tuple)):
        for d in data:
            yield from _elements(d)
    else:
        yield data


def _common_dtype(data: Any) -> DType:
    """What the elements promote to, tensors counting as what they are."""
    found: DType | None = None
    for element in _elements(data):
        if isinstance(element, Tensor):
            one = element.dtype
        elif isinstance(element, np.generic):
            one = dtype.from_numpy_dtype(element.dtype)
        else:
            one = dtype.number_type(element)
        found = one if found is None else promote_types(found, one)
    assert found is not None
    return found


def _unwrapped(data: Any) -> Any:
    """Nested sequences with tensors of one element replaced by their values."""
    if isinstance(data, (list, tuple)):
        return [_unwrapped(d) for d in data]
    if not isinstance(data, Tensor):
        return data
    if data._a.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return data._a.item()


# --- arrays of sequences ----------------------------------------------------------------------------------------------


def _array(data: Any) -> Any:
    try:
        a = np.array(data)
    except ValueError:
        raise _ragged(data) from None
    except OverflowError:
        raise ValueError("Overflow when unpacking long long") from None
    if a.dtype.kind == "O":
        raise _object_error(data, a)
    if a.dtype.kind in "US":
        raise TypeError("new(): invalid data type 'str'")
    if a.dtype == np.uint64 and isinstance(_leaf(data), int):
        raise ValueError("Overflow when unpacking long long")
    return a


def _found_dtype(a: Any, leaf: Any) -> DType:
    if isinstance(leaf, (np.generic, np.ndarray)):
        return FROM_NUMPY[a.dtype]
    if a.size == 0 or a.dtype.kind == "f":
        return dtype.get_default_dtype()
    if a.dtype.kind == "c":
        return dtype.default_complex()
    return FROM_NUMPY[a.dtype]


def _cast(a: Any, wanted: DType) -> Any:
    """The array in a dtype that was asked for; integers must have room in it."""
    if a.dtype.kind == "c" and wanted.category < 3:
        raise TypeError("must be real number, not complex")
    if wanted.category == 1 and a.size and a.dtype.kind in "iuf":
        limits = np.iinfo(wanted.np)
        least = limits.min or -limits.max
        if not (a.max() <= limits.max and a.min() >= least):
            raise RuntimeError(f"value cannot be converted to type {wanted.name} without overflow")
    with quiet():
        return a.astype(wanted.np)


# --- what is wrong ----------------------------------------------------------------------------------------------------


def _text_error(data: Any) -> Exception:
    if isinstance(data, (list, tuple)):
        return ValueError("too many dimensions 'str'")
    return TypeError("new(): invalid data type 'str'")


def _object_error(data: Any, a: Any) -> Exception:
    for element in a.reshape(-1):
        if isinstance(element, (list, tuple)):
            return _ragged(data)
        if not isinstance(element, (int, float, complex)):
            return RuntimeError(f"Could not infer dtype of {type(element).__name__}")
    return ValueError("Overflow when unpacking long long")


def _ragged(data: Any) -> Exception:
    """The error for nested sequences that are not of one shape, naming where."""
    lengths: list[int] = []
    first = data
    while isinstance(first, (list, tuple)) and first:
        lengths.append(len(first))
        first = first[0]
    return _misfit(data, lengths, 0, first) or ValueError("the nested sequences are not of one shape")


def _misfit(data: Any, lengths: list[int], dim: int, first: Any) -> Exception | None:
    if dim == len(lengths):
        if not isinstance(data, (list, tuple)):
            return None
        if isinstance(first, float):
            return TypeError("must be real number, not list")
        return TypeError(f"'{type(data).__name__}' object cannot be interpreted as an integer")
    if not isinstance(data, (list, tuple)):
        return TypeError("not a sequence")
    if len(data) != lengths[dim]:
        return ValueError(f"expected sequence of length {lengths[dim]} at dim {dim} (got {len(data)})")
    found = (_misfit(d, lengths, dim + 1, first) for d in data)
    return next((error for error in found if error is not None), None)
