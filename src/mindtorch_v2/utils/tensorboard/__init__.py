"""torch.utils.tensorboard: SummaryWriter of the tensorboardX package, if it is installed."""

from __future__ import annotations

from typing import Any

try:
    from tensorboardX import SummaryWriter as _Writer
except ImportError:
    _Writer = None


class _Missing:
    """What stands for the writer where no package can write event files."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise ImportError(
            "torch.utils.tensorboard.SummaryWriter needs the tensorboardX package, which is not installed; "
            "install it with: pip install tensorboardX"
        )


SummaryWriter: Any = _Missing if _Writer is None else _Writer

__all__ = ["SummaryWriter"]
