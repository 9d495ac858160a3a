"""What runs in the worker processes of a DataLoader, and how their errors come home."""

from __future__ import annotations

import functools
import os
import queue
import random
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...binding.methods import copied
from ...core import tap
from ...ops.creation.seeds import manual_seed
from .._pytree import tree_map
from .dataset import IterableDataset
from .graph_settings import apply_sharding, seeded


@dataclass
class WorkerInfo:
    """What a dataset can learn about the worker it is used in."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None  # generators of a worker's own: processes need none, as theirs are those of Python, NumPy and torch
    worker_method: str = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker this code runs in; None in the main process."""
    return _worker_info


class ExceptionWrapper:
    """An exception of a worker, with its traceback as text."""

    def __init__(self, where: str) -> None:
        self.kind = sys.exc_info()[0]
        self.text = "".join(traceback.format_exception(*sys.exc_info()))
        self.where = where

    def __getstate__(self) -> dict[str, Any]:
        return {"kind": self.kind, "text": self.text, "where": self.where}

    def reraise(self) -> None:
        """Raise the same kind of exception here, with the worker's traceback in its text."""
        message = f"Caught {self.kind.__name__ if self.kind else 'error'} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            raise KeyError(_Verbatim(message))
        try:
            error = self.kind(message)  # type: ignore[misc]
        except TypeError:
            raise RuntimeError(message) from None
        raise error


class _Verbatim(str):
    """A string whose repr is itself, so that KeyError shows the traceback readably."""

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Exhausted:
    """Sent when a worker's iterable dataset has no more samples."""

    worker_id: int


@dataclass(frozen=True)
class Resume:
    """Sent to a worker that stays for another pass."""

    shared_seed: int | None


class Fetcher:
    """Makes one batch from indices (or from the iterator of an iterable dataset)."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> None:
        self.dataset, self.auto_collation, self.collate_fn, self.drop_last = (
            dataset,
            auto_collation,
            collate_fn,
            drop_last,
        )
        self.iterator = iter(dataset) if isinstance(dataset, IterableDataset) else None
        self.ended = False

    def fetch(self, indices: Any) -> Any:
        if self.iterator is not None:
            return self.collate_fn(self._next_samples(indices))
        if not self.auto_collation:
            return self.collate_fn(self.dataset[indices])
        several = getattr(self.dataset, "__getitems__", None)
        samples = several(indices) if callable(several) else [self.dataset[i] for i in indices]
        return self.collate_fn(samples)

    def _next_samples(self, indices: Any) -> Any:
        assert self.iterator is not None
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return next(self.iterator)
        samples = []
        for _ in indices:
            try:
                samples.append(next(self.iterator))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and len(samples) < len(indices)):
            raise StopIteration
        return samples


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """The seed of NumPy's generator in a worker."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(entropy).generate_state(4).tolist()


def _parent_is_alive(parent: int) -> bool:
    return os.getppid() == parent


def _not_sent(results: Any, worker_id: int, error: Exception, item: Any) -> None:
    """Send the reason why an answer could not be sent: what it is made of cannot be pickled."""
    results.put((item[0], ExceptionWrapper(f"in DataLoader worker process {worker_id}")))


def worker_loop(
    dataset: Any, requests: Any, results: Any, done: Any, auto_collation: bool, collate_fn: Any, drop_last: bool,
    base_seed: int, init_fn: Any, worker_id: int, num_workers: int, parent: int,
) -> None:  # fmt: skip
    """Answer requests for batches until told to stop, or until the parent is gone."""
    global _worker_info
    if tap.SLOT.recorder is not None and not tap.SLOT.recorder.follows:
        # Nobody would ever read what is recorded here.
        tap.install(None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    results._on_queue_feeder_error = functools.partial(_not_sent, results, worker_id)
    seed = base_seed + worker_id
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(_generate_state(base_seed, worker_id))
    _worker_info = WorkerInfo(worker_id, num_workers, seed, dataset)
    problem: Any = None
    fetcher: Any = None
    try:
        apply_sharding(dataset, num_workers, worker_id)
        if init_fn is not None:
            init_fn(worker_id)
        fetcher = Fetcher(dataset, auto_collation, collate_fn, drop_last)
    except Exception:
        problem = ExceptionWrapper(f"in DataLoader worker process {worker_id}")
    ended = False
    while _parent_is_alive(parent):
        try:
            request = requests.get(timeout=5.0)
        except queue.Empty:
            continue
        if request is None or done.is_set():
            break
        if isinstance(request, Resume):
            results.put((request, None))
            ended = False
            if request.shared_seed is not None:
                seeded(dataset, request.shared_seed)
            fetcher = Fetcher(dataset, auto_collation, collate_fn, drop_last)
            continue
        if ended:
            continue
        number, indices = request
        if problem is not None:
            answer, problem = problem, None
        else:
            answer, ended = _answer(fetcher, indices, worker_id)
        results.put((number, tree_map(copied, answer)))
    if done.is_set():
        results.cancel_join_thread()
        results.close()


def _answer(fetcher: Any, indices: Any, worker_id: int) -> tuple[Any, bool]:
    try:
        return fetcher.fetch(indices), False
    except StopIteration:
        if isinstance(fetcher.dataset, IterableDataset):
            return Exhausted(worker_id), True
        return ExceptionWrapper(f"in DataLoader worker process {worker_id}"), False
    except Exception:
        return ExceptionWrapper(f"in DataLoader worker process {worker_id}"), False
