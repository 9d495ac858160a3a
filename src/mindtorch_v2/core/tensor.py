"""The Tensor: a view on NumPy memory, its place in the autograd graph, and what it shares with its views.

Only state and its plain readers live here. Operators are attached from the op table, autograd methods from `autograd`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from . import tap
from .device import CPU, META, device, layout, strided
from .dtype import FROM_NUMPY, dtype
from .layouts import contiguous_strides
from .meta import MetaArray
from .segments import segment_of
from .size import Size
from .storage import CountedStorage, InferenceStorage, Storage, View, mark_inference, next_version

new: Any = object.__new__
# Makes what `make` does of a plain array, without memory accounting; None where there is no helper.
wrap_plain: Any = None if tap.HELPER is None else tap.HELPER.wrap
ndarray = np.ndarray
_SLOT, _MEMORY, _NAMESPACE = tap.SLOT, tap.MEMORY, tap.NAMESPACE


class _Sizes(dict[tuple[int, ...], Size]):
    """The `Size` of each shape: to find one takes half the time of making it."""

    def __missing__(self, shape: tuple[int, ...]) -> Size:
        size = Size(shape)
        if len(self) < _REMEMBERED:
            self[shape] = size
        return size


class _Strides(dict[tuple[int, tuple[int, ...]], tuple[int, ...]]):
    """The strides in elements of each pair of bytes an element takes and strides in bytes."""

    def __missing__(self, given: tuple[int, tuple[int, ...]]) -> tuple[int, ...]:
        itemsize, strides = given
        steps = tuple([s // itemsize for s in strides])
        if len(self) < _REMEMBERED:
            self[given] = steps
        return steps


_REMEMBERED = 4096  # programs that go through more shapes than this gain nothing from looking them up
_SIZES, _STRIDES = _Sizes(), _Strides()


class Tensor:
    """A multi-dimensional array of one dtype.

    `_a`: the array (its strides and offset are the tensor's); `_ag`: None, the node whose output it is (an `Output`
    where it is not the first one), or its `AccumulateGrad` for a leaf that requires grad; `_v`: the `Storage` shared
    with views, made when first needed; `_view`: a `View` for differentiable views, else None.
    """

    __slots__ = ("_a", "_ag", "_v", "_view", "_k", "__dict__", "__weakref__")

    _a: Any
    _ag: Any
    _v: Storage | None
    _view: View | None
    # The id of the array's layout, where a recorder has asked for it; often not there at all.
    _k: int | None

    if TYPE_CHECKING:  # operators are attached at import

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

    # The grad of what is no leaf that requires grad, where there is one.
    _kept_grad: Tensor | None = None
    # Where its gradients arrived when it required grad before, if that is kept. A tensor's own `__dict__`, once there is
    # one, makes each call of a method slower, so most go without.
    _leaf: Any = None

    # NumPy defers to our reflected operators.
    __array_priority__ = 1000

    @property
    def shape(self) -> Size:
        return _SIZES[self._a.shape]

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        shape = self._a.shape
        try:
            return shape[dim]
        except IndexError:
            n = len(shape) or 1
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
            ) from None

    @property
    def dtype(self) -> dtype:
        return FROM_NUMPY[self._a.dtype]

    @property
    def device(self) -> device:
        return META if type(self._a) is MetaArray else CPU

    @property
    def layout(self) -> layout:
        return strided

    @property
    def ndim(self) -> int:
        ndim: int = self._a.ndim
        return ndim

    def dim(self) -> int:
        ndim: int = self._a.ndim
        return ndim

    ndimension = dim

    def numel(self) -> int:
        size: int = self._a.size
        return size

    nelement = numel

    def element_size(self) -> int:
        size: int = self._a.dtype.itemsize
        return size

    @property
    def itemsize(self) -> int:
        return self.element_size()

    @property
    def nbytes(self) -> int:
        return self.element_size() * self.numel()

    def stride(self, dim: int | None = None) -> Any:
        a = self._a
        if dim is not None and a.size:
            return a.strides[dim] // a.itemsize
        strides = _STRIDES[a.dtype.itemsize, a.strides] if a.size else element_strides(a)
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        a = self._a
        if a.base is None:
            return 0
        owner = memory_owner(a)
        return (address(a) - address(owner)) // a.dtype.itemsize

    def data_ptr(self) -> int:
        a = self._a
        return 0 if type(a) is MetaArray or a.size == 0 else address(a)

    @property
    def _version(self) -> int:
        if type(self._v) is InferenceStorage:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self._v is None else self._v.version

    @property
    def is_cuda(self) -> bool:
        return False

    is_xpu = is_mps = is_mkldnn = is_quantized = is_sparse = is_sparse_csr = is_nested = is_cuda
    is_xla = is_ipu = is_vulkan = is_maia = is_mtia = is_cuda

    @property
    def is_cpu(self) -> bool:
        return type(self._a) is not MetaArray

    @property
    def is_meta(self) -> bool:
        return type(self._a) is MetaArray

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        return self.dtype.is_signed

    def get_device(self) -> int:
        return -1

    def __len__(self) -> int:
        shape = self._a.shape
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        length: int = shape[0]
        return length

    def __hash__(self) -> int:
        return id(self)


class _ParameterMeta(type):
    """Lets a tensor of another class that is marked as a parameter count as one."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that modules collect; operators give plain tensors back. Its constructor lives in `nn.parameter`."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, data: Any = None, requires_grad: bool = True) -> None: ...


class _MetaTensor(Tensor):
    """What a plain tensor on the meta device really is: not exactly a Tensor, so that ops take their slow path, which
    knows meta. It says it is a Tensor, and as soon as it holds memory it becomes one."""

    __slots__ = ()
    __class__ = property(lambda self: Tensor)


class _MetaParameter(Parameter):
    """The same for parameters."""

    __slots__ = ()
    __class__ = property(lambda self: Parameter)


class _LazyTensor(Tensor):
    """A view whose values are those in memory with a sign changed, as `conj()` gives. It says it is a Tensor, but is not
    exactly one, so that ops take their slow path. Reading its array computes; setting another makes it a plain tensor.
    """

    __slots__ = ()
    __class__ = property(lambda self: Tensor)
    changed_sign: Any

    @property
    def _a(self) -> Any:
        return as_array(self.changed_sign(_array_slot.__get__(self)))

    @_a.setter
    def _a(self, array: Any) -> None:
        _class_slot.__set__(self, Tensor)
        _array_slot.__set__(self, array)

    def stride(self, dim: int | None = None) -> Any:
        return in_memory(self).stride(dim)

    def storage_offset(self) -> int:
        return in_memory(self).storage_offset()

    def data_ptr(self) -> int:
        return in_memory(self).data_ptr()


class Conjugated(_LazyTensor):
    """A complex tensor still to be conjugated."""

    __slots__ = ()
    changed_sign = staticmethod(np.conj)


class Negated(_LazyTensor):
    """A tensor still to be negated: the imaginary part of a conjugated one."""

    __slots__ = ()
    changed_sign = staticmethod(np.negative)


FAST = frozenset((Tensor, Parameter))
LAZY = frozenset((Conjugated, Negated))
# What tensors keep among their attributes that is not the user's.
OWN_ATTRIBUTES = frozenset(("_kept_grad", "_retains", "_leaf"))
# Classes whose instances nobody may take over calls for.
PLAIN = frozenset((Tensor, Parameter, _MetaTensor, _MetaParameter, Conjugated, Negated))
_REAL = {_MetaTensor: Tensor, _MetaParameter: Parameter}
_META = {Tensor: _MetaTensor, Parameter: _MetaParameter}
_class_slot: Any = object.__dict__["__class__"]
_array_slot: Any = Tensor.__dict__["_a"]


def in_memory(t: Tensor) -> Tensor:
    """A tensor with the values that lie in memory: a lazy one without its change of sign, any other as it is."""
    if type(t) not in LAZY:
        return t
    plain = alias(_array_slot.__get__(t), storage_of(t))
    plain._ag, plain._view = t._ag, t._view
    return plain


def make_lazy(t: Tensor, kind: type[Tensor] | None) -> Tensor:
    """Let what lies in memory count as `kind` says: Conjugated, Negated, or None for as it is."""
    _class_slot.__set__(t, kind or Tensor)
    return t if kind else settle_class(t)


def write_lazily(t: Tensor, array: Any) -> None:
    """Write values into the memory that a lazy tensor looks at."""
    kind: Any = type(t)
    np.copyto(_array_slot.__get__(t), kind.changed_sign(array), casting="unsafe")


def settle_class(t: Tensor) -> Tensor:
    """Make a tensor's class fit where its array lives; to be called when `_a` may have changed device."""
    other = (_META if type(t._a) is MetaArray else _REAL).get(type(t))
    if other is not None:
        _class_slot.__set__(t, other)
    return t


def look_at(t: Tensor, array: Any) -> None:
    """Make a tensor that is in use look at another array."""
    t._a = array
    t._k = None


def move_to(t: Tensor, array: Any) -> None:
    """Make a tensor that is in use look at memory that was allocated for it, which a recorder is told of. One in shared
    memory stays there: other processes see no other."""
    if t._a.base is not None and type(array) is ndarray:
        owner = memory_owner(t._a)
        segment = segment_of(owner)
        if segment is not None and segment.nbytes:
            start = address(t._a) - segment.address if t._a.size else 0
            if array.nbytes > segment.nbytes - start:
                raise RuntimeError(
                    f"Trying to resize storage that is not resizable: {array.nbytes} bytes do not fit the "
                    f"{segment.nbytes - start} of a tensor in shared memory; clone() it first"
                )
            look_at(t, ndarray(array.shape, array.dtype, owner, start))
            np.copyto(t._a, array)
            return
    look_at(t, array)
    if _SLOT.flags & _MEMORY:
        known = t._v
        counted = CountedStorage(array)
        if type(known) is InferenceStorage:
            t._v = InferenceStorage(counted)
            return
        counted.version = 0 if known is None else known.version
        t._v = counted


def make(array: Any) -> Tensor:
    """A fresh plain tensor on `array`, which nobody else may hold."""
    if type(array) is ndarray and wrap_plain is not None:
        t: Tensor = wrap_plain(array)
    else:
        t = new(_MetaTensor if type(array) is MetaArray else Tensor)
        t._a = array
        t._ag = t._view = t._v = None
    if _SLOT.flags & _MEMORY:
        t._v = CountedStorage(array)
    if _NAMESPACE["INFERRING"]:
        mark_inference(t)
    return t


def alias(array: Any, storage: Storage) -> Tensor:
    """A plain tensor on memory that `storage` stands for; not a differentiable view."""
    if wrap_plain is not None and type(array) is np.ndarray:
        t: Tensor = wrap_plain(array)
        t._v = storage
        return t
    t = new(_MetaTensor if type(array) is MetaArray else Tensor)
    t._a = array
    t._ag = None
    t._view = None
    t._v = storage
    return t


def storage_of(t: Tensor) -> Storage:
    """The tensor's storage token, made if it has none yet."""
    storage = t._v
    if storage is None:
        storage = t._v = Storage()
    return storage


def bump(t: Tensor) -> None:
    """Count one in-place change."""
    storage = storage_of(t)
    storage.version = next_version(storage)


def as_array(value: Any) -> Any:
    """`value` as an ndarray: NumPy gives scalars for 0-dim results."""
    return value if isinstance(value, np.ndarray) else np.asarray(value)


def address(a: np.ndarray[Any, Any]) -> int:
    """Where the first element lies."""
    pointer: int = a.__array_interface__["data"][0]
    return pointer


if tap.HELPER is not None:
    address = tap.HELPER.address


def memory_owner(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that owns the memory `a` looks at."""
    while True:
        base = a.base
        if not isinstance(base, np.ndarray):
            # `as_strided` puts an object of its own in between.
            base = getattr(base, "base", None)
            if not isinstance(base, np.ndarray):
                return a
        a = base


def element_strides(a: Any) -> tuple[int, ...]:
    """Strides in elements, as torch gives them."""
    if a.size == 0 and a.flags.c_contiguous:
        return contiguous_strides(a.shape)
    return _STRIDES[a.dtype.itemsize, a.strides]


def numel_of(shape: tuple[int, ...]) -> int:
    """How many elements a shape holds."""
    return math.prod(shape)
