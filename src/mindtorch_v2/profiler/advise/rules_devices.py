"""Rules about devices: launches that come too late, waiting for the device, slow copies, small kernels, communication that
nothing hides, and casts there. Savings are times of the device that limits the run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..analyse.devices.analysis import Analysis
from ..analyse.devices.intervals import gaps
from ..analyse.devices.limits import EXPOSED, HOST, SYNCHRONISATION, Limits
from ..analyse.devices.moments import waits_for_devices
from ..analyse.devices.work import COMPUTE, COPY
from .findings import Finding, Run, spoken

# Below these there is nothing to say: kernels to speak of, and the part of them that is small.
_LEAST_KERNELS, _SMALL_PART = 100, 0.3
_LEAST_HOST_SHARE = 0.15


def on_devices(run: Run) -> Iterator[Finding]:
    """All that there is to say of devices."""
    found = run.devices
    if found is None:
        return
    limits = found.limits[0]
    for rule in (_late_launches, _synchronisations, _pageable_copies, _small_kernels, _communication, _casts):
        yield from rule(run, found, limits)


def _of_span(limits: Limits, time_ns: float) -> str:
    return f"{spoken(time_ns)}, {time_ns / max(limits.span, 1):.0%} of the device's time"


def _finding(
    run: Run, limits: Limits, rule: str, title: str, advice: str, events: NDArray[np.intp], time_ns: int
) -> Finding:
    share = min(1.0, time_ns / max(limits.span, 1))
    spots = run.places.spots(events)
    return Finding(rule, run.level(share), title, advice, len(events), time_ns, share, spots, on_device=True)


def _late_launches(run: Run, found: Analysis, limits: Limits) -> Iterator[Finding]:
    """The device has nothing to do since the host launches too slowly."""
    time = limits.by_cause[HOST]
    if time < _LEAST_HOST_SHARE * limits.span:
        return
    work = found.work
    idle = gaps(next(use.covered for use in found.devices if use.device == limits.device))
    mine = np.flatnonzero(work.device == limits.device)
    after = mine[np.searchsorted(work.start_ns[mine], idle.end)]
    longest = after[np.argsort(idle.start - idle.end, kind="stable")[:_LEAST_KERNELS]]
    ops = np.unique(work.op[longest][work.op[longest] >= 0])
    title = f"The device waits for launches: {_of_span(limits, time)}"
    advice = (
        "The host does not launch kernels as fast as the device runs them. Larger batches, torch.compile, CUDA graphs and "
        "fused or foreach optimizers need fewer launches; the view of devices shows what the CPU did in the gaps."
    )
    yield _finding(run, limits, "late_launches", title, advice, ops, time)


def _synchronisations(run: Run, found: Analysis, limits: Limits) -> Iterator[Finding]:
    """Calls that wait for the device, after which it has nothing to do."""
    time = limits.by_cause[SYNCHRONISATION]
    calls, _ = waits_for_devices(found.work)
    calls = np.unique(calls)
    if not len(calls) or not time:
        return
    title = f"{len(calls):,} calls wait for the device, which is idle after them: {_of_span(limits, time)}"
    advice = (
        "item(), cpu(), nonzero() and prints of tensors wait until everything launched is done. Read losses rarely, copy with "
        "non_blocking=True from and to pinned memory, and keep conditions on the device."
    )
    yield _finding(run, limits, "device_waits", title, advice, calls, time)


def _pageable_copies(run: Run, found: Analysis, limits: Limits) -> Iterator[Finding]:
    """Copies from or to memory of the host that may be paged out."""
    work = found.work
    pageable = run.metrics.of_kinds(lambda kind: "pageable" in kind.name.lower())[work.place] & (work.sort == COPY)
    time = int(work.total_ns[pageable].sum())
    if not time:
        return
    ops = work.op[pageable]
    title = f"{int(pageable.sum()):,} copies are from or to pageable memory: {_of_span(limits, time)}"
    advice = (
        "The driver copies pageable memory a second time, and the host waits meanwhile. "
        "DataLoader(pin_memory=True) or tensor.pin_memory(), then to(device, non_blocking=True)."
    )
    yield _finding(run, limits, "pageable_copies", title, advice, np.unique(ops[ops >= 0]), time)


def _small_kernels(run: Run, found: Analysis, limits: Limits) -> Iterator[Finding]:
    """Kernels that take less time than launching them, where the device waits for launches."""
    launches = found.launches
    if launches is None or launches.short_kernels < max(_LEAST_KERNELS, _SMALL_PART * launches.launches):
        return
    work, metrics = found.work, run.metrics
    tied = np.flatnonzero((work.launch >= 0) & (work.sort == COMPUTE))
    short = tied[work.total_ns[tied] < metrics.total_ns[work.launch[tied]]]
    time = min(limits.by_cause[HOST], int(metrics.total_ns[np.unique(work.launch[short])].sum()))
    if not time:
        return
    ops = np.unique(work.op[short][work.op[short] >= 0])
    title = f"{launches.short_kernels:,} of {launches.launches:,} kernels take less time than launching them"
    advice = (
        "Fuse them (torch.compile, fused optimizers) or launch them as one CUDA graph; larger batches make them longer."
    )
    if found.sequences:
        most = found.sequences[0]
        advice += (
            f" The most frequent sequence of small kernels has {len(most.kernels)} and comes {most.times:,} times."
        )
    yield _finding(run, limits, "small_kernels", title, advice, ops, time)


def _communication(run: Run, found: Analysis, limits: Limits) -> Iterator[Finding]:
    """Communication that no compute kernel runs beside."""
    time = limits.by_cause[EXPOSED]
    if not time:
        return
    work = found.work
    ops = work.op[(work.sort == 1) & (work.device == limits.device)]
    title = f"Communication runs without compute beside it: {_of_span(limits, time)}"
    advice = (
        "Overlap it with backward: larger or fewer buckets (bucket_cap_mb), gradient_as_bucket_view=True, no_sync() while "
        "gradients add up, or FSDP with prefetching."
    )
    yield _finding(run, limits, "exposed_communication", title, advice, np.unique(ops[ops >= 0]), time)


def _casts(run: Run, found: Analysis, limits: Limits) -> Iterator[Finding]:
    """Kernels that change the type of tensors."""
    work, metrics = found.work, run.metrics
    parent = np.where(work.op >= 0, metrics.parent[work.op], -1)
    is_cast = metrics.of_kinds(lambda kind: kind.name == "aten::_to_copy")
    casts = (parent >= 0) & is_cast[parent] & (work.sort == COMPUTE)
    time = int(work.total_ns[casts].sum())
    if not time:
        return
    title = f"{int(casts.sum()):,} kernels change the type of tensors: {_of_span(limits, time)}"
    advice = "Keep activations in one type: autocast around whole modules, norms that take bfloat16, constants made in that type."
    yield _finding(run, limits, "device_casts", title, advice, np.unique(parent[casts]), time)
