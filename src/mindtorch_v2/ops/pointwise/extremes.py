"""Rows of the greater and the smaller of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dispatch.op import Op, binary
from .. import flops
from .arithmetic import _kinds


def _check_complex(name: str) -> Callable[..., None]:
    def check(self: Any, other: Any) -> None:
        if 3 in _kinds(self, other):
            raise RuntimeError(f"{name} not implemented for complex tensors.")

    return check


def _extreme(name: str, ufunc: np.ufunc, lesser: str, better: str) -> Op:
    """`maximum` or `minimum`; equal elements share the gradient."""

    def halved(g: Any, self: Any, other: Any) -> Any:
        return (g / 2).where(self == other, g)

    return binary(
        name,
        ufunc,
        all_flops=flops.each(1, 2),
        takes="bif",
        number_fast=False,
        check=_check_complex(name),
        self=lambda g, self, other: halved(g, self, other).masked_fill_(getattr(self, lesser)(other), 0),
        other=lambda g, self, other: halved(g, self, other).masked_fill_(getattr(self, better)(other), 0),
    )


maximum = _extreme("maximum", np.maximum, "lt", "gt")
minimum = _extreme("minimum", np.minimum, "gt", "lt")


def _extreme_but_nan(name: str, ufunc: np.ufunc, better: str) -> Op:
    """`fmax` or `fmin`: a number wins over nan."""

    def mine(self: Any, other: Any) -> Any:
        return getattr(self, better)(other).logical_or_(other.isnan())

    return binary(
        name,
        ufunc,
        all_flops=flops.each(1, 2),
        takes="bif",
        number_fast=False,
        check=_check_complex(name),
        self=lambda g, self, other: g.masked_fill(mine(self, other).logical_not_(), 0),
        other=lambda g, self, other: g.masked_fill(mine(self, other), 0),
    )


fmax = _extreme_but_nan("fmax", np.fmax, "ge")
fmin = _extreme_but_nan("fmin", np.fmin, "le")
