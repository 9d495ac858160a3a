"""torch.multiprocessing.pool: Python's pool, which sends tensors by sharing their memory."""

from __future__ import annotations

from multiprocessing.pool import Pool

__all__ = ["Pool"]
