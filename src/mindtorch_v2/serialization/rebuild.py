"""Turns stored pieces into tensors, and tensors into the pieces torch's checkpoints are made of.

It owns the functions whose names stand in checkpoints (`torch._utils._rebuild_tensor_v2`, …) and the storage types. It
does not know files or pickles.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import numpy as np

from ..binding.aliases import beside
from ..binding.storage import TypedStorage, UntypedStorage
from ..core import device as _device
from ..core import dtype as _dtype
from ..core.brief import brief
from ..core.dtype import dtype as DType
from ..core.meta import MetaArray, meta
from ..core.tensor import (
    OWN_ATTRIBUTES,
    Conjugated,
    Negated,
    Parameter,
    Tensor,
    address,
    alias,
    element_strides,
    make,
    make_lazy,
    memory_owner,
    new,
    settle_class,
    storage_of,
)
from ..sparse import SparseTensor, sparse_coo_tensor, sparse_csr_tensor

_STORAGE_DTYPES = {
    "FloatStorage": _dtype.float32, "DoubleStorage": _dtype.float64, "HalfStorage": _dtype.float16,
    "BFloat16Storage": _dtype.bfloat16, "ByteStorage": _dtype.uint8, "CharStorage": _dtype.int8,
    "ShortStorage": _dtype.int16, "IntStorage": _dtype.int32, "LongStorage": _dtype.int64,
    "BoolStorage": _dtype.bool_, "ComplexFloatStorage": _dtype.complex64, "ComplexDoubleStorage": _dtype.complex128,
}  # fmt: skip


class StorageType:
    """`torch.FloatStorage` and its kin, as checkpoints name the types of their storages."""

    def __init__(self, name: str, dtype: DType, module: str = "torch") -> None:
        self.name, self.dtype, self.module = name, dtype, module

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}"


UNTYPED = StorageType("UntypedStorage", _dtype.uint8, "torch.storage")
STORAGE_TYPES = {name: StorageType(name, d) for name, d in _STORAGE_DTYPES.items()}
TYPE_OF = {t.dtype: t for t in STORAGE_TYPES.values()}


class LoadedStorage(TypedStorage):
    """A storage read from a file: bytes, or none at all on the meta device."""

    def __init__(self, array: Any, dtype: DType, whole: LoadedStorage | None = None) -> None:
        self._owner = array
        self._token = None if whole is None else whole._token
        self.dtype = dtype
        # The storage that this one looks at a part of, or sees as another type.
        self._whole = self if whole is None else whole
        self._holds_bools = False

    @property
    def on_meta(self) -> bool:
        return isinstance(self._owner, MetaArray)

    def as_type(self, dtype: DType) -> LoadedStorage:
        """The same bytes as elements of another type."""
        return self if dtype is self.dtype else LoadedStorage(self._owner, dtype, self._whole)

    def part(self, start: int, stop: int) -> LoadedStorage:
        """Some of the elements."""
        size = self.dtype.itemsize
        return LoadedStorage(self._owner[start * size : stop * size], self.dtype, self._whole)

    def fill(self, data: Any) -> None:
        """Write the bytes, where they come after the tensors that look at them."""
        self._owner[:] = data
        if self._holds_bools:
            self._settle_bools()

    def expect_bools(self) -> None:
        """Some of the bytes are truth values: make each 0 or 1, as NumPy counts on it without looking."""
        if not self._whole._holds_bools:
            self._whole._holds_bools = True
            self._whole._settle_bools()

    def _settle_bools(self) -> None:
        if (self._owner > 1).any():
            np.minimum(self._owner, 1, out=self._owner)


# --- from pieces to tensors -------------------------------------------------------------------------------------------


def _damaged(what: str) -> RuntimeError:
    return RuntimeError(f"damaged checkpoint: {what}")


def _sizes(name: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, (tuple, list)):
        raise _damaged(f"a tensor's {name} is {brief(values)}")
    if len(values) > 64:
        raise _damaged(f"a tensor has {len(values)} dimensions")
    if not all(type(v) is int and 0 <= v < 2**62 for v in values):
        raise _damaged(f"a tensor's {name} is {brief(values)}")
    return tuple(values)


def _flag(name: str, value: Any) -> bool:
    if type(value) is not bool and type(value) is not int:
        raise _damaged(f"{name} is {brief(value)}")
    return bool(value)


def _strided(storage: Any, offset: Any, size: Any, stride: Any, d: DType | None = None) -> Tensor:
    """A tensor on a storage, by default of its type; NumPy refuses what would reach beyond it."""
    if not isinstance(storage, LoadedStorage):
        raise _damaged(f"expected a storage, found {brief(storage)}")
    d = storage.dtype if d is None else d
    shape, strides = _sizes("size", size), _sizes("stride", stride)
    (start,) = _sizes("storage offset", (offset,))
    if len(shape) != len(strides):
        raise _damaged(f"a tensor of size {brief(shape)} has stride {brief(strides)}")
    if storage.on_meta:
        return make(_on_meta(shape, d))
    try:
        if 0 in shape:
            array = np.ndarray(shape, d.np, storage._owner if storage._owner.size else None)
        else:
            steps = tuple(n * d.itemsize for n in strides)
            array = np.ndarray(shape, d.np, storage._owner, start * d.itemsize, steps)
    except (TypeError, ValueError, OverflowError, MemoryError):
        raise _damaged(
            f"a tensor of size {brief(shape)}, stride {brief(strides)} and offset {start} does not fit its storage of "
            f"{storage.nbytes()} bytes"
        ) from None
    if not array.flags.aligned:
        raise _damaged(f"a tensor of {d} begins amid an element")
    if d is _dtype.bool_:
        storage.expect_bools()
    whole = storage._whole
    if whole._token is not None:
        return alias(array, beside(whole._token))
    t = make(array)
    whole._token = storage_of(t)
    return t


def _on_meta(shape: tuple[int, ...], d: DType) -> Any:
    if math.prod(shape) * d.itemsize >= 2**63:
        raise _damaged(f"a tensor of size {brief(shape)}")
    return meta(shape, d.np)


def _finish(t: Tensor, requires_grad: Any, metadata: Any = None) -> Tensor:
    said = metadata if isinstance(metadata, dict) else {}
    conjugated, negated = (_flag(f"a tensor's {bit}", said.get(bit, False)) for bit in ("conj", "neg"))
    if conjugated or negated:
        t = _with_signs(t, conjugated and t.dtype.is_complex, negated)
    if _flag("requires_grad", requires_grad) and t.dtype.category >= 2:
        t.requires_grad_()
    return t


def _with_signs(t: Tensor, conjugated: bool, negated: bool) -> Tensor:
    """Let the values in memory count as conjugated or negated, as they did when the tensor was saved."""
    if not conjugated or not negated:
        return make_lazy(t, Conjugated if conjugated else Negated)
    if any(step == 0 and n > 1 for step, n in zip(t.stride(), t.shape)):
        raise _damaged("a tensor that repeats its elements is to be conjugated and negated")
    return make(np.negative(np.conj(t._a)))


def _rebuild_tensor(storage: Any, storage_offset: Any, size: Any, stride: Any) -> Tensor:
    return _strided(storage, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage: Any, storage_offset: Any, size: Any, stride: Any, requires_grad: Any, backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    return _finish(_strided(storage, storage_offset, size, stride), requires_grad, metadata)


def _rebuild_tensor_v3(
    storage: Any, storage_offset: Any, size: Any, stride: Any, requires_grad: Any, backward_hooks: Any, dtype: Any,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    return _finish(_strided(storage, storage_offset, size, stride, _known(dtype)), requires_grad, metadata)


def _known(d: Any) -> DType:
    if not isinstance(d, DType):
        raise _damaged(f"expected a dtype, found {brief(d)}")
    return d


def _rebuild_meta_tensor_no_storage(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    return _finish(make(_on_meta(_sizes("size", size), _known(dtype))), requires_grad)


def _rebuild_device_tensor_from_numpy(data: Any, dtype: Any, device: Any, requires_grad: Any) -> Tensor:
    if not isinstance(data, np.ndarray):
        raise _damaged(f"expected an array, found {brief(data)}")
    return _finish(make(np.ascontiguousarray(data, _known(dtype).np)), requires_grad)


def _rebuild_device_tensor_from_cpu_tensor(data: Any, dtype: Any, device: Any, requires_grad: Any) -> Tensor:
    return _finish(_expect_tensor(data), requires_grad)


_SPARSE: dict[Any, tuple[int, Any]] = {
    _device.sparse_coo: (3, sparse_coo_tensor),
    _device.sparse_csr: (4, sparse_csr_tensor),
}


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Tensor:
    count, function = _SPARSE.get(layout, (0, None)) if type(layout) is _device.layout else (0, None)
    pieces = list(data) if isinstance(data, tuple) and len(data) <= 4 else []
    coalesced = layout is _device.sparse_coo and len(pieces) == 4 and pieces.pop() is True  # not in files of old
    if function is None or len(pieces) != count:
        raise _damaged(f"a sparse tensor of layout {_shown(layout)} has the pieces {brief(data)}")
    *tensors, size = pieces
    options = {"is_coalesced": True} if coalesced else {}
    return function(*map(_expect_tensor, tensors), _sizes("size", size), **options)


def _shown(layout: Any) -> str:
    return repr(layout) if type(layout) is _device.layout else brief(layout)


def _expect_tensor(t: Any) -> Tensor:
    if not isinstance(t, Tensor):
        raise _damaged(f"expected a tensor, found {brief(t)}")
    return t


def _on(cls: Any, data: Tensor, requires_grad: Any) -> Any:
    """A leaf of class `cls` on the memory of `data`."""
    t = new(cls)
    t._a, t._ag, t._view, t._v = data._a, None, None, data._v
    settle_class(t)
    return t.requires_grad_() if _flag("requires_grad", requires_grad) and data.dtype.category >= 2 else t


def _rebuild_parameter(data: Any, requires_grad: Any, backward_hooks: Any) -> Parameter:
    return _on(Parameter, _expect_tensor(data), requires_grad)


def _rebuild_parameter_with_state(data: Any, requires_grad: Any, backward_hooks: Any, state: Any) -> Parameter:
    return set_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    """A tensor of a subclass, or one that users hung attributes onto."""
    t = func(*args)
    if type(t) is not new_type and isinstance(new_type, type) and issubclass(new_type, Tensor):
        t = _on(new_type, _expect_tensor(t), t.requires_grad)
    own = getattr(new_type, "__setstate__", None)
    if own is not None and own is not Tensor.__setstate__:  # type: ignore[attr-defined]
        t.__setstate__(state)
        return t
    return set_state(t, state)


def set_state(t: Any, state: Any) -> Any:
    """Give a tensor the attributes it was stored with."""
    for part in state if isinstance(state, tuple) else (state,):
        if isinstance(part, dict):
            t.__dict__.update({k: v for k, v in part.items() if isinstance(k, str) and k not in OWN_ATTRIBUTES})
    return t


def _get_layout(name: str) -> Any:
    found = _device._constants.get(name.removeprefix("torch.")) if isinstance(name, str) else None
    if found is None:
        raise _damaged(f"unknown layout {brief(name)}")
    return found


REBUILD: dict[str, Any] = {
    f.__name__: f
    for f in (
        _rebuild_tensor,
        _rebuild_tensor_v2,
        _rebuild_tensor_v3,
        _rebuild_meta_tensor_no_storage,
        _rebuild_device_tensor_from_numpy,
        _rebuild_device_tensor_from_cpu_tensor,
        _rebuild_parameter,
        _rebuild_parameter_with_state,
        _rebuild_sparse_tensor,
    )
}


# --- from tensors to pieces -------------------------------------------------------------------------------------------


class Pieces:
    """The storages met while something is saved: one per block of memory, numbered in the order they are met."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self._found: dict[Any, tuple[int, StorageType]] = {}

    def storage(self, array: Any, kind: StorageType) -> tuple[Any, ...]:
        """The persistent id of the storage that `array` looks at."""
        owner = memory_owner(array)
        key = (address(owner), owner.nbytes) if owner.nbytes else id(owner)
        number, known = self._found.setdefault(key, (len(self.arrays), kind))
        if number == len(self.arrays):
            self.arrays.append(owner)
        elif known is not kind:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        return ("storage", kind, str(number), "cpu", owner.nbytes // kind.dtype.itemsize)

    def kinds(self) -> list[StorageType]:
        """The type of each storage, in their order."""
        return [kind for _, kind in self._found.values()]


class Reference:
    """Stands for a storage inside a tensor's pieces."""

    __slots__ = ("array", "kind")

    def __init__(self, array: Any, kind: StorageType) -> None:
        self.array, self.kind = array, kind


def _dense(a: Any) -> Any:
    """The array itself, or a copy where torch cannot express its strides."""
    return a.copy() if any(s < 0 or s % a.dtype.itemsize for s in a.strides) else a


def reduce_sparse(t: SparseTensor) -> tuple[Any, ...]:
    """The same for a sparse tensor."""
    if t.is_sparse_csr:
        return _rebuild_sparse_tensor, (t.layout, (t.crow_indices(), t.col_indices(), t.values(), t.shape))
    return _rebuild_sparse_tensor, (t.layout, (t._indices(), t._values(), t.shape, t.is_coalesced()))


def reduce_tensor(t: Tensor) -> tuple[Any, ...]:
    """What a tensor pickles as: a function of torch's and its arguments."""
    attributes = {k: v for k, v in t.__dict__.items() if k not in OWN_ATTRIBUTES}
    if isinstance(t, Parameter) and "_is_param" not in attributes:
        plain = _reduce_plain(t, False)
        holder = Nested(*plain)
        if not attributes:
            return _rebuild_parameter, (holder, t.requires_grad, OrderedDict())
        return _rebuild_parameter_with_state, (holder, t.requires_grad, OrderedDict(), attributes)
    function, args = _reduce_plain(t, t.requires_grad)
    if t.__class__ is Tensor and not attributes:
        return function, args
    return _rebuild_from_type_v2, (function, t.__class__, args, attributes)


class Nested:
    """A reduction inside the arguments of another."""

    __slots__ = ("function", "args")

    def __init__(self, function: Any, args: tuple[Any, ...]) -> None:
        self.function, self.args = function, args


def _reduce_plain(t: Tensor, requires_grad: bool) -> tuple[Any, tuple[Any, ...]]:
    a, d = t._a, t.dtype
    if isinstance(a, MetaArray):
        return _rebuild_meta_tensor_no_storage, (d, tuple(a.shape), element_strides(a), requires_grad)
    a = _dense(a)
    owner = memory_owner(a)
    offset = (address(a) - address(owner)) // d.itemsize if a.size else 0
    rest: tuple[Any, ...] = (offset, tuple(a.shape), element_strides(a), requires_grad, OrderedDict())
    kind = TYPE_OF.get(d)
    if kind is None:
        return _rebuild_tensor_v3, (Reference(a, UNTYPED), *rest, d)
    return _rebuild_tensor_v2, (Reference(a, kind), *rest)


def storage_bytes(owner: Any) -> Any:
    """The memory of an array in the order it lies there, as bytes."""
    flat = owner if owner.flags.c_contiguous else owner.T if owner.flags.f_contiguous else owner.ravel(order="K")
    return flat.reshape(-1).view(np.uint8) if flat.size else np.empty(0, np.uint8)


def storage_reference(storage: UntypedStorage) -> Reference:
    """The reference of a storage object."""
    kind = TYPE_OF.get(storage.dtype, UNTYPED) if isinstance(storage, TypedStorage) else UNTYPED
    return Reference(storage._owner, kind)
