"""torch.multiprocessing.queue: Python's queues, which send tensors by sharing their memory."""

from __future__ import annotations

from multiprocessing.queues import Queue, SimpleQueue

__all__ = ["Queue", "SimpleQueue"]
