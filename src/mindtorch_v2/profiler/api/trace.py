"""A capture that answers for itself: events, averages and exports of what a file held, as a profile gives them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np

from .. import export
from .. import report as reports
from ..analyse.averages import Grouping
from ..analyse.devices.analysis import Analysis
from ..analyse.events import View
from ..analyse.metrics import Metrics
from ..capture.capture import Capture
from ..export.tables import TABLES, arrow_table
from .lists import EventList, averages_of_views, list_of_views

# What sums of 64 bits have room for.
_MOST_BYTES = 1 << 62


class Trace(Capture):
    """One recording that was read from a file."""

    @classmethod
    def of(cls, capture: Capture) -> Trace:
        """The same capture with the methods of this class; ValueError where its allocations make no sums."""
        nbytes = sum(float(np.abs(track.nbytes, dtype=float).sum()) for track in capture.tracks)
        nbytes += float(np.abs(capture.memory_roles[:, 3], dtype=float).sum())
        if nbytes >= _MOST_BYTES:
            raise ValueError(f"allocations and frees of {nbytes:.3g} bytes in all: the file is damaged or forged")
        return cls(**{part.name: getattr(capture, part.name) for part in fields(capture)})

    @cached_property
    def _view(self) -> View:
        return View(Metrics(self))

    @cached_property
    def _events(self) -> EventList:
        return list_of_views([self._view], self.options.memory, self.options.flops)

    def events(self) -> EventList:
        """All events; the same list each time it is asked for."""
        return self._events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList:
        """Events summed up by name and whatever else tells them apart."""
        grouping = Grouping(group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions)
        return averages_of_views([self._view], grouping, self.options.memory, self.options.flops)

    def analyze(self, peaks: Mapping[str, Mapping[str, Any]] | None = None) -> Analysis:
        """What limits the run, what devices did and who asked for it; `as_dict()` gives all as plain values.

        `peaks` are what devices can do at most that the roofline does not know: see `docs/analysis.md`.
        """
        return Analysis(self, peaks)

    def tables(self) -> dict[str, Any]:
        """Arrow tables of events, steps, modules, memory and kernels, by name: `docs/query.md` describes their columns."""
        metrics = Metrics(self)
        return {name: arrow_table(make(metrics)) for name, make in TABLES.items()}

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table of events for whoever reads Arrow streams: `pyarrow.table(trace)`, `polars.DataFrame(trace)`."""
        return arrow_table(TABLES["events"](Metrics(self))).__arrow_c_stream__(requested_schema)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write it in the format that the end of the path names: see `mindtorch_v2.profiler.export.FORMATS`."""
        export.write(self, path)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write it as a Chrome trace, whatever the path ends in; `.gz` is compressed."""
        export.write_chrome(self, path)

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write `frame;frame;frame N` for each event that has a stack."""
        self.events().export_stacks(path, metric)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        before: Capture | None = None,
        title: str | None = None,
    ) -> reports.Report | None:
        """A report: written to an HTML file or, without a path, for a notebook to show; with `before`, what changed."""
        made = reports.make_report(self, before=before, title=title)
        if path is None:
            return made
        made.save(path)
        return None

    def __repr__(self) -> str:
        events = sum(len(track) for track in self.tracks)
        seconds = (self.stop_ns - self.start_ns) / 1e9
        return f"<Trace of {seconds:.6g} s: {events} events on {len(self.tracks)} tracks>"
