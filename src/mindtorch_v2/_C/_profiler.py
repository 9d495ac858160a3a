"""torch._C._profiler: the profiler's settings under the names that recipes use."""

from ..profiler.config import ProfilerActivity, ProfilerState, _ExperimentalConfig

__all__ = ["ProfilerActivity", "ProfilerState", "_ExperimentalConfig"]
