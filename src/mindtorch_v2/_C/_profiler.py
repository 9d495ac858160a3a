"""torch._C._profiler: the profiler's settings under the names that recipes use."""

from ..profiler.api.results import _EventType, _ProfilerEvent
from ..profiler.record.annotate import _RecordFunctionFast
from ..profiler.record.config import (
    ActiveProfilerType,
    ProfilerActivity,
    ProfilerState,
    RecordScope,
    _ExperimentalConfig,
)

__all__ = [
    "ActiveProfilerType",
    "ProfilerActivity",
    "ProfilerState",
    "RecordScope",
    "_EventType",
    "_ExperimentalConfig",
    "_ProfilerEvent",
    "_RecordFunctionFast",
]
