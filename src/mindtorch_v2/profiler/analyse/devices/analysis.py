"""All analyses of one capture, each worked out when it is asked for, and as one object of plain values.

It knows the names and units that users see; the analyses beside it know how figures come about. `docs/analysis.md` defines
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ...capture.capture import Capture
from ..metrics import Metrics
from .busy import DeviceUse, StreamUse, device_uses, stream_uses
from .critical import CriticalPath
from .holders import DeviceMemory, device_memory
from .idle import IdleTime, idle_times
from .kernels import CopyTime, KernelTime, copy_times, kernel_times
from .launches import LaunchStatistics, Queue, launch_statistics, queues
from .limits import DEVICE, Limits, limits_of
from .operators import ModuleTime, OperatorTime, launched_time, module_times, operator_times
from .peaks import Peak, cpu_peak, peak_of
from .roofline import RooflineRow, roofline
from .sequences import Sequence, small_sequences
from .work import Work


class Analysis:
    """What devices and the CPU did in one capture. `peaks` are devices of the user's own, see `peaks`."""

    def __init__(
        self,
        capture: Capture,
        peaks: Mapping[str, Mapping[str, Any]] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.capture = capture
        self._peaks = peaks
        self._metrics = metrics

    @cached_property
    def work(self) -> Work:
        return Work(self._metrics or Metrics(self.capture, echoes=True))

    @cached_property
    def devices(self) -> list[DeviceUse]:
        return device_uses(self.work)

    @cached_property
    def streams(self) -> list[StreamUse]:
        return stream_uses(self.work)

    @cached_property
    def operators(self) -> list[OperatorTime]:
        return operator_times(self.work)

    @cached_property
    def modules(self) -> list[ModuleTime]:
        return module_times(self.work)

    @cached_property
    def kernels(self) -> list[KernelTime]:
        return kernel_times(self.work)

    @cached_property
    def copies(self) -> list[CopyTime]:
        return copy_times(self.work)

    @cached_property
    def launches(self) -> LaunchStatistics | None:
        return launch_statistics(self.work)

    @cached_property
    def queues(self) -> list[Queue]:
        return queues(self.work)

    @cached_property
    def idle(self) -> list[IdleTime]:
        return idle_times(self.work, self.devices)

    @cached_property
    def critical_path(self) -> CriticalPath:
        return CriticalPath(self.work)

    @cached_property
    def limits(self) -> list[Limits]:
        """What limits the run, for each device; the one that did most first."""
        found = [limits_of(self.work, use, self.device_name(use.device)) for use in self.devices]
        return sorted(found, key=lambda limits: -limits.by_cause[DEVICE])

    @cached_property
    def answer(self) -> str:
        """What limits the run, in a sentence; where the device does, a second one says with what."""
        if self.limits and self.limits[0].cause == DEVICE:
            return f"{self.limits[0].sentence} {self._families()}".strip()
        if self.limits:
            return self.limits[0].sentence
        return "Nothing of this recording ran on a device." if self.operators else "Nothing was recorded."

    def _families(self) -> str:
        """The kernels that take most, by what they do."""
        sums: dict[str, int] = {}
        for row in self.kernels:
            sums[row.family] = sums.get(row.family, 0) + row.device_ns
        whole = sum(sums.values())
        most = sorted(sums, key=lambda family: -sums[family])[:3]
        parts = [f"{family} {sums[family] / whole:.0%}" for family in most if whole]
        return f"Its kernels: {', '.join(parts)}." if parts else ""

    @cached_property
    def memory(self) -> list[DeviceMemory]:
        return device_memory(self.work.ops)

    @cached_property
    def sequences(self) -> list[Sequence]:
        return small_sequences(self.work)

    @cached_property
    def unattributed_ns(self) -> int:
        """Time on devices that no op of the trace asked for."""
        return int(self.work.total_ns[self.work.op < 0].sum())

    # Devices

    def device_name(self, device: int) -> str:
        """What the trace calls a device."""
        said = self.capture.metadata.get("deviceProperties")
        entries = [entry for entry in said if isinstance(entry, dict)] if isinstance(said, list) else []
        names = {entry.get("id"): entry["name"] for entry in entries if isinstance(entry.get("name"), str)}
        if device in names or len(set(names.values())) == 1:
            # Some writers list one device of several that are alike, under another number.
            return str(names.get(device, next(iter(names.values()))))
        places = self.work.metrics.track[self.work.place[self.work.device == device]]
        return self.capture.tracks[int(places[0])].process_name if len(places) else ""

    @cached_property
    def peak(self) -> Peak | None:
        """The peak of the devices of the capture, if it is known: of a run on the CPU this machine's, as measured."""
        if not len(self.work):
            return cpu_peak()
        names = {self.device_name(use.device) for use in self.devices}
        return peak_of(names.pop(), self._peaks) if len(names) == 1 else None

    @cached_property
    def roofline(self) -> list[RooflineRow]:
        peak, metrics = self.peak, self.work.metrics
        if peak is None or not len(metrics):
            return []
        if not len(self.work):
            return roofline(metrics, metrics.total_ns, peak, lambda place: "")
        launched = launched_time(self.work)
        return roofline(metrics, launched.of_events(metrics), peak, self._longest_kernel)

    def _longest_kernel(self, place: int) -> str:
        """The name of the longest kernel launched while an event was open on its thread."""
        metrics, work = self.work.metrics, self.work
        launch = work.launch
        inside = (launch >= 0) & (metrics.track[launch] == metrics.track[place])
        inside &= (metrics.start_ns[launch] >= metrics.start_ns[place]) & (
            metrics.start_ns[launch] <= metrics.end_ns[place]
        )
        found = np.flatnonzero(inside)
        return metrics.kind_of(int(work.kind[found[work.total_ns[found].argmax()]])).name if len(found) else ""

    # As plain values

    def as_dict(self) -> dict[str, Any]:
        """Everything, in microseconds and bytes, under the names that `docs/analysis.md` lists."""
        return {
            "answer": self.answer,
            "devices": [
                {
                    "device": use.device,
                    "name": self.device_name(use.device),
                    **_us(use, "span", "busy", "idle", "compute", "communication", "copy", "overlap"),
                }
                for use in self.devices
            ],
            "streams": [
                {
                    "device": use.device,
                    "stream": use.stream,
                    **_us(use, "busy", "idle", "host_wait", "kernel_wait", "other"),
                }
                for use in self.streams
            ],
            "operators": [_timed(row) for row in self.operators],
            "modules": [_timed(row) for row in self.modules],
            "kernels": self._kernel_values(),
            "copies": self._copy_values(),
            "unattributed_us": self.unattributed_ns / 1000,
            "critical_path": self._critical_path_values(),
            "queue": [
                {
                    "device": queue.device,
                    "stream": queue.stream,
                    "mean": queue.mean,
                    "max": queue.longest,
                    "full_us": queue.full / 1000,
                    "points": [[time / 1000, length] for time, length in queue.points()],
                }
                for queue in self.queues
            ],
            "limits": [
                {"device": limits.device, **{f"{cause}_us": time / 1000 for cause, time in limits.by_cause.items()}}
                for limits in self.limits
            ],
            "launches": self._launch_values(),
            "idle": [{"device": row.device, "us": row.time_ns / 1000, "stack": row.stack} for row in self.idle],
            "memory": [
                {
                    "device": row.device,
                    "peak_bytes": row.peak,
                    "peak_us": row.peak_ns / 1000,
                    "reserved_bytes": row.reserved,
                    "holders": [{"name": name, "bytes": nbytes} for name, nbytes in row.holders],
                }
                for row in self.memory
            ],
            "sequences": [
                {
                    "kernels": row.kernels,
                    "operators": row.operators,
                    "count": row.times,
                    "device_us": row.device_ns / 1000,
                    "between_us": row.between_ns / 1000,
                }
                for row in self.sequences
            ],
            "roofline": self._roofline_values(),
        }

    def _kernel_values(self) -> list[dict[str, Any]]:
        return [
            {
                "name": row.name,
                "kind": row.sort,
                "family": row.family,
                "calls": row.calls,
                "device_us": row.device_ns / 1000,
                "operators": row.operators,
            }
            for row in self.kernels
        ]

    def _copy_values(self) -> list[dict[str, Any]]:
        return [
            {
                "direction": row.direction,
                "count": row.copies,
                "bytes": row.nbytes,
                "us": row.time_ns / 1000,
                "gb_per_s": row.bandwidth,
                "pageable_count": row.pageable_count,
                "pageable_us": row.pageable_ns / 1000,
            }
            for row in self.copies
        ]

    def _critical_path_values(self) -> list[dict[str, Any]]:
        return [
            {
                "kind": part.sort,
                "name": part.name,
                "count": part.times,
                "us": part.time_ns / 1000,
                "gain_us": None if part.gain_ns is None else part.gain_ns / 1000,
            }
            for part in self.critical_path.parts
        ]

    def _launch_values(self) -> list[dict[str, Any]]:
        found = self.launches
        if found is None:
            return []
        times = _us(found, "call_median", "call_total", "delay_median", "delay_p90")
        return [
            {
                "count": found.launches,
                **times,
                "short_kernels": found.short_kernels,
                "short_kernels_us": found.short_kernels_ns / 1000,
            }
        ]

    def _roofline_values(self) -> list[dict[str, Any]]:
        peak = self.peak
        if peak is None:
            return []
        rows = [
            {
                "operator": row.operator,
                "family": row.family,
                "shapes": row.shapes,
                "dtype": row.dtype,
                "calls": row.calls,
                "flops": row.flops,
                "bytes": row.nbytes,
                "us": row.time_ns / 1000,
                "flops_per_s": row.achieved,
                "roof_flops_per_s": row.roof,
                "bound": row.bound,
            }
            for row in self.roofline
        ]
        peaks = {"flops_per_s": dict(peak.flops), "bytes_per_s": peak.bytes_per_s}
        return [{"device": peak.name, "source": peak.source, **peaks, "rows": rows}]


def _us(row: Any, *names: str) -> dict[str, float]:
    return {f"{name}_us": getattr(row, name) / 1000 for name in names}


def _timed(row: OperatorTime | ModuleTime) -> dict[str, Any]:
    return {
        "name": row.name,
        "calls": row.calls,
        **_us(row, "cpu_self", "cpu_total", "device_self", "device_total"),
    }


# What tells rows apart where those of several files are added up; rows of other lists stay apart, with their file.
_SUMMED = {
    "operators": ("name",),
    "modules": ("name",),
    "kernels": ("name", "kind", "family"),
    "copies": ("direction",),
}


def joined(found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """What was found in several files as one object of the same form, and of a single file as it is."""
    if len(found) == 1:
        return next(iter(found.values()))
    result: dict[str, Any] = {
        "files": list(found),
        "answer": " ".join(f"{path}: {part['answer']}" for path, part in found.items()),
        "unattributed_us": sum(part["unattributed_us"] for part in found.values()),
    }
    for key, value in next(iter(found.values())).items():
        if key in _SUMMED:
            result[key] = _added([row for part in found.values() for row in part[key]], _SUMMED[key])
        elif isinstance(value, list):
            result[key] = [{"file": path, **row} for path, part in found.items() for row in part[key]]
    return result


def _added(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows with the same names as one, their numbers added up; the longest first."""
    sums: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        known = sums.setdefault(tuple(row[key] for key in keys), {})
        for key, value in row.items():
            if isinstance(value, list):
                known[key] = list(dict.fromkeys([*known.get(key, []), *value]))
            else:
                known[key] = value if key in keys else known.get(key, 0) + value
    for total in sums.values():
        if "gb_per_s" in total:
            total["gb_per_s"] = total["bytes"] / total["us"] / 1000 if total["us"] else 0.0
    longest = next((key for key in ("device_us", "device_self_us", "us") if rows and key in rows[0]), "")
    return sorted(sums.values(), key=lambda total: -total.get(longest, 0))
