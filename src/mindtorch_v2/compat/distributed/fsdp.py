"""torch.distributed.fsdp, which needs several processes."""

from __future__ import annotations

import enum
from typing import Any

from . import unavailable


class FullyShardedDataParallel:
    """A module spread over processes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        unavailable("fsdp.FullyShardedDataParallel")


class ShardingStrategy(enum.Enum):
    """How parameters are spread."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4


def fully_shard(*args: Any, **kwargs: Any) -> None:
    unavailable("fsdp.fully_shard")
