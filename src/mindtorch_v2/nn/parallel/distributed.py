"""DistributedDataParallel, which needs a process group; none can be made here."""

from __future__ import annotations

from typing import Any

from ..modules.module import Module


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over processes. Programs that run alone use the module itself."""

    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


__all__ = ["DistributedDataParallel"]
