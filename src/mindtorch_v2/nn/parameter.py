"""Parameters and buffers: tensors that modules collect, and those whose shape is found out at the first call."""

from __future__ import annotations

from typing import Any

from ..core import tap
from ..core.device import preserve_format
from ..core.tensor import PLAIN, Parameter, Tensor, new, settle_class, storage_of
from ..ops.creation.fill import empty


def _leaf_on(cls: Any, data: Tensor, requires_grad: bool) -> Any:
    """A tensor of class `cls` on the memory of `data`, out of every graph."""
    t = new(cls)
    t._a, t._ag, t._view, t._v = data._a, None, None, storage_of(data)
    settle_class(t)
    return t.requires_grad_() if requires_grad else t


def _new_parameter(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
    """A leaf on the memory of `data`; a subclass of Tensor stays what it is and only gets the mark."""
    if data is None:
        data = empty((0,))
    if type(data) in PLAIN:
        return _leaf_on(cls, data if tap.SLOT.recorder is None else data.detach(), requires_grad)
    if not isinstance(data, Tensor):
        raise AttributeError(
            f"'{type(data).__name__}' object has no attribute 'detach': Parameter takes a Tensor; make one with "
            "torch.tensor(...) or torch.as_tensor(...)"
        )
    t: Any = data.detach().requires_grad_(requires_grad)
    if type(t) is not type(data):
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an "
            f"instance of the same type, but return type {type(t).__name__} was found instead. To use the type as a "
            "Parameter, please correct the detach() semantics defined by its __torch_dispatch__() implementation."
        )
    t.__dict__["_is_param"] = True
    return t


def _deepcopy_parameter(self: Any, memo: dict[int, Any]) -> Any:
    """The values and whether they require grad; neither the gradient nor what users hung onto it."""
    made = memo.get(id(self))
    if made is None:
        made = memo[id(self)] = self.__class__(self.data.clone(memory_format=preserve_format), self.requires_grad)
    return made


def _ignore(self: Any, *args: Any, **kwargs: Any) -> None:
    """Everything is done when a tensor is made; constructors have nothing to add."""


Parameter.__new__ = staticmethod(_new_parameter)  # type: ignore[method-assign]
Parameter.__init__ = _ignore  # type: ignore[method-assign]
Parameter.__deepcopy__ = _deepcopy_parameter  # type: ignore[attr-defined]
Parameter.__module__ = __name__


class _BufferMeta(type):
    """Buffers are plain tensors with a mark."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that modules collect as a buffer when it is assigned to an attribute."""

    __slots__ = ()

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        source = empty((0,)) if data is None else data
        t = source.detach().requires_grad_(source.requires_grad)
        t.persistent = persistent
        t._is_buffer = True
        return t


class UninitializedTensorMixin:
    """A parameter or buffer whose shape is not known yet; nothing can be computed with it."""

    __slots__ = ()

    cls_to_become: Any

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give it a shape, and memory."""
        plain = self.data
        self.data = empty(shape, device=plain.device if device is None else device,
                          dtype=plain.dtype if dtype is None else dtype)  # fmt: skip
        self.__class__ = self.cls_to_become

    @property
    def data(self) -> Tensor:
        """The empty memory it stands on, as a plain tensor."""
        return _leaf_on(Tensor, self, False)  # type: ignore[arg-type]

    @data.setter
    def data(self, value: Tensor) -> None:
        Tensor.data.__set__(self, value)  # type: ignore[attr-defined]

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> None:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        made = memo.get(id(self))
        if made is None:
            made = memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return made

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return type(self), (self.requires_grad,)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _ALLOWED:
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[misc]
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a "
            f"`LazyModule` or explicitly manipulating `torch.nn.parameter.{cls.__name__}` objects. When using "
            "LazyModules Call `forward` with a dummy batch to initialize the parameters before calling torch functions"
        )


_ALLOWED = frozenset("""size copy_ is_complex is_floating_point half float double char short int long cuda cpu to
    _to_copy get_device detach""".split())  # fmt: skip


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter of a lazy module."""

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return _leaf_on(cls, empty((0,), dtype=dtype, device=device), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer of a lazy module."""

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        t = _leaf_on(cls, empty((0,), dtype=dtype, device=device), requires_grad)
        t.persistent, t._is_buffer = persistent, True
        return t

    __init__ = _ignore


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer still waits for its shape."""
    return isinstance(param, UninitializedTensorMixin)


__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]
