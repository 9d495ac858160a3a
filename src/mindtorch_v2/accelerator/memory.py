"""torch.accelerator.memory."""

from . import empty_cache, memory_allocated, memory_stats  # type: ignore[attr-defined]

__all__ = ["empty_cache", "memory_allocated", "memory_stats"]
