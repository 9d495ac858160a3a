"""Tensor types of old: `torch.FloatTensor` and its kin, which build tensors and answer `isinstance`; and the small
questions about values that torch answers at its top level.
"""

from __future__ import annotations

import warnings
from typing import Any

from ..core import dtype as _dtype
from ..core.dtype import dtype as DType
from ..core.tensor import Tensor
from ..ops.shape.copies import _detach
from .methods import TYPE_STRINGS
from .new_tensors import legacy
from .storage import TypedStorage, UntypedStorage

_NOT_COMPILED = "Torch not compiled with CUDA enabled."


class tensortype(type):
    """The type of the old tensor types: each stands for the tensors of one dtype."""

    dtype: DType
    is_cuda: bool
    is_sparse = False

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and not cls.is_cuda and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, device: Any = None, requires_grad: bool = False) -> Any:
        """A tensor of the given sizes (not filled) or of the given data."""
        if cls.is_cuda:
            raise TypeError(f"type {cls.__module__}.{cls.__name__} not available. {_NOT_COMPILED}")
        if len(args) == 1 and isinstance(args[0], Tensor):
            given = args[0]
            if given.dtype is not cls.dtype:
                raise TypeError(
                    f"{cls.__name__}() expected a tensor of {cls.dtype}, got one of {given.dtype}; convert it with "
                    f"tensor.to({cls.dtype})"
                )
            return _detach.function(given)
        if len(args) == 1 and isinstance(args[0], (float, complex)):
            raise TypeError(f"new(): data must be a sequence (got {type(args[0]).__name__})")
        t = legacy(args, cls.dtype)
        return t.requires_grad_(requires_grad) if requires_grad else t


def _make_type(name: str, module: str, d: DType) -> tensortype:
    body = {"dtype": d, "is_cuda": module == "torch.cuda", "__module__": module}
    return tensortype(name, (), body)


TYPES: dict[str, tensortype] = {
    full.rpartition(".")[2]: _make_type(full.rpartition(".")[2], "torch", d) for full, d in TYPE_STRINGS.items()
}
CUDA_TYPES: dict[str, tensortype] = {name: _make_type(name, "torch.cuda", t.dtype) for name, t in TYPES.items()}


def set_default_tensor_type(t: Any, /) -> None:
    """Make the dtype of an old tensor type (or of its name) the default one."""
    name = t if isinstance(t, str) else None
    if name is not None:
        found = TYPES.get(name.removeprefix("torch."))
        if found is None and name.startswith("torch.cuda."):
            found = CUDA_TYPES.get(name.removeprefix("torch.cuda."))
        if found is None:
            raise TypeError(f"invalid type name '{name}'; expected one such as 'torch.FloatTensor'")
        t = found
    if not isinstance(t, tensortype):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    if t.is_cuda:
        raise TypeError(f"type {t.__module__}.{t.__name__} not available. {_NOT_COMPILED}")
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives.",
        stacklevel=2,
    )
    _dtype.set_default_dtype(t.dtype)


def is_tensor(obj: Any, /) -> bool:
    """Whether something is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any, /) -> bool:
    """Whether something is a storage."""
    return isinstance(obj, (TypedStorage, UntypedStorage))


def is_floating_point(input: Tensor) -> bool:
    return _checked("is_floating_point", input).is_floating_point()


def is_complex(input: Tensor) -> bool:
    return _checked("is_complex", input).is_complex()


def is_signed(input: Tensor) -> bool:
    return _checked("is_signed", input).is_signed()


def numel(input: Tensor) -> int:
    return _checked("numel", input).numel()


def _checked(function: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{function}(): argument 'input' (position 1) must be Tensor, not {type(value).__name__}")
    return value


def typename(obj: Any, /) -> str:
    """`torch.FloatTensor` for a tensor, the qualified name of its type for anything else."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__", "") else f"{module}.{kind.__qualname__}"


NAMES: dict[str, Any] = {
    **TYPES,
    "tensortype": tensortype,
    "set_default_tensor_type": set_default_tensor_type,
    "is_tensor": is_tensor,
    "is_storage": is_storage,
    "is_floating_point": is_floating_point,
    "is_complex": is_complex,
    "is_signed": is_signed,
    "numel": numel,
    "typename": typename,
}
