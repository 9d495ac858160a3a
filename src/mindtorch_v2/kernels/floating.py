"""NumPy's settings: floating point flags, of which torch says nothing where NumPy warns of 1/0, and buffers.

Rows whose results are often inf or nan compute with the flags ignored; what is left (an overflow in a sum, say) is
silenced by a filter on warnings that this package's own modules raise. The user's NumPy keeps warning as it did.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import tap
from .compiled import C

_enter: Callable[[Any], Any]
_leave: Callable[[Any], None]
_QUIET: Any
_UNBUFFERED: Any

# Runs of so many elements and more are worth starting anew.
LONG_RUN = 256

try:  # NumPy's own way of doing it takes 2 µs a time; its context variable a tenth of that.
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    _enter, _leave, _QUIET = _extobj_contextvar.set, _extobj_contextvar.reset, _make_extobj(all="ignore")
    _UNBUFFERED = _make_extobj(all="ignore", bufsize=LONG_RUN)
    if C is not None:
        C.ignore_flags(_extobj_contextvar, _QUIET)
except ImportError:

    def _enter(settings: Any) -> Any:
        return np.seterr(**settings)

    def _leave(before: Any) -> None:
        np.seterr(**before)

    _QUIET = _UNBUFFERED = {"all": "ignore"}

tap.NAMESPACE.update(FP_ENTER=_enter, FP_LEAVE=_leave, FP_QUIET=_QUIET)


class quiet:
    """`with quiet():` ignores floating point flags inside."""

    __slots__ = ("_before",)
    settings = _QUIET

    def __enter__(self) -> None:
        self._before = _enter(self.settings)

    def __exit__(self, *exc: object) -> None:
        _leave(self._before)


class _unbuffered(quiet):
    __slots__ = ()
    settings = _UNBUFFERED


def spreading(run: int) -> quiet:
    """`with spreading(n):` ignores the flags too, while a row or a column is spread over a matrix with rows of ``n``.

    NumPy copies what it spreads over runs shorter than its buffer of 8192 elements into that buffer first, which takes
    longer than the pass itself, unless the runs are short.
    """
    return _unbuffered() if run >= LONG_RUN else quiet()


def silence_own_warnings(package: str) -> None:
    """Keep NumPy's floating point warnings that come from inside this package, whose modules have the name `package`, to
    itself."""
    warnings.filterwarnings(
        "ignore",
        r"(divide by zero|overflow|underflow|invalid value) encountered",
        RuntimeWarning,
        module=rf"{package}(\.|$)",
    )
