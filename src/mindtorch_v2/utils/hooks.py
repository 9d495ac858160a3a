"""torch.utils.hooks."""

from ..autograd.node import RemovableHandle

__all__ = ["RemovableHandle"]
