"""Rows of sequences of different lengths: padded to one length, or packed step by step without padding.

Packed data holds step 0 of all sequences, then step 1 of those that have one, and so on, longest sequence first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import tap
from ...core.tensor import Tensor, make, storage_of
from ...dispatch.op import composite, op
from ..creation.fill import empty, full
from ..meta import shapes
from ..shape.join import cat
from ..shape.slice import narrow

_PLAIN = frozenset((np.dtype(np.float32), np.dtype(np.float64)))

# --- packing ----------------------------------------------------------------------------------------------------------


def _check_lengths(lengths: Any, batch: int) -> None:
    if lengths.ndim != 1 or lengths.shape[0] != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.shape[0] if lengths.ndim else 0} "
            f"(batch_size={batch})"
        )
    if lengths.size and lengths[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if (np.diff(lengths) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do "
            "not need ONNX exportability."
        )


def _steps(lengths: Any) -> Any:
    """How many sequences have each step."""
    return (lengths[:, None] > np.arange(lengths[0])).sum(0).astype(np.int64)


def _time_first(a: Any, batch_first: bool) -> Any:
    return a.swapaxes(0, 1) if batch_first else a


@op(
    "_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)",
    meta=shapes.needs_values,
    input=lambda grads, input_sizes, result1, batch_first: _unpacked(grads[0], input_sizes, result1, batch_first),
    nondiff=(1,),
    out=False,
    method=False,
)
def _pack_padded_sequence(a: Any, lengths: Any, batch_first: bool) -> Any:
    a = _time_first(a, batch_first)
    if a.size == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    _check_lengths(lengths, a.shape[1])
    sizes = _steps(lengths)
    return np.concatenate([a[i, :size] for i, size in enumerate(sizes.tolist())]), sizes


@op(
    "_pack_padded_sequence_backward(Tensor grad, int[] input_size, Tensor batch_sizes, bool batch_first) -> Tensor",
    meta=shapes.sized_by(1),
    grad=lambda g, batch_sizes, batch_first: _repacked(g, batch_sizes, batch_first),
    out=False,
    method=False,
)
def _pack_padded_sequence_backward(g: Any, input_size: Any, batch_sizes: Any, batch_first: bool) -> Any:
    shape = (input_size[1], input_size[0], *input_size[2:]) if batch_first else tuple(input_size)
    result = np.zeros(shape, g.dtype)
    start = 0
    for i, size in enumerate(batch_sizes.tolist()):
        result[i, :size] = g[start : start + size]
        start += size
    return np.ascontiguousarray(_time_first(result, batch_first)) if batch_first else result


def _unpacked(g: Any, input_sizes: Any, batch_sizes: Any, batch_first: bool) -> Any:
    return _pack_padded_sequence_backward.function(g, list(input_sizes), batch_sizes, batch_first)


def _repacked(g: Any, batch_sizes: Any, batch_first: bool) -> Any:
    g = g.transpose(0, 1) if batch_first else g
    return cat([g[i, :size] for i, size in enumerate(batch_sizes._a.tolist())], 0)


# --- unpacking --------------------------------------------------------------------------------------------------------


@composite(
    "_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length) "
    "-> (Tensor, Tensor)",
    method=False,
)
def _pad_packed_sequence(data: Any, batch_sizes: Any, batch_first: bool, padding_value: Any, total_length: int) -> Any:
    sizes = batch_sizes._a.tolist()
    batch = sizes[0]
    shape = (max(len(sizes), total_length), batch, *data._a.shape[1:])
    output = full(shape, padding_value, dtype=data.dtype, device=data.device)
    lengths = empty((batch,), dtype=batch_sizes.dtype)
    start = first = 0
    for i, size in enumerate([*sizes[1:], 0]):
        # Steps first..i hold the same sequences: they move as one block.
        if size != sizes[i]:
            steps, part = i + 1 - first, sizes[i]
            block = narrow(data, 0, start, steps * part).view((steps, part, *data._a.shape[1:]))
            narrow(narrow(output, 0, first, steps), 1, 0, part).copy_(block)
            lengths._a[size:part] = i + 1
            start += steps * part
            first = i + 1
    return (output.transpose(0, 1) if batch_first else output), lengths


# --- padding ----------------------------------------------------------------------------------------------------------


def _padded_plainly(sequences: Any, batch_first: bool, padding_value: Any, padding_side: str) -> Any:
    """Plain sequences of one dtype and trailing shape, where nobody records or builds a graph; else None."""
    first = sequences[0]._a
    if tap.NAMESPACE["HOOK"] or first.dtype not in _PLAIN or type(padding_value) not in (int, float):
        return None
    lengths = []
    for s in sequences:
        a = s._a
        if type(s) is not Tensor or s._ag is not None or s._view is not None or a.dtype is not first.dtype:
            return None
        if not a.ndim or a.shape[1:] != first.shape[1:]:
            return None
        lengths.append(a.shape[0])
    longest = max(lengths)
    padded = np.empty((len(lengths), longest, *first.shape[1:]), first.dtype)
    by_sequence = padded if batch_first else padded.reshape(longest, len(lengths), *first.shape[1:]).swapaxes(0, 1)
    padded.fill(padding_value)
    for place, s, n in zip(by_sequence, sequences, lengths):
        place[longest - n if padding_side == "left" else 0 :][:n] = s._a
    made = make(padded if batch_first else by_sequence.swapaxes(0, 1))
    storage_of(made).version = len(lengths)  # as often as sequences are copied into it
    return made


@composite(
    'pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0.0, str padding_side="right") -> '
    "Tensor",
    method=False,
)
def _pad_sequence(sequences: Any, batch_first: bool, padding_value: float, padding_side: str) -> Any:
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    quick = _padded_plainly(sequences, batch_first, padding_value, padding_side)
    if quick is not None:
        return quick
    first = sequences[0]
    longest = max(s._a.shape[0] for s in sequences)
    trailing = first._a.shape[1:]
    lead = (len(sequences), longest) if batch_first else (longest, len(sequences))
    output = full((*lead, *trailing), padding_value, dtype=first.dtype, device=first.device)
    for i, sequence in enumerate(sequences):
        n = sequence._a.shape[0]
        place = output[i] if batch_first else output[:, i]
        narrow(place, 0, longest - n if padding_side == "left" else 0, n).copy_(sequence)
    return output


pad_sequence = _pad_sequence.function
