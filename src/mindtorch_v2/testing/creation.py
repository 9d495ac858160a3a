"""make_tensor: a tensor of random values that suit its dtype."""

from __future__ import annotations

import math
from typing import Any

from ..core import dtype as _dtype
from ..core.dtype import dtype as DType
from ..core.tensor import Tensor
from ..ops.creation import fill


def _range(dtype: DType, low: float | None, high: float | None) -> tuple[float, float]:
    """The bounds of values, by default -9 to 9 (0 to 9 or 10 for unsigned types and bool's 0 to 2)."""
    if dtype is _dtype.bool_:
        lowest, highest, default = 0.0, 2.0, (0.0, 2.0)
    elif dtype.category == 1:
        info = _dtype.iinfo(dtype)
        lowest, highest = float(info.min), float(info.max) + 1
        default = (0.0, 10.0) if dtype is _dtype.uint8 else (-9.0, 10.0)
    else:
        limits = _dtype.finfo(dtype)
        lowest, highest, default = limits.min, limits.max, (-9.0, 9.0)
    low = default[0] if low is None else low
    high = default[1] if high is None else high
    if math.isnan(low) or math.isnan(high) or low >= high:
        raise ValueError(f"make_tensor: `low` must be below `high`, got low={low} and high={high}")
    return max(low, lowest), min(high, highest)


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor with values drawn evenly from [low, high)."""
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    low, high = _range(dtype, low, high)
    spread = bool(noncontiguous) and math.prod(size) > 1
    full = (*size[:-1], 2 * size[-1]) if spread else size
    result: Any = _draw(fill.empty(full, dtype=dtype, device=device), dtype, low, high)
    if spread:
        result = result[..., 1::2]
    if memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if dtype.category < 2 else _dtype.finfo(dtype).tiny
    return result.requires_grad_() if requires_grad else result


def _draw(empty: Any, dtype: DType, low: float, high: float) -> Any:
    if dtype.category < 2:
        return empty.random_(math.floor(low), math.ceil(high))
    if dtype.is_complex:
        parts = empty.view(dtype.to_real())
        parts.uniform_(low, high)
        return empty
    return empty.uniform_(low, high)
