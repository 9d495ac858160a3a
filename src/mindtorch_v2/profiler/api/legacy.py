"""`autograd.profiler_legacy.profile`: the oldest profiler interface, on today's recording."""

from __future__ import annotations

import warnings
from os import PathLike
from types import TracebackType
from typing import Any

from ...core.tap import BACKWARD_FUNCTION
from ..analyse.averages import FunctionEventAvg
from ..analyse.events import FunctionEvent
from ..capture.capture import MEMORY_EVENT_NAME
from . import run
from .lists import EventList


def _legacy_event(event: FunctionEvent) -> FunctionEvent:
    """An event with what the oldest interface knew of events; memory outside of them had neither thread nor time."""
    if event.name == MEMORY_EVENT_NAME:
        nbytes = event.cpu_memory_usage
        return FunctionEvent(event.id, event.name, 0, 0, 0, stack=[], cpu_memory_usage=nbytes, is_legacy=True)
    return FunctionEvent(
        event.id,
        event.name,
        event.thread,
        event.time_range.start,
        event.time_range.end,
        fwd_thread=event.fwd_thread or (event.thread if event.scope == BACKWARD_FUNCTION else 0),
        input_shapes=event.input_shapes,
        stack=event.stack,
        scope=event.scope,
        cpu_memory_usage=event.cpu_memory_usage,
        sequence_nr=event.sequence_nr,
        is_legacy=True,
        flops=event.flops,
        trace_name=event.trace_name,
        is_python_function=event.is_python_function,
    )


def _by_time(event: FunctionEvent) -> tuple[float, float]:
    return event.time_range.start, -event.time_range.end


class profile:
    """Deprecated: use `mindtorch_v2.profiler`. Its events have `is_legacy` set."""

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
    ) -> None:
        self.enabled = enabled
        if not enabled:
            return
        if use_cuda:
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
        self.use_cuda = False
        self.function_events: EventList | None = None
        self.entered = False
        self.record_shapes = record_shapes or with_flops
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self._inner = run.profile(
            record_shapes=record_shapes,
            with_flops=with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
        )

    def config(self) -> Any:
        return self._inner.config()

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._start_trace()
        return self

    def _start_trace(self) -> None:
        self._inner.__enter__()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        if not self.enabled:
            return None
        self._inner.__exit__(exc_type, exc_val, exc_tb)
        found = sorted(map(_legacy_event, self._inner.function_events), key=_by_time)
        self.function_events = EventList(found, profile_memory=self.profile_memory, with_flops=self.with_flops)
        self.function_events._build_tree()
        return False

    def __repr__(self) -> str:
        done = self.enabled and self.function_events is not None
        return repr(self.function_events) if done else "<unfinished profiler_legacy.profile>"

    def __str__(self) -> str:
        done = self.enabled and self.function_events is not None
        return str(self.function_events) if done else "<unfinished profile.profiler_legacy.profile>"

    def _check_finish(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

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
        return self._check_finish().table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
        )

    def export_chrome_trace(self, path: str | PathLike[str]) -> None:
        self._check_finish().export_chrome_trace(path)

    def export_stacks(self, path: str | PathLike[str], metric: str = "self_cpu_time_total") -> None:
        events = self._check_finish()
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        events.export_stacks(path, metric)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        return self._check_finish().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        return self._check_finish().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        return self._check_finish().self_cpu_time_total
