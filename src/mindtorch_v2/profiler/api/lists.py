"""`EventList`: the list of events or averages that users hold, with everything that can be done to it."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..analyse import tree
from ..analyse.averages import FunctionEventAvg, Grouping, average_events, average_views
from ..analyse.events import View
from ..export import rows, stacks
from ..record.config import DeviceType
from ..report.table import TableOptions, render, render_html


class EventList(list[Any]):
    """A list of events, or of averages of events."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._use_device: str | None = kwargs.pop("use_device", None)
        self._profile_memory: bool = kwargs.pop("profile_memory", False)
        self._with_flops: bool = kwargs.pop("with_flops", False)
        super().__init__(*args, **kwargs)
        self._tree_built = False
        self._views: list[View] = []

    def __str__(self) -> str:
        return self.table()

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles hold events with values of their own, and no columns.
        return {**self.__dict__, "_views": []}

    def _repr_html_(self) -> str:
        """What notebooks show: the table, the longest self time first."""
        options = TableOptions(
            sort_by="self_cpu_time_total",
            max_name_column_width=None,
            max_shapes_column_width=None,
            with_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        return render_html(self, options)

    def _build_tree(self) -> None:
        """Find parents and children from the times of hand-made events, merge lone echoes, share forward stacks."""
        _nest_objects(self)
        _merge_echoes(self)
        _borrow_stacks(self)
        self._tree_built = True

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of the self times of all events, in microseconds."""
        total: float = sum(event.self_cpu_time_total for event in self)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text, sorted by an attribute (largest first) if asked to."""
        return render(
            self,
            TableOptions(
                sort_by,
                row_limit,
                max_src_column_width,
                max_name_column_width,
                max_shapes_column_width,
                header,
                top_level_events_only,
                time_unit,
                self._profile_memory,
                self._with_flops,
            ),
        )

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList:
        """Events summed up by name and whatever else tells them apart."""
        if not self._tree_built:
            raise AssertionError(
                "Expected tree to be built before calling key_averages: take the events() of a profile, as they are"
            )
        grouping = Grouping(group_by_input_shapes, group_by_stack_n, group_by_overload_name, include_python_functions)
        found = average_views(self._views, grouping) if self._is_untouched() else average_events(self, grouping)
        return self._like(found)

    def _is_untouched(self) -> bool:
        """Whether the list still holds what its views hold, so that columns can answer for it."""
        if not self._views or any(view.edited for view in self._views):
            return False
        events = [event for view in self._views for event in view.events()]
        return len(events) == len(self) and all(map(_same, self, events))

    def _like(self, events: Iterable[Any]) -> EventList:
        return EventList(
            events, use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops
        )

    def total_average(self) -> FunctionEventAvg:
        """Everything added up in one row with the key "Total"; nested events count in it more than once."""
        total = FunctionEventAvg()
        for event in self:
            total += event
            total.key = None
        total.key = "Total"
        return total

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as a plain JSON array of slices that chrome://tracing opens."""
        rows.write_event_array(self, path, self._use_device or "cuda")

    def supported_export_stacks_metrics(self) -> list[str]:
        return list(stacks.METRICS)

    def export_stacks(self, path: str | os.PathLike[str], metric: str) -> None:
        """Write `frame;frame;frame N` for each event that has a stack."""
        stacks.write_stacks(self, path, metric)

    def to_dict(self) -> list[dict[str, Any]]:
        """A dict for each row."""
        return rows.as_dicts(self)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """The rows as CSV, written to `path` if there is one."""
        return rows.write_text(rows.as_csv(self), path)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """The rows as a JSON array of objects, written to `path` if there is one."""
        return rows.write_text(rows.as_json(self), path)

    def to_pandas(self) -> Any:
        """The rows as a pandas.DataFrame (needs pandas)."""
        return rows.as_frame(self)


def _same(first: object, second: object) -> bool:
    return first is second


def list_of_views(views: list[View], profile_memory: bool, with_flops: bool) -> EventList:
    """The events of some captures, one after the other, as one list."""
    events = EventList(profile_memory=profile_memory, with_flops=with_flops)
    # Making a million small objects would otherwise set off collection after collection of them all.
    collecting = gc.isenabled()
    gc.disable()
    try:
        for view in views:
            events.extend(view.events())
    finally:
        if collecting:
            gc.enable()
    events._views = views
    events._tree_built = True
    return events


def averages_of_views(views: list[View], grouping: Grouping, profile_memory: bool, with_flops: bool) -> EventList:
    """`list_of_views(...).key_averages(...)` without making the events."""
    return EventList(average_views(views, grouping), profile_memory=profile_memory, with_flops=with_flops)


def _nest_objects(events: EventList) -> None:
    threads: dict[tuple[int, int], list[Any]] = {}
    for event in events:
        if not event.is_async and event.device_type == DeviceType.CPU:
            threads.setdefault((event.thread, event.node_id), []).append(event)
    for mine in threads.values():
        # Of equal events the first in the list is the outer one, as if it had ended last.
        mine.reverse()
        starts = np.array([event.time_range.start for event in mine], np.float64)
        ends = np.array([event.time_range.end for event in mine], np.float64)
        # Ranks order like the times themselves, and are exact.
        ranks = np.unique(np.concatenate([starts, ends]), return_inverse=True)[1]
        nesting = tree.nest_any(ranks[: len(mine)], ranks[len(mine) :])
        placed = [mine[place] for place in nesting.order.tolist()]
        for event, parent in zip(placed, nesting.parent.tolist()):
            if parent >= 0:
                if event.cpu_parent is not None:
                    raise AssertionError(f"There is already a CPU parent event for {event.key}")
                placed[parent].append_cpu_child(event)
                event.set_cpu_parent(placed[parent])


def _merge_echoes(events: EventList) -> None:
    dropped: set[int] = set()
    for event in events:
        parent = event.cpu_parent
        if parent is None or parent.name != event.name or len(parent.cpu_children) != 1:
            continue
        parent.cpu_children = event.cpu_children
        parent.kernels = event.kernels
        for child in event.cpu_children:
            child.cpu_parent = parent
        dropped.add(id(event))
    if dropped:
        events[:] = [event for event in events if id(event) not in dropped]


def _borrow_stacks(events: EventList) -> None:
    """What runs in an autograd node has the stack of the forward op with the same sequence number and thread."""
    forward: dict[tuple[int, int], Any] = {}
    nodes = {}
    for event in events:
        node = event
        while node is not None and node.scope != 1:
            node = node.cpu_parent
        if node is not None:
            nodes[id(event)] = node
        elif event.stack is not None:
            forward.setdefault((event.sequence_nr, event.thread), event.stack)
    for event in events:
        node = nodes.get(id(event))
        if node is not None:
            if node.fwd_thread is None:
                raise AssertionError("Expected fwd_thread to be set for backward parent")
            event.stack = forward.get((node.sequence_nr, node.fwd_thread), [])
