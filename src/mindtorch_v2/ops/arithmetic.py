"""Rows of arithmetic: addition to division, powers, remainders, and their fused forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._op import binary, in_place, unary


def numel(inputs: Any) -> int:
    """torch counts one operation per element of the first input."""
    return int(np.prod(inputs.shapes[0], dtype=np.int64))


def _scaled(ufunc: Any) -> Any:
    """`ufunc(a, alpha * b)`."""

    def kernel(a: Any, b: Any, alpha: Any) -> Any:
        return ufunc(a, b if alpha == 1 else b * np.asarray(alpha).astype(b.dtype))

    return kernel


add = binary(
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    np.add,
    kernel=_scaled(np.add),
    fast_when={"alpha": 1},
    flops=numel,
    self=lambda g: g,
    other=lambda g, alpha: g if alpha == 1 else g * alpha,
)
add_ = in_place(add)
mul = binary(
    "mul.Tensor", np.multiply, flops=numel, self=lambda g, other: g * other, other=lambda g, self: g * self
)
mul_ = in_place(mul)

sub = binary(
    "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    np.subtract,
    kernel=_scaled(np.subtract),
    fast_when={"alpha": 1},
    self=lambda g: g,
    other=lambda g, alpha: -g if alpha == 1 else g * -alpha,
)
sub_ = in_place(sub)
neg = unary("neg", np.negative, "same", self=lambda g: -g)
maximum = binary("maximum", np.maximum, number_fast=False, self=lambda g, self, other: g * (self >= other), other=lambda g, self, other: g * (self < other))
minimum = binary("minimum", np.minimum, number_fast=False, self=lambda g, self, other: g * (self <= other), other=lambda g, self, other: g * (self > other))
