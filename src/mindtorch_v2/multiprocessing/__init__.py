"""torch.multiprocessing: Python's multiprocessing, and `spawn`. Tensors travel by pickle, hence as copies."""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing import *  # noqa: F403
from typing import Any

from .spawning import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

_strategies = {"file_descriptor", "file_system"} if sys.platform != "darwin" else {"file_system"}
_chosen = ["file_descriptor" if "file_descriptor" in _strategies else "file_system"]


def get_all_sharing_strategies() -> set[str]:
    return set(_strategies)


def get_sharing_strategy() -> str:
    return _chosen[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Remember a way to share memory; tensors are copied all the same."""
    if new_strategy not in _strategies:
        raise AssertionError(f"unknown sharing strategy {new_strategy!r}; known: {', '.join(sorted(_strategies))}")
    _chosen[0] = new_strategy


def init_reductions() -> None:
    """Tensors pickle themselves."""


__all__ = [
    *multiprocessing.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


def __dir__() -> list[Any]:
    return sorted(__all__)
