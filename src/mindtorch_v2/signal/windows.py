"""torch.signal.windows: weights that fade a piece of a signal in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .._device import usable
from .._dtype import float32, float64, get_default_dtype
from .._tensor import Tensor, make
from ..ops.convert import to


def _window(name: str, shape: Callable[..., Any], halves: bool = False) -> Any:
    """The public function of a window whose values at n points (of which the last may be left out) `shape` gives;
    `halves` tells whether 16-bit floats are taken."""

    def window(M: int, *args: Any, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
               requires_grad: bool = False, **options: Any) -> Tensor:  # fmt: skip
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        d = get_default_dtype() if dtype is None else dtype
        if d not in (float32, float64) and not (halves and d.is_floating_point):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {d}")
        if sym and options.get("center") is not None:
            raise ValueError("Center must be None for symmetric windows")
        if M <= 1:
            values = np.ones(M)
            if M == 1 or options or args:
                shape(np.zeros(M), 1.0, *args, **options)
        else:
            values = shape(np.arange(M, dtype=np.float64), float(M - 1 if sym else M), *args, **options)
        t = make(np.asarray(values).astype(d.np))
        t = to(t, device=device) if usable(device).type == "meta" else t
        return t.requires_grad_() if requires_grad else t

    window.__name__ = window.__qualname__ = name
    window.__doc__ = shape.__doc__
    return window


def _general_cosine(k: Any, span: float, a: Iterable[float]) -> Any:
    """A sum of cosines with weights `a`."""
    weights = list(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    signs = [(-1) ** i * w for i, w in enumerate(weights)]
    return sum(w * np.cos(2 * np.pi * i * k / span) for i, w in enumerate(signs))


def _general_hamming(k: Any, span: float, alpha: float = 0.54) -> Any:
    """A raised cosine."""
    return _general_cosine(k, span, [alpha, 1.0 - alpha])


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


def _kaiser(k: Any, span: float, beta: float = 12.0) -> Any:
    """Kaiser's, by the modified Bessel function of order zero."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    inside = 1.0 - ((2.0 * k - span) / span) ** 2
    return np.i0(beta * np.sqrt(np.clip(inside, 0.0, None))) / np.i0(beta)


def _cosine(k: Any, span: float) -> Any:
    """Half a wave."""
    return np.sin(np.pi * (k + 0.5) / (span + 1.0))


def _bartlett(k: Any, span: float) -> Any:
    """A triangle."""
    return 1.0 - np.abs(2.0 * k / span - 1.0)


general_cosine = _window("general_cosine", _general_cosine)
general_hamming = _window("general_hamming", _general_hamming)
exponential = _window("exponential", _exponential)
gaussian = _window("gaussian", _gaussian)
kaiser = _window("kaiser", _kaiser)
cosine = _window("cosine", _cosine)
bartlett = _window("bartlett", _bartlett)
hamming = _window("hamming", lambda k, span: _general_hamming(k, span))
hann = _window("hann", lambda k, span: _general_hamming(k, span, 0.5))
blackman = _window("blackman", lambda k, span: _general_cosine(k, span, [0.42, 0.5, 0.08]))
nuttall = _window("nuttall", lambda k, span: _general_cosine(k, span, [0.3635819, 0.4891775, 0.1365995, 0.0106411]))


def _old(name: str, shape: Callable[..., Any]) -> Any:
    """`torch.hann_window` and its like: periodic unless told otherwise."""
    made = _window(name, shape, halves=True)

    def window(window_length: int, periodic: bool = True, *args: Any, dtype: Any = None, layout: Any = None,
               device: Any = None, pin_memory: bool = False, requires_grad: bool = False, **options: Any) -> Tensor:  # fmt: skip
        if window_length < 0:
            raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
        return made(window_length, *args, sym=not periodic, dtype=dtype, device=device, requires_grad=requires_grad,
                    **options)  # fmt: skip

    window.__name__ = window.__qualname__ = name
    return window


def _two_weights(k: Any, span: float, alpha: float = 0.54, beta: float = 0.46) -> Any:
    return alpha - beta * np.cos(2 * np.pi * k / span)


hann_window = _old("hann_window", lambda k, span: _general_hamming(k, span, 0.5))
hamming_window = _old("hamming_window", _two_weights)
blackman_window = _old("blackman_window", lambda k, span: _general_cosine(k, span, [0.42, 0.5, 0.08]))
bartlett_window = _old("bartlett_window", _bartlett)
kaiser_window = _old("kaiser_window", _kaiser)

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip
