"""Batches of samples, and the settings of the pipes that make them. It does not know where samples come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class DataChunk(list):
    """A batch of samples."""

    def __init__(self, items: Any) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        return indent + "[" + ", ".join(str(item) for item in iter(self)) + "]"

    def raw_iterator(self) -> Iterator[Any]:
        yield from self.items


class Batching:
    """So many samples at a time."""

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Any = DataChunk) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe = datapipe
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

    def batches_of(self, samples: int) -> int:
        """How many batches so many samples make."""
        whole, rest = divmod(samples, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
