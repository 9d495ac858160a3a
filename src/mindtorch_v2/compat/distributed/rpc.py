"""torch.distributed.rpc, which needs several processes."""

from __future__ import annotations

from typing import Any

from . import unavailable


def init_rpc(*args: Any, **kwargs: Any) -> None:
    unavailable("rpc.init_rpc")


def shutdown(*args: Any, **kwargs: Any) -> None:
    unavailable("rpc.shutdown")


def rpc_sync(*args: Any, **kwargs: Any) -> None:
    unavailable("rpc.rpc_sync")


def rpc_async(*args: Any, **kwargs: Any) -> None:
    unavailable("rpc.rpc_async")


def remote(*args: Any, **kwargs: Any) -> None:
    unavailable("rpc.remote")


class RRef:
    """A reference to a value in another process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        unavailable("rpc.RRef")
