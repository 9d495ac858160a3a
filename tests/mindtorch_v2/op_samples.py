"""One sample call per operator row, by qualified row name. A new row gets one line here and is put through every axis.

`F(...)` makes a float tensor, `I(...)` an integer one, `B(...)` a bool one; values are fixed, so runs repeat exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mindtorch_v2 as torch


def F(*shape: int, positive: bool = False) -> Any:
    """Floats in (-1, 1), or in (0.25, 1.25) where the op wants positive ones."""
    values = np.sin(np.arange(1, int(np.prod(shape)) + 1) * 1.7).reshape(shape)
    return torch.from_numpy((values * 0.5 + 0.75 if positive else values).astype(np.float32))


def I(*shape: int, high: int = 3) -> Any:  # noqa: E743
    return torch.from_numpy((np.arange(int(np.prod(shape))) * 7 % high).reshape(shape))


def B(*shape: int) -> Any:
    return torch.from_numpy((np.arange(int(np.prod(shape))) % 2 == 0).reshape(shape))


# name -> a function that makes (args, kwargs)
SAMPLES: dict[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    # elementwise
    "add.Tensor": lambda: ((F(2, 3), F(3)), {}),
    "sub.Tensor": lambda: ((F(2, 3), F(2, 1)), {}),
    "mul.Tensor": lambda: ((F(2, 3), F(2, 3)), {}),
    "div.Tensor": lambda: ((F(2, 3), F(2, 3, positive=True)), {}),
    "neg": lambda: ((F(2, 3),), {}),
    "exp": lambda: ((F(2, 3),), {}),
    "log": lambda: ((F(2, 3, positive=True),), {}),
    "sqrt": lambda: ((F(2, 3, positive=True),), {}),
    "sigmoid": lambda: ((F(2, 3),), {}),
    "tanh": lambda: ((F(2, 3),), {}),
    "relu": lambda: ((F(2, 3),), {}),
    "maximum": lambda: ((F(2, 3), F(1, 3)), {}),
    "eq.Tensor": lambda: ((I(2, 3), I(2, 3)), {}),
    "logical_not": lambda: ((B(2, 3),), {}),
    # views
    "view": lambda: ((F(2, 6), (3, 4)), {}),
    "transpose.int": lambda: ((F(2, 3), 0, 1), {}),
    "t": lambda: ((F(2, 3),), {}),
    "permute": lambda: ((F(2, 3, 4), (2, 0, 1)), {}),
    "expand": lambda: ((F(1, 3), (2, 3)), {}),
    "unsqueeze": lambda: ((F(2, 3), 1), {}),
    "select.int": lambda: ((F(2, 3), 1, 2), {}),
    "reshape": lambda: ((F(2, 6), (4, 3)), {}),
    "clone": lambda: ((F(2, 3),), {}),
    # joining and taking apart
    "cat": lambda: (([F(2, 3), F(1, 3)], 0), {}),
    "stack": lambda: (([F(2, 3), F(2, 3)], 1), {}),
    "unbind.int": lambda: ((F(2, 3), 0), {}),
    # reductions and order
    "sum": lambda: ((F(2, 3),), {}),
    "sum.dim_IntList": lambda: ((F(2, 3), (0,)), {}),
    "mean": lambda: ((F(2, 3),), {}),
    "mean.dim": lambda: ((F(2, 3), (1,), True), {}),
    "prod": lambda: ((F(2, 3),), {}),
    "amax": lambda: ((F(2, 3), (1,)), {}),
    "max.dim": lambda: ((F(2, 3), 1), {}),
    "argmax": lambda: ((F(2, 3), 1), {}),
    "var.correction": lambda: ((F(2, 3), (1,)), {"correction": 1}),
    "logsumexp": lambda: ((F(2, 3), (1,)), {}),
    "cumsum": lambda: ((F(2, 3), 1), {}),
    "cumprod": lambda: ((F(2, 3), 1), {}),
    "sort": lambda: ((F(2, 3), 1), {}),
    "topk": lambda: ((F(2, 5), 2), {}),
    "all": lambda: ((B(2, 3),), {}),
    # products
    "mm": lambda: ((F(2, 3), F(3, 4)), {}),
    "bmm": lambda: ((F(2, 2, 3), F(2, 3, 4)), {}),
    "addmm": lambda: ((F(2, 4), F(2, 3), F(3, 4)), {}),
    "matmul": lambda: ((F(2, 3), F(3, 4)), {}),
    # indexing
    "gather": lambda: ((F(2, 3), 1, I(2, 2)), {}),
    "index_select": lambda: ((F(4, 3), 0, I(2)), {}),
    "where.self": lambda: ((B(2, 3), F(2, 3), F(2, 3)), {}),
}

# Rows whose shape depends on values.
NO_META: set[str] = set()
