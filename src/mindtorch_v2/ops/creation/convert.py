"""Rows of conversion: other dtypes and devices, Python values, and tensors from data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...autograd import grad_mode
from ...core import device as _device
from ...core import dtype as _dtype
from ...core import tap
from ...core.dtype import FROM_NUMPY
from ...core.dtype import dtype as DType
from ...core.meta import MetaArray, meta, meta_like
from ...core.segments import apart, map_file
from ...core.storage import Storage, mark_inference
from ...core.tensor import FAST, LAZY, Conjugated, Tensor, alias, make, settle_class, storage_of
from ...dispatch.front import front
from ...dispatch.inside import inside
from ...dispatch.op import composite, op, value
from ...kernels import result_layout
from ...kernels.compiled import C
from ..meta import shapes
from ..shape.copies import _detach, _detach_
from . import fill
from .data import array_of, recast, usable

# Conversions that raise no flags of floating point, and keep the order in memory: those of the compiled loop, or a few.
_TO_DTYPE = "device is None and memory_format is None and dtype is not None and input._a.flags.c_contiguous"
_WITHOUT_FLAGS = (
    "(input._a.dtype.kind in 'ib' and (dtype.np is F32 or dtype.np is I64)"
    " or dtype.np is F64 and input._a.dtype is F32 or dtype.np is BOOL and input._a.dtype.kind in 'if')"
)
_COMPILED = (
    "(input._a.dtype.char in 'fdlqi?' and dtype.np.char in 'fdlqi?'"
    " or input._a.dtype.char + dtype.np.char in ('fE', 'Ef', 'fe', 'ef'))"  # float32 and 16 bits, of which E are bfloat16
)


def _to_known(a: Any, dtype: DType, *rest: Any) -> Any:
    made = C.converted(a, dtype.np)
    if made is None:
        raise ValueError  # the long way knows all types
    return made


_QUICKLY: Any = (
    (f"{_TO_DTYPE} and {_WITHOUT_FLAGS}", lambda a, dtype, *rest: a.astype(dtype.np))
    if C is None
    else (f"{_TO_DTYPE} and {_COMPILED}", _to_known)
)


def _real_for(g: Tensor, dtype: DType) -> Tensor:
    """A gradient for what has this dtype: of a complex one its real part, where it lies, for real values."""
    return g.real if g._a.dtype.kind == "c" and not dtype.is_complex else g


@op(
    "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
    "bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
    meta=shapes.by_kernel,
    out=False,
    fast=_QUICKLY,
    layout=lambda made, a, *options: result_layout.arranged(made, result_layout.strides_in(a, options[-1])),
    self=lambda g, self_dtype: to_dtype(_real_for(g, self_dtype), self_dtype),
)
def _to_copy(
    a: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, non_blocking: bool, memory_format: Any
) -> Any:
    np_type = a.dtype if dtype is None else dtype.np
    if device is not None and device.type == "meta":
        return meta(a.shape, np_type, result_layout.strides_in(a, memory_format))
    if type(a) is MetaArray and device is not None:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    converted = recast(a, np_type)
    return (
        converted
        if memory_format is None
        else result_layout.arranged(converted, result_layout.strides_in(a, memory_format))
    )


def _needs_copy(t: Tensor, dtype: Any, device: Any, copy: bool, memory_format: Any = None) -> bool:
    rearranges = memory_format not in (None, _device.preserve_format)
    return (
        copy
        or (rearranges and result_layout.suggested_format(t._a) is not memory_format)
        or (dtype is not None and t._a.dtype != dtype.np)
        or (device is not None and (type(t._a) is MetaArray) != (device.type == "meta"))
    )


@composite(
    "to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"
)
def _to_dtype(self: Tensor, dtype: DType, non_blocking: bool, copy: bool, memory_format: Any) -> Tensor:
    if not _needs_copy(self, dtype, None, copy, memory_format):
        return self
    return _to_copy.function(self, dtype=dtype, memory_format=memory_format)


@composite(
    "to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"
)
def _to_layout(self: Tensor, dtype: Any, layout: Any, device: Any, pin_memory: Any, non_blocking: bool, copy: bool,
               memory_format: Any) -> Tensor:  # fmt: skip
    if not _needs_copy(self, dtype, device, copy, memory_format):
        return self
    return settle_class(_to_copy.function(self, dtype=dtype, device=device, memory_format=memory_format))


# Where neither dtype nor device changes.
_stays = inside(_to_layout, lambda self, *rest: self)


@composite(
    "to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"
)
def _to_device(self: Tensor, device: Any, dtype: Any, non_blocking: bool, copy: bool, memory_format: Any) -> Tensor:
    if not _needs_copy(self, dtype, device, copy, memory_format):
        return self
    return settle_class(_to_copy.function(self, dtype=dtype, device=device, memory_format=memory_format))


_stays_on = inside(_to_device, lambda self, *rest: self)


@composite("type_as(Tensor self, Tensor other) -> Tensor")
def _type_as(self: Tensor, other: Tensor) -> Tensor:
    return _to_layout.function(self, dtype=other.dtype, layout=_device.strided, device=other.device)


_Device, _NAMESPACE = _device.device, tap.NAMESPACE
to_dtype = _to_dtype.function
type_as = _type_as.function


def converted(t: Tensor, wanted: Any) -> Tensor | None:
    """What `to` gives for a plain tensor that nobody watches, and a dtype or the CPU; None for all else."""
    if _NAMESPACE["HOOK"] or type(t) not in FAST:
        return None
    if type(wanted) in FAST:
        wanted = FROM_NUMPY[wanted._a.dtype]
    if type(wanted) is DType:
        if t._a.dtype is wanted.np:
            return t
        copied: Tensor = _to_copy.function(t, dtype=wanted)
        return copied
    return t if wanted is not None and _device.is_plain_cpu(wanted) else None


def _converted_by(t: Tensor, args: tuple[Any, ...], dtype: Any, device: Any) -> Tensor | None:
    """The same for other arguments of `to`: a dtype and a device, by name or one after the other."""
    if len(args) == 2 and dtype is None and device is None:
        device, dtype = args
    elif args:
        return None
    if dtype is None or device is None:
        return converted(t, device if dtype is None else dtype)
    return converted(t, dtype) if _device.is_plain_cpu(device) and type(dtype) is DType else None


@front("to")
def to(self: Tensor, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False,
       memory_format: Any = None, other: Any = None) -> Tensor:  # fmt: skip
    """The tensor in another dtype or on another device; itself where nothing changes."""
    if memory_format is other is None and not copy and len(args) < 3:
        plain = len(args) == 1 and dtype is device is None
        wanted: Any = args[0] if plain else device if dtype is None and not args else None
        kind = type(wanted)
        if (kind is _Device and wanted.type == "cpu") or (kind is str and wanted == "cpu"):
            if type(self) in FAST:
                if not _NAMESPACE["HOOK"]:
                    return self
                device = _device.CPU if kind is str else wanted
                return _stays(self, self.dtype, _device.strided, device, None, non_blocking, False, None)
        quick = converted(self, wanted) if plain else _converted_by(self, args, dtype, device)
        if quick is not None:
            return quick
    flags: list[Any] = []
    for argument in (*args, other):
        if argument is None and argument is other:
            continue
        if isinstance(argument, Tensor):
            dtype, device = argument.dtype, argument.device
        elif isinstance(argument, DType) or argument in _dtype.PYTHON_TYPES:
            dtype = argument
        elif isinstance(argument, (str, _device.device)):
            device = argument
        elif isinstance(argument, bool):
            flags.append(argument)
        elif isinstance(argument, _device.memory_format):  # as modes are offered it
            memory_format = argument
        elif argument is not None:
            raise TypeError(
                f"to() received an invalid combination of arguments - got ({type(argument).__name__}); expected a "
                "torch.dtype, a torch.device (or its name) or a Tensor"
            )
    dtype = _dtype.as_dtype(dtype)
    if flags:
        non_blocking, copy = (*flags, copy)[:2] if len(flags) > 1 else (flags[0], copy)
    if device is None and dtype is not None:
        return _to_dtype.function(self, dtype, non_blocking, copy, memory_format)
    where = None if device is None else _device.usable(device)
    if where is not None and dtype is not None:
        return _to_device.function(self, where, dtype, non_blocking, copy, memory_format)
    return _to_layout.function(self, dtype=self.dtype if dtype is None else dtype, layout=_device.strided, device=where,
                               non_blocking=non_blocking, copy=copy, memory_format=memory_format)  # fmt: skip


def _cast_method(name: str, d: DType) -> None:
    def cast(self: Tensor, memory_format: Any = None) -> Tensor:
        quick = converted(self, d) if memory_format is None else to(self, d, memory_format=memory_format)
        return _to_dtype.function(self, d) if quick is None else quick

    cast.__name__ = cast.__qualname__ = name
    setattr(Tensor, name, cast)


for _name, _dtype_ in (
    ("float", _dtype.float32), ("double", _dtype.float64), ("half", _dtype.float16), ("bfloat16", _dtype.bfloat16),
    ("int", _dtype.int32), ("long", _dtype.int64), ("short", _dtype.int16), ("char", _dtype.int8),
    ("byte", _dtype.uint8), ("bool", _dtype.bool_), ("cfloat", _dtype.complex64), ("cdouble", _dtype.complex128),
):  # fmt: skip
    _cast_method(_name, _dtype_)


# --- Python values ----------------------------------------------------------------------------------------------------


_SLOT = tap.SLOT


@value("_local_scalar_dense(Tensor self) -> Scalar")
def _local_scalar_dense(a: Any) -> Any:
    return a.item()


def _item(a: Any) -> Any:
    try:
        return a.item()
    except ValueError:
        raise RuntimeError(f"a Tensor with {a.size} elements cannot be converted to Scalar") from None


def _item_recorded(self: Tensor) -> Any:
    if self._a.size != 1:
        return _item(self._a)
    return _local_scalar_dense.function(self)


@composite("item(Tensor self) -> Scalar")
def item(self: Tensor) -> Any:
    if _SLOT.recorder is not None:
        return _item_recorded(self)
    try:
        return self._a.item()
    except ValueError:
        return _item(self._a)  # raises, in torch's words


@composite("is_nonzero(Tensor self) -> bool")
def is_nonzero(self: Tensor) -> bool:
    n = self._a.size
    if n != 1:
        what = "no values" if n == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(item.function(self))


# --- tensors from data ------------------------------------------------------------------------------------------------


def filled_from(a: Any, where: _device.device) -> Tensor:
    """A tensor with a copy of an array, in the steps torch takes: memory, its contents, the device."""
    made: Tensor = fill.empty_inside(a.shape, FROM_NUMPY[a.dtype], _device.strided, _device.CPU, False, None)
    made._a[...] = a
    if where.type == "cpu" and type(made) is Tensor:
        kept: Tensor = grad_mode.without_graph(_stays_on, made, where, made.dtype, False, False, None)
        return kept
    with grad_mode.no_grad():
        return _to_device.function(made, where, made.dtype)


def copied(data: Any, dtype: Any, device: Any) -> Tensor:
    """A new tensor with a copy of `data`; a recorder sees the steps."""
    where = _device.usable(device)
    if tap.SLOT.recorder is not None:
        return _copied_in_steps(data, dtype, where)
    a = array_of(data, dtype)
    return make(a) if where.type == "cpu" else make(meta_like(a))


def _copied_in_steps(data: Any, dtype: Any, where: _device.device) -> Tensor:
    if not isinstance(data, (Tensor, np.ndarray)):
        return filled_from(array_of(data, dtype), where)
    source = _detach.function(data.as_subclass(Tensor)) if isinstance(data, Tensor) else from_numpy(data)
    return _to_device.function(source, where, _dtype.as_dtype(dtype) or source.dtype, copy=True)


@front("tensor")
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False) -> Tensor:  # fmt: skip
    """A new tensor with a copy of `data`."""
    if isinstance(data, Tensor):
        _warn_copy()
        if pin_memory:
            raise RuntimeError("Can't pin tensor constructed from a variable")
    if pin_memory is not False:
        _device.check_options("tensor", None, pin_memory, device)
    made = copied(data, dtype, device)
    if tap.SLOT.recorder is not None:
        made = _detach_.function(made)
    return made.requires_grad_(requires_grad) if requires_grad else made


def _warn_copy() -> None:
    warnings.warn(
        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
        "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
        stacklevel=4,
    )


@front("from_numpy")
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor on the memory of a NumPy array."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    known = FROM_NUMPY.get(ndarray.dtype)
    if known is not None and known.np is ndarray.dtype and type(ndarray) is np.ndarray and ndarray.size > 1:
        if ndarray.flags.c_contiguous:  # hence no stride is negative
            return _on_memory_of(ndarray)
    return _on_memory_of(usable(ndarray))


def _on_memory_of(a: Any) -> Tensor:
    """A tensor on memory that somebody else has allocated: a recorder is not told of it."""
    if isinstance(a.base, np.ndarray):
        a = apart(a)
    if not tap.SLOT.flags & tap.MEMORY:
        return make(a)
    t = alias(a, Storage())
    if tap.NAMESPACE["INFERRING"]:
        t._v = None
        mark_inference(t)
    return t


@front("as_tensor")
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of `data`, on the same memory where that is possible."""
    if not isinstance(data, (Tensor, np.ndarray)):
        return copied(data, dtype, device)
    t = data if isinstance(data, Tensor) else from_numpy(data)
    if dtype is None and device is None and tap.SLOT.recorder is None:
        return t
    where = t.device if device is None else _device.usable(device)
    return _to_device.function(t, where, _dtype.as_dtype(dtype) or t.dtype)


@front("asarray")
def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of anything array-like; copied only where asked or needed."""
    source = from_numpy(obj) if isinstance(obj, np.ndarray) else obj
    if isinstance(source, Tensor):
        t = source if dtype is None and device is None else to(source, dtype=dtype, device=device)
        t = t.clone() if copy and t is source else t
    else:
        t = tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device)
    if copy is False and isinstance(obj, (list, tuple, int, float)):
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    return t.requires_grad_(requires_grad) if requires_grad else t


@front("frombuffer")
def frombuffer(buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A tensor on the memory of a buffer."""
    t = _on_memory_of(np.frombuffer(buffer, dtype.np, count, offset))
    return t.requires_grad_(requires_grad) if requires_grad else t


@op(
    "from_file(str filename, bool? shared=None, int? size=0, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    out=False,
)
def _from_file(filename: Any, shared: Any, size: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
    if device is not None and _device.usable(device).type == "meta":
        raise NotImplementedError("aten::from_file: a file can be mapped to the CPU only, got device='meta'")
    d = _dtype.as_dtype(dtype) or _dtype.get_default_dtype()
    return map_file(filename, bool(shared), int(size or 0) * d.itemsize).array().view(d.np)


@front("from_file")
def from_file(filename: str, shared: bool | None = None, size: int | None = 0, *, dtype: Any = None, layout: Any = None,
              device: Any = None, pin_memory: bool | None = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor on the first elements of a file; changes go to the file only if it is shared."""
    if not isinstance(filename, str):
        raise TypeError(f"from_file(): argument 'filename' (position 1) must be str, not {type(filename).__name__}")
    if pin_memory:
        raise RuntimeError("tensors constructed from a file cannot be pinned")
    t = _from_file.function(filename, shared, size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
    return t.requires_grad_(requires_grad) if requires_grad else t


def numpy(self: Tensor, *, force: bool = False) -> Any:
    """The memory of this tensor as a NumPy array."""
    if type(self) in LAZY and not force:
        bit, remedy = ("conjugate", "resolve_conj") if type(self) is Conjugated else ("negative", "resolve_neg")
        raise RuntimeError(
            f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.{remedy}().numpy() instead."
        )
    if self.requires_grad and not force and grad_mode.is_grad_enabled():
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if type(self._a) is MetaArray:
        raise TypeError(
            "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    if self.dtype in (_dtype.bfloat16, _dtype.float8_e4m3fn, _dtype.float8_e5m2):
        raise TypeError(
            f"Got unsupported ScalarType {'BFloat16' if self.dtype is _dtype.bfloat16 else self.dtype.name}"
        )
    if tap.SLOT.recorder is not None:
        self = _to_layout.function(_detach.function(self), dtype=self.dtype, layout=_device.strided, device=_device.CPU)
    storage_of(self)
    return self._a


def tolist(self: Tensor) -> Any:
    """Nested Python lists of the elements (a number for a 0-dim tensor)."""
    if type(self._a) is MetaArray:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    return self._a.astype(np.float32).tolist() if self.dtype is _dtype.bfloat16 else self._a.tolist()


Tensor.numpy = numpy  # type: ignore[attr-defined]
Tensor.tolist = tolist  # type: ignore[attr-defined]
