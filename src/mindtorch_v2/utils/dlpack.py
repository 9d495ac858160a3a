"""torch.utils.dlpack."""

from __future__ import annotations

from typing import Any

from ..binding.methods import from_dlpack
from ..core.tensor import Tensor


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule of a tensor's memory."""
    return tensor.__dlpack__()


__all__ = ["from_dlpack", "to_dlpack"]
