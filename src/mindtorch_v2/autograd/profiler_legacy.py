"""`autograd.profiler_legacy`: the oldest profiler interface."""

from ..profiler.legacy import profile

__all__ = ["profile"]
