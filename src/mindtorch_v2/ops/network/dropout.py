"""Rows of dropout: of elements, of whole channels, and the forms that keep mean and variance (alpha dropout).

The draws are torch's: one `bernoulli_` per call, on a noise tensor of the same shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.meta import MetaArray, meta
from ...core.tensor import make
from ...kernels import random, result_layout
from ...kernels.compiled import stand_in
from ...kernels.passes import number
from .. import flops
from ..creation.fill import empty_like, zeros
from ..creation.random_fills import bernoulli_
from ..meta import shapes
from .decorators import composite, op

# Minus the value SELU saturates at: what alpha dropout puts in place of an element.
ALPHA = 1.7580993408473766


def _check(p: float) -> None:
    if p < 0 or p > 1 or p != p:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")


def _feature_noise(input: Any) -> Any:
    """Uninitialised noise with one element per channel of each sample."""
    if input._a.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return input.new_empty((*input._a.shape[:2],) + (1,) * (input._a.ndim - 2))


def _scaled(input: Any, noise: Any, p: float, in_place: bool) -> Any:
    """What is kept grows by what the others lose."""
    noise = noise.div_(1 - p)
    return input.mul_(noise) if in_place else input * noise


def _alpha_scaled(input: Any, noise: Any, p: float, in_place: bool) -> Any:
    """What is dropped takes the value far below zero; mean and variance stay."""
    scale = 1 / ((ALPHA**2 * p + 1) * (1 - p)) ** 0.5
    shift = noise.add(-1).mul_(ALPHA * scale).add_(ALPHA * scale * p)
    noise = noise.mul_(scale)
    return input.mul_(noise).add_(shift) if in_place else (input * noise).add_(shift)


def _dropped(apply: Any, input: Any, p: float, train: bool, feature: bool, in_place: bool) -> Any:
    _check(p)
    if p == 0 or not train or input._a.size == 0:
        return input
    if p == 1:
        nothing = zeros((), dtype=input.dtype)
        return input.mul_(nothing) if in_place else input * nothing
    noise = bernoulli_(_feature_noise(input) if feature else empty_like(input), 1 - p)
    return apply(input, noise, p, in_place)


def _dropped_at_once(input: Any, p: float, train: bool) -> Any:
    """`_dropped` of elements, where nobody sees the steps in between."""
    a = input._a
    noise = random.bernoulli(a.shape, a.dtype, 1 - p)
    return input * make(_divide(noise, number(1 - p, a.dtype), out=noise))


_AT_ONCE = (
    "train is True and type(p) is float and 0.0 < p < 1.0 and input._a.dtype is F32 and input._a.flags.c_contiguous"
)
_divide = stand_in(np.divide)


def _row(name: str, apply: Any, feature: bool, in_place: bool, fast: Any = None) -> Any:
    mark, alias = ("_", "(a!)") if in_place else ("", "")
    subject = "self" if in_place else "input"
    return composite(f"{name}{mark}(Tensor{alias} {subject}, float p, bool train) -> Tensor{alias}", fast=fast)(
        lambda input, p, train: _dropped(apply, input, p, train, feature, in_place)
    ).function


dropout = _row("dropout", _scaled, False, False, (f"{_AT_ONCE} and input._a.size", _dropped_at_once))
dropout_ = _row("dropout", _scaled, False, True)
feature_dropout = _row("feature_dropout", _scaled, True, False)
feature_dropout_ = _row("feature_dropout", _scaled, True, True)
alpha_dropout = _row("alpha_dropout", _alpha_scaled, False, False)
alpha_dropout_ = _row("alpha_dropout", _alpha_scaled, False, True)
feature_alpha_dropout = _row("feature_alpha_dropout", _alpha_scaled, True, False)
feature_alpha_dropout_ = _row("feature_alpha_dropout", _alpha_scaled, True, True)


@op(
    "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
    all_flops=flops.each(2, 1),
    meta=shapes.by_kernel,
    layout=result_layout.as_first,
    out=False,
    input=lambda g, result1, p, train: g * result1 * _kept_scale(p, train),
)
def _native_dropout(a: Any, p: float, train: Any) -> Any:
    if type(a) is MetaArray:
        return a.copy(), meta(a.shape, bool)
    kept = random.dropout_mask(a.shape, 0.0 if train is False else p)
    if not result_layout.is_row_major(a):
        kept = result_layout.in_strides(kept, result_layout.strides_in(a, None))  # numbers follow memory
    return a * kept * a.dtype.type(_kept_scale(p, train)), kept


def _kept_scale(p: float, train: Any) -> float:
    return 1.0 if train is False else 0.0 if p == 1 else 1 / (1 - p)
