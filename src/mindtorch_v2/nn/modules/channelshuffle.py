"""Channels mixed across groups."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from .module import Module
from .utils import shown


class ChannelShuffle(Module):
    """Takes channels from each group in turn."""

    __constants__ = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Any:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return shown(self, "groups")


__all__ = ["ChannelShuffle"]
