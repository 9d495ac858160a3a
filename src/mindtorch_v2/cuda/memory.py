"""torch.cuda.memory: the memory questions of torch.cuda."""

from . import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,  # type: ignore[attr-defined]
    memory_allocated,
    memory_reserved,
    memory_snapshot,  # type: ignore[attr-defined]
    memory_stats,
    memory_summary,  # type: ignore[attr-defined]
    reset_peak_memory_stats,
)

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
]
