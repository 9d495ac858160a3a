"""`autograd.profiler_util`: what events are made of."""

from ..profiler.averages import FunctionEventAvg
from ..profiler.capture import MEMORY_EVENT_NAME
from ..profiler.details import EventMetadata
from ..profiler.events import (
    FormattedTimesMixin,
    FunctionEvent,
    Interval,
    Kernel,
    MemRecordsAcc,
    StringTable,
)
from ..profiler.lists import EventList
from ..profiler.units import format_memory as _format_memory
from ..profiler.units import format_time as _format_time
from ..profiler.units import format_time_share as _format_time_share

OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"

__all__ = [
    "MEMORY_EVENT_NAME",
    "OUT_OF_MEMORY_EVENT_NAME",
    "EventList",
    "EventMetadata",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
    "_format_memory",
    "_format_time",
    "_format_time_share",
]
