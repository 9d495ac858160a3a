"""`autograd.profiler_util`: what events are made of."""

from ..core.tap import OUT_OF_MEMORY
from ..profiler.analyse.averages import FunctionEventAvg
from ..profiler.analyse.details import EventMetadata
from ..profiler.analyse.events import (
    FormattedTimesMixin,
    FunctionEvent,
    Interval,
    Kernel,
    MemRecordsAcc,
    StringTable,
)
from ..profiler.analyse.units import format_memory as _format_memory  # noqa: F401
from ..profiler.analyse.units import format_time as _format_time  # noqa: F401
from ..profiler.analyse.units import format_time_share as _format_time_share  # noqa: F401
from ..profiler.api.lists import EventList
from ..profiler.capture.capture import MEMORY_EVENT_NAME as MEMORY_EVENT_NAME
from ..profiler.capture.capture import filter_name as _filter_name  # noqa: F401
from ..profiler.capture.capture import filter_stack_entry as _filter_stack_entry  # noqa: F401
from ..profiler.capture.capture import rewrite_name as _rewrite_name  # noqa: F401
from ..profiler.record.config import DeviceType as DeviceType
from ..profiler.report.table import build_table as _build_table  # noqa: F401

OUT_OF_MEMORY_EVENT_NAME = OUT_OF_MEMORY

__all__ = [
    "EventList",
    "EventMetadata",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
]
