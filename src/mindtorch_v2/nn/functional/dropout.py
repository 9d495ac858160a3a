"""Dropout with torch's signatures and checks."""

from __future__ import annotations

import warnings
from typing import Any

from ...ops.network import dropout as rows


def _check(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero elements with probability p and scale the others by 1 / (1 - p)."""
    _check(p)
    return (rows.dropout_ if inplace else rows.dropout)(input, p, training)


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Dropout that keeps mean and variance of SELU's outputs."""
    _check(p)
    return (rows.alpha_dropout_ if inplace else rows.alpha_dropout)(input, p, training)


def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Alpha dropout of whole channels."""
    _check(p)
    return (rows.feature_alpha_dropout_ if inplace else rows.feature_alpha_dropout)(input, p, training)


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Dropout of whole channels of (N, C, L) or (C, L)."""
    _check(p)
    ndim = input.dim()
    if ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch "
            "dimension (i.e. 2D or 3D inputs)."
        )
    batched = ndim == 3
    if not batched:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = (rows.feature_dropout_ if inplace else rows.feature_dropout)(input, p, training)
    return result if batched else result.squeeze_(0) if inplace else result.squeeze(0)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Dropout of whole channels of (N, C, H, W)."""
    _check(p)
    ndim = input.dim()
    if ndim not in (3, 4):
        _warn_dims("dropout2d", ndim, 2)
    if ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a "
            "future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain "
            "the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
    return (rows.feature_dropout_ if inplace else rows.feature_dropout)(input, p, training)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    _check(p)
    ndim = input.dim()
    if ndim not in (4, 5):
        _warn_dims("dropout3d", ndim, 3)
    batched = ndim == 5
    if not batched:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = (rows.feature_dropout_ if inplace else rows.feature_dropout)(input, p, training)
    return result if batched else result.squeeze_(0) if inplace else result.squeeze(0)


def _warn_dims(name: str, ndim: int, space: int) -> None:
    warnings.warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an error in a future "
        f"release. To retain the behavior and silence this warning, please use dropout instead. Note that {name} "
        f"exists to provide channel-wise dropout on inputs with {space} spatial dimensions, a channel dimension, and "
        f"an optional batch dimension (i.e. {space + 1}D or {space + 2}D inputs).",
        stacklevel=3,
    )
