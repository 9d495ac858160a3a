"""The inputs of a call as the profiler shows them: keys while it records, shapes, types and values when somebody asks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..core import tap
from ..core.device import layout, memory_format
from ..core.dtype import FROM_NUMPY, SCALAR_TYPE_NUMBERS, dtype
from ..core.tensor import Tensor
from .schema import Argument


def input_key(value: Any) -> Any:
    """What stands for one argument in an inputs key."""
    if isinstance(value, Tensor):
        return tap.layout_id(value._a)
    if isinstance(value, (list, tuple)):
        return ["list", *[input_key(v) for v in value]]
    return ["value", type(value), value]


def freeze(key: Any) -> Any:
    """A key made hashable."""
    if isinstance(key, (list, tuple)):
        return tuple(freeze(k) for k in key)
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


def input_argument(value: Any) -> Any:
    return freeze(input_key(value))


def describe_inputs(arguments: tuple[Argument, ...], key: Any) -> tap.InputRecord:
    """Shapes, strides, types and values of the arguments an inputs key stands for."""
    shapes: list[Any] = []
    strides: list[Any] = []
    types_: list[str] = []
    concrete: list[Any] = []
    for argument, part in zip(arguments, key, strict=False):
        shape, stride, kind, value = _describe(argument, part)
        shapes.append(shape)
        strides.append(stride)
        types_.append(kind)
        concrete.append(value)
    return tap.InputRecord(shapes, strides, types_, concrete)


def _describe(argument: Argument, part: Any) -> tuple[Any, Any, str, Any]:
    if argument.is_tensor and type(part) is int:
        return _describe_tensor(part)
    if argument.type == "Tensor?[]":
        return [], [], "", None
    if isinstance(part, tuple) and part and part[0] == "list":
        entries = part[1:]
        if argument.is_tensor_list or any(type(p) is int for p in entries):
            rows = [_describe_tensor(p) for p in entries if type(p) is int]
            return [r[0] for r in rows], [r[1] for r in rows], "TensorList", None
        if any(p[0] != "value" for p in entries):
            return [], [], "", None
        exact = _EXACT.get(argument.type.partition("[")[0])
        values = [p[2] if exact is None else exact(p[2]) for p in entries]
        return [], [], "ScalarList", values
    value = part[2] if isinstance(part, tuple) and part and part[0] == "value" else part
    if argument.is_tensor and isinstance(value, (int, float, complex)):
        return [], [], FROM_NUMBER[type(value)], None
    if isinstance(value, dtype):
        return [], [], "Scalar", SCALAR_TYPE_NUMBERS.get(value.name)
    if isinstance(value, (bool, int, float, complex)):
        if "[" in argument.type:
            # Where a list is wanted, one number is a list of one.
            return [], [], "ScalarList", [value]
        # A key does not tell 0 from False; the schema does.
        exact = _EXACT.get(argument.type.rstrip("?"))
        return [], [], "Scalar", value if exact is None else exact(value)
    if isinstance(value, (layout, memory_format)) or argument.type == "MemoryFormat":
        return [], [], "Scalar", _CONSTANTS.get(getattr(value, "name", ""), 0)
    return [], [], "", None


_EXACT: dict[str, type] = {"int": int, "bool": bool, "float": float}
# torch's numbers of layouts and of memory formats.
_CONSTANTS = {"sparse_coo": 1, "sparse_csr": 2, "preserve_format": 1, "channels_last": 2, "channels_last_3d": 3}
FROM_NUMBER: dict[type, str] = {bool: "bool", int: "long int", float: "double", complex: "c10::complex<double>"}


def _describe_tensor(part: int) -> tuple[Any, Any, str, Any]:
    shape, strides, np_dtype = tap.LAYOUTS[part]
    size = np_dtype.itemsize
    known = FROM_NUMPY.get(np_dtype)
    if 0 in shape:
        # NumPy has no strides where there are no elements.
        strides = tuple(size * math.prod(max(n, 1) for n in shape[d + 1 :]) for d in range(len(shape)))
    return list(shape), [s // size for s in strides], known.cpp_name if known else str(np_dtype), None


def layout_of(t: Tensor) -> int:
    """The layout of a tensor, looked up once."""
    found = t._k = tap.layout_id(t._a)
    return found


def intern_tensors(tensors: Iterable[Any]) -> int:
    """Inputs id of a plain sequence of tensors (autograd nodes, custom functions)."""
    return tap.intern_inputs(_PlainInputs(freeze(tuple(input_key(t) for t in tensors))))


def intern_arguments(arguments: Iterable[Any]) -> int:
    """Inputs id of the arguments of a custom function: what is neither a tensor nor made of numbers is left out."""
    shown = (a for a in arguments if isinstance(a, Tensor) or _kind(a) is not None)
    return tap.intern_inputs(_PlainInputs(_plain_key(a) for a in shown))


def _kind(value: Any) -> Any:
    """The kind of a number, of None and of lists and tuples of those; None for everything else."""
    if value is None or isinstance(value, (bool, int, float, complex)):
        return "None" if value is None else type(value)
    if isinstance(value, tuple):
        kinds = tuple(map(_kind, value))
        return None if None in kinds else ("tuple", kinds)
    if isinstance(value, list) and value:
        kinds = tuple({_kind(v) for v in value if v is not None})
        return ("list", kinds) if len(kinds) < 2 and None not in kinds else None
    return None


def _plain_key(value: Any) -> Any:
    """The key of one such argument; lists show their numbers, tuples only that they are there."""
    if isinstance(value, (list, tuple)):
        numbers = isinstance(value, list) and isinstance(value[0], (bool, int, float, complex))
        return input_argument(value if numbers else None)
    return input_argument(value)


def inputs_id(arguments: tuple[Any, ...], of_schema: bool) -> int:
    """Inputs id of the arguments of an op, or of those of something without a schema."""
    if not of_schema:
        return intern_tensors(arguments)
    key: list[Any] = []
    for value in arguments:  # numbers that change from step to step are new each time
        if isinstance(value, Tensor):
            key.append(tap.layout_id(value._a))
        else:
            kind = type(value)
            key.append(("value", kind, value) if kind is float or kind is int else input_argument(value))
    return tap.intern_inputs(tuple(key))


class _PlainInputs(tuple[Any, ...]):
    """An inputs key that belongs to no schema."""

    __slots__ = ()


def describe_plain(key: Any) -> tap.InputRecord:
    """Describe an inputs key made by `intern_tensors` or `intern_arguments`."""
    tensor, other = (Argument("input", kind, False, None, False) for kind in ("Tensor", "Any"))
    return describe_inputs(tuple(tensor if type(part) is int else other for part in key), key)


tap.describe_plain = describe_plain
