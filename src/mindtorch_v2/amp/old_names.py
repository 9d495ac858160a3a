"""torch.cuda.amp and torch.cpu.amp: older spellings that fix the device."""

from __future__ import annotations

import functools
from typing import Any

from ..core import dtype as _dtype
from .autocast_mode import autocast, custom_bwd, custom_fwd
from .grad_scaler import GradScaler as _GradScaler


class cuda_autocast(autocast):
    """autocast('cuda', …), which is not available and hence changes nothing."""

    def __init__(self, enabled: bool = True, dtype: Any = _dtype.float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class cpu_autocast(autocast):
    """autocast('cpu', …)."""

    def __init__(self, enabled: bool = True, dtype: Any = _dtype.bfloat16, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """GradScaler('cuda', …)."""

    __init__ = functools.partialmethod(_GradScaler.__init__, "cuda")


__all__ = ["GradScaler", "cpu_autocast", "cuda_autocast", "custom_bwd", "custom_fwd"]
