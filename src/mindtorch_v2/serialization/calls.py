"""What a pickle that nobody vouches for may call: each thing it can name, with a function that checks all arguments first.

It does not know opcodes or files.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.brief import brief
from ..core.device import device
from ..core.size import Size
from ..core.tensor import Parameter, Tensor
from . import names
from .limits import Limits, Refused
from .rebuild import REBUILD, _get_layout, _rebuild_from_type_v2

# Device names are shorter, and their indices smaller.
_LONGEST_NAME, _LARGEST_INDEX = 64, 1 << 15


def _ordered_dict(limits: Limits, *args: Any) -> Any:
    made: Any = collections.OrderedDict()
    pairs = args[0] if args else ()
    if len(args) > 1 or not isinstance(pairs, (list, tuple)):
        raise Refused(f"OrderedDict takes a list of pairs, got {brief(args)}")
    limits.spend(len(pairs))
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise Refused(f"OrderedDict takes pairs, got {brief(pair)}")
        made[limits.check_key(pair[0], made)] = pair[1]
    return made


def _counter(limits: Limits, *args: Any) -> Any:
    if len(args) > 1 or (args and not isinstance(args[0], dict)):
        raise Refused(f"Counter takes a dict, got {brief(args)}")
    limits.spend(len(args[0]) if args else 0)
    return collections.Counter(*args)


def _set(limits: Limits, items: Any = ()) -> Any:
    if not isinstance(items, (list, tuple)):
        raise Refused(f"set takes a list, got {brief(items)}")
    limits.spend(len(items))
    made: set[Any] = set()
    made.update(limits.check_key(item, made) for item in items)
    return made


def _bytearray(limits: Limits, data: Any = b"", encoding: Any = None) -> bytearray:
    if isinstance(data, bytes) and encoding is None:
        limits.spend_bytes(len(data))
        return bytearray(data)
    return bytearray(_encode(limits, data, encoding))


def _encode(limits: Limits, text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or not isinstance(encoding, str) or encoding not in ("latin1", "latin-1"):
        raise Refused(f"bytes are stored as text in latin1, got {brief(text)} in {brief(encoding)}")
    limits.spend_bytes(len(text))
    return text.encode("latin1")


def _complex(limits: Limits, real: Any, imag: Any) -> complex:
    if not isinstance(real, (int, float)) or not isinstance(imag, (int, float)):
        raise Refused(f"complex takes two numbers, got {brief(real)} and {brief(imag)}")
    return complex(real, imag)


def _size(limits: Limits, values: Any = ()) -> Size:
    if isinstance(values, (tuple, list)):
        limits.spend(len(values))
        if all(type(v) is int and abs(v) < 1 << 63 for v in values):
            return Size(values)
    raise Refused(f"Size takes integers, got {brief(values)}")


def _device(limits: Limits, kind: Any, index: Any = None) -> device:
    is_name = isinstance(kind, str) and len(kind) <= _LONGEST_NAME
    if not is_name or not (index is None or (type(index) is int and abs(index) < _LARGEST_INDEX)):
        raise Refused(f"device takes a name and an index, got {brief(kind)} and {brief(index)}")
    return device(kind) if index is None else device(kind, index)


def _layout(limits: Limits, name: Any) -> Any:
    if not isinstance(name, str):
        raise Refused(f"a layout is stored by its name, got {brief(name)}")
    return _get_layout(name)


def _parameter(limits: Limits, data: Any = None, requires_grad: Any = True) -> Any:
    return REBUILD["_rebuild_parameter"](data, requires_grad, None)


def _parameter_with_state(limits: Limits, data: Any, requires_grad: Any, backward_hooks: Any, state: Any) -> Any:
    _spend_state(limits, state)
    return REBUILD["_rebuild_parameter_with_state"](data, requires_grad, backward_hooks, state)


def _sparse(limits: Limits, layout: Any, data: Any) -> Any:
    """Making a sparse tensor reads its indices, and a tensor may claim more of them than its storage has."""
    pieces = data if isinstance(data, tuple) else ()
    limits.spend_numbers(sum(piece.numel() for piece in pieces if isinstance(piece, Tensor)))
    return REBUILD["_rebuild_sparse_tensor"](layout, data)


def _from_numpy(limits: Limits, data: Any, dtype: Any, device: Any, requires_grad: Any) -> Any:
    limits.spend_numbers(data.size if isinstance(data, np.ndarray) else 0)
    return REBUILD["_rebuild_device_tensor_from_numpy"](data, dtype, device, requires_grad)


def _from_type(limits: Limits, function: Any, cls: Any, args: Any, state: Any) -> Any:
    """A tensor with attributes; its class is Tensor, Parameter, or one that users allowed."""
    call = _REBUILDING.get(id(function))
    if call is None or not isinstance(args, tuple):
        raise Refused(f"a tensor with attributes must name a function that rebuilds tensors, got {brief(function)}")
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise Refused(f"a tensor with attributes must name a tensor class, got {brief(cls)}")
    _spend_state(limits, state)
    return _rebuild_from_type_v2(lambda *arguments: call(limits, *arguments), cls, args, state)


def _spend_state(limits: Limits, state: Any) -> None:
    parts = state if isinstance(state, tuple) else (state,)
    limits.spend(len(parts) + sum(len(part) for part in parts if isinstance(part, dict)))


def _freely(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that checks its arguments itself and does no more work for large ones."""
    return lambda limits, *args: function(*args)


_REBUILDING: dict[int, Callable[..., Any]] = {id(function): _freely(function) for function in REBUILD.values()}
_REBUILDING |= {
    id(REBUILD["_rebuild_parameter_with_state"]): _parameter_with_state,
    id(REBUILD["_rebuild_sparse_tensor"]): _sparse,
    id(REBUILD["_rebuild_device_tensor_from_numpy"]): _from_numpy,
}

# By id of what a pickle names; each takes the limits first.
CALLS: dict[int, Callable[..., Any]] = {
    id(collections.OrderedDict): _ordered_dict,
    id(collections.Counter): _counter,
    id(set): _set,
    id(bytearray): _bytearray,
    id(complex): _complex,
    id(names.SAFE["_codecs.encode"]): _encode,
    id(Size): _size,
    id(device): _device,
    id(Parameter): _parameter,
    id(_get_layout): _layout,
    id(_rebuild_from_type_v2): _from_type,
    **_REBUILDING,
}
