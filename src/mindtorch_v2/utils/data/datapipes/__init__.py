"""torch.utils.data.datapipes: datasets made of steps that samples run through."""

from . import iter, map

__all__ = ["iter", "map"]
