"""Sequences of different lengths: padding them to one length, packing them step by step, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ...core import dtype
from ...core.device import contiguous_format
from ...core.tensor import Tensor
from ...ops.creation.convert import as_tensor
from ...ops.creation.fill import empty_like
from ...ops.creation.ranges import arange
from ...ops.network.sequence import _pack_padded_sequence, _pad_packed_sequence
from ...ops.network.sequence import pad_sequence as _pad_sequence
from ...ops.reduction.sort import sort


class PackedSequence_(NamedTuple):
    """The fields of PackedSequence."""

    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(PackedSequence_):
    """Sequences without padding: all first steps, then all second steps, and so on, longest sequence first.

    `batch_sizes` says how many sequences have each step; the indices lead from the given order to that by length and
    back.
    """

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They "
                "should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _with(self, data: Any, move: Any) -> PackedSequence:
        indices = [None if i is None else move(i) for i in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(data, self.batch_sizes, *indices)

    def pin_memory(self) -> PackedSequence:
        return self._with(self.data.pin_memory(), lambda t: t.pin_memory())

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The data moved or cast as `Tensor.to` does; itself where nothing changes."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self._with(data, lambda t: t.to(data.device))

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self.to(*args, **{**kwargs, "device": "cuda"})

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self.to(*args, **{**kwargs, "device": "cpu"})

    def double(self) -> PackedSequence:
        return self.to(dtype=dtype.float64)

    def float(self) -> PackedSequence:
        return self.to(dtype=dtype.float32)

    def half(self) -> PackedSequence:
        return self.to(dtype=dtype.float16)

    def long(self) -> PackedSequence:
        return self.to(dtype=dtype.int64)

    def int(self) -> PackedSequence:
        return self.to(dtype=dtype.int32)

    def short(self) -> PackedSequence:
        return self.to(dtype=dtype.int16)

    def char(self) -> PackedSequence:
        return self.to(dtype=dtype.int8)

    def byte(self) -> PackedSequence:
        return self.to(dtype=dtype.uint8)

    @property
    def is_cuda(self) -> bool:
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        return bool(self.data.is_pinned())


def invert_permutation(permutation: Any) -> Any:
    """The permutation that undoes another."""
    if permutation is None:
        return None
    output = empty_like(permutation, memory_format=contiguous_format)
    output.scatter_(0, permutation, arange(0, permutation.numel(), device=permutation.device))
    return output


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences without their padding; longest first, or sorted here if `enforce_sorted` is False."""
    if isinstance(lengths, Tensor):
        lengths = lengths.to(dtype=dtype.int64)
    else:
        lengths = as_tensor(lengths, dtype=dtype.int64, device="cpu")
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = _pack_padded_sequence.function(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """Packed sequences with padding again, in the order they were given in, and their lengths."""
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    padded, lengths = _pad_packed_sequence.function(
        sequence.data, sequence.batch_sizes, batch_first, padding_value, longest
    )
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Sequences in one tensor, filled up to the longest."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    return _pad_sequence(tuple(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """Padded sequences as a list, each with its own length."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    steps = arange(padded_sequences.shape[1], device=lengths.device)
    return [sequence[steps < length] for sequence, length in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """A list of sequences, packed."""
    lengths = as_tensor([s.size(0) for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """Packed sequences as a list."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip
