"""Owns how many threads kernels may use: those of the compiled loops, which come into being with the first large array,
and those of NumPy's BLAS. What is computed does not depend on the number."""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

from ..core.machine import THREADS, default_threads
from .compiled import C

# What libraries call the function; the first one found is that of the BLAS NumPy was built with.
_BLAS_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
    "MKL_Set_Num_Threads",
)


def use_threads(number: int) -> None:
    """Compute with so many threads from now on, matrix products too."""
    THREADS[0] = number
    if C is not None:
        C.set_threads(number)
    setter = _blas_setter()
    if setter is not None:
        setter(number)


def _blas_setter() -> Any:
    """The function that sets the threads of NumPy's BLAS; None where it has none, or none that can be found."""
    try:
        library = ctypes.CDLL(importlib.import_module("numpy._core._multiarray_umath").__file__)
    except (ImportError, OSError):
        return None
    return next((getattr(library, name) for name in _BLAS_SETTERS if hasattr(library, name)), None)


DEFAULT = default_threads()
if C is not None:
    C.set_threads(DEFAULT)
