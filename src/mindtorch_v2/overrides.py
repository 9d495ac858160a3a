"""torch.overrides: how subclasses and modes take over calls."""

from __future__ import annotations

from typing import Any

from .autograd.overrides import TorchFunctionMode, handle_torch_function, has_torch_function
from .core.missing import is_ours
from .core.tensor import Tensor


def is_tensor_like(inp: Any) -> bool:
    """Whether something is a tensor or takes over calls as one."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def has_torch_function_unary(obj: Any) -> bool:
    return has_torch_function((obj,))


def has_torch_function_variadic(*args: Any) -> bool:
    return has_torch_function(args)


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether a function is one of Tensor's methods."""
    return func in vars(Tensor).values()


def resolve_name(f: Any) -> str:
    """`torch.add`, `torch.Tensor.view`, … for a function that a mode was offered."""
    name = getattr(f, "__name__", str(f))
    return f"torch.{name}" if is_ours(getattr(f, "__module__", None) or "") else name


def wrap_torch_function(dispatcher: Any) -> Any:
    """Decorator: let the arguments that `dispatcher` names take over calls of a function."""

    def decorate(function: Any) -> Any:
        def offered(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(offered, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        offered.__name__, offered.__doc__ = function.__name__, function.__doc__
        return offered

    return decorate


__all__ = [
    "TorchFunctionMode",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]
