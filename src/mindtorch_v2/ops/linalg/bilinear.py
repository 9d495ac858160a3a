"""Rows of cross products and bilinear forms."""

from __future__ import annotations

import math
import string
from typing import Any

import numpy as np

from ...core.errors import broadcast_error, wrap_dim
from ...core.meta import meta
from ...core.tensor import make
from ...dispatch.op import composite, op
from ...kernels.precision import widened
from .. import flops
from ..meta import shapes
from ..shape.view import expand, reshape
from .products import conj


def _cross_array(a: Any, b: Any, dim: int) -> Any:
    if a.ndim != b.ndim:
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions." if dim is not None else "inconsistent dims"
        )
    axis = wrap_dim(dim, a.ndim)
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {a.shape[axis]} and {b.shape[axis]}"
        )
    try:
        return np.ascontiguousarray(np.cross(a, b, axis=axis))
    except ValueError:
        raise broadcast_error(a.shape, b.shape) from None


def _cross_calls(self: Any, other: Any, dim: int) -> Any:
    try:
        shape = np.broadcast_shapes(self._a.shape, other._a.shape)
    except ValueError:
        return make(_cross_array(self._a, other._a, dim))
    axis = wrap_dim(dim, self._a.ndim)
    if self._a.ndim == other._a.ndim and self._a.shape[axis] == other._a.shape[axis] == 3:
        self, other = expand(self, shape), expand(other, shape)
    return make(_cross_array(self._a, other._a, dim))


linalg_cross = op(
    "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    all_flops=flops.each(3, 2),
    meta=shapes.result_rule(
        lambda a, b, dim: meta(shapes.broadcast(a.shape, b.shape), np.result_type(a.dtype, b.dtype))
    ),
    method=False,
    calls=_cross_calls,
    self=lambda g, other, dim: linalg_cross(conj(other), g, dim=dim),
    other=lambda g, self, dim: linalg_cross(g, conj(self), dim=dim),
)(_cross_array).function


@composite("cross(Tensor self, Tensor other, int? dim=None) -> Tensor", out=True)
def _cross(self: Any, other: Any, dim: Any) -> Any:
    if dim is None:
        if 3 not in self._a.shape:
            raise RuntimeError("no dimension of size 3 in input")
        dim = self._a.shape.index(3)
    return linalg_cross(self, other, dim=dim)


@widened
def _trilinear_array(
    i1: Any, i2: Any, i3: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1
) -> Any:
    """`i1 * i2 * i3` summed over `sumdim`, each first given dimensions of size 1 at its expand places."""
    dims = string.ascii_letters[: i1.ndim + len(expand1)]

    def without(places: Any) -> str:
        return "".join(d for i, d in enumerate(dims) if i not in places)

    equation = f"{without(expand1)},{without(expand2)},{without(expand3)}->{without(sumdim)}"
    return np.einsum(equation, i1, i2, i3, optimize=True)


trilinear = op(
    "_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, "
    "int unroll_dim=1) -> Tensor",
    all_flops=flops.trilinear,
    meta=shapes.trilinear,
    out=False,
    i1=lambda g, i2, i3, expand1, expand2, expand3, sumdim: trilinear(g, i2, i3, sumdim, expand2, expand3, expand1),
    i2=lambda g, i1, i3, expand1, expand2, expand3, sumdim: trilinear(i1, g, i3, expand1, sumdim, expand3, expand2),
    i3=lambda g, i1, i2, expand1, expand2, expand3, sumdim: trilinear(i1, i2, g, expand1, expand2, sumdim, expand3),
)(_trilinear_array).function


def _check_bilinear(a: Any, b: Any, weight: Any, bias: Any) -> None:
    if a.ndim != b.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {a.ndim} and {b.ndim}")
    for dim in range(a.ndim - 1):
        if a.shape[dim] != b.shape[dim]:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {dim}: got {a.shape[dim]} and {b.shape[dim]}"
            )
    for name, x, n in (("input1", a, weight.shape[1]), ("input2", b, weight.shape[2])):
        if x.shape[-1] != n:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {x.shape[-1]} but expected {n}"
            )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected {weight.shape[0]}"
        )


@composite("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor")
def _bilinear(input1: Any, input2: Any, weight: Any, bias: Any) -> Any:
    _check_bilinear(input1._a, input2._a, weight._a, None if bias is None else bias._a)
    lead = input1._a.shape[:-1]
    rows1 = reshape(input1, (math.prod(lead), input1._a.shape[-1]))
    rows2 = reshape(input2, (math.prod(lead), input2._a.shape[-1]))
    result = trilinear(rows1, weight, rows2, [1, 3], [0], [1, 2], [2, 3])
    result = reshape(result, (*lead, weight._a.shape[0]))
    return result if bias is None else result + bias


bilinear = _bilinear.function
