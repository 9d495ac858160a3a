"""Autograd methods of Tensor: requires_grad, grad, backward, hooks and the rest."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from ..core.storage import InferenceStorage, OwnVersion
from ..core.tensor import FAST, LAZY, Tensor, alias, in_memory, look_at, make_lazy, settle_class, storage_of
from . import entry, grad_mode
from .engine import ALONE
from .graph import edge
from .node import AccumulateGrad, Hooks, Nowhere, RemovableHandle, add_hook, output_number, target


def method(function: Any) -> Any:
    """Attach a function to Tensor under its own name."""
    setattr(Tensor, function.__name__, function)
    return function


def attribute(function: Any) -> Any:
    """Attach a function to Tensor as a property."""
    setattr(Tensor, function.__name__, property(function))
    return function


def _get_requires_grad(self: Tensor) -> bool:
    return self._ag is not None or (self._view is not None and self._view.base._ag is not None)


def _set_requires_grad(self: Tensor, value: bool) -> None:
    if self._view is None and (
        type(self._ag) is AccumulateGrad if value is True else self._ag is None and value is False
    ):
        return  # as it is
    if value and not (self.dtype.is_floating_point or self.dtype.is_complex):
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    requires_grad_(self, value)


Tensor.requires_grad = property(_get_requires_grad, _set_requires_grad)  # type: ignore[attr-defined]


def _found_again(self: Tensor) -> AccumulateGrad | None:
    """Where the gradients of a leaf arrived when it required grad before, if that was kept."""
    leaf: AccumulateGrad | None = None if self._leaf is None else self.__dict__.pop("_leaf")
    if leaf is not None and leaf.hooks is not None and leaf.hooks.are_none():
        leaf.hooks = None
    return leaf


@method
def requires_grad_(self: Tensor, requires_grad: Any = True) -> Tensor:
    """Make a leaf require grad (or not)."""
    if requires_grad is not True and not isinstance(requires_grad, bool):
        kind = type(requires_grad).__name__
        raise TypeError(f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {kind}")
    if requires_grad and self._ag is not None:
        return self
    ag = self._ag if self._view is None else edge(self)
    if type(ag) is Nowhere:
        ag = None
    if requires_grad:
        if ag is None:
            if type(self._v) is InferenceStorage and not grad_mode.is_inference_mode_enabled():
                raise RuntimeError(
                    "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
                )
            if not (self.dtype.is_floating_point or self.dtype.is_complex):
                raise RuntimeError("only Tensors of floating point dtype can require gradients")
            kept = None if self._kept_grad is None else self.__dict__.pop("_kept_grad")
            leaf = self._ag = _found_again(self) or AccumulateGrad(self)
            leaf.grad = kept
        return self
    if ag is not None:
        if type(ag) is not AccumulateGrad:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
                "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        if ag.grad is not None:
            self.__dict__["_kept_grad"] = ag.grad
        ag.grad = self._ag = None
        if ag.hooks is not None or sys.getrefcount(ag) != ALONE:
            # Hooks last until it requires grad again; a graph that still leads here goes where hooks are looked at, and
            # what arrives is not kept.
            ag._hooks()
            self.__dict__["_leaf"] = ag
    return self


_NO_OP = (AccumulateGrad, Nowhere)


@attribute
def grad_fn(self: Tensor) -> Any:
    """The node that made this tensor; None for leaves."""
    node = target(edge(self))
    return None if type(node) in _NO_OP else node


@attribute
def is_leaf(self: Tensor) -> bool:
    ag = edge(self)
    return ag is None or type(ag) in _NO_OP


@attribute
def output_nr(self: Tensor) -> int:
    return output_number(edge(self))


def _get_grad(self: Tensor) -> Tensor | None:
    ag = self._ag
    if type(ag) is AccumulateGrad:
        return ag.grad
    kept = self._kept_grad
    if kept is None and ag is not None and "_retains" not in self.__dict__:
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
            "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
            "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
            "you access the leaf Tensor instead.",
            stacklevel=2,
        )
    return kept


def _set_grad(self: Tensor, value: Tensor | None) -> None:
    if value is not None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value.dtype is not self.dtype:
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{value.dtype.cpp_name}' to a tensor with grad_dtype "
                f"'{self.dtype.name.title()}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's "
                "dtype). You can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. "
                "Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream "
                "systems that assume they match."
            )
        if value.device != self.device:
            raise RuntimeError(
                f"attempting to assign a gradient with device type '{value.device.type}' to a tensor with device type "
                f"'{self.device.type}'. Please ensure that the gradient and the tensor are on the same device"
            )
        if value._a.shape != self._a.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
                f"'{list(self.shape)}'. Please ensure that the gradient and the tensor are the same size"
            )
    if type(self._ag) is AccumulateGrad:
        self._ag.grad = value
    elif value is None:
        self.__dict__.pop("_kept_grad", None)
    else:
        self.__dict__["_kept_grad"] = value


def _del_grad(self: Tensor) -> None:
    _set_grad(self, None)


Tensor.grad = property(_get_grad, _set_grad, _del_grad)  # type: ignore[attr-defined]
Tensor._grad = property(_get_grad, _set_grad, _del_grad)  # type: ignore[attr-defined]


def _get_data(self: Tensor) -> Tensor:
    shared = storage_of(self)
    if type(self) in FAST:
        return alias(self._a, OwnVersion(shared.shared if type(shared) is OwnVersion else shared))
    t = alias(in_memory(self)._a, OwnVersion(shared.shared if type(shared) is OwnVersion else shared))
    if type(self) in LAZY:
        return make_lazy(t, type(self))
    return t.as_subclass(type(self))


def _set_data(self: Tensor, value: Tensor) -> None:
    """Let the tensor look at other memory; its place in the graph and its grad stay."""
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    look_at(self, value._a)
    if type(self._ag) is AccumulateGrad:
        self._ag.array = value._a
    self._v = storage_of(value)
    settle_class(self)


Tensor.data = property(_get_data, _set_data)  # type: ignore[attr-defined]


@method
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradient of this tensor into the leaves it depends on."""
    entry.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _hooks_of(self: Tensor) -> tuple[Hooks, int]:
    ag = edge(self)
    node = target(ag)
    hooks: Hooks = node._hooks()
    return hooks, output_number(ag)


@method
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook` with the gradient of this tensor whenever one is computed; it may return another."""
    if edge(self) is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    hooks, nr = _hooks_of(self)
    return add_hook(hooks.tensor.setdefault(nr, {}), hook)


@method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook` with this leaf after its grad was accumulated."""
    if edge(self) is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if type(self._ag) is not AccumulateGrad:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return add_hook(self._ag._hooks().accumulated, hook)


method(entry.retain_grad)


@attribute
def retains_grad(self: Tensor) -> bool:
    return "_retains" in self.__dict__


def cut(self: Tensor) -> Tensor:
    """Take this tensor out of the graph, in place (the op `detach_`)."""
    if self._view is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
            "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
            "detach_() cannot be called on these gradients. To fix this error, please refer to the "
            "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
        )
    if type(self._ag) is AccumulateGrad:
        return requires_grad_(self, False)
    self._ag = None
    return self


@method
def _is_view(self: Tensor) -> bool:
    return self._view is not None and type(self._v) is not InferenceStorage


@attribute
def _base(self: Tensor) -> Tensor | None:
    return None if self._view is None else self._view.base


@method
def is_inference(self: Tensor) -> bool:
    return type(self._v) is InferenceStorage


@attribute
def names(self: Tensor) -> tuple[None, ...]:
    return (None,) * self._a.ndim
