"""Parameters and buffers: tensors that modules collect."""

from __future__ import annotations

import copy
from typing import Any

from .._tensor import Parameter as _Parameter
from .._tensor import Tensor, new, storage_of
from ..autograd.node import AccumulateGrad
from ..ops.creation import empty


def _new_parameter(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
    """A leaf on the memory of `data`; a subclass of Tensor stays what it is and only gets the mark."""
    if data is None:
        data = empty((0,))
    if not isinstance(data, Tensor):
        raise TypeError(f"Parameter data must be a Tensor, got {type(data).__name__}; wrap it with torch.tensor(...)")
    if type(data) is not Tensor and not isinstance(data, _Parameter):
        marked = data.detach()  # type: ignore[attr-defined]
        marked.requires_grad_(requires_grad)
        marked._is_param = True
        return marked
    t = new(cls)
    t._a, t._ag, t._view, t._v = data._a, None, None, storage_of(data)
    if requires_grad:
        t.requires_grad_()
    return t


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    made = type(self)(self.detach().clone(), self.requires_grad)
    memo[id(self)] = made
    if type(self._ag) is AccumulateGrad and self._ag.grad is not None:
        made.grad = copy.deepcopy(self._ag.grad, memo)
    for name, value in self.__dict__.items():
        made.__dict__[name] = copy.deepcopy(value, memo)
    return made


_Parameter.__new__ = staticmethod(_new_parameter)  # type: ignore[method-assign,assignment]
_Parameter.__init__ = lambda self, *args, **kwargs: None  # type: ignore[method-assign]
_Parameter.__deepcopy__ = _deepcopy  # type: ignore[attr-defined]
_Parameter.__module__ = "torch.nn.parameter"


Parameter = _Parameter


def is_parameter(value: Any) -> bool:
    """Whether modules collect `value` as a parameter."""
    return isinstance(value, _Parameter) or (isinstance(value, Tensor) and getattr(value, "_is_param", False))


class Buffer(Tensor):
    """A tensor that modules collect as a buffer when it is assigned to an attribute."""

    __slots__ = ()

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        source = empty((0,)) if data is None else data
        t = new(cls)
        t._a, t._ag, t._view, t._v = source._a, None, None, storage_of(source)
        t.persistent = persistent
        return t

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


class UninitializedTensorMixin:
    """A parameter or buffer whose shape is not known yet."""

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give it a shape, and memory."""
        made = empty(shape, dtype=dtype or self.dtype, device=device)  # type: ignore[attr-defined]
        self._a = made._a
        self.__class__ = self.cls_to_become  # type: ignore[attr-defined]
        if type(getattr(self, "_ag", None)) is AccumulateGrad:
            self._ag.array = made._a  # type: ignore[has-type]


class UninitializedParameter(UninitializedTensorMixin, _Parameter):
    """A parameter of a lazy module."""

    __slots__ = ()
    cls_to_become = _Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return _new_parameter(cls, empty((0,), dtype=dtype, device=device), requires_grad)

    def __repr__(self) -> str:
        return "<UninitializedParameter>"


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer of a lazy module."""

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True) -> Any:
        t = new(cls)
        source = empty((0,), dtype=dtype, device=device)
        t._a, t._ag, t._view, t._v = source._a, None, None, storage_of(source)
        t.persistent = persistent
        return t

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


def is_lazy(value: Any) -> bool:
    """Whether a parameter or buffer still waits for its shape."""
    return isinstance(value, UninitializedTensorMixin)
