"""The public profiler: schedules, steps, handlers and metadata around one recording after another."""

from __future__ import annotations

import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from ..core import step_hooks
from . import report as reports
from .analyse import memory
from .analyse.metrics import Metrics
from .api import run
from .api.decorate import Outermost, around_calls
from .api.execution_trace import ExecutionTraceObserver, _ITraceObserver
from .api.lists import EventList
from .api.step_tracker import KinetoStepTracker
from .api.trace import Trace
from .capture.capture import Capture
from .capture.spool import Spool
from .capture.window import process_name
from .export import memory_timeline
from .read.children import Family
from .record.annotate import record_function
from .record.background import Export
from .record.config import (
    ProfilerAction,
    ProfilerActivity,
    _ExperimentalConfig,
    custom_settings,
    parse_activities,
    supported_activities,
    text,
)
from .record.config import kineto_available as kineto_available
from .record.overhead import Overhead, estimate

__all__ = [
    "ExecutionTraceObserver",
    "ProfilerAction",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

PROFILER_STEP_NAME = "ProfilerStep"

Activities = Iterable[ProfilerActivity | Mapping[ProfilerActivity, Iterable[str]]]

_DEVICE_NAMES = {
    ProfilerActivity.CUDA: "cuda",
    ProfilerActivity.XPU: "xpu",
    ProfilerActivity.MTIA: "mtia",
    ProfilerActivity.HPU: "hpu",
    ProfilerActivity.PrivateUse1: "privateuseone",
}
_shown_warnings: set[str] = set()


def _warn_once(message: str) -> None:
    if message not in _shown_warnings:
        _shown_warnings.add(message)
        warnings.warn(message, stacklevel=4)


class _KinetoProfile:
    """The profiler without schedule: prepare, start, stop, and everything that can be done with the results."""

    def __init__(
        self,
        *,
        activities: Activities | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        execution_trace_observer: _ITraceObserver | None = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        all_threads: bool = False,
        workers: bool = False,
        spool: str | os.PathLike[str] | None = None,
    ) -> None:
        self.activities, self.activity_filters = (
            parse_activities(activities) if activities is not None else (supported_activities(), {})
        )
        self.record_shapes = record_shapes
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.experimental_config = run.settled_config(experimental_config, with_stack)
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.all_threads = all_threads
        self.workers = workers
        self._family: Family | None = None
        self.spool = None if spool is None else os.fspath(spool)
        self._spool: Spool | None = None
        self.profiler: run.profile | None = None
        self.has_cudagraphs = False
        self.mem_tl = None
        self.use_device = next((name for kind, name in _DEVICE_NAMES.items() if kind in self.activities), None)
        self.preset_metadata: dict[str, str] = {}
        settings = custom_settings(self.experimental_config)
        monitored = settings.get("backend") == "cupti_monitor" or settings.get("cupti_monitor")
        if monitored and ProfilerActivity.CPU not in self.activities:
            raise ValueError("cupti_monitor profiler backend currently requires CPU activity")

    # Recording

    def start(self) -> None:
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        self.stop_trace()
        self._end_company()

    def prepare_trace(self) -> None:
        """Get ready for a recording; what an earlier one brought is dropped unless `acc_events` keeps it."""
        if self.profiler is not None and not self.acc_events:
            _warn_once(
                "Warning: Profiler clears events at the end of each cycle. Only events from the current cycle will be "
                "reported. To keep events across cycles, set acc_events=True."
            )
        self._begin_company()
        if self.profiler is None or not self.acc_events:
            self.profiler = self._inner()
        self.profiler._prepare_trace()

    def _inner(self) -> run.profile:
        """A recording with the options of this profiler."""
        return run.profile(
            use_cpu=ProfilerActivity.CPU in self.activities,
            use_device=self.use_device,
            record_shapes=self.record_shapes,
            with_flops=self.with_flops,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_modules=self.with_modules,
            use_kineto=True,
            experimental_config=self.experimental_config,
            acc_events=self.acc_events,
            custom_trace_id_callback=self.custom_trace_id_callback,
            post_processing_timeout_s=self.post_processing_timeout_s,
            activity_filters=self.activity_filters or None,
            all_threads=self.all_threads,
            workers=self._family or self.workers,
            spool=self._spool,
        )

    def _begin_company(self) -> None:
        """Open what all windows of this profiler share: the spool, and the record of forked children."""
        if self.spool is not None:
            self._spool = self._spool or Spool(self.spool, process_name)
            self._spool.reopen()
        if self.workers and self._family is None:
            self._family = Family(self._inner().config(), self.spool)

    def _end_company(self) -> None:
        if self._family is not None:
            self._family.close()
            self._family = None
        if self._spool is not None:
            self._spool.close()

    def start_trace(self) -> None:
        """Begin recording."""
        if self.execution_trace_observer:
            self.execution_trace_observer.start()
        inner = self._initialized("starting trace")
        inner._start_trace()
        for flag in ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops"):
            if getattr(self, flag):
                self.add_metadata_json(flag, "1")
        for key, value in self.preset_metadata.items():
            self.add_metadata_json(key, value)

    def stop_trace(self) -> None:
        """End recording."""
        inner = self._initialized("stopping trace")
        if self.execution_trace_observer:
            self.execution_trace_observer.stop()
            inner.record_ids = getattr(self.execution_trace_observer, "record_ids", {})
        inner._stop_trace()

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Switch the collection of activities off or on again while recording."""
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    def _initialized(self, purpose: str) -> run.profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {purpose}: call start() or use it in a `with`")
        return self.profiler

    # Results

    def events(self) -> EventList:
        """All events of the finished recording; the same list each time."""
        return self._initialized("accessing events").function_events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList:
        """Events summed up by name and, if asked for, input shapes, top of the stack and overload."""
        return self._initialized("getting key averages").key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
        )

    def overhead(self) -> Overhead:
        """What recording itself has cost: nanoseconds an event, measured now, times the events recorded."""
        inner = self._initialized("estimating overhead")
        views = inner._ensure_views()
        return estimate(
            inner.config(),
            sum(len(view.metrics.columns) for view in views),
            sum(len(view.metrics.memory_events) for view in views),
            inner._stats.profiling_window_duration_sec,
        )

    # Export and metadata

    def export_chrome_trace(self, path: str | os.PathLike[str], use_python_export: bool = False) -> None:
        """Write the last cycle as a Chrome trace, compressed if the path ends in `.gz`. Any number of times.

        There is one exporter, in Python; `use_python_export` changes nothing.
        """
        self._initialized("exporting chrome trace").export_chrome_trace(path, use_python_export=use_python_export)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the last cycle in the format that the end of the path names: see `profiler.export.FORMATS`."""
        self._initialized("exporting").export(path)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table of events for whoever reads Arrow streams, such as pyarrow, polars and pandas."""
        return Trace.of(self._initialized("its columns").newest_capture()).__arrow_c_stream__(requested_schema)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        before: Capture | None = None,
        title: str | None = None,
    ) -> reports.Report | None:
        """The last cycle as a report: written to an HTML file or, without a path, for a notebook to show inline."""
        return self._initialized("making a report").report(path, before=before, title=title)

    def export_async(self, path: str | os.PathLike[str]) -> Export:
        """As `export`, in the background, so that a training loop goes on: `result()` waits and raises what went wrong.

        The program does not end before the file is complete.
        """
        return self._initialized("exporting").export_async(path)

    def export_report(self, path: str | os.PathLike[str], *, title: str | None = None) -> None:
        """Write the report of the last cycle to one HTML file that any browser opens offline."""
        self.report(path, title=title)

    def _repr_html_(self) -> str | None:
        return None if self.profiler is None else self.profiler._repr_html_()

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write `frame;frame;frame N` for each event; needs with_stack=True."""
        self._initialized("exporting stacks").export_stacks(path, metric)

    def export_memory_timeline(self, path: str | os.PathLike[str], device: str | None = None) -> None:
        """Write what memory was used for over the last cycle; needs record_shapes, profile_memory and with_stack.

        A path that ends in `.html` gives a page with a chart, in `raw.json.gz` all changes one by one, else the sums of
        each category at each time, compressed if it ends in `.gz`. All memory is the CPU's.
        """
        warnings.warn(
            "`export_memory_timeline` is deprecated in torch 2.13 and will be removed in a future version of it; "
            "`export_report` shows the memory of a profile too.",
            FutureWarning,
            stacklevel=2,
        )
        changes = self._memory_profile() if (device or "cpu").partition(":")[0] == "cpu" else []
        name = os.fspath(path)
        if name.endswith(".html"):
            memory_timeline.write_page(*memory.sums(changes), name, f"Memory timeline of {os.path.basename(name)}")
        elif name.endswith("raw.json.gz"):
            memory_timeline.write_json(changes, name)
        else:
            memory_timeline.write_json(memory.sums(changes), name)

    def _memory_profile(self) -> list[memory.Change]:
        """All changes of memory in the last cycle, each with the category of its block."""
        missing = self._missing_for_memory()
        if missing:
            raise ValueError(f"{', '.join(missing)} required for memory profiling.")
        capture = self._initialized("profiling memory").newest_capture()
        return memory.timeline(Metrics(capture))

    def _missing_for_memory(self) -> list[str]:
        flags = ("record_shapes", "profile_memory", "with_stack")
        return [f"{flag}=True" for flag in flags if not getattr(self, flag)]

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the trace under a key of its own."""
        if not isinstance(value, str):
            raise (TypeError if isinstance(value, bytes) else AttributeError)(
                f"add_metadata() takes a str as value, which {type(value).__name__} is not: "
                "use add_metadata_json(key, json.dumps(value)) for others"
            )
        self.add_metadata_json(key, json.dumps(value))

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON value to the trace under a key of its own. Before the profiler starts it has no effect."""
        text("add_metadata_json", "key", key)
        if not isinstance(value, (str, bytes)):
            raise TypeError(f"add_metadata_json() expects JSON as a str, got {type(value).__name__}: use json.dumps()")
        if self.profiler is not None:
            self.profiler.metadata[key] = value if isinstance(value, str) else value.decode()

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Like `add_metadata_json`, for every recording that starts from now on."""
        self.preset_metadata[key] = value


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Skip, then cycles of waiting, warming up and recording; `repeat` 0 goes on for ever.

    A `skip_first_wait` other than 0 leaves out the wait of the first cycle.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    cycle = wait + warmup + active

    def schedule_fn(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait != 0:
            step += wait
        if 0 < repeat <= step / cycle:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return schedule_fn


def _always_record(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[_KinetoProfile], None]:
    """A handler that writes each trace into a directory that TensorBoard reads; the worker's name must be unique."""

    def handler_fn(prof: _KinetoProfile) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        suffix = ".gz" if use_gzip else ""
        path = os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json{suffix}")
        prof.export_chrome_trace(path, use_python_export=use_python_export)

    return handler_fn


def _checked(action: ProfilerAction) -> ProfilerAction:
    if action == ProfilerAction.DEVICE_STOPPED:
        raise ValueError(
            "ProfilerAction.DEVICE_STOPPED is set internally by the profiler and must not be returned by a "
            "user-provided schedule"
        )
    return action


def _transitions() -> dict[tuple[ProfilerAction, ProfilerAction | None], tuple[str, ...]]:
    """What happens from one action to the next, as names of methods of `profile`; None stands for the end."""
    none, warmup = ProfilerAction.NONE, ProfilerAction.WARMUP
    record, save = ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE
    prepare, begin, end, ready = "prepare_trace", "start_trace", "stop_trace", "_trace_ready"
    return {
        (none, none): (),
        (none, warmup): (prepare,),
        (none, record): (prepare, begin),
        (none, save): (prepare, begin),
        (warmup, none): (begin, end),
        (warmup, warmup): (),
        (warmup, record): (begin,),
        (warmup, save): (begin,),
        (record, none): (end,),
        # Prepared again, so that the warmup may be followed by a recording.
        (record, warmup): (end, prepare),
        (record, record): (),
        (record, save): (),
        (save, none): (end, ready),
        (save, warmup): (end, ready, prepare),
        (save, record): (end, ready, prepare, begin),
        (save, save): (end, ready, prepare, begin),
        (warmup, None): (begin, end),
        (record, None): (end, ready),
        (save, None): (end, ready),
    }


_TRANSITIONS = _transitions()
# What no sensible schedule does.
_MISTAKES = {
    (ProfilerAction.WARMUP, ProfilerAction.NONE),
    (ProfilerAction.RECORD, ProfilerAction.NONE),
    (ProfilerAction.RECORD, ProfilerAction.WARMUP),
}


class profile(_KinetoProfile):
    """Records what runs inside its `with` block (or the function it decorates), step by step if there is a schedule."""

    def __init__(
        self,
        *,
        activities: Activities | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        execution_trace_observer: _ITraceObserver | None = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        all_threads: bool = False,
        workers: bool = False,
        spool: str | os.PathLike[str] | None = None,
    ) -> None:
        if activities is not None:
            activities = list(activities)
            if not any(
                isinstance(item, ProfilerActivity) or (item and isinstance(item, Mapping)) for item in activities
            ):
                raise AssertionError(f"No valid profiler activities found in {activities}")
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer
            or ExecutionTraceObserver.build_execution_trace_obs_from_env(),
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
            all_threads=all_threads,
            workers=workers,
            spool=spool,
        )
        self.schedule = schedule or _always_record
        self.record_steps = bool(schedule)
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.step_rec_fn: record_function | None = None
        self.current_action = _checked(self.schedule(self.step_num))
        # Of the functions it decorates, once there is one.
        self._calls: Outermost | None = None
        KinetoStepTracker.init_step_count(PROFILER_STEP_NAME)

    @property
    def action_map(self) -> dict[tuple[ProfilerAction, ProfilerAction | None], list[Callable[[], Any]]]:
        """What happens from one action to the next; None stands for the end. Made when asked for: methods that a
        profiler holds of itself would keep it, and all it has recorded, until the next garbage collection."""
        return {pair: [getattr(self, name) for name in names] for pair, names in _TRANSITIONS.items()}

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        self.stop()
        KinetoStepTracker.erase_step_count(PROFILER_STEP_NAME)
        if self.execution_trace_observer:
            self.execution_trace_observer.cleanup()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator: each call is recorded as a whole, of calls within calls the outermost one."""
        self._calls = self._calls or Outermost(self)
        return around_calls(function, self._calls)

    def start(self) -> None:
        # Children that are forked before the first window are there when it opens.
        self._begin_company()
        self._transit_action(ProfilerAction.NONE, self.current_action)
        step_hooks.announce(self, False)
        self._open_step()

    def stop(self) -> None:
        self._close_step()
        self._transit_action(self.current_action, None)
        self._end_company()

    def step(self) -> None:
        """The next step begins."""
        self._close_step()
        before = self.current_action
        action = _checked(self.schedule(self.step_num + 1))
        self.step_num += 1
        self.current_action = action
        self._transit_action(before, action)
        if os.environ.get("KINETO_USE_DAEMON", ""):
            KinetoStepTracker.increment_step(PROFILER_STEP_NAME)
        step_hooks.announce(self, True)
        self._open_step()

    def _open_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _close_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _transit_action(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        if (before, after) in _MISTAKES and after is not None:
            warnings.warn(f"Incorrect schedule: {before.name} followed by {after.name}", stacklevel=3)
        for name in _TRANSITIONS.get((before, after), ()):
            getattr(self, name)()

    def _trace_ready(self) -> None:
        if self.on_trace_ready:
            self.on_trace_ready(self)

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """Where trace ids come from, from the next cycle on."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The id of the current trace; None before the first is prepared."""
        return None if self.profiler is None else self.profiler.trace_id

    def _stats(self) -> run._ProfilerStats | None:
        return None if self.profiler is None else self.profiler._stats
