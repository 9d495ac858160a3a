"""torch.cuda.memory: the memory of a device that is not there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

NOT_COMPILED = "Torch not compiled with CUDA enabled"


def empty_cache() -> None:
    """Nothing is cached."""


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    return OrderedDict()


def _no_bytes(name: str) -> Callable[..., int]:
    def counted(device: Any = None) -> int:
        return 0

    counted.__name__ = counted.__qualname__ = name
    return counted


memory_allocated = _no_bytes("memory_allocated")
max_memory_allocated = _no_bytes("max_memory_allocated")
memory_reserved = _no_bytes("memory_reserved")
max_memory_reserved = _no_bytes("max_memory_reserved")
memory_cached = _no_bytes("memory_cached")
max_memory_cached = _no_bytes("max_memory_cached")


def reset_peak_memory_stats(device: Any = None) -> None:
    """No peak to reset."""


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats


def list_gpu_processes(device: Any = None) -> str:
    return "no processes are running"


def mem_get_info(device: Any = None) -> tuple[int, int]:
    raise AssertionError(NOT_COMPILED)


def memory_snapshot(mempool_id: Any = None) -> list[Any]:
    return []


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    return "no CUDA memory is in use: " + NOT_COMPILED


__all__ = [
    "empty_cache",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
]
