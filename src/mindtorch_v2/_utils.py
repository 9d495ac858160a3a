"""torch._utils, which is private and yet used: many tensors as one flat one and back, and errors of other processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .ops.shape.join import cat
from .serialization.rebuild import _rebuild_parameter, _rebuild_sparse_tensor, _rebuild_tensor, _rebuild_tensor_v2
from .utils.data.worker import ExceptionWrapper

__all__ = [
    "ExceptionWrapper",
    "_flatten_dense_tensors",
    "_get_device_index",
    "_rebuild_parameter",
    "_rebuild_sparse_tensor",
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_take_tensors",
    "_unflatten_dense_tensors",
]


def _flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    """All their elements in one row."""
    return cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Views of a flat tensor with the shapes of `tensors`."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view_as(t) for part, t in zip(parts, tensors, strict=True))


def _take_tensors(tensors: Iterable[Any], size_limit: int) -> Iterator[list[Any]]:
    """Tensors in groups of one dtype of about so many bytes."""
    groups: dict[Any, list[Any]] = {}
    for t in tensors:
        group = groups.setdefault(t.dtype, [])
        if group and sum(g.nbytes for g in group) + t.nbytes > size_limit:
            yield group
            group = groups[t.dtype] = []
        group.append(t)
    yield from (group for group in groups.values() if group)


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device; -1 for the CPU."""
    return -1 if allow_cpu or getattr(device, "type", device) == "cpu" else int(device or 0)
