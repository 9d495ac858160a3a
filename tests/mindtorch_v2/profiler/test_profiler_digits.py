"""Numbers as text by the matrix, against Python's own formatting."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mindtorch_v2.profiler.export.digits import Lines

NUMBERS = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 20_000), min_size=1, max_size=30)


@given(NUMBERS)
def test_numbers_have_no_padding(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    assert Lines(len(values)).text("<").number(values).text(">").split() == [b"<%d>" % n for n in numbers]


@given(NUMBERS)
def test_times_have_three_decimals(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    expected = [b"%d.%03d" % (n // 1000, n % 1000) for n in numbers]
    assert Lines(len(values)).micros(values).split() == expected


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=30))
def test_signs_are_kept(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    assert Lines(len(values)).signed(values).split() == [b"%d" % n for n in numbers]


def test_texts_are_chosen_line_by_line() -> None:
    lines = Lines(3).texts(["", "short", "a longer one, ü"], np.array([2, 0, 1])).text(";")
    assert lines.data().decode() == "a longer one, ü;;short;"


def test_what_was_added_can_be_taken_back_in_some_lines() -> None:
    lines = Lines(3).text("a")
    since = lines.width
    lines.text(', "b": ').number(np.array([7, 8, 9])).only(np.array([True, False, True]), since)
    assert lines.split() == [b'a, "b": 7', b"a", b'a, "b": 9']


def test_no_lines_are_no_bytes() -> None:
    assert Lines(0).number(np.zeros(0, np.int64)).data() == b""
