"""`autograd.profiler_legacy`: the oldest profiler interface."""

from ..profiler.config import DeviceType as DeviceType
from ..profiler.config import ProfilerState as ProfilerState
from ..profiler.events import FunctionEvent as FunctionEvent
from ..profiler.legacy import profile
from ..profiler.lists import EventList as EventList

__all__ = ["profile"]
