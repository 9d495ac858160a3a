"""Methods of Tensor that are not operators: printing, Python and NumPy protocols, pickling, subclasses, storages.

Those that make new tensors are in `new_tensors`.
"""

from __future__ import annotations

import copy as _copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..autograd import grad_mode, overrides
from ..autograd.memory.holders import root_of
from ..autograd.node import AccumulateGrad
from ..core import device as _device
from ..core import dtype as _dtype
from ..core import printing, tap
from ..core.dtype import dtype as DType
from ..core.meta import MetaArray, meta
from ..core.segments import Block, bounds, segment_of
from ..core.storage import Storage
from ..core.tensor import (
    FAST,
    LAZY,
    OWN_ATTRIBUTES,
    Parameter,
    Tensor,
    address,
    as_array,
    bump,
    in_memory,
    memory_owner,
    new,
    storage_of,
)
from ..kernels.result_layout import strides_of
from ..ops.creation import convert
from ..ops.shape.copies import _detach
from ..ops.shape.split import unbind
from . import aliases
from .storage import TypedStorage, UntypedStorage

detach = _detach.function
NAMESPACE = tap.NAMESPACE


def method(function: Any) -> Any:
    """Attach a function to Tensor under its own name."""
    setattr(Tensor, function.__name__, function)
    return function


# --- printing ---------------------------------------------------------------------------------------------------------


def _grad_fn_name(t: Tensor) -> str | None:
    node = t.grad_fn
    return None if node is None else type(node).__name__


@method
def __repr__(self: Tensor, *, tensor_contents: Any = None) -> str:
    if overrides.has_torch_function((self,)):
        return overrides.handle_torch_function(Tensor.__repr__, (self,), self)
    kind = self.__class__
    return printing.tensor_repr(
        self._a,
        dtype_name=self.dtype.name,
        default_dtype_name=_dtype.get_default_dtype().name,
        requires_grad=self.requires_grad,
        grad_fn_name=_grad_fn_name(self),
        device=str(self.device),
        class_name="tensor" if kind in (Tensor, Parameter) else kind.__name__,
        is_parameter=isinstance(self, Parameter),
        contents=tensor_contents,
    )


Tensor.__str__ = __repr__  # type: ignore[ method-assign]


def _parameter_repr(self: Parameter) -> str:
    return printing.PARAMETER_HEADING + Tensor.__repr__(self)


Parameter.__repr__ = _parameter_repr  # type: ignore[assignment, method-assign]
Parameter.__str__ = _parameter_repr  # type: ignore[assignment, method-assign]


@method
def __format__(self: Tensor, spec: str) -> str:
    if type(self) is Tensor and self._a.ndim == 0 and type(self._a) is not MetaArray:
        if tap.SLOT.recorder is not None:
            return format(item(self.detach()), spec)
        return printing.format_scalar(self._a, spec, dtype_name=self.dtype.name)
    return object.__format__(self, spec)


# --- Python's protocols -----------------------------------------------------------------------------------------------

item = convert.item.function
is_nonzero = convert.is_nonzero.function


@method
def __bool__(self: Tensor) -> bool:
    a = self._a
    if type(a) is np.ndarray and a.size == 1 and not NAMESPACE["HOOK"] and type(self) in FAST:
        return bool(a)
    return bool(is_nonzero(self))


def _only(t: Tensor) -> Any:
    """The one element of a tensor."""
    a = t._a
    if a.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    if type(a) is np.ndarray and not NAMESPACE["HOOK"] and type(t) in FAST:
        return a.item()
    return item(t)


@method
def __float__(self: Tensor) -> float:
    if type(self._a) is np.ndarray and not NAMESPACE["HOOK"] and type(self) in FAST:
        try:
            return float(self._a.item())
        except (TypeError, ValueError):
            pass  # several elements, or a complex one: the usual way says so
    return float(_only(self))


@method
def __int__(self: Tensor) -> int:
    if type(self._a) is np.ndarray and not NAMESPACE["HOOK"] and type(self) in FAST:
        try:
            return int(self._a.item())
        except (TypeError, ValueError):
            pass
    return int(_only(self))


@method
def __complex__(self: Tensor) -> complex:
    return complex(_only(self))


@method
def __index__(self: Tensor) -> int:
    if self._a.size != 1 or self._a.dtype.kind not in "iub":
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(self))


@method
def __iter__(self: Tensor) -> Iterator[Tensor]:
    if self._a.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(unbind(self, 0))


@method
def __reversed__(self: Tensor) -> Tensor:
    return self if self._a.ndim == 0 else self.flip(0)


@method
def __contains__(self: Tensor, element: Any) -> bool:
    if isinstance(element, (Tensor, int, float, complex, bool)):
        return bool((self == element).any().item())  # type: ignore[attr-defined]
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


@method
def __dir__(self: Tensor) -> list[str]:
    return sorted(set(object.__dir__(self)))


# --- NumPy and DLPack -------------------------------------------------------------------------------------------------


@method
def __array__(self: Tensor, dtype: Any = None, copy: Any = None) -> Any:
    a = convert.numpy(self)
    return a if dtype is None else a.astype(dtype, copy=False)


@method
def __array_wrap__(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """NumPy functions on tensors give tensors."""
    array = as_array(array)
    if array.dtype == bool:
        array = array.astype(np.uint8) if context is None else array
    return convert.from_numpy(np.ascontiguousarray(array).reshape(array.shape))


@method
def __dlpack__(
    self: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
) -> Any:
    """A capsule of the tensor's memory, or of a copy; of the kind that a consumer of `max_version` understands."""
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    return self._a.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)


@method
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    return (1, 0)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor on memory shared through DLPack."""
    if not hasattr(ext_tensor, "__dlpack__"):
        raise TypeError(
            f"from_dlpack() expects an object with __dlpack__, got {type(ext_tensor).__name__}; wrap a capsule in the "
            "object it came from"
        )
    return convert.from_numpy(np.from_dlpack(ext_tensor))


# --- copies, pickles, subclasses --------------------------------------------------------------------------------------


@method
def as_subclass(self: Tensor, cls: Any) -> Any:
    """The same tensor as an instance of a subclass."""
    if not issubclass(cls, Tensor):
        raise TypeError(f"as_subclass() expects a subclass of Tensor, got {cls.__name__}")
    t = new(cls)
    t._a, t._ag, t._view, t._v = self._a, self._ag, self._view, storage_of(self)
    return t


def _make_subclass(cls: Any, data: Tensor, require_grad: bool = False, **options: Any) -> Any:
    """A leaf of class `cls` on the memory of `data`."""
    t = new(cls)
    t._a, t._ag, t._view, t._v = data._a, None, None, storage_of(data)
    return t.requires_grad_() if require_grad else t


Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]


def _copied_memory(t: Tensor, memo: dict[Any, Any]) -> tuple[Any, Any]:
    """A deep copy of a tensor's array, and its token. Tensors on one memory get their copies on one memory."""
    a = t._a
    if type(a) is MetaArray:
        return meta(a.shape, a.dtype, strides_of(a)), None
    if t._v is None or type(t) in LAZY:
        return a.copy(order="K"), None
    token = root_of(t._v)
    copies = memo.setdefault("torch", {})
    if id(token) not in copies:
        low, high = bounds(memory_owner(a))
        copies[id(token)] = token, low, np.asarray(Block(low, high - low, a)).copy(), Storage()
    _, low, memory, copied_token = copies[id(token)]
    offset = address(a) - low if a.size else 0
    return np.ndarray(a.shape, a.dtype, memory, offset, a.strides), aliases.beside(copied_token)


@method
def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Any:
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  If "
            "you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(self) in memo:
        return memo[id(self)]
    with grad_mode.no_grad():
        t = new(type(self))
        t._a, t._v = _copied_memory(self, memo)
        t._ag = t._view = None
        memo[id(self)] = t
        gradient = self.__dict__.get("_kept_grad") if type(self._ag) is not AccumulateGrad else self._ag.grad
        if self.requires_grad:
            t.requires_grad_()
        if gradient is not None:
            t.grad = _copy.deepcopy(gradient, memo)
        for name, value in self.__dict__.items():
            if name not in OWN_ATTRIBUTES:
                t.__dict__[name] = _copy.deepcopy(value, memo)
    return t


class Elements:
    """The elements of a tensor in a pickle: an array, or what those who send memory make of it."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __reduce__(self) -> Any:
        return np.asarray, (np.asarray(self.tensor._a),)


def _rebuild(cls: Any, elements: Any, requires_grad: bool, attributes: dict[str, Any]) -> Any:
    t = new(cls)
    t._a, t._ag, t._view, t._v = elements, None, None, None
    if type(elements) is Elements:  # nobody pickled them: `copy.copy` looks at the same memory
        elements = elements.tensor
    if isinstance(elements, Tensor):
        t._a, t._v = elements._a, storage_of(elements)
    t.__dict__.update(attributes)
    return t.requires_grad_() if requires_grad else t


def _rebuild_conjugated(values: Tensor, requires_grad: bool) -> Any:
    t = values.conj()
    return t.requires_grad_() if requires_grad else t


@method
def __reduce_ex__(self: Tensor, protocol: int) -> Any:
    attributes = {k: v for k, v in self.__dict__.items() if k not in OWN_ATTRIBUTES}
    if self.is_conj():
        return _rebuild_conjugated, (in_memory(self).detach(), self.requires_grad)
    kind = Tensor if type(self) in LAZY else type(self)
    return _rebuild, (kind, Elements(self), self.requires_grad, attributes)


class Copied:
    """A tensor that other processes are to get a copy of: for a few of its bytes that is quicker than to share them."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __reduce__(self) -> Any:
        reduced: Any = self.tensor.__reduce_ex__(2)
        rebuild, (kind, elements, *rest) = reduced
        return rebuild, (kind, np.asarray(elements.tensor._a), *rest)


def copied(value: Any) -> Any:
    """A plain tensor as one that is sent as a copy; anything else as it is."""
    is_plain = type(value) in FAST and (value._ag is None or value.is_leaf)
    return Copied(value) if is_plain else value


# --- dtype, device ---------------------------------------------------------------------------------------------------

TYPE_STRINGS = {
    "torch.FloatTensor": _dtype.float32, "torch.DoubleTensor": _dtype.float64, "torch.HalfTensor": _dtype.float16,
    "torch.BFloat16Tensor": _dtype.bfloat16, "torch.ByteTensor": _dtype.uint8, "torch.CharTensor": _dtype.int8,
    "torch.ShortTensor": _dtype.int16, "torch.IntTensor": _dtype.int32, "torch.LongTensor": _dtype.int64,
    "torch.BoolTensor": _dtype.bool_, "torch.ComplexFloatTensor": _dtype.complex64,
    "torch.ComplexDoubleTensor": _dtype.complex128,
}  # fmt: skip
_TYPE_NAMES = {d: name for name, d in TYPE_STRINGS.items()}


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """The tensor's type as text, or the tensor in another type."""
    if dtype is None:
        return _TYPE_NAMES.get(self.dtype, str(self.dtype))
    if isinstance(dtype, str):
        if dtype not in TYPE_STRINGS:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = TYPE_STRINGS[dtype]
    elif not isinstance(dtype, DType):
        dtype = dtype.dtype
    return convert.to_dtype(self, dtype)


Tensor.type = _type  # type: ignore[attr-defined]


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    quick = convert.converted(self, other) if type(other) in FAST else None
    return convert.type_as(self, other) if quick is None else quick


@method
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    return self if type(self) in FAST and not tap.NAMESPACE["HOOK"] else convert.to(self, device=_device.CPU)


@method
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    raise AssertionError("Torch not compiled with CUDA enabled")


# --- storages ---------------------------------------------------------------------------------------------------------


def _elementwise(name: str, self: Tensor, others: tuple[Tensor, ...], callable: Any) -> Tensor:
    """Replace each element by what a Python function makes of it and of the others' elements in its place."""
    if self.requires_grad:
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    places = [np.broadcast_to(other._a, self._a.shape) for other in others]
    made = [callable(*values) for values in zip(*(a.reshape(-1).tolist() for a in (self._a, *places)), strict=True)]
    self._a[...] = np.array(made, self._a.dtype).reshape(self._a.shape)
    bump(self)
    return self


@method
def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replace each element x by `callable(x)`."""
    return _elementwise("apply_", self, (), callable)


@method
def map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """Replace each element x by `callable(x, y)`, y from the same place of `tensor`."""
    return _elementwise("map_", self, (tensor,), callable)


@method
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Replace each element by `callable` of it and of the elements of `x` and `y` in its place."""
    return _elementwise("map2_", self, (x, y), callable)


def _in_storage(t: Tensor) -> Any:
    """The array by which a tensor looks at its storage."""
    if t.layout is not _device.strided:
        kind = "SparseTensorImpl" if t.layout is _device.sparse_coo else "SparseCsrTensorImpl"
        raise NotImplementedError(f"Cannot access storage of {kind}; use the storages of its indices and values")
    return in_memory(t)._a


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    array = _in_storage(self)
    return UntypedStorage._on(array, storage_of(self))


@method
def storage(self: Tensor) -> TypedStorage:
    array = _in_storage(self)
    return TypedStorage._on(array, storage_of(self))


Tensor._typed_storage = storage  # type: ignore[attr-defined]


@method
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What takes the place of a parameter or buffer when `other` is loaded into it and tensors are swapped; classes of
    tensors may have their own."""
    if overrides.has_torch_function((self, other)):
        return overrides.handle_torch_function(module_load, (self, other), self, other, assign=assign)
    return other.detach() if assign else self.copy_(other).detach()


@method
def share_memory_(self: Tensor) -> Tensor:
    """Move the tensor's storage to shared memory, with every tensor that looks at it."""
    _in_storage(self)  # sparse tensors have none
    if overrides.has_torch_function((self,)):
        return overrides.handle_torch_function(share_memory_, (self,), self)
    aliases.share((self,))
    return self


@method
def is_shared(self: Tensor) -> bool:
    """Whether the tensor's storage is in shared memory, or a mapped file."""
    array = _in_storage(self)
    if overrides.has_torch_function((self,)):
        return overrides.handle_torch_function(is_shared, (self,), self)
    return segment_of(memory_owner(array)) is not None


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    raise RuntimeError("Cannot access accelerator device when none is available.")


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    return False


@method
def is_set_to(self: Tensor, other: Tensor) -> bool:
    a, b = self._a, other._a
    return address(a) == address(b) and a.shape == b.shape and a.strides == b.strides


@method
def is_same_size(self: Tensor, other: Tensor) -> bool:
    return bool(self._a.shape == other._a.shape)


def _sparse_only(name: str) -> None:
    def refuse(self: Tensor) -> Tensor:
        raise RuntimeError(f"{name} expected sparse tensor layout but got Strided")

    refuse.__name__ = refuse.__qualname__ = name
    setattr(Tensor, name, refuse)


for _name in ("values", "indices"):
    _sparse_only(_name)


@method
def dim_order(self: Tensor) -> tuple[int, ...]:
    strides = self.stride()
    return tuple(sorted(range(len(strides)), key=lambda i: -strides[i]))


@method
def __setstate__(self: Tensor, state: Any) -> None:
    self.__dict__.update(state if isinstance(state, dict) else {})


__all__ = ["Storage", "from_dlpack"]
