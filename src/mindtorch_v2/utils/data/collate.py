"""Putting samples together into batches."""

from __future__ import annotations

import collections.abc
import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dtype import float64
from ...core.tensor import Tensor
from ...ops.creation.convert import as_tensor, tensor
from ...ops.shape.join import stack

_ERROR = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_convert(data: Any) -> Any:
    """NumPy arrays as tensors, inside any nesting."""
    kind = type(data)
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _rebuilt(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return kind(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, collections.abc.Sequence):
        return [default_convert(d) for d in data]
    return data


def _rebuilt(sample: Any, values: dict[Any, Any]) -> Any:
    """A mapping of the sample's own kind where it can be made."""
    if isinstance(sample, collections.abc.MutableMapping):
        made = copy.copy(sample)
        made.update(values)
        return made
    try:
        return type(sample)(values)
    except TypeError:
        return values


def collate(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """Put a list of samples together by the type of the first; `collate_fn_map` adds or replaces rules."""
    first = batch[0]
    kind = type(first)
    if collate_fn_map:
        for known, rule in collate_fn_map.items():
            if isinstance(first, known):
                return rule(batch, collate_fn_map=collate_fn_map)
    again = lambda samples: collate(samples, collate_fn_map=collate_fn_map)  # noqa: E731
    if isinstance(first, collections.abc.Mapping):
        return _rebuilt(first, {key: again([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(again(samples) for samples in zip(*batch, strict=True)))
    if isinstance(first, collections.abc.Sequence):
        lengths = {len(sample) for sample in batch}
        if len(lengths) > 1:
            raise RuntimeError("each element in list of batch should be of equal size")
        return [again(samples) for samples in zip(*batch, strict=True)]
    raise TypeError(_ERROR.format(kind))


def _tensors(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return stack(list(batch), 0)


def _arrays(batch: Any, *, collate_fn_map: Any = None) -> Any:
    if batch[0].dtype.kind in "SUO":
        raise TypeError(_ERROR.format(batch[0].dtype))
    return stack([as_tensor(b) for b in batch], 0)


def _numpy_numbers(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return as_tensor(np.asarray(batch))


default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: _tensors,
    np.ndarray: _arrays,
    (np.bool_, np.number, np.object_): _numpy_numbers,
    float: lambda batch, collate_fn_map=None: tensor(batch, dtype=float64),
    int: lambda batch, collate_fn_map=None: tensor(batch),
    str: lambda batch, collate_fn_map=None: batch,
    bytes: lambda batch, collate_fn_map=None: batch,
}


def default_collate(batch: Any) -> Any:
    """Samples as one batch: tensors stacked, numbers as tensors, containers entry by entry."""
    return collate(batch, collate_fn_map=default_collate_fn_map)
