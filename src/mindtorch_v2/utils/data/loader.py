"""DataLoader: batches from a dataset, in this process or from worker processes, in a repeatable order."""

from __future__ import annotations

import itertools
import multiprocessing as python_multiprocessing
import os
import queue
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from ...binding.methods import copied
from ...core import tap
from .._pytree import tree_map
from .collate import default_collate, default_convert
from .datapipes.datapipe import IterDataPipe
from .dataset import IterableDataset
from .graph_settings import apply_shuffle_settings, seeded
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, fresh_seed
from .worker import ExceptionWrapper, Exhausted, Fetcher, Resume, worker_loop
from .worker import get_worker_info as get_worker_info

T_co = TypeVar("T_co", covariant=True)
# How often the parent looks whether its workers still live while it waits for a batch.
MP_STATUS_CHECK_INTERVAL = 5.0
# How long a worker that is told to end may take.
_END_SECONDS = 5.0


class _InfiniteSampler(Sampler[Any]):
    """Stands in for the order of an iterable dataset."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Iterates over a dataset in batches."""

    _iterator: Any = None
    __initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_numbers(num_workers, timeout, prefetch_factor, persistent_workers)
        if isinstance(dataset, IterDataPipe):
            dataset, shuffle = apply_shuffle_settings(dataset, shuffle), None
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.persistent_workers, self.in_order, self.generator = persistent_workers, in_order, generator
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle))
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler = (
            batch_size,
            drop_last,
            sampler,
            batch_sampler,
        )
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self._reported_length: int | None = None  # of an iterable dataset, once somebody has asked for it
        self.__initialized = True
        suggest_workers(num_workers)

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started; None for a fork."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self.__multiprocessing_context = None if context is None else _checked_context(context, self.num_workers)

    def _default_sampler(self, shuffle: bool) -> Any:
        if self._iterable:
            return _InfiniteSampler()
        return RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in (
            "batch_size",
            "batch_sampler",
            "sampler",
            "drop_last",
            "dataset",
            "persistent_workers",
        ):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Any:
        if self.persistent_workers and self.num_workers > 0:
            if self._iterator is None:
                self._iterator = self._get_iterator()
            else:
                self._iterator._reset(self)
            return self._iterator
        return self._get_iterator()

    def _get_iterator(self) -> Any:
        if self.pin_memory and self.pin_memory_device:
            warnings.warn(
                "pin_memory_device is deprecated, the current accelerator will be used as the device,"
                f"ignore pin_memory_device='{self.pin_memory_device}'.",
                stacklevel=3,
            )
        if self.pin_memory:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                "used.",
                stacklevel=3,
            )
        return _SingleProcessDataLoaderIter(self) if self.num_workers == 0 else _MultiProcessingDataLoaderIter(self)

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        length = self._reported_length = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


def _check_numbers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _checked_context(context: Any, num_workers: int) -> Any:
    """A context of multiprocessing, from itself or from the name of a start method."""
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    if isinstance(context, str):
        methods = python_multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={context!r}"
            )
        return python_multiprocessing.get_context(context)
    if not isinstance(context, python_multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={context}"
        )
    return context


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    if shuffle:
        raise ValueError(
            f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}"
        )
    if sampler is not None:
        raise ValueError(
            f"DataLoader with IterableDataset: expected unspecified sampler option, but got sampler={sampler}"
        )
    if batch_sampler is not None:
        raise ValueError(
            "DataLoader with IterableDataset: expected unspecified batch_sampler option, but got "
            f"batch_sampler={batch_sampler}"
        )


class _BaseDataLoaderIter:
    """One pass over a loader; each `next` is an event of its own."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._sampler_iter = iter(loader._index_sampler)
        self._seed_pipes()
        self._base_seed = fresh_seed(loader.generator)
        self._num_yielded, self._length = 0, loader._reported_length
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"

    def _seed_pipes(self) -> int | None:
        """Pipes that draw random numbers draw the same in every worker; what they are seeded with."""
        if not isinstance(self._loader.dataset, IterDataPipe):
            return None
        seed = fresh_seed(self._loader.generator)
        seeded(self._loader.dataset, seed)
        return seed

    def __iter__(self) -> Any:
        return self

    def _reset(self, loader: DataLoader[Any]) -> None:
        self._sampler_iter = iter(loader._index_sampler)
        self._num_yielded, self._length = 0, loader._reported_length

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        event = tap.event_id(self._profile_name, tap.USER_SCOPE, True) if tap.SLOT.recorder is not None else 0
        with tap.region(event):
            data = self._next_data()
        self._num_yielded += 1
        if self._length is not None and self._num_yielded > self._length:
            self._warn_of_length()
        return data

    def _warn_of_length(self) -> None:
        text = (
            f"Length of IterableDataset {self._loader.dataset} was reported to be {self._length}(when accessing "
            f"len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._loader.num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset "
                "replica at each worker: each has to yield a part of the samples, see torch.utils.data.get_worker_info."
            )
        warnings.warn(text, stacklevel=3)

    def __len__(self) -> int:
        return len(self._loader)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Batches made in this process."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._fetcher = Fetcher(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last)

    def _next_data(self) -> Any:
        return self._fetcher.fetch(next(self._sampler_iter))


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Batches made by worker processes and handed out in order."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        context: Any = loader.multiprocessing_context or python_multiprocessing.get_context("fork")
        self._done = context.Event()
        self._results = context.Queue()
        self._requests: list[Any] = []
        self._workers: list[Any] = []
        # Holds the queues itself: the garbage collector would close them before it called a `__del__`.
        channels = self._done, self._requests, self._results
        self._shutdown_workers = weakref.finalize(self, _end_workers, self._workers, *channels, os.getpid())
        for number in range(loader.num_workers):
            requests = context.Queue()
            requests.cancel_join_thread()
            worker = context.Process(
                target=worker_loop,
                args=(loader.dataset, requests, self._results, self._done, loader._auto_collation, loader.collate_fn,
                      loader.drop_last, self._base_seed, loader.worker_init_fn, number, loader.num_workers, os.getpid()),
                name=f"DataLoader worker {number}",
                daemon=True,
            )  # fmt: skip
            worker.start()
            self._requests.append(requests)
            self._workers.append(worker)
        self._begin(loader)

    def _begin(self, loader: DataLoader[Any]) -> None:
        self._sent = 0  # number of the next request
        self._wanted = 0  # number of the batch to hand out next
        self._pending: dict[int, Any] = {}  # number -> worker, or (worker, data) once it arrived
        self._alive = [True] * loader.num_workers
        self._turn = itertools.cycle(range(loader.num_workers))
        for _ in range((loader.prefetch_factor or 2) * loader.num_workers):
            self._request()

    def _reset(self, loader: DataLoader[Any]) -> None:
        """Start another pass with the same workers, which keep their seeds."""
        super()._reset(loader)
        seed = self._seed_pipes()
        for requests in self._requests:
            requests.put(Resume(seed))
        waiting = len(self._requests)
        while waiting:
            answer, _ = self._receive()
            if isinstance(answer, Resume):
                waiting -= 1
        self._begin(loader)

    def _request(self) -> None:
        """Ask the next living worker for the next batch."""
        if not any(self._alive):
            return
        try:
            indices = next(self._sampler_iter)
        except StopIteration:
            return
        number = next(w for w in self._turn if self._alive[w])
        self._requests[number].put((self._sent, tree_map(copied, indices)))
        self._pending[self._sent] = (number,)
        self._sent += 1

    def _receive(self) -> Any:
        waited = 0.0
        limit = self._loader.timeout
        while True:
            step = min(MP_STATUS_CHECK_INTERVAL, limit) if limit else MP_STATUS_CHECK_INTERVAL
            try:
                return self._results.get(timeout=step)
            except queue.Empty:
                waited += step
            dead = [w for w in self._workers if not w.is_alive()]
            if dead:
                pids = ", ".join(str(w.pid) for w in dead)
                self._shutdown_workers()
                raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly")
            if limit and waited >= limit:
                raise RuntimeError(f"DataLoader timed out after {limit} seconds")

    def _next_data(self) -> Any:
        while True:
            self._skip_finished_workers()
            if self._wanted >= self._sent:
                if not self._loader.persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            entry = self._pending[self._wanted]
            if len(entry) == 2:
                del self._pending[self._wanted]
                self._wanted += 1
                return self._handed_out(entry[1])
            number, data = self._receive()
            if isinstance(data, Exhausted):
                self._alive[data.worker_id] = False
                self._request()
                continue
            self._pending[number] = (*self._pending[number], data)

    def _skip_finished_workers(self) -> None:
        """Requests that went to a worker whose iterable dataset has ended bring nothing."""
        while self._wanted < self._sent:
            entry = self._pending[self._wanted]
            if len(entry) == 2 or self._alive[entry[0]]:
                return
            del self._pending[self._wanted]
            self._wanted += 1

    def _handed_out(self, data: Any) -> Any:
        self._request()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data


def _end_workers(workers: list[Any], done: Any, requests: list[Any], results: Any, owner: int) -> None:
    # A process forked from the owner holds a copy of the iterator; the workers are not its own to end.
    if os.getpid() != owner:
        return
    done.set()
    for channel in requests:
        channel.put(None)
    for worker in workers:
        worker.join(timeout=_END_SECONDS)
        if worker.is_alive():
            worker.terminate()
    for channel in (*requests, results):
        channel.cancel_join_thread()
        channel.close()


def suggest_workers(wanted: int) -> None:
    """Warn when more workers are asked for than there are cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if wanted > cores:
        warnings.warn(
            f"This DataLoader will create {wanted} worker processes in total. Our suggested max number of worker in "
            f"current system is {cores}, which is smaller than what this DataLoader is going to create. Please be aware "
            "that excessive worker creation might get DataLoader running slow or even freeze, lower the worker number to "
            "avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )
