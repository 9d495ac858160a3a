"""`mindtorch_v2.profiler`: records what a program does and how long it takes, with torch.profiler's interface."""

from . import itt as itt
from .api.execution_trace import ExecutionTraceObserver
from .api.load import load
from .api.recover import recover
from .api.step_tracker import KinetoStepTracker as KinetoStepTracker
from .flight_recorder import flight
from .profiler import _KinetoProfile as _KinetoProfile
from .profiler import profile, schedule, tensorboard_trace_handler
from .read.jsonstream import TraceError
from .record.annotate import record_function
from .record.config import DeviceType, ProfilerAction, ProfilerActivity, kineto_available, supported_activities
from .record.config import RecordScope as RecordScope
from .record.config import _ExperimentalConfig as _ExperimentalConfig

# torch's names, and of the additions those that are no part of a class.
__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "TraceError",
    "flight",
    "kineto_available",
    "load",
    "profile",
    "record_function",
    "recover",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
