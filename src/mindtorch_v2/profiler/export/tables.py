"""A capture as five tables of flat columns: events, steps, modules, memory and kernels. What queries and Arrow readers get.

`docs/query.md` describes every column. Every table begins with `rank` and `process`, so that tables of many ranks can be put
under each other. Times are microseconds from the start of the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analyse.devices.work import SORTS, Work
from ..analyse.memory import Category, categories
from ..analyse.metrics import Metrics
from ..analyse.modules import Modules
from ..analyse.samples import steps_of_events
from ..capture.capture import STEP_PREFIX
from ..record import step_clock
from .flat import columns_of_events
from .texts import writable

Columns = dict[str, Sequence[Any] | NDArray[Any]]
Ints = NDArray[np.int64]


def _origin(metrics: Metrics, tracks: NDArray[Any]) -> Columns:
    """The rank that a capture says it is of, and the process of each row."""
    capture = metrics.capture
    said = capture.metadata.get("distributedInfo")
    rank = said.get("rank") if isinstance(said, dict) else None
    pids = [track.pid or capture.pid for track in capture.tracks]
    # A capture of one process is one rank's; several were merged and differ.
    known = rank if type(rank) is int and len(set(pids)) == 1 else None
    return {"rank": [known] * len(tracks), "process": np.array([pids[track] for track in tracks.tolist()], np.int64)}


def _optional(values: Ints) -> list[int | None]:
    return [value if value >= 0 else None for value in values.tolist()]


def _names(metrics: Metrics, places: Ints) -> list[str]:
    kinds = metrics.kind[places].tolist()
    known = {kind: metrics.kind_of(kind).name for kind in set(kinds)}
    return [known[kind] for kind in kinds]


def _times(start_ns: Ints, end_ns: Ints) -> Columns:
    return {"start_us": start_ns / 1000, "end_us": end_ns / 1000, "duration_us": (end_ns - start_ns) / 1000}


def events(metrics: Metrics) -> Columns:
    """A row an event, as event lists have them, with its step and its module."""
    modules = Modules(metrics)
    paths = [modules.names[number] if number else None for number in modules.path.tolist()]
    rest = columns_of_events(metrics)
    del rest["process"]
    steps = _optional(steps_of_events(metrics)[0])
    # Event lists number Python functions all alike; here each row has a number of its own.
    numbers: Columns = {"id": np.arange(len(metrics)), "parent_id": _optional(metrics.parent)}
    return {**_origin(metrics, metrics.track), **rest, **numbers, "step": steps, "module": paths}


def steps(metrics: Metrics) -> Columns:
    """A row a step, with what the clocks of the process said of it where they were read."""
    marks = metrics.of_kinds(lambda kind: kind.name.startswith(STEP_PREFIX))
    number = steps_of_events(metrics)[0]
    # The mark of a step is the first event in it.
    places = np.flatnonzero(marks & (number >= 0))
    inner = metrics.parent[places]
    places = places[~((inner >= 0) & marks[np.maximum(inner, 0)])]
    places = places[np.argsort(metrics.start_ns[places], kind="stable")]
    names = _names(metrics, places)
    clock = step_clock.stated(metrics.capture.metadata)
    rows = {int(step): place for place, step in enumerate(clock.get("step", ()))}
    found = [rows.get(_number(name), -1) for name in names]

    def read(column: str) -> list[float | None]:
        return [clock[column][place].item() / 1000 if place >= 0 else None for place in found]

    return {
        **_origin(metrics, metrics.track[places]),
        "step": number[places],
        "name": names,
        "id": places,
        **_times(metrics.start_ns[places], metrics.end_ns[places]),
        "cpu_us": read("cpu_ns"),
        "thread_cpu_us": read("thread_cpu_ns"),
        "switches": [clock["switches"][place].item() if place >= 0 else None for place in found],
    }


def _number(name: str) -> int:
    text = name.removeprefix(STEP_PREFIX)
    return int(text) if text.isdecimal() and len(text) < 19 else -1


def modules(metrics: Metrics) -> Columns:
    """A row a call of a module in forward."""
    found = Modules(metrics)
    places = np.flatnonzero(found.calls)
    inner = np.bincount(found.call[found.call >= 0], weights=metrics.self_ns[found.call >= 0], minlength=len(metrics))
    return {
        **_origin(metrics, metrics.track[places]),
        "step": _optional(steps_of_events(metrics)[0][places]),
        "id": places,
        "path": [found.names[number] for number in found.path[places].tolist()],
        "name": _names(metrics, places),
        **_times(metrics.start_ns[places], metrics.end_ns[places]),
        "self_us": inner[places] / 1000,
    }


def memory(metrics: Metrics) -> Columns:
    """A row a block of memory that was allocated while recording."""
    blocks, sorts, _ = categories(metrics)
    capture = metrics.capture
    lived = blocks.end_ns <= capture.stop_ns - capture.start_ns
    ends = [end / 1000 if gone else None for end, gone in zip(blocks.end_ns.tolist(), lived.tolist())]
    threads = np.array([track.index for track in capture.tracks], np.int64)
    return {
        **_origin(metrics, blocks.track),
        "thread": threads[blocks.track] if len(blocks) else np.zeros(0, np.int64),
        "address": blocks.address,
        "nbytes": blocks.nbytes,
        "allocated_us": blocks.start_ns / 1000,
        "freed_us": ends,
        "category": [Category(sort).name.lower() for sort in sorts.tolist()],
    }


def kernels(metrics: Metrics) -> Columns:
    """A row a piece of work on a device: a kernel, a copy, a set."""
    work = Work(metrics)
    asked = work.op >= 0
    ops = iter(_names(metrics, work.op[asked]))
    names = [next(ops) if has else None for has in asked.tolist()]
    return {
        **_origin(metrics, metrics.track[work.place]),
        "step": _optional(steps_of_events(metrics)[0][work.place]),
        "id": work.place,
        "name": _names(metrics, work.place),
        "sort": [SORTS[sort] for sort in work.sort.tolist()],
        "device": work.device,
        "stream": work.stream,
        **_times(work.start_ns, work.end_ns),
        "op": names,
        "op_id": _optional(work.op),
    }


TABLES: dict[str, Callable[[Metrics], Columns]] = {
    "events": events,
    "steps": steps,
    "modules": modules,
    "memory": memory,
    "kernels": kernels,
}

# What columns hold where no row has a value for them, by name.
_EMPTY_NUMBERS = frozenset("rank step parent_id op_id cpu_us thread_cpu_us switches freed_us".split())


def arrow_table(columns: Columns) -> Any:
    """Columns as an Arrow table."""
    try:
        import pyarrow  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("Arrow tables need pyarrow: pip install 'mindtorch-v2[arrow]'") from error
    arrays = {}
    for name, column in columns.items():
        if not isinstance(column, list):
            arrays[name] = pyarrow.array(column)
            continue
        values = [writable(value) if isinstance(value, str) else value for value in column]
        empty = all(value is None for value in values)
        number = pyarrow.float64() if name.endswith("_us") else pyarrow.int64()
        arrays[name] = pyarrow.array(
            values, type=(number if name in _EMPTY_NUMBERS else pyarrow.string()) if empty else None
        )
    return pyarrow.table(arrays)
