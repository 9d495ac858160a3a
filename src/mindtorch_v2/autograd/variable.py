"""`Variable`, torch's older word for a tensor that may require grad."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..core.tensor import Tensor, alias, make, storage_of


class VariableMeta(type):
    """Every tensor is a Variable, and nothing else is."""

    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=VariableMeta):
    """`Variable(tensor, requires_grad=False)`: a tensor on the same memory, outside any graph."""

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        if data is not None and not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if volatile is not None:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.", stacklevel=2
            )
        made = make(np.zeros(0, np.float32)) if data is None else alias(data._a, storage_of(data))
        return made.requires_grad_(requires_grad)
