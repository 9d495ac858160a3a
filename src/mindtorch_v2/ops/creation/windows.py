"""Rows of windows, weights that fade a piece of a signal in and out: `hann_window` and its like, and their shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...core import device as _device
from ...core import dtype as _dtype
from ...core.errors import check_size
from ...core.meta import meta
from ...core.tensor import Tensor
from ...dispatch.front import front
from ...dispatch.op import op
from .fill import _OPTIONS, _finish

# --- values at places k over a span -----------------------------------------------------------------------------------


def general_cosine(k: Any, span: float, a: Iterable[float]) -> Any:
    """A sum of cosines with weights `a`."""
    weights = list(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    signs = [(-1) ** i * w for i, w in enumerate(weights)]
    return sum(w * np.cos(2 * np.pi * i * k / span) for i, w in enumerate(signs))


def two_weights(k: Any, span: float, alpha: float = 0.54, beta: float = 0.46) -> Any:
    """A raised cosine with a weight for each of its parts."""
    return alpha - beta * np.cos(2 * np.pi * k / span)


def hann(k: Any, span: float) -> Any:
    """A raised cosine that begins and ends at zero."""
    return general_cosine(k, span, [0.5, 0.5])


def blackman(k: Any, span: float) -> Any:
    """Blackman's sum of three cosines."""
    return general_cosine(k, span, [0.42, 0.5, 0.08])


def bartlett(k: Any, span: float) -> Any:
    """A triangle."""
    return 1.0 - np.abs(2.0 * k / span - 1.0)


def kaiser(k: Any, span: float, beta: float = 12.0) -> Any:
    """Kaiser's, by the modified Bessel function of order zero."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    inside = 1.0 - ((2.0 * k - span) / span) ** 2
    return np.i0(beta * np.sqrt(np.clip(inside, 0.0, None))) / np.i0(beta)


def values(shape: Callable[..., Any], length: int, span: float, *args: Any, **options: Any) -> Any:
    """What a shape has at `length` places, the last of which may be left out of its span."""
    if length > 1:
        check_size((length,), 8)
        return shape(np.arange(length, dtype=np.float64), span, *args, **options)
    if length == 1 or options or args:
        shape(np.zeros(length), 1.0, *args, **options)  # refuses bad options
    return np.ones(length)


# --- rows -------------------------------------------------------------------------------------------------------------


def _rows(name: str, shape: Callable[..., Any], *options: tuple[str, str, Any]) -> None:
    """The rows of a window, one for each number of options (overload, declaration, default) given, and their front."""

    def kernel(window_length: int, *given: Any) -> Any:
        chosen, (dtype, _, device, _) = given[:-4], given[-4:]
        if window_length < 0:
            raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
        d = _dtype.get_default_dtype() if dtype is None else dtype
        if not d.is_floating_point:
            raise RuntimeError(f"{name} expects floating point dtypes, got: {d}")
        if _device.usable(device).type == "meta":
            return meta((window_length,), d.np)
        periodic = not chosen or chosen[0]
        span = float(window_length if periodic else window_length - 1)
        return np.asarray(values(shape, window_length, span, *chosen[1:])).astype(d.np)

    rows = [op(f"{name}(int window_length, {_OPTIONS}) -> Tensor", out=False)(kernel)]
    declared = "int window_length"
    for overload, declaration, _ in options:
        declared += f", {declaration}"
        rows.append(op(f"{name}.{overload}({declared}, {_OPTIONS}) -> Tensor", out=False)(kernel))
    names = [declaration.split()[1] for _, declaration, _ in options]

    def window(window_length: int, *args: Any, dtype: Any = None, layout: Any = None, device: Any = None,
               pin_memory: bool = False, requires_grad: bool = False, **named: Any) -> Tensor:  # fmt: skip
        if layout is not None or pin_memory is not False:
            _device.check_options(name, layout, pin_memory, device)
        given = dict(zip(names, args, strict=False)) | named
        unknown = [option for option in given if option not in names]
        if unknown or len(args) > len(names):
            raise TypeError(f"{name}() takes window_length, {', '.join(names)}; got {unknown or list(args)}")
        count = max((names.index(option) + 1 for option in given), default=0)
        chosen = [given.get(option, default) for option, (_, _, default) in zip(names[:count], options, strict=False)]
        return _finish(rows[count].function(window_length, *chosen, dtype=dtype, device=device), requires_grad)

    window.__name__ = window.__qualname__ = name
    front(name)(window)


_PERIODIC = ("periodic", "bool periodic", True)
_rows("hann_window", hann, _PERIODIC)
_rows("bartlett_window", bartlett, _PERIODIC)
_rows("blackman_window", blackman, _PERIODIC)
_rows(
    "hamming_window",
    two_weights,
    _PERIODIC,
    ("periodic_alpha", "float alpha", 0.54),
    ("periodic_alpha_beta", "float beta", 0.46),
)
_rows("kaiser_window", kaiser, _PERIODIC, ("beta", "float beta", 12.0))
