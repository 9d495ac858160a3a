"""Data pipes: what each step does with samples, how they share iterators and seeds, and what a recorder sees of them."""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd.profiler import profile as autograd_profile
from mindtorch_v2.profiler import profile
from mindtorch_v2.utils.data import DataChunk, DataLoader, IterDataPipe, MapDataPipe, functional_datapipe
from mindtorch_v2.utils.data import datapipes as dp
from mindtorch_v2.utils.data.datapipes.iter import Concater, IterableWrapper, Sampler
from mindtorch_v2.utils.data.datapipes.map import SequenceWrapper

wrapped = IterableWrapper


# --- recording --------------------------------------------------------------------------------------------------------


def test_pipes_are_annotated_one_inside_the_other() -> None:
    pipe = wrapped(range(2)).map(str)
    with profile() as prof:
        assert list(pipe) == ["0", "1"]
    mapper = "Mapper(datapipe=IterableWrapper, fn=<class 'str'>, input_col=None, output_col=None)"
    source = "IterableWrapper(deepcopy=True, iterable=range(0, 2))"
    # One more than there are samples: the last one finds the end.
    assert [event.name for event in prof.events()] == [mapper, source] * 3
    assert {event.cpu_parent and event.cpu_parent.name for event in prof.events()} == {None, mapper}
    assert all(event.is_user_annotation and event.scope == 7 for event in prof.events())


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (lambda: list(wrapped(range(4)).mux(wrapped(range(4, 8)))), {"IterableWrapper", "Multiplexer"}),
        (lambda: list(wrapped(range(4)).fork(3)[0]), {"IterableWrapper", "_ChildDataPipe"}),
    ],
)
def test_pipes_of_several_are_annotated(use: Callable[[], Any], expected: set[str]) -> None:
    with autograd_profile(record_shapes=True) as prof:
        use()
    assert {event.name.partition("(")[0] for event in prof.function_events} == expected


class Counting(IterDataPipe):  # type: ignore[type-arg]
    """Is its own iterator."""

    def __init__(self) -> None:
        self.data = list(range(3))
        self._place = 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self._place == len(self.data):
            self._place = 0
            raise StopIteration
        self._place += 1
        return self.data[self._place - 1]

    def value(self, index: int) -> int:
        return self.data[index]


class Delegating(IterDataPipe):  # type: ignore[type-arg]
    def __init__(self, datapipe: Any) -> None:
        self.datapipe = datapipe

    def __iter__(self) -> Iterator[int]:
        return iter(self.datapipe)


@pytest.mark.parametrize("pipe", [Counting(), Delegating(Counting()), Delegating([0, 1, 2])])
def test_recording_leaves_iterators_as_they_are(pipe: Any) -> None:
    with profile() as prof:
        iterator = iter(pipe)
        assert list(iterator) == [0, 1, 2]
    if not isinstance(getattr(pipe, "datapipe", None), list):
        assert iterator.value(2) == 2
    assert [event.name.partition("(")[0] for event in prof.events()].count(type(pipe).__name__) == 4


def test_nothing_is_noted_where_nothing_records() -> None:
    assert list(wrapped([1, 2])) == [1, 2]
    with profile() as prof:
        pass
    assert prof.events() == []


# --- steps ------------------------------------------------------------------------------------------------------------

NESTED = [[1, [2]], [3, [4]]]
STEPS: list[tuple[Any, list[Any]]] = [
    (lambda: wrapped(range(5)).batch(2), [[0, 1], [2, 3], [4]]),
    (lambda: wrapped(range(5)).batch(2, drop_last=True), [[0, 1], [2, 3]]),
    (lambda: wrapped(NESTED).unbatch(), [1, [2], 3, [4]]),
    (lambda: wrapped(NESTED).unbatch(-1), [1, 2, 3, 4]),
    (lambda: wrapped(range(5)).filter(lambda x: x % 2 == 0), [0, 2, 4]),
    (lambda: wrapped([(1, 5)]).filter(lambda x: x > 4, input_col=1), [(1, 5)]),
    (lambda: wrapped([(1, 2)]).map(lambda x: x + 1, input_col=0), [(2, 2)]),
    (lambda: wrapped([(1, 2)]).map(lambda x, y: x + y, input_col=[0, 1]), [(3,)]),
    (lambda: wrapped([(1, 2)]).map(lambda x: x, input_col=1, output_col=-1), [(1, 2, 2)]),
    (lambda: wrapped([{"a": 1}]).map(lambda x: x + 1, input_col="a", output_col="b"), [{"a": 1, "b": 2}]),
    (lambda: wrapped(range(6)).groupby(lambda x: x % 2), [[0, 2, 4], [1, 3, 5]]),
    (lambda: wrapped(range(6)).groupby(lambda x: x % 2, group_size=2), [[0, 2], [1, 3], [4], [5]]),
    (lambda: wrapped(range(4)).groupby(lambda x: x % 2, keep_key=True), [(0, [0, 2]), (1, [1, 3])]),
    (lambda: wrapped(range(3)).mux(wrapped(range(10, 20))), [0, 10, 1, 11, 2, 12]),
    (lambda: wrapped(range(3)).zip(wrapped(range(10, 20))), [(0, 10), (1, 11), (2, 12)]),
    (lambda: wrapped(range(2)).concat(wrapped([7])), [0, 1, 7]),
    (lambda: wrapped(range(3)).demux(2, lambda x: x % 2)[0], [0, 2]),
    (lambda: wrapped(range(3)).demux(2, lambda x: None if x else 0, drop_none=True)[0], [0]),
    (lambda: wrapped(range(3)).fork(2)[1], [0, 1, 2]),
    (lambda: wrapped(range(4)).shuffle().set_shuffle(False), [0, 1, 2, 3]),
    (lambda: wrapped(range(10)).shuffle(buffer_size=3).set_seed(3), [0, 2, 4, 3, 1, 5, 7, 8, 6, 9]),
    (lambda: Sampler(wrapped([3, 4, 5])), [0, 1, 2]),
    (lambda: SequenceWrapper(range(3)).batch(2), [[0, 1], [2]]),
    (lambda: SequenceWrapper(range(3)).batch(2, drop_last=True), [[0, 1]]),
    (lambda: SequenceWrapper([1, 2]).concat(SequenceWrapper([3])), [1, 2, 3]),
    (lambda: SequenceWrapper([1, 2]).zip(SequenceWrapper([3])), [(1, 3)]),
    (lambda: SequenceWrapper([1, 2]).map(str), ["1", "2"]),
]


@pytest.mark.parametrize("place", range(len(STEPS)))
def test_steps_do_with_samples_what_torchs_do(place: int) -> None:
    make, expected = STEPS[place]
    pipe = make()
    assert list(pipe) == expected
    assert list(make()) == expected


def test_shuffles_are_torchs() -> None:
    torch.manual_seed(0)
    assert list(wrapped(range(10)).shuffle()) == [3, 5, 0, 1, 9, 6, 2, 7, 4, 8]
    torch.manual_seed(0)
    assert list(SequenceWrapper(range(6)).shuffle()) == [4, 5, 3, 0, 2, 1]


def test_batches_collate_to_tensors() -> None:
    assert [batch.tolist() for batch in wrapped(range(4)).batch(2).collate()] == [[0, 1], [2, 3]]
    assert list(wrapped([1]).collate(str)) == ["1"]


def test_lengths_are_known_where_the_sources_is() -> None:
    source = wrapped(range(5))
    assert [len(pipe) for pipe in (source, source.map(str), source.batch(2), source.mux(source))] == [5, 5, 3, 10]
    for unknown in (wrapped(iter([1])), wrapped([1]).filter(bool)):
        with pytest.raises(TypeError):
            len(unknown)


@pytest.mark.parametrize(
    ("use", "error", "text"),
    [
        (lambda: wrapped([1]).nothing, AttributeError, "no attribute 'nothing'"),
        (lambda: wrapped([1]).concat(3), TypeError, "Expected all inputs to be `IterDataPipe`"),
        (lambda: Concater(), ValueError, "Expected at least one DataPipe"),
        (lambda: list(wrapped([1]).filter(lambda x: x)), ValueError, "Boolean output is required"),
        (lambda: wrapped([1]).fork(0), ValueError, "larger than 0"),
        (lambda: list(wrapped(range(10)).fork(2, buffer_size=3)[0]), BufferError, "buffer size 3"),
        (lambda: list(wrapped(range(10)).demux(2, lambda x: x % 2, buffer_size=3)[0]), BufferError, "buffer size 3"),
        (lambda: list(wrapped([1]).demux(2, lambda x: 5)[0]), ValueError, "between 0 and 1. 5 is returned"),
        (lambda: list(wrapped([1]).unbatch()), IndexError, "exceeds the depth"),
        (lambda: wrapped([1]).batch(0), AssertionError, "larger than 0"),
        (lambda: SequenceWrapper([1]).batch(0), AssertionError, "larger than 0"),
        (lambda: wrapped([1]).map(str, output_col=0), ValueError, "`output_col` must be None"),
        (lambda: SequenceWrapper([1]).concat(SequenceWrapper([1]))[5], IndexError, "Index 5 is out of range"),
    ],
)
def test_what_cannot_be_is_refused_as_in_torch(use: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        use()


def test_a_pipe_is_read_by_its_newest_iterator() -> None:
    pipe = wrapped(range(3))
    first = iter(pipe)
    assert next(first) == 0
    second = iter(pipe)
    assert next(second) == 0
    with pytest.raises(RuntimeError, match="This iterator has been invalidated because another iterator"):
        next(first)


def test_forks_start_over_together() -> None:
    left, right = wrapped(range(3)).fork(2)
    assert [list(left), list(right), list(left)] == [[0, 1, 2]] * 3
    left, right = wrapped(range(3)).fork(2)
    first, other = iter(right), iter(left)
    next(first)
    again = iter(right)
    assert next(again) == 0
    for old in (first, other):
        with pytest.raises(RuntimeError, match="one of the ChildDataPipes"):
            next(old)


def test_a_pipe_may_go_on_with_what_its_base_class_gives() -> None:
    class Longer(IterableWrapper):
        def __iter__(self) -> Iterator[int]:
            yield from super().__iter__()
            yield 3

    with profile() as prof:
        assert list(Longer([1, 2])) == [1, 2, 3]
    assert len(prof.events()) == 4


def test_pipes_of_ones_own_become_methods() -> None:
    @functional_datapipe("twice")
    class Twice(IterDataPipe):  # type: ignore[type-arg]
        def __init__(self, datapipe: Any) -> None:
            self.datapipe = datapipe

        def __iter__(self) -> Iterator[Any]:
            for data in self.datapipe:
                yield from (data, data)

    try:
        assert list(wrapped([1, 2]).twice()) == [1, 1, 2, 2]
        assert "twice" in dir(wrapped([]))
        with pytest.raises(Exception, match="already taken"):
            functional_datapipe("twice")(Twice)
    finally:
        del IterDataPipe.functions["twice"]


def test_pipes_are_pickled_with_their_line() -> None:
    pipe = wrapped([1, 2]).batch(1)
    with profile():
        list(pipe)
    again = pickle.loads(pickle.dumps(pipe))
    assert list(again) == [[1], [2]]
    assert isinstance(next(iter(again)), DataChunk)
    assert (repr(pipe), str(pipe.datapipe)) == ("BatcherIterDataPipe", "IterableWrapperIterDataPipe")


# --- loaders ----------------------------------------------------------------------------------------------------------


def batches(pipe: Any, **options: Any) -> list[list[int]]:
    torch.manual_seed(0)
    return [batch.tolist() for batch in DataLoader(pipe, batch_size=2, **options)]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_loaders_tell_pipes_who_reads_what_and_in_which_order() -> None:
    assert batches(wrapped(range(6)).sharding_filter(), num_workers=2) == [[0, 2], [1, 3], [4], [5]]
    assert batches(wrapped(range(6)).shuffle().sharding_filter(), num_workers=2, shuffle=True) == [
        [4, 3],
        [0, 5],
        [2],
        [1],
    ]
    assert batches(wrapped(range(6)).shuffle(), shuffle=True) == [[4, 0], [3, 5], [2, 1]]
    assert batches(wrapped(range(6)).shuffle(), shuffle=False) == [[0, 1], [2, 3], [4, 5]]
    # torch leaves the order as it is where there is no shuffler.
    assert batches(wrapped(range(6)), shuffle=True) == [[4, 0], [3, 5], [2, 1]]
    assert batches(SequenceWrapper(list(range(6))), shuffle=True) == [[0, 4], [3, 5], [2, 1]]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_that_stay_share_samples_out_in_every_pass() -> None:
    pipe = wrapped(range(8)).shuffle().sharding_filter()
    loader = DataLoader(pipe, batch_size=2, num_workers=2, persistent_workers=True)
    for _ in range(3):
        found = [number for batch in loader for number in batch.tolist()]
        assert sorted(found) == list(range(8))
    loader._iterator._shutdown_workers()


def test_both_sorts_of_pipes_are_datasets() -> None:
    assert isinstance(SequenceWrapper([1]), MapDataPipe)
    assert isinstance(wrapped([1]), torch.utils.data.IterableDataset)
    assert dp.iter.IterableWrapper is wrapped
