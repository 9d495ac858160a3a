"""torch.multiprocessing: Python's multiprocessing, in which tensors are sent by sharing their memory, and `spawn`."""

from __future__ import annotations

import multiprocessing
import multiprocessing.resource_sharer  # not half imported by a queue's thread while somebody forks
from multiprocessing import *  # noqa: F403
from typing import Any

from ..core import segments as _segments
from .reductions import init_reductions
from .spawning import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)


def get_all_sharing_strategies() -> set[str]:
    """The ways in which shared memory can travel between processes on this system."""
    return set(_segments.STRATEGIES)


def get_sharing_strategy() -> str:
    """How memory that is shared from now on travels."""
    return _segments.strategy()


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how memory that is shared from now on travels. `file_descriptor` keeps a file open for each tensor's storage
    and leaves no names; `file_system` keeps none open and names each storage in /dev/shm while it is in use."""
    _segments.set_strategy(new_strategy)


__all__ = [
    *multiprocessing.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


def __dir__() -> list[Any]:
    return sorted(__all__)
