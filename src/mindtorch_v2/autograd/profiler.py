"""`autograd.profiler`: the profiler under its older names."""

from ..profiler.annotate import _RecordFunctionFast as _RecordFunctionFast
from ..profiler.annotate import record_function
from ..profiler.capture import MEMORY_EVENT_NAME as MEMORY_EVENT_NAME
from ..profiler.config import DeviceType as DeviceType
from ..profiler.config import ProfilerActivity as ProfilerActivity
from ..profiler.config import ProfilerState as ProfilerState
from ..profiler.config import kineto_available as kineto_available
from ..profiler.config import supported_activities as _supported_activities  # noqa: F401
from ..profiler.emit import EnforceUnique, emit_itt, emit_nvtx, load_nvprof, parse_nvprof_trace
from ..profiler.events import FunctionEvent, MemRecordsAcc
from ..profiler.lists import EventList
from ..profiler.run import _ProfilerStats as _ProfilerStats
from ..profiler.run import is_profiling, profile
from ..profiler.run import is_profiling as _profiler_enabled  # noqa: F401
from ..profiler.steps import KinetoStepTracker
from .profiler_util import OUT_OF_MEMORY_EVENT_NAME  # noqa: F401

__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]


def __getattr__(name: str) -> bool:
    if name == "_is_profiler_enabled":
        return is_profiling()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
