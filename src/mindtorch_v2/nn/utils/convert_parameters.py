"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core.tensor import Tensor
from ...ops.shape.join import cat
from ..modules.module import typename


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """The elements of all parameters, one after the other."""
    return cat([param.view(-1) for param in _on_one_device(parameters)])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Let parameters look at consecutive parts of a vector."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    start = 0
    for param in _on_one_device(parameters):
        count = param.numel()
        param.data = vec[start : start + count].view_as(param).data
        start += count


def _on_one_device(parameters: Iterable[Any]) -> list[Any]:
    found = list(parameters)
    if len({param.device for param in found}) > 1:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return found


__all__ = ["parameters_to_vector", "vector_to_parameters"]
