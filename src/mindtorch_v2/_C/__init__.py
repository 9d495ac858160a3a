"""torch._C, of which programs use a few names though they are private: the profiler's settings, types, and switches of
a compiler that is not there.
"""

from __future__ import annotations

import contextlib
import enum

from ..amp.autocast_mode import autocast
from ..autograd.overrides import DisableTorchFunction, DisableTorchFunctionSubclass
from ..core.device import device
from ..core.dtype import dtype
from ..core.errors import LinAlgError as _LinAlgError
from ..core.size import Size
from ..core.tensor import Tensor
from ..ops.creation.seeds import Generator
from . import _profiler

TensorBase = _TensorBase = Tensor
_TensorMeta = type(Tensor)

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "Generator",
    "Size",
    "TensorBase",
    "_LinAlgError",
    "_TensorBase",
    "_TensorMeta",
    "_profiler",
    "device",
    "dtype",
]


def _log_api_usage_once(event: str) -> None:
    """Nothing is reported to anybody."""


def _get_tracing_state() -> None:
    """Nothing is being traced."""


def _switch(value: bool = False) -> bool:
    """A compiler's switch: it was off, and stays so."""
    return False


_jit_set_profiling_executor = _jit_set_profiling_mode = _jit_override_can_fuse_on_cpu = _switch
_jit_override_can_fuse_on_gpu = _jit_set_texpr_fuser_enabled = _jit_set_nvfuser_enabled = _switch


class DispatchKey(enum.Enum):
    """Stages of torch's dispatcher that libraries name."""

    AutocastCPU = "AutocastCPU"
    AutocastCUDA = "AutocastCUDA"
    AutocastXPU = "AutocastXPU"
    AutogradCPU = "AutogradCPU"
    CPU = "CPU"
    Meta = "Meta"


class DispatchKeySet(frozenset[DispatchKey]):
    """A set of stages, made from one; `|` joins sets."""

    def __new__(cls, key: DispatchKey) -> DispatchKeySet:
        return super().__new__(cls, (key,))


def _ExcludeDispatchKeyGuard(keys: frozenset[DispatchKey]) -> contextlib.AbstractContextManager[object]:
    """A block without some stages; only autocasting is one here."""
    return autocast("cpu", enabled=False) if DispatchKey.AutocastCPU in keys else contextlib.nullcontext()


def _cuda_getDeviceCount() -> int:
    return 0
