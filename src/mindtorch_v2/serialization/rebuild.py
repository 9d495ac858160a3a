"""Turns stored pieces into tensors, and tensors into the pieces torch's checkpoints are made of.

It owns the functions whose names stand in checkpoints (`torch._utils._rebuild_tensor_v2`, …) and the storage types. It
does not know files or pickles.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from .. import _device, _dtype
from .._dtype import dtype as DType
from .._meta import MetaArray, meta
from .._storages import TypedStorage, UntypedStorage
from .._tensor import Parameter, Tensor, address, element_strides, make, memory_owner, new, settle_class
from ..sparse import SparseTensor, sparse_coo_tensor, sparse_csr_tensor

_STORAGE_DTYPES = {
    "FloatStorage": _dtype.float32, "DoubleStorage": _dtype.float64, "HalfStorage": _dtype.float16,
    "BFloat16Storage": _dtype.bfloat16, "ByteStorage": _dtype.uint8, "CharStorage": _dtype.int8,
    "ShortStorage": _dtype.int16, "IntStorage": _dtype.int32, "LongStorage": _dtype.int64,
    "BoolStorage": _dtype.bool_, "ComplexFloatStorage": _dtype.complex64, "ComplexDoubleStorage": _dtype.complex128,
}  # fmt: skip

# What users hang onto a tensor is stored with it; this is not theirs.
_OWN_ATTRIBUTES = frozenset(("_grad", "_retains"))


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

    def __init__(self, array: Any, dtype: DType) -> None:
        self._owner = array
        self.dtype = dtype

    @property
    def on_meta(self) -> bool:
        return isinstance(self._owner, MetaArray)


# --- from pieces to tensors -------------------------------------------------------------------------------------------


def _sizes(name: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, (tuple, list)) or not all(type(v) is int and 0 <= v < 2**62 for v in values):
        raise RuntimeError(f"damaged checkpoint: a tensor's {name} is {values!r:.80}")
    if len(values) > 64:
        raise RuntimeError(f"damaged checkpoint: a tensor has {len(values)} dimensions")
    return tuple(values)


def _strided(storage: LoadedStorage, offset: Any, size: Any, stride: Any, d: DType) -> Tensor:
    """A tensor on a storage; NumPy refuses what would reach beyond it."""
    if not isinstance(storage, LoadedStorage):
        raise RuntimeError(f"damaged checkpoint: expected a storage, found {type(storage).__name__}")
    shape, strides = _sizes("size", size), _sizes("stride", stride)
    (start,) = _sizes("storage offset", (offset,))
    if len(shape) != len(strides):
        raise RuntimeError(f"damaged checkpoint: a tensor of size {shape} has stride {strides}")
    if storage.on_meta:
        return make(meta(shape, d.np))
    try:
        if 0 in shape:
            array = np.ndarray(shape, d.np, storage._owner if storage._owner.size else None)
        else:
            steps = tuple(n * d.itemsize for n in strides)
            array = np.ndarray(shape, d.np, storage._owner, start * d.itemsize, steps)
    except (TypeError, ValueError, OverflowError, MemoryError):
        raise RuntimeError(
            f"damaged checkpoint: a tensor of size {shape}, stride {strides} and offset {start} does not fit its "
            f"storage of {storage.nbytes()} bytes"
        ) from None
    return make(array)


def _finish(t: Tensor, requires_grad: Any, metadata: Any = None) -> Tensor:
    if isinstance(metadata, dict):
        if metadata.get("conj"):
            t = make(np.conj(t._a))
        if metadata.get("neg"):
            t = make(np.negative(t._a))
    if requires_grad and t.dtype.category >= 2:
        t.requires_grad_()
    return t


def _rebuild_tensor(storage: Any, storage_offset: Any, size: Any, stride: Any) -> Tensor:
    return _strided(storage, storage_offset, size, stride, storage.dtype)


def _rebuild_tensor_v2(
    storage: Any, storage_offset: Any, size: Any, stride: Any, requires_grad: Any, backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    if not isinstance(storage, LoadedStorage):
        raise RuntimeError(f"damaged checkpoint: expected a storage, found {type(storage).__name__}")
    return _finish(_strided(storage, storage_offset, size, stride, storage.dtype), requires_grad, metadata)


def _rebuild_tensor_v3(
    storage: Any, storage_offset: Any, size: Any, stride: Any, requires_grad: Any, backward_hooks: Any, dtype: Any,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    return _finish(_strided(storage, storage_offset, size, stride, _known(dtype)), requires_grad, metadata)


def _known(d: Any) -> DType:
    if not isinstance(d, DType):
        raise RuntimeError(f"damaged checkpoint: expected a dtype, found {type(d).__name__}")
    return d


def _rebuild_meta_tensor_no_storage(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    return _finish(make(meta(_sizes("size", size), _known(dtype).np)), requires_grad)


def _rebuild_device_tensor_from_numpy(data: Any, dtype: Any, device: Any, requires_grad: Any) -> Tensor:
    return _finish(make(np.ascontiguousarray(data, _known(dtype).np)), requires_grad)


def _rebuild_device_tensor_from_cpu_tensor(data: Any, dtype: Any, device: Any, requires_grad: Any) -> Tensor:
    return _finish(_expect_tensor(data), requires_grad)


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Tensor:
    pieces = list(data) if isinstance(data, tuple) else []
    coalesced = layout is _device.sparse_coo and len(pieces) == 4 and pieces.pop() is True  # not in files of old
    made: Any = {_device.sparse_coo: (3, sparse_coo_tensor), _device.sparse_csr: (4, sparse_csr_tensor)}.get(layout)
    if made is None or len(pieces) != made[0]:
        raise RuntimeError(f"damaged checkpoint: a sparse tensor of layout {layout!r:.80} has {len(pieces)} pieces")
    *tensors, size = pieces
    options = {"is_coalesced": True} if coalesced else {}
    return made[1](*map(_expect_tensor, tensors), _sizes("size", size), **options)


def _expect_tensor(t: Any) -> Tensor:
    if not isinstance(t, Tensor):
        raise RuntimeError(f"damaged checkpoint: expected a tensor, found {type(t).__name__}")
    return t


def _on(cls: Any, data: Tensor, requires_grad: Any) -> Any:
    """A leaf of class `cls` on the memory of `data`."""
    t = new(cls)
    t._a, t._ag, t._view, t._v = data._a, None, None, None
    settle_class(t)
    return t.requires_grad_() if requires_grad and data.dtype.category >= 2 else t


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
            t.__dict__.update({k: v for k, v in part.items() if isinstance(k, str)})
    return t


def _get_layout(name: str) -> Any:
    return _device._constant(name.removeprefix("torch."))


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
    attributes = {k: v for k, v in t.__dict__.items() if k not in _OWN_ATTRIBUTES}
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
