"""Lookups in tables of vectors with torch's signatures."""

from __future__ import annotations

import warnings
from typing import Any

from ...autograd import grad_mode
from ...core.dtype import int64
from ...ops.creation.ranges import arange
from ...ops.network import embedding as rows

_MODES = {"sum": rows.SUM, "mean": rows.MEAN, "max": rows.MAX}


def _renormed(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    """Scale down, in place, the rows that are looked up and too long."""
    grad_mode.without_graph(rows.embedding_renorm_, weight.detach(), indices, max_norm, norm_type)


def embedding(input: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None,
              norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:  # fmt: skip
    """The rows of a table that indices name."""
    if padding_idx is None:
        padding_idx = -1
    else:
        count = weight.size(0)
        if not -count <= padding_idx < count:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= count
    if max_norm is not None:
        input = input.contiguous()
        _renormed(weight, input, max_norm, norm_type)
    return rows.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def embedding_bag(input: Any, weight: Any, offsets: Any = None, max_norm: float | None = None, norm_type: float = 2,
                  scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                  per_sample_weights: Any = None, include_last_offset: bool = False,
                  padding_idx: int | None = None) -> Any:  # fmt: skip
    """Sums, means or maxima of the rows of a table that bags of indices name."""
    if weight.dtype == int64 and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({tuple(per_sample_weights.size())}) is not None, then it must have "
            f"the same shape as the input ({tuple(input.size())})"
        )
    if not weight.dim() == 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    input, offsets, per_sample_weights = _bags(input, offsets, per_sample_weights)
    _check_mode(mode, scale_grad_by_freq, sparse, per_sample_weights)
    if max_norm is not None:
        _renormed(weight, input, max_norm, norm_type)
    return rows.embedding_bag(
        weight, input, offsets, scale_grad_by_freq, _MODES[mode], sparse, per_sample_weights, include_last_offset,
        padding_idx,
    )[0]  # fmt: skip


def _bags(input: Any, offsets: Any, per_sample_weights: Any) -> tuple[Any, Any, Any]:
    """Indices in one row, and where each bag starts."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        offsets = arange(0, input.numel(), input.size(1), dtype=input.dtype)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    return input, offsets, per_sample_weights


def _check_mode(mode: str, scale_grad_by_freq: bool, sparse: bool, per_sample_weights: Any) -> None:
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
