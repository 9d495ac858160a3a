"""torch.signal.windows: weights that fade a piece of a signal in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.device import usable
from ..core.dtype import float32, float64, get_default_dtype
from ..core.tensor import Tensor, make
from ..ops.creation import windows as shapes
from ..ops.creation.convert import to


def _window(name: str, shape: Callable[..., Any]) -> Any:
    """The public function of a window whose values at n points (of which the last may be left out) `shape` gives."""

    def window(M: int, *args: Any, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
               requires_grad: bool = False, **options: Any) -> Tensor:  # fmt: skip
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        d = get_default_dtype() if dtype is None else dtype
        if d not in (float32, float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {d}")
        if sym and options.get("center") is not None:
            raise ValueError("Center must be None for symmetric windows")
        values = shapes.values(shape, M, float(M - 1 if sym else M), *args, **options)
        t = make(np.asarray(values).astype(d.np))
        t = to(t, device=device) if usable(device).type == "meta" else t
        return t.requires_grad_(requires_grad) if requires_grad else t

    window.__name__ = window.__qualname__ = name
    window.__doc__ = shape.__doc__
    return window


def _general_hamming(k: Any, span: float, alpha: float = 0.54) -> Any:
    """A raised cosine."""
    return shapes.general_cosine(k, span, [alpha, 1.0 - alpha])


def _exponential(k: Any, span: float, center: float | None = None, tau: float = 1.0) -> Any:
    """Falls off exponentially from its centre."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    middle = span / 2.0 if center is None else center
    return np.exp(-np.abs(k - middle) / tau)


def _gaussian(k: Any, span: float, std: float = 1.0) -> Any:
    """A bell."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return np.exp(-0.5 * ((k - span / 2.0) / std) ** 2)


def _cosine(k: Any, span: float) -> Any:
    """Half a wave."""
    return np.sin(np.pi * (k + 0.5) / (span + 1.0))


general_cosine = _window("general_cosine", shapes.general_cosine)
general_hamming = _window("general_hamming", _general_hamming)
exponential = _window("exponential", _exponential)
gaussian = _window("gaussian", _gaussian)
kaiser = _window("kaiser", shapes.kaiser)
cosine = _window("cosine", _cosine)
bartlett = _window("bartlett", shapes.bartlett)
hamming = _window("hamming", lambda k, span: _general_hamming(k, span))
hann = _window("hann", shapes.hann)
blackman = _window("blackman", shapes.blackman)
nuttall = _window(
    "nuttall", lambda k, span: shapes.general_cosine(k, span, [0.3635819, 0.4891775, 0.1365995, 0.0106411])
)


__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip
