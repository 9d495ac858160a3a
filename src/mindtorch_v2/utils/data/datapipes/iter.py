"""Data pipes whose samples come one after the other: sources, changes, groups, several pipes into one, one into several."""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

from ..collate import default_collate
from ..sampler import SequentialSampler
from .batches import Batching, DataChunk
from .datapipe import IterDataPipe, described, functional_datapipe
from .shuffling import Shuffling

Pipe = IterDataPipe[Any]


class IterableWrapperIterDataPipe(Pipe):
    """Anything that can be iterated over; a copy of it in each round, unless `deepcopy` is False."""

    def __init__(self, iterable: Any, deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[Any]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:
                warnings.warn(
                    "The input iterable can not be deepcopied, please be aware of in-place modification would affect "
                    "source data.",
                    stacklevel=2,
                )
        yield from source

    def __len__(self) -> int:
        return _length(self.iterable, self)


def _length(source: Any, pipe: Pipe) -> int:
    try:
        return len(source)
    except TypeError:
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length") from None


# --- one sample for another -------------------------------------------------------------------------------------------


def _columns(data: Any, column: Any) -> tuple[Any, ...]:
    return tuple(data[name] for name in column) if isinstance(column, (list, tuple)) else (data[column],)


@functional_datapipe("map")
class MapperIterDataPipe(Pipe):
    """A function of each sample, or of columns of it."""

    def __init__(self, datapipe: Pipe, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None) -> None:
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.datapipe = datapipe
        self.fn = fn
        self.input_col = input_col
        self.output_col = output_col

    def _apply(self, data: Any) -> Any:
        if self.input_col is None:
            return self.fn(data)
        result = self.fn(*_columns(data, self.input_col))
        changed = list(data) if isinstance(data, tuple) else copy.copy(data)
        if self.output_col == -1:
            changed.append(result)
        elif self.output_col is not None:
            changed[self.output_col] = result
        elif isinstance(self.input_col, (list, tuple)):
            changed[self.input_col[0]] = result
            for name in sorted(self.input_col[1:], reverse=True):
                del changed[name]
        else:
            changed[self.input_col] = result
        return tuple(changed) if isinstance(data, tuple) else changed

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield self._apply(data)

    def __len__(self) -> int:
        return _length(self.datapipe, self)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches as tensors."""

    def __init__(self, datapipe: Pipe, conversion: Any = default_collate, collate_fn: Any = None) -> None:
        super().__init__(datapipe, conversion if collate_fn is None else collate_fn)


@functional_datapipe("filter")
class FilterIterDataPipe(Pipe):
    """Only the samples that a function approves of."""

    def __init__(self, datapipe: Pipe, filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        self.datapipe = datapipe
        self.filter_fn = filter_fn
        self.input_col = input_col

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            found = self.filter_fn(*((data,) if self.input_col is None else _columns(data, self.input_col)))
            if not isinstance(found, bool):
                raise ValueError(f"Boolean output is required for `filter_fn` of FilterIterDataPipe, got {type(found)}")
            if found:
                yield data


# --- groups -----------------------------------------------------------------------------------------------------------


@functional_datapipe("batch")
class BatcherIterDataPipe(Batching, Pipe):
    """So many samples at a time."""

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for data in self.datapipe:
            batch.append(data)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        return self.batches_of(_length(self.datapipe, self))


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(Pipe):
    """What is in lists, so many levels deep; -1 stands for all of them."""

    def __init__(self, datapipe: Pipe, unbatch_level: int = 1) -> None:
        self.datapipe = datapipe
        self.unbatch_level = unbatch_level

    def __iter__(self) -> Iterator[Any]:
        if self.unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        for data in self.datapipe:
            yield from self._flat(data, self.unbatch_level)

    def _flat(self, data: Any, level: int) -> Iterator[Any]:
        if level == 0 or (level == -1 and not isinstance(data, list)):
            yield data
        elif isinstance(data, list):
            for item in data:
                yield from self._flat(item, max(level - 1, -1))
        else:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")


@functional_datapipe("groupby")
class GrouperIterDataPipe(Pipe):
    """Samples with the same key together, as soon as a group is full or the buffer is."""

    def __init__(
        self, datapipe: Pipe, group_key_fn: Callable[[Any], Any], *, keep_key: bool = False, buffer_size: int = 10000,
        group_size: int | None = None, guaranteed_group_size: int | None = None, drop_remaining: bool = False,
    ) -> None:  # fmt: skip
        for size in (group_size, guaranteed_group_size):
            if size is not None and not 0 < size <= buffer_size:
                raise ValueError(f"expected a group size from 1 to buffer_size={buffer_size}, got {size}")
        self.datapipe = datapipe
        self.group_key_fn = group_key_fn
        self.keep_key = keep_key
        self.buffer_size = buffer_size
        self.group_size = group_size
        self.guaranteed_group_size = group_size if guaranteed_group_size is None else guaranteed_group_size
        self.drop_remaining = drop_remaining

    def __iter__(self) -> Iterator[Any]:
        groups: defaultdict[Any, list[Any]] = defaultdict(list)
        held = 0
        for data in self.datapipe:
            key = self.group_key_fn(data)
            groups[key].append(data)
            held += 1
            if self.group_size is not None and len(groups[key]) == self.group_size:
                held -= self.group_size
                yield self._shown_group(key, groups.pop(key))
            elif held == self.buffer_size:
                largest = max(groups, key=lambda found: len(groups[found]))
                held -= len(groups[largest])
                group = groups.pop(largest)
                if self._is_enough(group):
                    yield self._shown_group(largest, group)
        for key, group in groups.items():
            if not self.drop_remaining or self.group_size is None:
                yield self._shown_group(key, group)

    def _is_enough(self, group: list[Any]) -> bool:
        least = self.guaranteed_group_size
        if least is None or len(group) >= least:
            return True
        if self.drop_remaining:
            return False
        raise RuntimeError(
            f"Failed to group items: the largest group has {len(group)} of {least} when the buffer is full"
        )

    def _shown_group(self, key: Any, group: list[Any]) -> Any:
        chunk = DataChunk(group)
        return (key, chunk) if self.keep_key else chunk


# --- order and choice -------------------------------------------------------------------------------------------------


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffling, Pipe):
    """Samples in random order, drawn from a buffer."""

    def __init__(self, datapipe: Pipe, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise ValueError("buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else UnBatcherIterDataPipe(datapipe, unbatch_level)
        self.buffer_size = buffer_size
        self.unbatch_level = unbatch_level
        super().__init__()

    def reset(self) -> None:
        if self._enabled:
            self._reseed()

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        held: list[Any] = []
        for data in self.datapipe:
            if len(held) < self.buffer_size:
                held.append(data)
                continue
            place = self._random.randint(0, len(held) - 1)
            data, held[place] = held[place], data
            yield data
        while held:
            yield held.pop(self._random.randint(0, len(held) - 1))

    def __len__(self) -> int:
        return _length(self.datapipe, self)


class SamplerIterDataPipe(Pipe):
    """What a sampler makes of a pipe."""

    def __init__(
        self, datapipe: Pipe, sampler: Any = SequentialSampler, sampler_args: Any = None, sampler_kwargs: Any = None
    ) -> None:
        self.datapipe = datapipe
        self.sampler_args = () if sampler_args is None else sampler_args
        self.sampler_kwargs = {**(sampler_kwargs or {}), "data_source": datapipe}
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return _length(self.sampler, self)


class SHARDING_PRIORITIES(IntEnum):
    """Who shares out samples, in the order in which they do: all at once, or machines and then their processes."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(Pipe):
    """Every n-th sample, so that several processes share them out; a loader says how among its workers."""

    def __init__(self, source_datapipe: Pipe, sharding_group_filter: SHARDING_PRIORITIES | None = None) -> None:
        self.source_datapipe = source_datapipe
        self.sharding_group_filter = sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self.num_of_instances = 1
        self.instance_id = 0

    def apply_sharding(
        self, num_of_instances: int, instance_id: int, sharding_group: Any = SHARDING_PRIORITIES.DEFAULT
    ) -> None:
        """Say which of how many shares this is; that of a group is shared out again among the next group."""
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(
                f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances}) and at least 0"
            )
        if any(
            (group == SHARDING_PRIORITIES.DEFAULT) != (sharding_group == SHARDING_PRIORITIES.DEFAULT)
            for group in self.groups
        ):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = (num_of_instances, instance_id)
        self.num_of_instances, self.instance_id = 1, 0
        for group, (count, number) in sorted(self.groups.items()):
            if self.sharding_group_filter in (None, group):
                self.instance_id += self.num_of_instances * number
                self.num_of_instances *= count

    def __iter__(self) -> Iterator[Any]:
        for place, data in enumerate(self.source_datapipe):
            if place % self.num_of_instances == self.instance_id:
                yield data

    def __len__(self) -> int:
        whole, rest = divmod(_length(self.source_datapipe, self), self.num_of_instances)
        return whole + (self.instance_id < rest)


# --- several into one -------------------------------------------------------------------------------------------------


class _Several(Pipe):
    """Made of other pipes."""

    def __init__(self, *datapipes: Pipe) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def _lengths(self) -> list[int]:
        return [_length(pipe, self) for pipe in self.datapipes]


@functional_datapipe("concat")
class ConcaterIterDataPipe(_Several):
    """One pipe after the other."""

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(self._lengths())


@functional_datapipe("zip")
class ZipperIterDataPipe(_Several):
    """Tuples with a sample of each, until one ends."""

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes)

    def __len__(self) -> int:
        return min(self._lengths())


@functional_datapipe("mux")
class MultiplexerIterDataPipe(_Several):
    """A sample of each in turn, until one ends."""

    def __iter__(self) -> Iterator[Any]:
        for samples in zip(*self.datapipes):
            yield from samples

    def __len__(self) -> int:
        return min(self._lengths()) * len(self.datapipes)


# --- one into several -------------------------------------------------------------------------------------------------


class _Branches(Pipe):
    """What the pipes that share a source have in common: its iterator, and what some of them have not yet asked for."""

    def __init__(self, datapipe: Pipe, num_instances: int, buffer_size: int) -> None:
        if buffer_size < 0:
            warnings.warn("Unlimited buffer size is set, please be aware of OOM at the risk", UserWarning, stacklevel=4)
        self.main_datapipe = datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        self._source: Iterator[Any] | None = None
        self._begun: set[int] = set()
        self._held: list[deque[Any]] = []

    def begin(self, number: int) -> int:
        """A pipe starts over: alone if it is its first time since the source did, otherwise with all the others."""
        if self._source is None or number in self._begun:
            self._round += 1
            self._begun = set()
            self._held = [deque() for _ in range(self.num_instances)]
            self._source = iter(self.main_datapipe)
        self._begun.add(number)
        return self._round

    def samples(self, number: int) -> Iterator[Any]:
        assert self._source is not None
        held, source = self._held, self._source
        while True:
            while held[number]:
                yield held[number].popleft()
            try:
                self._route(next(source))
            except StopIteration:
                return
            waiting = sum(len(queue) for place, queue in enumerate(held) if place != number)
            if 0 <= self.buffer_size < self._usage(waiting):
                raise BufferError(self._overflow())

    def _route(self, data: Any) -> None:
        """Put a sample where it belongs."""
        raise NotImplementedError

    def _usage(self, waiting: int) -> int:
        return waiting

    def _overflow(self) -> str:
        raise NotImplementedError

    def __len__(self) -> int:
        return _length(self.main_datapipe, self)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_source": None, "_begun": set(), "_held": []}


class _ChildDataPipe(Pipe):
    """One of the pipes that share a source."""

    def __init__(self, main_datapipe: _Branches, instance_id: int) -> None:
        self.main_datapipe = main_datapipe
        self.instance_id = instance_id

    def _begin(self) -> int:
        return self.main_datapipe.begin(self.instance_id)

    def _require(self, number: int) -> None:
        if number != self.main_datapipe._round:
            raise RuntimeError(
                "This iterator has been invalidated, because a new iterator has been created from one of the "
                f"ChildDataPipes of {described(self.main_datapipe)}."
            )

    def __iter__(self) -> Iterator[Any]:
        return self.main_datapipe.samples(self.instance_id)

    def __len__(self) -> int:
        return len(self.main_datapipe)


def _branches(main: _Branches) -> list[_ChildDataPipe]:
    return [_ChildDataPipe(main, number) for number in range(main.num_instances)]


def _check_instances(count: int) -> None:
    if count < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {count} is found")


_COPIES: dict[str | None, Callable[[Any], Any]] = {None: lambda data: data, "shallow": copy.copy, "deep": copy.deepcopy}


class _ForkerIterDataPipe(_Branches):
    def __init__(self, datapipe: Pipe, num_instances: int, buffer_size: int = 1000, copy: str | None = None) -> None:
        super().__init__(datapipe, num_instances, buffer_size)
        self._copy = copy

    def _route(self, data: Any) -> None:
        for queue in self._held:
            queue.append(_COPIES[self._copy](data))

    def _usage(self, waiting: int) -> int:
        return max(len(queue) for queue in self._held)

    def _overflow(self) -> str:
        return f"ForkerIterDataPipe buffer overflow,buffer size {self.buffer_size} is insufficient."


@functional_datapipe("fork")
class ForkerIterDataPipe(Pipe):
    """The same samples several times over."""

    def __new__(cls, datapipe: Pipe, num_instances: int, buffer_size: int = 1000, copy: str | None = None) -> Any:
        _check_instances(num_instances)
        if copy not in _COPIES:
            raise ValueError(f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`.")
        if num_instances == 1:
            return datapipe
        return _branches(_ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy))


class _DemultiplexerIterDataPipe(_Branches):
    def __init__(
        self, datapipe: Pipe, num_instances: int, classifier_fn: Any, drop_none: bool, buffer_size: int
    ) -> None:
        super().__init__(datapipe, num_instances, buffer_size)
        self.classifier_fn = classifier_fn
        self.drop_none = drop_none

    def _route(self, data: Any) -> None:
        number = self.classifier_fn(data)
        if number is None and self.drop_none:
            return
        if number is None or not 0 <= number < self.num_instances:
            raise ValueError(
                f"Output of the classification fn should be between 0 and {self.num_instances - 1}. {number} is "
                "returned."
            )
        self._held[number].append(data)

    def _overflow(self) -> str:
        return f"DemultiplexerIterDataPipe buffer overflow, buffer size {self.buffer_size} is insufficient."


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(Pipe):
    """Each sample to the pipe that a function gives the number of."""

    def __new__(
        cls, datapipe: Pipe, num_instances: int, classifier_fn: Callable[[Any], int | None], drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:  # fmt: skip
        _check_instances(num_instances)
        return _branches(_DemultiplexerIterDataPipe(datapipe, num_instances, classifier_fn, drop_none, buffer_size))


Batcher = BatcherIterDataPipe
Collator = CollatorIterDataPipe
Concater = ConcaterIterDataPipe
Demultiplexer = DemultiplexerIterDataPipe
Filter = FilterIterDataPipe
Forker = ForkerIterDataPipe
Grouper = GrouperIterDataPipe
IterableWrapper = IterableWrapperIterDataPipe
Mapper = MapperIterDataPipe
Multiplexer = MultiplexerIterDataPipe
Sampler = SamplerIterDataPipe
ShardingFilter = ShardingFilterIterDataPipe
Shuffler = ShufflerIterDataPipe
UnBatcher = UnBatcherIterDataPipe
Zipper = ZipperIterDataPipe

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "UnBatcher",
    "Zipper",
]
