"""torch.backends.cudnn without cuDNN."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ._switch import switched

enabled = True
deterministic = False
benchmark = False
benchmark_limit: int | None = None
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    return False


def version() -> int | None:
    return None


def is_acceptable(tensor: Any) -> bool:
    return False


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> AbstractContextManager[None]:
    """Set the switches for a while."""
    values = {"enabled": enabled, "benchmark": benchmark, "deterministic": deterministic, "allow_tf32": allow_tf32}
    return switched(__name__, values | {"benchmark_limit": benchmark_limit, "fp32_precision": fp32_precision})
