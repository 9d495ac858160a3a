"""torch.nn.attention: which way to compute attention, in one piece or op by op."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from ...ops.network.attention import WAYS

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(IntEnum):
    """Ways to compute attention that torch knows."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "mem_efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[dict[str, Any]]:
    """Inside, attention may only be computed in the given ways. Priorities change nothing: one way suits the CPU best."""
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    given = [backends] if isinstance(backends, SDPBackend) else backends
    before = dict(WAYS)
    WAYS.update({way: backend in given for way, backend in _BACKENDS.items()})
    try:
        yield {}
    finally:
        WAYS.update(before)


__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]
