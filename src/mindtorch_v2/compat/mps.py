"""torch.mps of a torch built without MPS."""

from __future__ import annotations

from typing import Any, NoReturn


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def manual_seed(seed: int) -> None:
    int(seed)


def seed() -> None:
    """Nothing to seed."""


def _without_mps(name: str) -> NoReturn:
    raise RuntimeError(f"Cannot execute {name}() without MPS backend.")


def empty_cache() -> None:
    _without_mps("emptyCache")


def synchronize() -> None:
    _without_mps("deviceSynchronize")


def current_allocated_memory() -> int:
    _without_mps("getCurrentAllocatedMemory")


def driver_allocated_memory() -> int:
    _without_mps("getDriverAllocatedMemory")


def recommended_max_memory() -> int:
    _without_mps("getRecommendedMaxMemory")


def set_per_process_memory_fraction(fraction: Any) -> None:
    _without_mps("setMemoryFraction")
