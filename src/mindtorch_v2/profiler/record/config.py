"""What a caller may ask the profiler for: enumerations with torch's names and numbers, and the recording options.

It knows nothing of how anything is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from ...core import tap


class _Number(Enum):
    """Members convert to their number with `int()`, but are not equal to it (as pybind enums)."""

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return int(self.value)


class ProfilerAction(Enum):
    """What a profiler does in one step. DEVICE_STOPPED is internal; a schedule must not return it."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4

    # Members are singletons; unlike Enum's own, this hash is no Python function that a trace would show.
    __hash__ = object.__hash__


class ProfilerActivity(_Number):
    """Groups of events to collect."""

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


class DeviceType(_Number):
    """Kinds of devices events run on."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


class RecordScope(_Number):
    """Where in the program a recorded function belongs."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9


class ProfilerState(_Number):
    """Kinds of profilers."""

    Disabled = 0
    CPU = 1
    CUDA = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5
    KINETO = 6
    KINETO_GPU_FALLBACK = 7
    KINETO_PRIVATEUSE1_FALLBACK = 8
    KINETO_PRIVATEUSE1 = 9


class ActiveProfilerType(_Number):
    """What is profiling now."""

    NONE = 0
    LEGACY = 1
    KINETO = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5


class _ExperimentalConfig:
    """Options outside torch's stable interface. Those about CUDA are accepted and have no effect here."""

    def __init__(
        self,
        profiler_metrics: Iterable[str] = (),
        profiler_measure_per_kernel: bool = False,
        verbose: bool = False,
        performance_events: Iterable[str] = (),
        enable_cuda_sync_events: bool = False,
        adjust_profiler_step: bool = False,
        disable_external_correlation: bool = False,
        profile_all_threads: bool = False,
        capture_overload_names: bool = False,
        record_python_gc_info: bool = False,
        expose_kineto_event_metadata: bool = False,
        custom_profiler_config: str = "",
        adjust_timestamps: bool = False,
        trace_only: bool = False,
    ) -> None:
        given = dict(locals())
        del given["self"]
        for name, value in given.items():
            setattr(self, name, _checked_setting(name, value))

    profiler_metrics: list[str]
    profiler_measure_per_kernel: bool
    verbose: bool
    performance_events: list[str]
    enable_cuda_sync_events: bool
    adjust_profiler_step: bool
    disable_external_correlation: bool
    profile_all_threads: bool
    capture_overload_names: bool
    record_python_gc_info: bool
    expose_kineto_event_metadata: bool
    custom_profiler_config: str
    adjust_timestamps: bool
    trace_only: bool


def _checked_setting(name: str, value: Any) -> Any:
    """A setting as it is kept: lists of names, one text, and switches."""
    if name in ("profiler_metrics", "performance_events"):
        if isinstance(value, str):
            raise TypeError(f"{name} expects a list of names, got the text {value!r}")
        return [text("_ExperimentalConfig", f"item of {name}", item) for item in value]
    if name == "custom_profiler_config":
        return text("_ExperimentalConfig", name, value)
    return on_or_off(name, value)


@dataclass(frozen=True)
class RecordOptions:
    """What one recording keeps beside names and times."""

    shapes: bool = False
    stacks: bool = False
    memory: bool = False
    flops: bool = False
    modules: bool = False
    all_threads: bool = False
    # Forked children too, each in a recording of its own.
    workers: bool = False
    python_gc: bool = False
    overload_names: bool = False
    # Call stacks in the args of trace events, and what kineto would tell of each event.
    call_stacks: bool = False
    event_metadata: bool = False

    @property
    def python_events(self) -> set[str]:
        """Which of the events that are Python functions are wanted."""
        wanted = {"function", "module"} if self.stacks else {"module"} if self.modules else set()
        return wanted | ({"collection"} if self.python_gc else set())

    @property
    def flags(self) -> int:
        """The tap's bits that these options need."""
        return (
            (tap.SHAPES if self.shapes or self.flops else 0)
            | (tap.STACKS if self.stacks else 0)
            | (tap.MEMORY if self.memory else 0)
            | (tap.MODULES if self.modules or self.stacks else 0)
        )


# How a trace says at its head what was recorded, by the option it tells of.
TRACE_FLAGS = {
    "profile_memory": "memory",
    "with_stack": "stacks",
    "record_shapes": "shapes",
    "with_modules": "modules",
    "with_flops": "flops",
}

# Names of activity types that a filter may list; all but the first two belong to accelerators.
ACTIVITY_TYPES = frozenset(
    "CPU_OP USER_ANNOTATION GPU_USER_ANNOTATION CPU_INSTANT_EVENT PYTHON_FUNCTION EXTERNAL_CORRELATION "
    "CUDA_RUNTIME CUDA_DRIVER CONCURRENT_KERNEL GPU_MEMCPY GPU_MEMSET CUDA_SYNC CUDA_EVENT OVERHEAD "
    "CUDA_PROFILER_RANGE GLOW_RUNTIME MTIA_RUNTIME MTIA_CCP_EVENTS MTIA_WORKLOADD MTIA_INSIGHT MTIA_COUNTERS HPU_OP "
    "XPU_RUNTIME XPU_DRIVER XPU_SYNC COLLECTIVE_COMM PRIVATEUSE1_RUNTIME PRIVATEUSE1_DRIVER".split()
)


def supported_activities() -> set[ProfilerActivity]:
    """The activities that can be collected here."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether traces in Kineto's format can be recorded: always."""
    return True


def parse_activities(
    activities: Iterable[ProfilerActivity | Mapping[ProfilerActivity, Iterable[str]]],
) -> tuple[set[ProfilerActivity], dict[ProfilerActivity, set[str]]]:
    """Split a mixed list into the activities asked for and the filters some of them carry."""
    wanted: set[ProfilerActivity] = set()
    filters: dict[ProfilerActivity, set[str]] = {}
    for item in activities:
        if isinstance(item, ProfilerActivity):
            pairs: list[tuple[ProfilerActivity, Any]] = [(item, None)]
        elif isinstance(item, Mapping):
            pairs = list(item.items())
        else:
            raise TypeError(f"Expected ProfilerActivity or dict, got {type(item)}")
        for activity, names in pairs:
            if activity in wanted:
                raise ValueError(f"Activity {activity} specified more than once")
            wanted.add(activity)
            if item is not activity:
                filters[activity] = _filter_names(activity, names)
    return wanted, filters


def _filter_names(activity: ProfilerActivity, names: Any) -> set[str]:
    if not isinstance(names, Iterable):
        raise TypeError(f"the filter of {activity} expects an iterable of activity type names, got {names!r}")
    return set(names)


def on_or_off(name: str, value: Any, *, is_number: bool = False) -> bool:
    """An option as a bool. None and all that has a truth value of its own count; text and containers do not, and where
    `is_number` only bools and integers do."""
    if isinstance(value, (bool, int, np.bool_)):
        return bool(value)
    if is_number or not (value is None or hasattr(value, "__bool__")):
        raise TypeError(f"{name} expects True or False, got {value!r}")
    return bool(value)


def text(call: str, argument: str, value: Any) -> str:
    """A text that must be one."""
    if not isinstance(value, str):
        raise TypeError(f"{call}() expects a str as {argument}, got {type(value).__name__}")
    return value


def check_filters(filters: Mapping[ProfilerActivity, Iterable[str]]) -> None:
    """Refuse activity type names nobody knows."""
    for names in filters.values():
        for name in sorted(text("profile", "activity type name", name) for name in names):
            if name not in ACTIVITY_TYPES:
                raise RuntimeError(
                    f"Unknown or non-member activity type name: {name!r}; expected one of {', '.join(sorted(ACTIVITY_TYPES))}"
                )


def custom_settings(config: _ExperimentalConfig | None) -> dict[str, Any]:
    """`custom_profiler_config` as a dict: JSON, or the bare name of a backend."""
    text = config.custom_profiler_config if config is not None else ""
    if not text:
        return {}
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError:
        return {"backend": text}
    return parsed if isinstance(parsed, dict) else {}
