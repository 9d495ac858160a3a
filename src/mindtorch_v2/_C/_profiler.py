"""torch._C._profiler: the profiler's settings under the names that recipes use."""

from ..profiler.annotate import _RecordFunctionFast
from ..profiler.config import ActiveProfilerType, ProfilerActivity, ProfilerState, RecordScope, _ExperimentalConfig

__all__ = [
    "ActiveProfilerType",
    "ProfilerActivity",
    "ProfilerState",
    "RecordScope",
    "_ExperimentalConfig",
    "_RecordFunctionFast",
]
