"""One recording from start to results: `autograd.profiler.profile`, on which `torch.profiler` is built.

It owns the window, its results and when they are worked out. It does not know schedules.
"""

from __future__ import annotations

import copy
import logging
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from types import TracebackType

from .. import export
from .. import report as reports
from ..analyse.averages import FunctionEventAvg, Grouping
from ..analyse.events import View
from ..analyse.metrics import Metrics
from ..capture.capture import Capture
from ..capture.spool import Spool
from ..capture.window import Recording, Window, process_name
from ..export.chrome import CATEGORIES, write_trace
from ..read.children import Family
from ..record import environment
from ..record.background import Export
from ..record.config import (
    ProfilerActivity,
    ProfilerState,
    RecordOptions,
    _ExperimentalConfig,
    check_filters,
    on_or_off,
    supported_activities,
    text,
)
from ..record.recorder import RECORDER
from .lists import EventList, averages_of_views, list_of_views
from .results import _ProfilerResult

log = logging.getLogger(__name__)

DEVICES = {
    "cuda": ProfilerActivity.CUDA,
    "xpu": ProfilerActivity.XPU,
    "mtia": ProfilerActivity.MTIA,
    "hpu": ProfilerActivity.HPU,
}


def _warn_of_other_torch(recording: Recording) -> None:
    """Say so where nothing was recorded because the ops were real torch's."""
    version = environment.installed_torch()
    if version and not recording.has_ops():
        warnings.warn(
            f"this profiler of mindtorch_v2 has recorded no op: it sees none of torch {version}, which is loaded here too. "
            "Use torch.profiler.profile() for torch's ops, or `mindtorch profile --torch script.py`",
            stacklevel=5,
        )


@dataclass
class _ProfilerStats:
    """How long the parts of profiling took; the last three are zero until results are asked for."""

    profiling_window_duration_sec: float = 0
    number_of_events: int = 0
    profiler_prepare_call_duration_us: int = 0
    profiler_enable_call_duration_us: int = 0
    profiler_disable_call_duration_us: int = 0
    parse_kineto_call_duration_us: int = 0
    function_events_build_tree_call_duration_us: int = 0


def is_profiling() -> bool:
    """Whether any profiler records now."""
    return bool(RECORDER.sessions)


class profile:
    """Records what runs inside its `with` block; single use."""

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: _ExperimentalConfig | None = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Mapping[ProfilerActivity, Iterable[str]] | None = None,
        all_threads: bool = False,
        workers: bool | Family = False,
        spool: str | PathLike[str] | Spool | None = None,
    ) -> None:
        self.enabled = enabled
        if not enabled:
            return
        self.use_cuda = use_cuda
        if use_cuda:
            warnings.warn(
                "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead.",
                FutureWarning,
                stacklevel=2,
            )
            use_device = "cuda"
        self.entered = False
        self.with_flops = on_or_off("with_flops", with_flops, is_number=True)
        self.record_shapes = on_or_off("record_shapes", record_shapes, is_number=True) or self.with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.use_cpu = use_cpu
        self.acc_events = acc_events
        self.experimental_config = settled_config(experimental_config, with_stack) or _ExperimentalConfig()
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.activity_filters = dict(activity_filters or {})
        self.all_threads = all_threads
        self.workers = bool(workers)
        # Forked children; whoever gave the family closes it.
        self._family = workers if isinstance(workers, Family) else None
        self._own_family: Family | None = None
        self.spool = spool
        self.trace_id = ""
        # What an execution trace calls the same regions; see `export.chrome.write_trace`.
        self.record_ids: Mapping[int, tuple[Sequence[int], Sequence[int], Sequence[int]]] = {}
        self.metadata: dict[str, str] = {environment.METADATA: environment.environment_text()}
        self.profiling_start_time_ns = 0
        self.profiling_end_time_ns = 0
        self.profiler_kind = ProfilerState.KINETO
        self._stats = _ProfilerStats()
        self._window: Window | None = None
        # The spool of a profiler that was given a path; whoever gave a Spool closes it.
        self._spool: Spool | None = None
        self._recordings: list[Recording] = []
        self._views: list[View] | None = None
        self._events: EventList | None = None
        if not use_cpu and not use_kineto:
            raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
        self.use_device = self._settled_device(use_device)
        self.kineto_activities = {ProfilerActivity.CPU} if use_cpu else set()
        if not self.kineto_activities:
            raise AssertionError("No activities specified for the profiler")
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError(f"post_processing_timeout_s must be non-negative, got {post_processing_timeout_s}")

    def _settled_device(self, device: str | None) -> str | None:
        """None, with a warning if a device was asked for: only the CPU is profiled."""
        if device is None:
            return None
        if device == "mtia":
            raise AssertionError("Legacy MTIA profiling is not supported. Requires use_kineto=True on MTIA devices.")
        if device not in DEVICES:
            warnings.warn(f"The {device} is not a valid device option.", stacklevel=4)
        elif DEVICES[device] not in supported_activities():
            name = device.upper()
            warnings.warn(f"{name} is not available, disabling {name} profiling", stacklevel=4)
            self.use_cuda = False
        return None

    # Recording

    def default_trace_id(self) -> str:
        return f"{uuid.uuid4().int:032X}"

    def create_trace_id(self) -> str:
        callback = self.custom_trace_id_callback
        return text("custom_trace_id_callback", "result", callback()) if callback else self.default_trace_id()

    def config(self, create_trace_id: bool = False) -> RecordOptions:
        """What will be recorded; also draws a trace id if asked to."""
        if create_trace_id:
            self.trace_id = self.create_trace_id()
        experimental = self.experimental_config
        return RecordOptions(
            shapes=self.record_shapes,
            stacks=on_or_off("with_stack", self.with_stack),
            memory=on_or_off("profile_memory", self.profile_memory),
            flops=self.with_flops,
            modules=on_or_off("with_modules", self.with_modules),
            all_threads=self.all_threads or experimental.profile_all_threads,
            workers=self.workers,
            python_gc=experimental.record_python_gc_info,
            overload_names=experimental.capture_overload_names,
            call_stacks=self.with_stack and experimental.verbose,
            event_metadata=experimental.expose_kineto_event_metadata,
        )

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._prepare_trace()
        self._start_trace()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        if not self.enabled:
            return None
        self._stop_trace()
        return False

    def _prepare_trace(self) -> None:
        self.entered = True
        began = time.perf_counter_ns()
        check_filters(self.activity_filters)
        self.config(create_trace_id=True)
        self._stats.profiler_prepare_call_duration_us = (time.perf_counter_ns() - began) // 1000

    def _start_trace(self) -> None:
        self.entered = True
        if self._window is not None:
            # Started twice: the window that is open goes on.
            return
        began = time.perf_counter_ns()
        if self.spool is not None and not isinstance(self.spool, Spool):
            self._spool = Spool(self.spool, process_name)
        spool = self.spool if isinstance(self.spool, Spool) else self._spool
        if self.workers and self._family is None:
            self._own_family = Family(self.config(), None if spool is None else spool.path)
        family = self._family or self._own_family
        self._window = Window(self.config(), spool, self.trace_id, self.metadata, family)
        self.profiling_start_time_ns = time.perf_counter_ns()
        self._stats.profiler_enable_call_duration_us = (self.profiling_start_time_ns - began) // 1000

    def _stop_trace(self) -> None:
        began = self.profiling_end_time_ns = time.perf_counter_ns()
        if not self.acc_events:
            self._recordings = []
        self._views = self._events = None
        if self._window is not None:
            window, self._window = self._window, None
            # The newest cycle comes first.
            self._recordings.insert(0, window.stop())
            _warn_of_other_torch(self._recordings[0])
            if self._own_family is not None:
                self._own_family.close()
            if self._spool is not None:
                self._spool.close()
        stats = self._stats
        stats.profiler_disable_call_duration_us = (time.perf_counter_ns() - began) // 1000
        stats.profiling_window_duration_sec = (began - self.profiling_start_time_ns) / 1e9

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Switch the collection of activities off or on again while recording."""
        enabled = on_or_off("toggle_collection_dynamic(): enable", enabled)
        wanted = list(activities)
        for activity in wanted:
            if not isinstance(activity, ProfilerActivity):
                raise TypeError(f"toggle_collection_dynamic() expects ProfilerActivity members, got {activity!r}")
        if ProfilerActivity.CPU in wanted and self._window is not None:
            self._window.pause(not enabled)

    # Results

    def _ensure_views(self) -> list[View]:
        """The finished recordings worked out, newest first."""
        if self.experimental_config.trace_only:
            raise RuntimeError(
                "events() is not available when trace_only=True in ExperimentalConfig. "
                "Use export_chrome_trace() instead."
            )
        if self._views is None:
            began = time.perf_counter_ns()
            limit = self.post_processing_timeout_s
            self._views = []
            for recording in self._recordings:
                if limit is not None and time.perf_counter_ns() - began >= limit * 1e9:
                    log.warning(
                        "Profiler post-processing timed out after %.3f seconds, returning partial results", limit
                    )
                    break
                self._views.append(View(Metrics(recording.capture()), self.config().event_metadata))
            parsed = time.perf_counter_ns()
            count = sum(len(view.metrics.parent) for view in self._views)
            self._stats.parse_kineto_call_duration_us = (parsed - began) // 1000
            self._stats.function_events_build_tree_call_duration_us = (time.perf_counter_ns() - parsed) // 1000
            self._stats.number_of_events = count
        return self._views

    @property
    def function_events(self) -> EventList:
        """All events; the same list each time it is asked for."""
        views = self._ensure_views()
        if self._events is None:
            self._events = list_of_views(views, self.profile_memory, self.with_flops)
        return self._events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList:
        """Events summed up by name and whatever else tells them apart."""
        if self._events is not None:
            return self._events.key_averages(
                group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
            )
        grouping = Grouping(group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions)
        return averages_of_views(self._ensure_views(), grouping, self.profile_memory, self.with_flops)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """All events as a table."""
        return self.function_events.table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
        )

    def total_average(self) -> FunctionEventAvg:
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of the self times of all events, in microseconds."""
        total = sum(int(view.metrics.self_ns.sum()) for view in self._ensure_views())
        return total / 1000

    def _finished(self) -> bool:
        return self.enabled and self._window is None and bool(self._recordings)

    def __repr__(self) -> str:
        return repr(self.function_events) if self._finished() else "<unfinished torch.autograd.profile>"

    def __str__(self) -> str:
        return str(self.function_events) if self._finished() else "<unfinished torch.autograd.profile>"

    # Export

    @property
    def kineto_results(self) -> _ProfilerResult | None:
        """The newest cycle as torch's inner profiler shows it: raw events and their tree. None until there is one."""
        return _ProfilerResult(self._recordings[0].capture(), self.export_chrome_trace) if self._finished() else None

    def newest_capture(self) -> Capture:
        """What the newest cycle recorded."""
        if self._window is not None or not self._recordings:
            raise AttributeError("there is no trace to export yet: stop the profiler first")
        return self._recordings[0].capture()

    def export_chrome_trace(
        self,
        path: str | PathLike[str],
        metadata: Mapping[str, str] | None = None,
        use_python_export: bool = False,
    ) -> None:
        """Write the newest cycle as a Chrome trace; a path that ends in `.gz` is compressed. Any number of times.

        There is one exporter, in Python; `use_python_export` changes nothing.
        """
        capture = self.newest_capture()
        filtered = self.activity_filters.get(ProfilerActivity.CPU)
        categories = None if filtered is None else [CATEGORIES[name] for name in filtered if name in CATEGORIES]
        known = self._views[0].metrics if self._views else Metrics(capture, echoes=True)
        everything = {**self.metadata, **(metadata or {})}
        write_trace(known, path, self.trace_id, everything, categories, self.record_ids)

    def export(self, path: str | PathLike[str]) -> None:
        """Write the newest cycle in the format that the end of the path names: see `profiler.export.FORMATS`."""
        if self._window is not None or not self._recordings:
            raise AttributeError("there is nothing to export yet: stop the profiler before export()")
        if export.format_of(path) is export.CHROME:
            self.export_chrome_trace(path)
        else:
            export.write(self._recordings[0].capture(), path)

    def export_async(self, path: str | PathLike[str]) -> Export:
        """As `export`, in the background: what comes back tells when the file is complete, or what went wrong."""
        if self._window is not None or not self._recordings:
            raise AttributeError("there is nothing to export yet: stop the profiler before export_async()")
        export.format_of(path)
        # The next cycle may begin before the file is written.
        copied = copy.copy(self)
        copied._recordings, copied._views, copied._events = self._recordings[:1], None, None
        copied.metadata = dict(self.metadata)
        return Export(path, copied.export)

    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        before: Capture | None = None,
        title: str | None = None,
    ) -> reports.Report | None:
        """A report of the newest cycle: written to an HTML file or, without a path, for a notebook to show.

        With `before`, another capture, it also shows what has changed since.
        """
        if self._window is not None or not self._recordings:
            raise AttributeError("there is nothing to report yet: stop the profiler before report()")
        known = self._views[0].metrics.capture if self._views else self._recordings[0].capture()
        made = reports.make_report(known, before=before, title=title)
        if path is None:
            return made
        made.save(path)
        return None

    def _repr_html_(self) -> str | None:
        """What notebooks show: the ops that take most time."""
        if not self._finished() or self.experimental_config.trace_only:
            return None
        return self.key_averages()._repr_html_()

    def export_stacks(self, path: str | PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write `frame;frame;frame N` for each event; needs with_stack=True."""
        events = self.function_events
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        events.export_stacks(path, metric)


def settled_config(config: _ExperimentalConfig | None, with_stack: bool) -> _ExperimentalConfig | None:
    """The configuration without `trace_only` where stacks are asked for, which need more than the trace."""
    if config is None or not (config.trace_only and with_stack):
        return config
    warnings.warn(
        "trace_only=True is incompatible with with_stack=True (stack traces require event post-processing). "
        "Disabling trace_only.",
        stacklevel=4,
    )
    config = copy.copy(config)
    config.trace_only = False
    return config
