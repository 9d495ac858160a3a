"""utils.data: datasets, samplers, collation and loaders with and without worker processes; orders and draws are those of
torch 2.13 under the same seeds.
"""

import gc
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)


def generator(seed: int) -> Any:
    return torch.Generator().manual_seed(seed)


def batches(loader: Any) -> list[Any]:
    return [batch.tolist() for batch in loader]


class Draws(Dataset[Any]):
    """What the three generators of a worker give."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return torch.rand(1).item(), np.random.randint(1000), random.random()


class Stream(IterableDataset[int]):
    """Numbers, shared out among workers."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        start, end = self.start, self.end
        if worker is not None:
            share = math.ceil((end - start) / worker.num_workers)
            start = start + worker.id * share
            end = min(start + share, end)
        return iter(range(start, end))


class Broken(Dataset[int]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 2:
            raise ValueError("broken sample 2")
        return index


def seed_worker(number: int) -> None:
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


# --- order ------------------------------------------------------------------------------------------------------------

FIRST = [[1, 10, 5, 9], [11, 6, 0, 8], [2, 7, 3, 4]]


def test_shuffles_are_torchs() -> None:
    loader = DataLoader(range(12), 4, shuffle=True, generator=generator(7))
    assert [batches(loader), batches(loader)] == [FIRST, [[11, 3, 2, 8], [7, 10, 6, 5], [9, 1, 4, 0]]]


def test_workers_of_a_loader_that_is_collected_end_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindtorch_v2.utils.data.loader._END_SECONDS", 60.0)
    loader = DataLoader(range(8), 2, num_workers=2, persistent_workers=True, timeout=60)
    assert len(list(loader)) == 4
    workers = loader._iterator._workers
    del loader  # it and its iterator hold each other, so it takes a collection
    gc.collect()
    assert [worker.exitcode for worker in workers] == [0, 0]


def test_persistent_workers_keep_their_seed_and_draw_no_other() -> None:
    loader = DataLoader(
        range(12), 4, shuffle=True, num_workers=2, generator=generator(7), persistent_workers=True, timeout=60
    )
    assert [batches(loader), batches(loader)] == [FIRST, [[4, 7, 5, 0], [6, 8, 9, 1], [2, 10, 11, 3]]]


def test_workers_are_seeded_as_torchs() -> None:
    loader = DataLoader(Draws(), 2, num_workers=2, worker_init_fn=seed_worker, generator=generator(3), timeout=60)
    first, second, *_ = [[round(float(v), 5) for column in batch for v in column] for batch in loader]
    assert first == [0.28761, 0.68629, 167.0, 196.0, 0.34511, 0.89433]
    assert second == [0.74702, 0.82904, 139.0, 5.0, 0.59604, 0.24732]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_hand_batches_over_in_order(context: str) -> None:
    data = TensorDataset(torch.arange(6.0))
    loader = DataLoader(data, 2, num_workers=2, multiprocessing_context=context, prefetch_factor=1, timeout=60)
    assert [batch[0].tolist() for batch in loader] == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_a_forked_process_leaves_the_workers_of_its_parent_alone() -> None:
    kept = DataLoader(range(4), 2, num_workers=1, persistent_workers=True, multiprocessing_context="fork", timeout=60)
    assert batches(kept) == [[0, 1], [2, 3]]

    def end(iterator: Any) -> None:
        iterator._shutdown_workers()

    forked = torch.multiprocessing.get_context("fork").Process(target=end, args=(kept._iterator,))
    forked.start()
    forked.join(60)
    assert forked.exitcode == 0
    assert batches(kept) == [[0, 1], [2, 3]]


# --- iterable data ----------------------------------------------------------------------------------------------------


def test_an_iterable_dataset_is_batched_as_it_comes() -> None:
    assert batches(DataLoader(Stream(3, 11), batch_size=3)) == [[3, 4, 5], [6, 7, 8], [9, 10]]
    chained = ChainDataset([Stream(0, 2), Stream(5, 8)])
    assert batches(DataLoader(chained, batch_size=2, drop_last=True)) == [[0, 1], [5, 6]]


@pytest.mark.parametrize(("drop_last", "count"), [(False, 3), (True, 2)])
def test_a_loader_counts_its_batches(drop_last: bool, count: int) -> None:
    class Sized(Stream):
        def __len__(self) -> int:
            return self.end - self.start

    for dataset in (Sized(0, 5), list(range(5))):
        loader = DataLoader(dataset, batch_size=2, drop_last=drop_last)
        assert len(loader) == len(list(loader)) == count


def test_workers_share_an_iterable_dataset() -> None:
    loader = DataLoader(Stream(3, 11), batch_size=None, num_workers=2, timeout=60)
    assert sorted(int(value) for value in loader) == list(range(3, 11))


# --- errors -----------------------------------------------------------------------------------------------------------


def test_an_exception_in_a_worker_comes_with_its_traceback() -> None:
    with pytest.raises(ValueError, match=r"(?s)Caught ValueError in DataLoader worker process 0.*broken sample 2"):
        list(DataLoader(Broken(), 2, num_workers=1, timeout=60))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"shuffle": True, "sampler": SequentialSampler(range(3))}, "mutually exclusive"),
        ({"batch_sampler": BatchSampler(SequentialSampler(range(3)), 2, False), "batch_size": 2}, "mutually exclusive"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        DataLoader(range(3), **options)


# --- samplers, datasets, collation ------------------------------------------------------------------------------------


def test_samplers_draw_as_torchs() -> None:
    assert list(RandomSampler(range(6), generator=generator(0))) == torch.randperm(6, generator=generator(0)).tolist()
    assert list(BatchSampler(SequentialSampler(range(5)), 2, False)) == [[0, 1], [2, 3], [4]]
    assert sorted(SubsetRandomSampler([1, 5, 7])) == [1, 5, 7]
    assert len(list(WeightedRandomSampler([0.1, 0.9], 5))) == 5
    shared = DistributedSampler(range(10), num_replicas=3, rank=1, shuffle=True, seed=4)
    shared.set_epoch(2)
    assert list(shared) == [7, 8, 2, 0]


def test_datasets_join_and_part() -> None:
    joined = ConcatDataset([TensorDataset(torch.arange(3)), TensorDataset(torch.arange(4))])
    assert len(joined) == 7
    assert [joined[i][0].item() for i in (2, 3, -1)] == [2, 0, 3]
    assert Subset(range(9), [4, 5])[1] == 5
    assert StackDataset(a=range(3), b=range(3, 6))[1] == {"a": 1, "b": 4}
    parts = random_split(range(10), [0.75, 0.25], generator=generator(42))
    assert [len(part) for part in parts] == [8, 2]


def test_collation_follows_the_shape_of_samples() -> None:
    samples = [{"x": np.float32(i), "s": str(i), "t": (torch.tensor([i]), [i, i + 1])} for i in range(2)]
    collated = default_collate(samples)
    assert collated["x"].dtype == torch.float32
    assert collated["s"] == ["0", "1"]
    assert collated["t"][0].tolist() == [[0], [1]]
    assert [part.tolist() for part in collated["t"][1]] == [[0, 1], [1, 2]]
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
        default_collate([object()])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_says_that_it_pins_no_memory(workers: int) -> None:
    loader = DataLoader(range(2), pin_memory=True, pin_memory_device="cuda", num_workers=workers)
    with pytest.warns(UserWarning, match="pin_memory") as told:
        assert [batch.tolist() for batch in loader] == [[0], [1]]
    assert [str(warning.message).partition(",")[0] for warning in told] == [
        "pin_memory_device is deprecated",
        "'pin_memory' argument is set as true but no accelerator is found",
    ]


# --- several samples at once, and arguments that do not fit ------------------------------------------------------------


class _Squares(Dataset):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> int:
        return index * index


class _Several(_Squares):
    def __getitems__(self, indices: list[int]) -> list[int]:
        return [-i for i in indices]


class _TooFew(_Squares):
    def __getitems__(self, indices: list[int]) -> list[int]:
        return []


def test_a_stack_of_datasets_asks_each_for_several_samples_where_it_can() -> None:
    assert StackDataset(_Squares(), _Several()).__getitems__([2, 3]) == [(4, -2), (9, -3)]
    assert StackDataset(a=_Several(), b=_Squares()).__getitems__([2]) == [{"a": -2, "b": 4}]
    with pytest.raises(ValueError, match="Expected 2, got 0"):
        StackDataset(_TooFew()).__getitems__([0, 1])


def test_a_subset_with_samples_of_its_own_has_to_say_what_a_batch_is() -> None:
    class Doubled(Subset):
        def __getitem__(self, index: Any) -> Any:
            return 2 * super().__getitem__(index)

    with pytest.raises(NotImplementedError, match="Doubled overrides __getitem__ but not __getitems__"):
        Doubled(_Squares(), [1, 2])


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"multiprocessing_context": "fork"}, ValueError, "num_workers > 0"),
        ({"num_workers": 1, "multiprocessing_context": "bad"}, ValueError, "valid start method in"),
        ({"num_workers": 1, "multiprocessing_context": object()}, TypeError, "should be a valid context object"),
    ],
)
def test_a_context_of_processes_is_checked_at_once(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        DataLoader(_Squares(), **options)


def test_more_workers_than_cores_are_warned_of_when_the_loader_is_made() -> None:
    with pytest.warns(UserWarning, match="excessive worker creation"):
        DataLoader(_Squares(), num_workers=100_000)


def test_samples_beyond_the_length_of_an_iterable_dataset_are_warned_of_once_it_was_asked_for() -> None:
    class Longer(IterableDataset):
        def __len__(self) -> int:
            return 2

        def __iter__(self) -> Any:
            return iter(range(3))

    loader = DataLoader(Longer(), batch_size=None)
    assert list(loader) == [0, 1, 2]
    assert len(loader) == 2
    with pytest.warns(UserWarning, match=r"reported to be 2\(when accessing len\(dataloader\)\), but 3 samples"):
        assert list(loader) == [0, 1, 2]
