"""torch.utils.hooks."""

from __future__ import annotations

from typing import Any

from ..autograd.node import RemovableHandle


def unserializable_hook(f: Any) -> Any:
    """Mark a hook that is not meant to be saved with what it hangs on."""
    f.__torch_unserializable__ = True
    return f


__all__ = ["RemovableHandle", "unserializable_hook"]
