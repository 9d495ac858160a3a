"""`autograd.profiler`: the profiler under its older names."""

from ..profiler.annotate import _RecordFunctionFast, record_function
from ..profiler.config import kineto_available
from ..profiler.config import supported_activities as _supported_activities
from ..profiler.emit import EnforceUnique, emit_itt, emit_nvtx, load_nvprof, parse_nvprof_trace
from ..profiler.events import FunctionEvent, MemRecordsAcc
from ..profiler.lists import EventList
from ..profiler.run import _ProfilerStats, is_profiling, profile
from ..profiler.run import is_profiling as _profiler_enabled
from ..profiler.steps import KinetoStepTracker

__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "_ProfilerStats",
    "_RecordFunctionFast",
    "_profiler_enabled",
    "_supported_activities",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]


def __getattr__(name: str) -> bool:
    if name == "_is_profiler_enabled":
        return is_profiling()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
