"""Who asked for the work of devices: each row of a device with its launch, its op and what runs around them, in arrays.

All columns run over the rows of a `Metrics`; a tie is the place of another row, -1 where there is none:

| column | what it holds |
|---|---|
| `sort` | HOST for rows of threads; of devices: KERNEL, COPY, SET, SYNC (waiting), ANNOTATION (a user's region, seen there) |
| `device`, `stream` | where a row of a device ran; -1 for rows of threads |
| `external`, `correlation` | the External id and the correlation id that the file tells, 0 for none |
| `launch` | the call of the runtime that launched the work: the one with its correlation id, one for many in a graph |
| `op` | the op that asked for it: the one of its External id, else the innermost open on the thread of the launch |
| `annotation` | the user's region of its External id, else the innermost open on the thread of the launch |
| `forward` | for work that a node of autograd asked for: the forward op, by sequence number |

Work is what is a KERNEL, a COPY or a SET. `op == -1` says that no op of the file asked for it: its time is a figure of its
own, `unattributed_ns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..capture.capture import CPU_OP, GPU_USER_ANNOTATION, USER_ANNOTATION, Kind
from . import tree

if TYPE_CHECKING:
    from .metrics import Metrics

Ints = NDArray[np.int64]
HOST, KERNEL, COPY, SET, SYNC, ANNOTATION = range(6)
_SORTS = {
    "kernel": KERNEL,
    "gpu_memcpy": COPY,
    "gpu_memset": SET,
    "cuda_sync": SYNC,
    GPU_USER_ANNOTATION: ANNOTATION,
    "cuda_profiler_range": ANNOTATION,
}
# MTIA writes all its rows under one category.
_SORTS_BY_NAME = {"dma_": COPY, "event_": SYNC, "synchronize": SYNC}


def is_launch(category: str) -> bool:
    """Whether events of a category are calls that may launch work on a device."""
    return category.endswith(("_runtime", "_driver"))


def sort_of(kind: Kind) -> int:
    """The sort of a row of a device. Categories that nobody knows are work."""
    found = _SORTS.get(kind.category)
    if found is not None:
        return found
    if is_launch(kind.category):
        return SYNC
    return next((sort for begin, sort in _SORTS_BY_NAME.items() if kind.name.startswith(begin)), KERNEL)


class DeviceLinks(NamedTuple):
    """See the module's own text."""

    sort: NDArray[np.int8]
    device: Ints
    stream: Ints
    external: Ints
    correlation: Ints
    launch: Ints
    op: Ints
    annotation: Ints
    forward: Ints

    @property
    def asked(self) -> Ints:
        """What asked for each piece of work: an op or, where no op did, a user's region around the launch."""
        return np.where(self.is_work, np.where(self.op >= 0, self.op, self.annotation), -1)

    @property
    def is_work(self) -> NDArray[np.bool_]:
        return (self.sort >= KERNEL) & (self.sort <= SET)

    def unattributed_ns(self, total_ns: Ints) -> int:
        """Time of work that no op asked for, from the lengths of all rows."""
        return int(total_ns[self.is_work & (self.op < 0)].sum())


def device_links(metrics: Metrics) -> DeviceLinks:
    """The links of all rows. Where an op and its lone echo are shown as one, that one has the work of both."""
    whole = metrics.whole()
    found = _links(whole)
    if whole is metrics:
        return found
    dropped = whole.echoes
    nearest = np.where(dropped, tree.splice(whole.parent, dropped), np.arange(len(whole)))
    place = np.cumsum(~dropped) - 1

    def shown(rows: Ints) -> Ints:
        return np.where(rows >= 0, place[nearest[rows]], -1)

    linked = [shown(rows) for rows in (found.launch, found.op, found.annotation, found.forward)]
    plain = (found.sort, found.device, found.stream, found.external, found.correlation)
    columns: list[NDArray[Any]] = [*plain, *linked]
    return DeviceLinks(*(column[~dropped] for column in columns))


def _links(metrics: Metrics) -> DeviceLinks:
    """The links of all rows, lone echoes among them."""
    count, track = len(metrics), metrics.track
    tracks = metrics.capture.tracks
    sort = np.where(metrics.is_device, metrics.of_kinds(sort_of, np.int8), HOST).astype(np.int8)
    device, stream = (
        np.array([number if one.device_type else -1 for one, number in zip(tracks, numbers)], np.int64)[track]
        for numbers in ([one.device_index for one in tracks], [one.native_id for one in tracks])
    )
    external, correlation = metrics.ties
    process = np.array([one.pid for one in tracks], np.int64)[track]
    work = np.flatnonzero((sort >= KERNEL) & (sort <= SYNC))
    host = ~metrics.is_device

    launches = np.flatnonzero(host & metrics.of_kinds(lambda kind: is_launch(kind.category)) & (correlation != 0))
    launch = np.full(count, -1, np.int64)
    launch[work] = _same(process, correlation, launches, work)
    launched = work[launch[work] >= 0]

    is_op = host & metrics.of_kinds(lambda kind: kind.category == CPU_OP)
    op = np.full(count, -1, np.int64)
    ops = np.flatnonzero(is_op & (external != 0))
    op[work] = _same(process, external, ops, work)
    by_call = launched[op[launched] < 0]
    op[by_call] = _same(process, external, ops, launch[by_call])
    by_time = launched[op[launched] < 0]
    op[by_time] = _open_at(metrics, is_op, launch[by_time])

    annotation = np.full(count, -1, np.int64)
    is_annotation = host & metrics.of_kinds(lambda kind: kind.category == USER_ANNOTATION)
    annotation[work] = _same(process, external, np.flatnonzero(is_annotation & (external != 0)), work)
    by_time = launched[annotation[launched] < 0]
    annotation[by_time] = _open_at(metrics, is_annotation, launch[by_time])

    forward = np.full(count, -1, np.int64)
    asked = work[op[work] >= 0]
    forward[asked] = metrics.forward_op[op[asked]]
    return DeviceLinks(sort, device, stream, external, correlation, launch, op, annotation, forward)


def _same(group: Ints, number: Ints, known: Ints, wanted: Ints) -> Ints:
    """For each wanted row the last known one of its group with the same number, which is not 0; else -1."""
    found = _last_before(group, number, known, wanted)
    hit = (found >= 0) & (number[wanted] != 0)
    return np.where(hit & (number[found] == number[wanted]), found, -1)


def _last_before(group: Ints, number: Ints, known: Ints, wanted: Ints) -> Ints:
    """For each wanted row the known one of its group with the largest number that is not above its own; else -1.

    Of several with the same number it is the last.
    """
    rows = np.concatenate([known, wanted])
    is_wanted = np.arange(len(rows)) >= len(known)
    order = np.lexsort((is_wanted, number[rows], group[rows]))
    rows, is_wanted = rows[order], is_wanted[order]
    last = np.maximum.accumulate(np.where(is_wanted, -1, np.arange(len(rows))))
    found = np.where(last >= 0, rows[last], -1)
    found = np.where((found >= 0) & (group[found] == group[rows]), found, -1)
    result = np.empty(len(rows), np.int64)
    result[order] = found
    return result[len(known) :]


def _open_at(metrics: Metrics, chosen: NDArray[np.bool_], launches: Ints) -> Ints:
    """For each launch the innermost of the chosen rows that was open on its thread when it began; else -1."""
    places = np.flatnonzero(chosen)
    if not len(places) or not len(launches):
        return np.full(len(launches), -1, np.int64)
    found = _last_before(metrics.track.astype(np.int64), metrics.start_ns, places, launches)
    position = np.where(found >= 0, np.searchsorted(places, found), -1)
    parent = tree.compact(tree.splice(metrics.parent, ~chosen), chosen)
    position = tree.climb(parent, metrics.end_ns[places], position, metrics.start_ns[launches])
    return np.where(position >= 0, places[position], -1)
