"""Rows that change a tensor's own shape or memory: `squeeze_` and its kin, `resize_`, `set_`; and views of complex
numbers as pairs of real ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import grad_mode, graph
from ...autograd.memory.resize import resize, strided
from ...autograd.node import AccumulateGrad, Node
from ...core import device
from ...core.dtype import FROM_NUMPY, complex64, complex128
from ...core.layouts import contiguous_strides
from ...core.meta import MetaArray
from ...core.storage import OwnVersion
from ...core.tap import NAMESPACE
from ...core.tensor import Conjugated, Tensor, bump, look_at, storage_of
from ...dispatch.front import front
from ...dispatch.functions import materialize
from ...dispatch.inplace import type_name
from ...dispatch.op import Op, composite, view
from ...dispatch.slow_path import evaluate
from ...kernels import result_layout
from ..pointwise.complex import conj, neg_view
from . import permute, slice
from . import view as views
from .permute import matrix_like
from .view import sizes_of

# --- in place ---------------------------------------------------------------------------------------------------------


_named: dict[str, type[Node]] = {}


def become(node: str, self: Tensor, row: Op, *arguments: Any) -> Tensor:
    """Let a tensor look at its memory as a view op would, in place; `node` names the kind of its new node."""
    building = grad_mode.is_grad_enabled() and graph.edge(self) is not None
    if building:
        graph.check_in_place(self)
    changed: Tensor
    if NAMESPACE["HOOK"]:  # the view is no op of its own, which a recorder would see
        if row.make_node is None:
            materialize(row)
        changed = evaluate(row, (self, *arguments))
    else:
        changed = row.function(self, *arguments)
    look_at(self, changed._a)
    if self._view is not None and grad_mode.is_grad_enabled():
        self._view = changed._view
    if building:
        graph.take_place(self, changed._ag)
        if node not in _named:
            kind = type(self._ag)
            _named[node] = type(node, (kind,), {"__slots__": (), "__module__": kind.__module__})
        self._ag.__class__ = _named[node]
    elif type(self._ag) is AccumulateGrad:
        self._ag.array = self._a
    bump(self)
    return self


@composite("squeeze_(Tensor(a!) self) -> Tensor(a!)")
def _squeeze_(self: Tensor) -> Tensor:
    return become("SqueezeBackward3", self, views._squeeze)


@composite("squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)")
def _squeeze_dim_(self: Tensor, dim: int) -> Tensor:
    return become("SqueezeBackward4", self, views._squeeze_dim, dim)


@composite("squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)")
def _squeeze_dims_(self: Tensor, dim: Any) -> Tensor:
    return become("SqueezeBackward5", self, views._squeeze_dims, dim)


@front("squeeze_")
def squeeze_(input: Tensor, *dims: Any, dim: Any = None, axis: Any = None) -> Tensor:
    """Drop (some) dimensions of size one, in place."""
    wanted = views.dims_given(dims, dim, axis)
    if wanted is None:
        return _squeeze_.function(input)
    row = _squeeze_dims_ if isinstance(wanted, (tuple, list)) else _squeeze_dim_
    return row.function(input, wanted)


@composite("unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)")
def _unsqueeze_(self: Tensor, dim: int) -> Tensor:
    return become("UnsqueezeBackward1", self, views._unsqueeze, dim)


@composite("transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)")
def _transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    return become("TransposeBackward1", self, permute._transpose, dim0, dim1)


transpose_ = _transpose_.function


@composite("t_(Tensor(a!) self) -> Tensor(a!)")
def _t_(self: Tensor) -> Tensor:
    return transpose_(self, 0, 0 if matrix_like("t_", self._a).ndim < 2 else 1)


@composite("swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)")
def _swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
    return transpose_(self, axis0, axis1)


@composite("swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)")
def _swapdims_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    return transpose_(self, dim0, dim1)


@composite("as_strided_(Tensor(a!) self, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a!)")
def _as_strided_(self: Tensor, size: Any, stride: Any, storage_offset: int | None) -> Tensor:
    return become("AsStridedBackward1", self, slice._as_strided, size, stride, storage_offset)


# --- other memory -----------------------------------------------------------------------------------------------------


@composite("resize_(Tensor(a!) self, int[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)")
def _resize_(self: Tensor, size: Any, memory_format: Any) -> Tensor:
    if graph.edge(self) is not None:
        raise RuntimeError("cannot resize variables that require grad")
    shape = sizes_of("resize_", size)
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    if shape != self._a.shape or not self._a.flags.c_contiguous:
        resize(self, shape)
    if memory_format not in (None, device.contiguous_format, device.preserve_format):
        look_at(self, result_layout.in_strides(self._a, result_layout.format_strides(shape, memory_format)))
    bump(self)
    return self


@composite("resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor(a!)")
def _resize_as_(self: Tensor, the_template: Tensor, memory_format: Any) -> Tensor:
    if memory_format is device.preserve_format:
        memory_format = result_layout.suggested_format(the_template._a)
    return _resize_.function(self, size=the_template._a.shape, memory_format=memory_format)


@composite("set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)")
def _set_tensor_(self: Tensor, source: Tensor) -> Tensor:
    return _look_at(self, source._a, storage_of(source))


def _look_at(self: Tensor, array: Any, storage: Any) -> Tensor:
    """Make a tensor look at other memory of its dtype."""
    if array.dtype != self._a.dtype:
        raise RuntimeError(
            f"Could not set tensor of type {array.dtype} to a tensor of type {self._a.dtype}; convert the source first"
        )
    look_at(self, array)
    if storage is not None:
        self._v = storage
    self._view = None
    if type(self._ag) is AccumulateGrad:
        self._ag.array = array
    bump(self)
    return self


@front("set_")
def set_(input: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Make the tensor look at the memory of another one, or of a storage."""
    if source is None:
        return _look_at(input, np.empty(0, input._a.dtype), None)
    if isinstance(source, Tensor):
        if size is None:
            return _set_tensor_.function(input, source)
        owner, storage = source._a, storage_of(source)
    else:
        # A storage of users, with a token of its own; its tensors count their changes apart.
        owner, storage = source._owner.reshape(-1).view(input._a.dtype), OwnVersion(source._token)
    shape = (owner.size,) if size is None else sizes_of("set_", size)
    strides = tuple(stride) if stride else contiguous_strides(shape)
    return _look_at(input, strided(owner, shape, strides, storage_offset), storage)


# --- complex numbers as pairs -----------------------------------------------------------------------------------------


def _pairs(a: Any) -> Any:
    if a.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    real = complex_parts[a.dtype]
    return a[..., None].view(real)


complex_parts = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64)}


@view(
    "view_as_real(Tensor(a) self) -> Tensor(a)",
    replay=graph.replaying(lambda base: view_as_real(base)),
    self=lambda g: view_as_complex(g.contiguous()),
)
def _view_as_real(a: Any) -> Any:
    return _pairs(a)


@front("view_as_real")
def view_as_real(input: Tensor) -> Tensor:
    """A complex tensor as one of pairs of real numbers, on the same memory."""
    if type(input) is Conjugated:
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can view "
            "it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the original."
        )
    made: Tensor = _view_as_real.function(input)
    return made


@view(
    "view_as_complex(Tensor(a) self) -> Tensor(a)",
    autocast="float32",
    replay=graph.replaying(lambda base: view_as_complex(base)),
    self=lambda g: view_as_real(g),
)
def _view_as_complex(a: Any) -> Any:
    kinds = {np.dtype(np.float32): complex64, np.dtype(np.float64): complex128}
    if a.dtype not in kinds:
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{type_name(FROM_NUMPY[a.dtype])}"
        )
    if a.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if a.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if a.size == 0 and type(a) is not MetaArray:
        return np.empty(a.shape[:-1], kinds[a.dtype].np)
    if a.strides[-1] != a.dtype.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % (2 * a.dtype.itemsize) for s in a.strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return a.view(kinds[a.dtype].np)[..., 0]


view_as_complex = _view_as_complex.function


@composite("real(Tensor(a) self) -> Tensor(a)")
def _real(self: Tensor) -> Tensor:
    if type(self) is Conjugated:
        return _real.function(conj(self))
    return slice.select(view_as_real(self), -1, 0) if self._a.dtype.kind == "c" else self


@composite("imag(Tensor(a) self) -> Tensor(a)")
def _imag(self: Tensor) -> Tensor:
    if self._a.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    if type(self) is Conjugated:
        return neg_view(_imag.function(conj(self)))
    return slice.select(view_as_real(self), -1, 1)


def _set_part(function: Any) -> Any:
    def assign(self: Tensor, value: Any) -> None:
        views_part = function(self)
        if isinstance(value, Tensor):
            slice.copy_(views_part, value)
        else:
            views_part.fill_(value)

    return assign


Tensor.real = property(_real.function, _set_part(_real.function))  # type: ignore[attr-defined]
Tensor.imag = property(_imag.function, _set_part(_imag.function))  # type: ignore[attr-defined]
