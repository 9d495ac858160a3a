"""`autograd.profiler`: the profiler under its older names."""

from ..profiler.analyse.events import FunctionEvent, MemRecordsAcc
from ..profiler.api.emit import EnforceUnique, emit_itt, emit_nvtx, load_nvprof, parse_nvprof_trace
from ..profiler.api.lists import EventList
from ..profiler.api.run import _ProfilerStats as _ProfilerStats
from ..profiler.api.run import is_profiling, profile
from ..profiler.api.run import is_profiling as _profiler_enabled  # noqa: F401
from ..profiler.api.step_tracker import KinetoStepTracker
from ..profiler.capture.capture import MEMORY_EVENT_NAME as MEMORY_EVENT_NAME
from ..profiler.record.annotate import _RecordFunctionFast as _RecordFunctionFast
from ..profiler.record.annotate import record_function
from ..profiler.record.config import DeviceType as DeviceType
from ..profiler.record.config import ProfilerActivity as ProfilerActivity
from ..profiler.record.config import ProfilerState as ProfilerState
from ..profiler.record.config import kineto_available as kineto_available
from ..profiler.record.config import supported_activities as _supported_activities  # noqa: F401
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
