"""`mindtorch_v2.profiler`: records what a program does and how long it takes, with torch.profiler's interface."""

from . import itt as itt
from .annotate import record_function
from .config import DeviceType, ProfilerAction, ProfilerActivity, kineto_available, supported_activities
from .config import RecordScope as RecordScope
from .config import _ExperimentalConfig as _ExperimentalConfig
from .execution_trace import ExecutionTraceObserver
from .jsonstream import TraceError
from .load import load
from .profiler import _KinetoProfile as _KinetoProfile
from .profiler import profile, schedule, tensorboard_trace_handler
from .recover import recover
from .steps import KinetoStepTracker as KinetoStepTracker

# torch's names, and of the additions those that are no part of a class.
__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "TraceError",
    "kineto_available",
    "load",
    "profile",
    "record_function",
    "recover",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
