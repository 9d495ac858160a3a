"""Process-wide switches of torch that programs set and read back: threads, matmul precision, determinism.

NumPy computes deterministically in full precision, so all but the number of threads are remembered and change nothing.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from . import threads

_values: dict[str, Any] = {
    "threads": threads.DEFAULT,
    "interop_threads": os.cpu_count() or 1,
    "precision": "highest",
    "deterministic": False,
    "warn_only": False,
    "fill": True,
    "warn_always": False,
}
has_cuda = has_cudnn = has_mps = False
_DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}


def _positive(function: str, number: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{function}() expects an int, but got {type(number).__name__}")
    if number <= 0:
        raise RuntimeError(f"{function} expects a positive integer")
    return number


def set_num_threads(int: int) -> None:
    """Let large kernels and NumPy's BLAS use so many threads."""
    _values["threads"] = _positive("set_num_threads", int)
    threads.use_threads(int)


def get_num_threads() -> int:
    return int(_values["threads"])


def set_num_interop_threads(int: int) -> None:
    _values["interop_threads"] = _positive("set_num_interop_threads", int)


def get_num_interop_threads() -> int:
    return int(_values["interop_threads"])


def set_float32_matmul_precision(precision: str) -> None:
    """Remember how exact float32 products must be; they always are of the highest precision."""
    if precision in ("highest", "high", "medium"):
        _values["precision"] = precision
    else:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current setFloat32MatmulPrecision call has "
            "no effect.",
            stacklevel=2,
        )


def get_float32_matmul_precision() -> str:
    return str(_values["precision"])


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remember the wish; every op is deterministic."""
    _values.update(deterministic=bool(mode), warn_only=bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    return bool(_values["deterministic"])


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return bool(_values["warn_only"])


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    level = _DEBUG_MODES.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if level not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value for debug_mode, expected one of `default`, `warn`, `error`, 0, 1 or 2, but got {debug_mode}"
        )
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    if not _values["deterministic"]:
        return 0
    return 1 if _values["warn_only"] else 2


def set_warn_always(b: bool) -> None:
    _values["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    return bool(_values["warn_always"])


def set_flush_denormal(mode: bool) -> bool:
    """False: NumPy has no switch for denormal numbers, they are kept."""
    return False


__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "has_cuda",
    "has_cudnn",
    "has_mps",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
]
