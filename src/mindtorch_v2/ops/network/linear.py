"""The row of `linear`, which chooses among the products of `products`."""

from __future__ import annotations

import math
from typing import Any

from ...core.tensor import make
from ...dispatch.op import composite
from ..linalg.matmul import matmul
from ..linalg.products import add_product, addmm
from ..shape.permute import t

# The conditions, in generated code, that no input takes part in a graph.
_NO_GRAPH = [f"{name}.{slot} is None" for name in ("input", "weight", "bias") for slot in ("_ag", "_view")]
_ROWS = (
    "weight._a.ndim == 2 "
    "and (input._a.ndim == 2 or (input._a.ndim > 2 and input._a.flags.c_contiguous and bias._a.ndim == 1))"
)


def _linear_quickly(input: Any, weight: Any, bias: Any) -> Any:
    """What `view`, `t` and `addmm` come to where no graph is built."""
    x, w = input._a, weight._a
    if x.ndim == 2:
        return make(add_product(bias._a, x, w.T, 1, 1))
    rows = add_product(bias._a, x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), w.T, 1, 1)
    return make(rows.reshape(*x.shape[:-1], w.shape[0]))


@composite(
    "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    autocast="lower_precision",
    fast=(
        " and ".join(["bias is not None", _ROWS, f"(not GRAD() or ({' and '.join(_NO_GRAPH)}))"]),
        _linear_quickly,
    ),
)
def _linear(input: Any, weight: Any, bias: Any) -> Any:
    x = input._a
    if bias is None:
        if x.ndim == 0 or weight._a.ndim == 0:
            raise _too_few_dims(x, weight._a)
        return matmul(input, t(weight))
    if x.ndim == 2:
        return addmm(bias, input, t(weight))
    if x.ndim == 0 or weight._a.ndim == 0:
        raise _too_few_dims(x, weight._a)
    if weight._a.ndim == 1:
        raise RuntimeError("mat2 must be a matrix, got 1-D tensor")
    if weight._a.ndim == 2 and bias._a.ndim == 1 and x.flags.c_contiguous:
        *lead, features = x.shape
        rows = input.view((math.prod(lead), features))
        return addmm(bias, rows, t(weight)).view((*lead, weight._a.shape[0]))
    return matmul(input, t(weight)).add_(bias)


linear = _linear.function


def _too_few_dims(x: Any, weight: Any) -> RuntimeError:
    return RuntimeError(f"both arguments to linear need to be at least 1D, but they are {x.ndim}D and {weight.ndim}D")
