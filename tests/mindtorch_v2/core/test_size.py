"""`Size` is a tuple that keeps its type."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from mindtorch_v2.core.size import Size


def assert_size(found: Any, *extents: int) -> None:
    assert type(found) is Size
    assert tuple(found) == extents


def test_repr_and_str() -> None:
    assert repr(Size([2, 3])) == str(Size([2, 3])) == "torch.Size([2, 3])"
    assert repr(Size()) == "torch.Size([])"


def test_equals_and_hashes_like_a_tuple() -> None:
    assert Size([2, 3]) == (2, 3)
    assert hash(Size([2, 3])) == hash((2, 3))
    assert Size([2, 3]) != [2, 3]


@pytest.mark.parametrize(("shape", "count"), [((), 1), ((2, 3), 6), ((0, 3), 0)])
def test_numel(shape: tuple[int, ...], count: int) -> None:
    assert Size(shape).numel() == count


def test_indexing() -> None:
    size = Size([2, 3, 4])
    assert (size[0], size[-1]) == (2, 4)
    assert_size(size[1:], 3, 4)
    assert_size(size[::-1], 4, 3, 2)
    with pytest.raises(IndexError):
        size[3]


def test_concatenation() -> None:
    size, more = Size([2, 3]), (4,)
    assert_size(size + Size([4]), 2, 3, 4)
    assert_size(size + more, 2, 3, 4)
    assert_size(more + size, 4, 2, 3)
    assert_size(sum([size, size], ()), 2, 3, 2, 3)


@pytest.mark.parametrize("other", [[1], 5, None])
def test_only_tuples_are_concatenated(other: Any) -> None:
    with pytest.raises(TypeError):
        Size([2]) + other
    with pytest.raises(TypeError):
        other + Size([2])


def test_joined_entries_are_checked() -> None:
    names = ("a",)
    with pytest.raises(TypeError, match=r"item 1 is 'str'"):
        Size([2]) + names


def test_repetition() -> None:
    assert_size(Size([2]) * 2, 2, 2)
    assert_size(2 * Size([2]), 2, 2)
    assert_size(Size([2]) * 0)
    with pytest.raises(TypeError):
        Size([2]) * 1.5


def test_arrays_compute_with_sizes_elementwise() -> None:
    np.testing.assert_array_equal(Size([2, 3]) * np.array([1, 2]), [2, 6])
    np.testing.assert_array_equal(Size([2, 3]) + np.array([1, 2]), [3, 5])


def test_integers_of_any_kind_become_ints() -> None:
    size = Size([np.int64(3), True, np.array(4)])
    assert_size(size, 3, 1, 4)
    assert [type(extent) for extent in size] == [int, int, int]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (5, "'int' object is not iterable"),
        ([1, 1.0], r"torch\.Size\(\) takes an iterable of 'int' \(item 1 is 'float'\)"),
        ("2", r"item 0 is 'str'"),
        ([None], r"item 0 is 'NoneType'"),
    ],
)
def test_refused_arguments(argument: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Size(argument)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(protocol: int) -> None:
    assert_size(pickle.loads(pickle.dumps(Size([2, 3]), protocol)), 2, 3)


def test_copying() -> None:
    assert_size(copy.copy(Size([2, 3])), 2, 3)
    assert_size(copy.deepcopy(Size([2, 3])), 2, 3)
