"""How modules take over other tensors when they are cast, moved or loaded; programs choose by `torch.__future__`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.grad_mode import no_grad
from ...autograd.swapping import swap_tensors
from ...core import device as _device
from ...core.dtype import dtype as DType
from ...core.tensor import Parameter, Tensor


class _Chosen:
    """What programs have set."""

    overwrite = False
    swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether casting or moving a module gives it new parameters instead of new memory for those it has."""
    _Chosen.overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    return _Chosen.overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether casting, moving or loading a module exchanges what its parameters are, by `swap_tensors`, instead of
    changing their memory. It counts before `set_overwrite_module_params_on_conversion`."""
    _Chosen.swap = value


def get_swap_module_params_on_conversion() -> bool:
    return _Chosen.swap


def moved(param: Any, fn: Callable[[Any], Any]) -> Any:
    """A parameter whose memory, and its gradient's, is `fn` of what it was: the same one unless it changes device, or
    programs have asked for others."""
    with no_grad():
        applied = fn(param)
        gradient = param.grad
        applied_gradient = None if gradient is None else fn(gradient)
    if get_swap_module_params_on_conversion():
        swap_tensors(param, Parameter(applied, param.requires_grad))
        if gradient is not None:
            swap_tensors(gradient, applied_gradient.requires_grad_(gradient.requires_grad))  # type: ignore[union-attr]
            param.grad = gradient
        return param
    if param.is_meta == applied.is_meta and not get_overwrite_module_params_on_conversion():
        param.data = applied
        if gradient is not None:
            gradient.data = applied_gradient
        return param
    made = Parameter(applied, param.requires_grad)
    if gradient is not None:
        made.grad = applied_gradient.requires_grad_(gradient.requires_grad)  # type: ignore[attr-defined,union-attr]
    return made


def parse_to(
    *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False,
    tensor: Any = None, memory_format: Any = None,
) -> tuple[Any, DType | None, Any]:  # fmt: skip
    """Device, dtype and memory format out of the ways to call `to`."""
    for value in (*args, tensor):
        if isinstance(value, Tensor):
            dtype, device = value.dtype, value.device
        elif isinstance(value, DType):
            dtype = value
        elif isinstance(value, (str, _device.device, int)) and not isinstance(value, bool):
            device = value
        elif value is not None and not isinstance(value, bool):
            raise TypeError(
                f"to() received an invalid combination of arguments - got ({type(value).__name__}), but expected one "
                "of: (device, dtype, non_blocking, copy, memory_format), (dtype, non_blocking, copy), (tensor, ...)"
            )
    return (None if device is None else _device.usable(device)), dtype, memory_format
