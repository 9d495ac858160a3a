"""Kernels by name and family with the ops that launch them, and copies by direction with their bandwidth."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from .work import COPY, SORTS, Work

# What kernels of these names do, the first that fits. Names are those of cuBLAS, cuDNN, CUTLASS, hipBLASLt (Cijk), MIOpen,
# Composable Kernel, Triton's from torch.compile, FlashAttention, and torch's own.
_FAMILIES = tuple(
    (family, re.compile(pattern, re.IGNORECASE).search)
    for family, pattern in (
        ("attention", r"flash|fmha|attn|attention|sdpa"),
        ("normalisation", r"batch_?norm|layer_?norm|rms_?norm|group_?norm|\bbn_(fw|bw)|_norm_kernel|welford"),
        ("embedding", r"embedding|index_select|gather|scatter|sparse|index_put|indexing"),
        ("convolution", r"conv|scudnn|fprop|dgrad|wgrad|winograd|im2col|col2im|_wrw_"),
        ("matmul", r"(?<!fb)gemm|gemv|cijk_|matmul|(^|_)b?mm_|nvjet|splitk|cutlass|wmma|dot_kernel"),
        ("optimizer", r"multi_tensor|foreach|adam|adagrad|sgd|lamb_"),
        ("softmax", r"softmax"),
        ("sort", r"sort|topk|top_k|cub::|rocprim|scan_|cumsum|argmax"),
        ("pooling", r"pool"),
        ("random", r"distribution_|philox|rand|dropout"),
        ("layout", r"nchw|nhwc|transpose|catarray|cat_|pad_|copy"),
        ("reduction", r"reduce|triton_(red|per)_|_sum_|mean"),
        ("elementwise", r"elementwise|triton_poi_|unrolled|vectorized|activation|relu|gelu|silu|fill|cast|quant"),
    )
)
_DIRECTION = re.compile(r"\b([HDMSPA])(?:to|2)([HDMSPA])\b")
_DIRECTION_WORDS = re.compile(r"(host|device|peer|array)_?to_?(host|device|peer|array)", re.IGNORECASE)
_PAGEABLE = re.compile("pageable", re.IGNORECASE)
UNKNOWN = "unknown"


def family_of(name: str) -> str:
    """What a kernel of this name does: matmul, attention and so on, `other` where its name does not tell."""
    return next((family for family, fits in _FAMILIES if fits(name)), "other")


class KernelTime(NamedTuple):
    """A kernel, copy or set by name; `operators` are the names of ops that launch it, most time first."""

    name: str
    sort: str
    family: str
    calls: int
    device_ns: int
    operators: list[str]


def kernel_times(work: Work) -> list[KernelTime]:
    """A row for each name, longest in sum first."""
    metrics = work.metrics
    rows = []
    for kinds in _grouped(work).values():
        mine = np.flatnonzero(np.isin(work.kind, kinds))
        ops = work.op[mine]
        by_op: dict[str, int] = {}
        known, which = np.unique(np.where(ops >= 0, metrics.kind[ops], -1), return_inverse=True)
        times = np.bincount(which.reshape(-1), weights=work.total_ns[mine])
        for kind, time in zip(known.tolist(), times.tolist()):
            if kind >= 0:
                name = metrics.kind_of(kind).name
                by_op[name] = by_op.get(name, 0) + int(time)
        kernel, sort = metrics.kind_of(kinds[0]).name, int(work.sort[mine[0]])
        family = family_of(kernel) if sort == 0 else SORTS[sort]
        operators = sorted(by_op, key=lambda name: -by_op[name])
        rows.append(KernelTime(kernel, SORTS[sort], family, len(mine), int(work.total_ns[mine].sum()), operators))
    return sorted(rows, key=lambda row: (-row.device_ns, row.name))


def _grouped(work: Work) -> dict[tuple[str, int], list[int]]:
    """Numbers of kinds by name and sort."""
    found: dict[tuple[str, int], list[int]] = {}
    kinds, first = np.unique(work.kind, return_index=True)
    for kind, place in zip(kinds.tolist(), first.tolist()):
        found.setdefault((work.metrics.kind_of(kind).name, int(work.sort[place])), []).append(kind)
    return found


class CopyTime(NamedTuple):
    """Copies in one direction, and what of them is from or to pageable memory of the host."""

    direction: str
    copies: int
    nbytes: int
    time_ns: int
    pageable_count: int
    pageable_ns: int

    @property
    def bandwidth(self) -> float:
        """Gigabytes a second."""
        return self.nbytes / self.time_ns if self.time_ns else 0.0


def copy_times(work: Work) -> list[CopyTime]:
    """A row for each direction, longest in sum first."""
    found: dict[str, list[int]] = {}
    for place in np.flatnonzero(work.sort == COPY).tolist():
        found.setdefault(_direction(work, place), []).append(place)
    rows = []
    for direction, places in found.items():
        names = [work.metrics.kind_of(kind).name for kind in work.kind[places].tolist()]
        pageable = np.array([_PAGEABLE.search(name) is not None for name in names])
        time = work.total_ns[places]
        sizes = (work.arguments(place) for place in places)
        rows.append(
            CopyTime(
                direction,
                len(places),
                sum(_whole(size.get("bytes", size.get("size"))) for size in sizes),
                int(time.sum()),
                int(pageable.sum()),
                int(time[pageable].sum()),
            )
        )
    return sorted(rows, key=lambda row: -row.time_ns)


def _direction(work: Work, place: int) -> str:
    """From where to where, as `HtoD`: H is the host, D a device, P a peer, A an array, M memory, S shared memory."""
    name = work.metrics.kind_of(int(work.kind[place])).name
    arguments = work.arguments(place)
    for text in (name, *(arguments.get(key) for key in ("kind", "direction"))):
        if isinstance(text, str):
            if found := _DIRECTION.search(text):
                return f"{found[1]}to{found[2]}"
            if words := _DIRECTION_WORDS.search(text):
                return f"{words[1][0].upper()}to{words[2][0].upper()}"
    return UNKNOWN


def _whole(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
