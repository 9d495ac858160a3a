"""The row of `linear`, which chooses among the products of `matrix`."""

from __future__ import annotations

import math
from typing import Any

from .. import _tap
from .._op import composite
from .._tensor import make
from .matrix import add_product, addmm, matmul
from .permute import t

# The conditions, in generated code, that no input takes part in a graph.
_NO_GRAPH = [f"{name}.{slot} is None" for name in ("input", "weight", "bias") for slot in ("_ag", "_view")]
_ROWS = "(input._a.ndim == 2 or (input._a.ndim > 2 and weight._a.ndim == 2 and bias._a.ndim == 1))"


def _linear_quickly(input: Any, weight: Any, bias: Any) -> Any:
    """What `view`, `t` and `addmm` come to where no graph is built."""
    x, w = input._a, weight._a
    if x.ndim == 2:
        return make(add_product(bias._a, x, w.T, 1, 1))
    rows = add_product(bias._a, x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), w.T, 1, 1)
    return make(rows.reshape(*x.shape[:-1], w.shape[0]))


@composite(
    "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
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
    if weight._a.ndim == 2 and bias._a.ndim == 1 and x.flags.c_contiguous:
        *lead, features = x.shape
        rows = input.view((math.prod(lead), features))
        return addmm(bias, rows, t(weight)).view((*lead, weight._a.shape[0]))
    result = matmul(input, t(weight))
    # Nobody but a recorder sees whether the sum is a new one, unless that has another shape or dtype.
    alike = bias._a.shape == result._a.shape[-1:] and bias._a.dtype is result._a.dtype
    return result + bias if alike and not _tap.NAMESPACE["HOOK"] else result.add_(bias)


linear = _linear.function


def _too_few_dims(x: Any, weight: Any) -> RuntimeError:
    return RuntimeError(f"both arguments to linear need to be at least 1D, but they are {x.ndim}D and {weight.ndim}D")
