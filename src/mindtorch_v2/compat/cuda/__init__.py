"""torch.cuda of a torch built without CUDA: nothing is available, questions get the answers such a build gives, and
whatever needs a device raises what it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...binding import legacy as _legacy
from ...core.device import device as _Device
from ...core.errors import OutOfMemoryError
from . import amp, memory, nvtx
from .memory import *  # noqa: F403

_NOT_COMPILED = memory.NOT_COMPILED
CudaError = RuntimeError
has_half = has_magma = False
default_generators: tuple[Any, ...] = ()


class DeferredCudaCallError(Exception):
    """Something that was put off until CUDA starts failed then."""


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def is_tf32_supported() -> bool:
    return False


def is_current_stream_capturing() -> bool:
    return False


def device_count() -> int:
    return 0


def get_arch_list() -> list[str]:
    return []


def get_gencode_flags() -> str:
    return ""


def _needs_cuda(name: str) -> Callable[..., Any]:
    def unavailable(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(_NOT_COMPILED)

    unavailable.__name__ = unavailable.__qualname__ = name
    unavailable.__module__ = "torch.cuda"
    unavailable.__doc__ = "Needs a device, of which there is none."
    return unavailable


_DEVICE_FUNCTIONS = """init synchronize current_device get_device_name get_device_capability get_device_properties
    initial_seed get_rng_state set_rng_state ipc_collect current_stream default_stream set_stream
    can_device_access_peer set_per_process_memory_fraction get_per_process_memory_fraction current_blas_handle
    get_sync_debug_mode set_sync_debug_mode cudart check_error utilization temperature
    power_draw clock_rate memory_usage caching_allocator_alloc caching_allocator_delete graph_pool_handle
    make_graphed_callables""".split()
globals().update({_name: _needs_cuda(_name) for _name in _DEVICE_FUNCTIONS})


def set_device(device: Any) -> None:
    """Needs a device; a negative index means none and is let through."""
    if isinstance(device, int) and device < 0:
        return
    raise AssertionError(_NOT_COMPILED)


# --- random numbers: seeds are kept for a device that never starts ----------------------------------------------------


def manual_seed(seed: int) -> None:
    int(seed)


def manual_seed_all(seed: int) -> None:
    int(seed)


def seed() -> None:
    """Nothing to seed."""


seed_all = seed


def get_rng_state_all() -> list[Any]:
    return []


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    if list(new_states):
        raise AssertionError(_NOT_COMPILED)


# --- streams, events, graphs ------------------------------------------------------------------------------------------


class _Dummy:
    """A class that only CUDA builds can make instances of."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Tried to instantiate dummy base class {cls.__name__}")


class Stream(_Dummy):
    """A queue of device work."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("torch.cuda.Stream requires CUDA support")


class ExternalStream(Stream):
    """A stream made elsewhere."""


class Event(_Dummy):
    """A mark in a stream."""


class CUDAGraph(_Dummy):
    """A recording of device work."""


class graph(_Dummy):
    """Records device work."""


class MemPool(_Dummy):
    """A pool of device memory."""


class StreamContext:
    """`with torch.cuda.stream(s)`: with s None nothing changes."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            raise AssertionError(_NOT_COMPILED)

    def __exit__(self, *exc: object) -> None:
        pass


def stream(stream: Any) -> StreamContext:
    return StreamContext(stream)


class device:
    """`with torch.cuda.device(i)`: a negative index or None changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = _device_index(device)

    def __enter__(self) -> None:
        if self.idx >= 0:
            raise RuntimeError("PyTorch was compiled without CUDA support")

    def __exit__(self, *exc: object) -> None:
        pass


class device_of(device):
    """The device of a tensor, which is none of CUDA's."""

    def __init__(self, obj: Any) -> None:
        self.idx = obj.get_device() if getattr(obj, "is_cuda", False) else -1


def _device_index(found: Any) -> int:
    if found is None:
        return -1
    if isinstance(found, int):
        return found
    found = found if isinstance(found, _Device) else _Device(found)
    if found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {found}")
    return 0 if found.index is None else found.index


def _lazy_call(callable: Any, **kwargs: Any) -> None:
    """Put off until CUDA starts, hence forever."""


def _lazy_init() -> None:
    raise AssertionError(_NOT_COMPILED)


def _is_in_bad_fork() -> bool:
    return False


globals().update(_legacy.CUDA_TYPES)

__all__ = [
    "Event",
    "OutOfMemoryError",
    "Stream",
    "amp",
    "device",
    "device_count",
    "is_available",
    "memory",
    "nvtx",
    "stream",
]
