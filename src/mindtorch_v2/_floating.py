"""Floating point flags: torch says nothing of 1/0 or inf - inf, where NumPy warns.

Rows whose results are often inf or nan compute with the flags ignored; what is left (an overflow in a sum, say) is
silenced by a filter on warnings that this package's own modules raise. The user's NumPy keeps warning as it did.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _tap

_enter: Callable[[Any], Any]
_leave: Callable[[Any], None]
_QUIET: Any

try:  # NumPy's own way of doing it takes 2 µs a time; its context variable a tenth of that.
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    _enter, _leave, _QUIET = _extobj_contextvar.set, _extobj_contextvar.reset, _make_extobj(all="ignore")
except ImportError:

    def _enter(settings: Any) -> Any:
        return np.seterr(**settings)

    def _leave(before: Any) -> None:
        np.seterr(**before)

    _QUIET = {"all": "ignore"}

_tap.NAMESPACE.update(FP_ENTER=_enter, FP_LEAVE=_leave, FP_QUIET=_QUIET)


class quiet:
    """`with quiet():` ignores floating point flags inside."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _enter(_QUIET)

    def __exit__(self, *exc: object) -> None:
        _leave(self._before)


def silence_own_warnings() -> None:
    """Keep NumPy's floating point warnings that come from inside this package to itself."""
    warnings.filterwarnings(
        "ignore",
        r"(divide by zero|overflow|underflow|invalid value) encountered",
        RuntimeWarning,
        module=r"mindtorch_v2(\.|$)",
    )
