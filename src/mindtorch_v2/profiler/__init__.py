"""`mindtorch_v2.profiler`: records what a program does and how long it takes, with torch.profiler's interface."""

from . import itt
from .annotate import record_function
from .config import (
    DeviceType,
    ProfilerAction,
    ProfilerActivity,
    RecordScope,
    _ExperimentalConfig,
    kineto_available,
    supported_activities,
)
from .execution_trace import ExecutionTraceObserver
from .jsonstream import TraceError
from .load import load
from .profiler import _KinetoProfile, profile, schedule, tensorboard_trace_handler
from .recover import recover
from .steps import KinetoStepTracker

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "KinetoStepTracker",
    "ProfilerAction",
    "ProfilerActivity",
    "RecordScope",
    "TraceError",
    "_ExperimentalConfig",
    "_KinetoProfile",
    "itt",
    "kineto_available",
    "load",
    "profile",
    "record_function",
    "recover",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
