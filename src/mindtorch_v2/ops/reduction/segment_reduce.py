"""Rows that reduce parts of a dimension, each part to one element, and products of small integers and floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtype
from ...core.errors import wrap_dim
from ...core.tensor import Tensor
from ...dispatch.op import composite, op
from ...kernels.checks import not_implemented
from .. import flops
from ..creation.convert import to_dtype
from ..creation.fill import full
from ..linalg.products import mm
from ..meta import shapes
from ..shape.join import stack
from ..shape.split import split

# What a reduction gives for nothing, and how it takes in the value it is to start with.
_STARTS: dict[str, Any] = {"sum": 0.0, "mean": float("nan"), "max": -np.inf, "min": np.inf, "prod": 1.0}
_STARTS |= {"amax": _STARTS["max"], "amin": _STARTS["min"]}


def _reduced(part: Tensor, reduce: str, axis: int, initial: Any) -> Tensor:
    """One segment as one element."""
    if part._a.shape[axis] == 0:
        shape = part._a.shape[:axis] + part._a.shape[axis + 1 :]
        return full(shape, _STARTS[reduce] if initial is None else initial, dtype=part.dtype, device=part.device)
    if reduce in ("sum", "mean"):
        total = part.sum(axis) if initial is None else part.sum(axis) + initial
        return total / part._a.shape[axis] if reduce == "mean" else total
    if reduce == "prod":
        return part.prod(axis) if initial is None else part.prod(axis) * initial
    if reduce in ("max", "amax"):
        return part.amax(axis) if initial is None else part.amax(axis).clamp(min=initial)
    return part.amin(axis) if initial is None else part.amin(axis).clamp(max=initial)


def _segments(data: Tensor, reduce: str, lengths: Any, axis: int, initial: Any) -> Tensor:
    """`lengths` has one row of lengths for each element of the dimensions before `axis`."""
    if lengths.ndim == 1:
        parts = split(data, [int(n) for n in lengths], axis)
        return stack([_reduced(part, reduce, axis, initial) for part in parts], axis)
    return stack([_segments(data[i], reduce, row, axis - 1, initial) for i, row in enumerate(lengths)], 0)


def _checked_lengths(data: Tensor, lengths: Any, offsets: Any, axis: int, unsafe: bool) -> Any:
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    given = lengths if lengths is not None else offsets
    if given._a.dtype.kind != "i":
        raise not_implemented("_segment_reduce_lengths_cpu_kernel1", given._a.dtype)
    found = given._a if lengths is not None else np.diff(given._a, axis=-1)
    if found.size and found.min() < 0:
        raise RuntimeError("lengths contains negative value!")
    if axis != found.ndim - 1:
        raise RuntimeError("segment_reduce(): Expected axis to be the last dimension of lengths.")
    if not unsafe and (found.sum(-1) != data._a.shape[axis]).any():
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."
        )
    return found


@composite(
    "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, "
    "int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
    method=False,
)
def segment_reduce(
    data: Tensor, reduce: str, lengths: Any, indices: Any, offsets: Any, axis: int, unsafe: bool, initial: Any
) -> Tensor:
    """Stretches of `data` along `axis`, each reduced to one element."""
    if reduce not in _STARTS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    axis = wrap_dim(axis, data._a.ndim)
    return _segments(data, reduce, _checked_lengths(data, lengths, offsets, axis, unsafe), axis, initial)


# --- products of numbers of one byte ----------------------------------------------------------------------------------


@op(
    "_int_mm(Tensor self, Tensor mat2) -> Tensor",
    all_flops=flops.matrix_product,
    meta=shapes.shape_rule(shapes.matrix_product),
    method=False,
)
def _int_mm(a: Any, b: Any) -> Any:
    """The product of int8 matrices, in int32."""
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(f"Expected {'self' if a.ndim != 2 else 'mat2'} to be of dimension 2")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(f"self.size(1) needs to match mat2.size(0) but got {a.shape[1]} and {b.shape[0]}")
    return a.astype(np.int32) @ b.astype(np.int32)


@composite(
    "_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? scale_result=None, "
    "ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
    method=False,
)
def _scaled_mm(
    self: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Any, scale_result: Any, out_dtype: Any,
    use_fast_accum: bool,
) -> Tensor:  # fmt: skip
    """The product of float8 matrices, each times its scale (one number, or one for each row and column)."""
    left, right = to_dtype(self, dtype.float32) * scale_a, to_dtype(mat2, dtype.float32) * scale_b
    product = mm(left, right)
    if bias is not None:
        product = product + to_dtype(bias, dtype.float32)
    if scale_result is not None:
        product = product * scale_result
    return to_dtype(product, self.dtype if out_dtype is None else out_dtype)
