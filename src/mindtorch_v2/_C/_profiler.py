"""torch._C._profiler: the profiler's settings under the names that recipes use."""

from ..profiler.annotate import _RecordFunctionFast
from ..profiler.config import ActiveProfilerType, ProfilerActivity, ProfilerState, RecordScope, _ExperimentalConfig
from ..profiler.results import _EventType, _ProfilerEvent

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
