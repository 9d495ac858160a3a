"""Sizes that users give once for all dimensions, or one for each."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np


def expanded(value: Any, count: int) -> tuple[int, ...]:
    """A size for each of `count` dimensions; a wrong number of sizes is left for the operator to refuse."""
    if type(value) is int:
        return (value,) * count
    if type(value) is tuple and len(value) == count:
        for v in value:
            if type(v) is not int:
                break
        else:
            return value
    if isinstance(value, (int, np.integer)):
        return (int(value),) * count
    values = tuple(index(v) for v in value)
    return values * count if len(values) == 1 else values
