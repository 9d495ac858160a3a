"""Small things distributions share: parameters brought to one shape, probabilities and logits, lazy attributes, and
the operators under short names.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from ..autograd.grad_mode import enable_grad
from ..core.dtype import finfo, get_default_dtype
from ..core.tensor import Tensor
from ..dispatch.front import FRONTS
from ..ops.creation.convert import tensor
from ..ops.creation.fill import empty
from ..ops.creation.random_fills import normal_
from ..ops.creation.ranges import arange
from ..ops.network.softmax import softmax
from ..ops.shape.view import broadcast_tensors

euler_constant = 0.57721566490153286060

rand: Callable[..., Any] = FRONTS["rand"]
randn: Callable[..., Any] = FRONTS["randn"]


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors and numbers as tensors of one shape; numbers take the tensors' dtype."""
    if not all(isinstance(v, numbers.Number) or _like_tensor(v) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    if all(_like_tensor(v) for v in values):
        return tuple(broadcast_tensors(*values))
    first = next((v for v in values if isinstance(v, Tensor)), None)
    options = {"dtype": get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    return tuple(broadcast_tensors(*(v if _like_tensor(v) else tensor(v, **options) for v in values)))


def _like_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def broadcast_shape(*shapes: Any) -> Any:
    """The shape tensors of these shapes broadcast to."""
    return broadcast_tensors(*(tensor(0).expand(tuple(shape)) for shape in shapes))[0].shape


def standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Draws of the standard normal distribution."""
    return normal_(empty(shape, dtype=dtype, device=device))


def sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last `dim` dimensions."""
    return value if dim == 0 else value.reshape((*value.shape[:-dim], -1)).sum(-1)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of log-odds (binary) or of unnormalized log-probabilities."""
    return logits.sigmoid() if is_binary else softmax(logits, dim=-1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities kept away from 0 and 1 by the dtype's epsilon."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Log-odds (binary) or log-probabilities of probabilities."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:
    """An attribute computed when first read, with gradients, and kept on the instance."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The lower triangle of each matrix, row after row, as a vector."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    places = arange(n)
    return mat[..., places < places.view(-1, 1) + (diag + 1)]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """A matrix for each vector, whose entries fill its lower triangle row after row."""
    length = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower triangular "
            "part of a square D x D matrix."
        )
    size = round(n)
    places = arange(size)
    matrix = vec.new_zeros((*vec.shape[:-1], size, size))
    matrix[..., places < places.view(-1, 1) + (diag + 1)] = vec
    return matrix


__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]
