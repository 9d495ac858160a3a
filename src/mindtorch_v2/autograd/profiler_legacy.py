"""`autograd.profiler_legacy`: the oldest profiler interface."""

from ..profiler.analyse.events import FunctionEvent as FunctionEvent
from ..profiler.api.legacy import profile
from ..profiler.api.lists import EventList as EventList
from ..profiler.record.config import DeviceType as DeviceType
from ..profiler.record.config import ProfilerState as ProfilerState

__all__ = ["profile"]
