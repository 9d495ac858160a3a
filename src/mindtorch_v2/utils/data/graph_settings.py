"""torch.utils.data.graph_settings: what a loader tells the data pipes it reads from."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from ...ops.creation.seeds import Generator
from .datapipes.datapipe import IterDataPipe, MapDataPipe
from .datapipes.iter import SHARDING_PRIORITIES, Shuffler
from .sampler import fresh_seed


def pipes_of(value: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """A pipe and the pipes it reads from, each once, from the end of the line to its sources."""
    seen = set() if seen is None else seen
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from pipes_of(item, seen)
    elif isinstance(value, (IterDataPipe, MapDataPipe)) and id(value) not in seen:
        seen.add(id(value))
        yield value
        for held in vars(value).values():
            yield from pipes_of(held, seen)


def apply_sharding(
    datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = SHARDING_PRIORITIES.DEFAULT
) -> Any:
    """Have the sharding filters of a line share out their samples; no sample may come through two of them."""
    _shard(datapipe, None, (num_of_instances, instance_id, sharding_group), set())
    return datapipe


def _shard(value: Any, sharded: Any, how: tuple[int, int, Any], seen: set[tuple[int, bool]]) -> None:
    """Share out the samples of the filters that a pipe, or what it holds, reads from; `sharded` is a filter after it."""
    for pipe in pipes_ahead(value):
        if (id(pipe), sharded is not None) in seen:
            continue
        seen.add((id(pipe), sharded is not None))
        after = sharded
        if "apply_sharding" in dir(type(pipe)):
            if sharded is not None:
                raise RuntimeError(
                    "Sharding twice on a single pipeline is likely unintended and will cause data loss. Sharding already "
                    f"applied to {sharded} while trying to apply to {pipe}"
                )
            takes_group = len(inspect.signature(pipe.apply_sharding).parameters) >= 3
            pipe.apply_sharding(*(how if takes_group else how[:2]))
            after = pipe
        _shard(list(vars(pipe).values()), after, how, seen)


def pipes_ahead(value: Any) -> Iterator[Any]:
    """The pipes that a value is or, as a list, holds."""
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from pipes_ahead(item)


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Switch the shufflers of a line on or off; a line without any gets one if it is to be shuffled."""
    if shuffle is None:
        return datapipe
    shufflers = [pipe for pipe in pipes_of(datapipe) if _is_shuffler(pipe)]
    if shuffle and not shufflers:
        datapipe = Shuffler(datapipe)
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Give every pipe of a line that draws random numbers a seed from `rng`."""
    for pipe in pipes_of(datapipe):
        if "set_seed" in dir(type(pipe)):
            pipe.set_seed(fresh_seed(rng))
    return datapipe


def seeded(datapipe: Any, seed: int) -> Any:
    """The same with a generator of its own."""
    return apply_random_seed(datapipe, Generator().manual_seed(seed))


def _is_shuffler(pipe: Any) -> bool:
    return "set_shuffle" in dir(type(pipe)) and "set_seed" in dir(type(pipe))
