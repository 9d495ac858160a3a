"""Nesting from times, in arrays and in objects; groups and sums over it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindtorch_v2.autograd.profiler_util import EventList, FunctionEvent
from mindtorch_v2.profiler import profile, record_function
from mindtorch_v2.profiler.analyse import tree
from profiler_clock import Clock, clock, op  # noqa: F401

Span = tuple[int, int]


@st.composite
def nested_spans(draw: st.DrawFn) -> list[Span]:
    """Spans of one thread as they end: what a random program of nested calls leaves."""
    now = 0
    ended: list[Span] = []
    open_starts: list[int] = []
    for push in draw(st.lists(st.booleans(), max_size=60)):
        now += draw(st.integers(1, 5))
        if push:
            open_starts.append(now)
        elif open_starts:
            ended.append((open_starts.pop(), now))
    while open_starts:
        now += 1
        ended.append((open_starts.pop(), now))
    return ended


any_spans = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)), max_size=30).map(
    lambda pairs: sorted(((start, start + length) for start, length in pairs), key=lambda span: span[1])
)


def arrays(spans: list[Span]) -> tuple[Any, Any]:
    table = np.array(spans, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def parents_by_search(spans: list[Span]) -> list[int]:
    """For each span the shortest one that ended later and holds it."""
    found = []
    for place, (start, end) in enumerate(spans):
        around = [p for p in range(place + 1, len(spans)) if spans[p][0] <= start and spans[p][1] >= end]
        found.append(around[0] if around else -1)
    return found


@given(nested_spans())
def test_perfect_nesting_is_found_without_a_loop(spans: list[Span]) -> None:
    start, end = arrays(spans)
    fast = tree._nest_perfect(start, end)
    assert fast is not None
    slow = tree.nest_any(start, end)
    assert fast.order.tolist() == slow.order.tolist()
    assert fast.parent.tolist() == slow.parent.tolist()
    assert fast.share is None
    assert slow.share is not None
    assert slow.share.tolist() == (end - start)[slow.order].tolist()
    order = fast.order.tolist()
    in_columns = {
        order[place]: order[parent] if parent >= 0 else -1 for place, parent in enumerate(fast.parent.tolist())
    }
    assert [in_columns[place] for place in range(len(spans))] == parents_by_search(spans)


@given(any_spans)
def test_any_spans_nest_by_torchs_rule(spans: list[Span]) -> None:
    start, end = arrays(spans)
    order, parent, share = tree.nest(start, end)
    begins, ends = start[order], end[order]
    share = ends - begins if share is None else share
    for place, outer in enumerate(parent.tolist()):
        if outer >= 0:
            assert outer < place
            assert begins[outer] <= begins[place]
            assert ends[place] <= ends[outer]
    taken = np.zeros(len(spans), np.int64)
    np.add.at(taken, parent[parent >= 0], share[parent >= 0])
    assert (taken <= ends - begins).all(), "children never take more than there is"


@given(any_spans)
def test_without_the_crossing_ones_all_spans_nest(spans: list[Span]) -> None:
    start, end = arrays(spans)
    kept = [span for span, crosses in zip(spans, tree.crossings(start, end).tolist()) if not crosses]
    for first in kept:
        for second in kept:
            disjoint = first[1] <= second[0] or second[1] <= first[0]
            inside = (first[0] >= second[0] and first[1] <= second[1]) or (
                second[0] >= first[0] and second[1] <= first[1]
            )
            assert disjoint or inside


@settings(max_examples=50)
@given(nested_spans(), st.data())
def test_spliced_parents_are_the_nearest_that_stay(spans: list[Span], data: st.DataObject) -> None:
    parent = tree.nest(*arrays(spans)).parent
    dropped = np.array([data.draw(st.booleans()) for _ in spans], bool)
    spliced = tree.splice(parent, dropped)
    for place in range(len(spans)):
        outer = int(parent[place])
        while outer >= 0 and dropped[outer]:
            outer = int(parent[outer])
        assert spliced[place] == outer


def test_a_long_chain_is_spliced_in_few_rounds() -> None:
    count = 100_000
    parent = np.arange(-1, count - 1)
    dropped = np.ones(count, bool)
    dropped[0] = False
    assert set(tree.splice(parent, dropped)[1:].tolist()) == {0}


def test_equal_times_nest_by_the_order_of_ending() -> None:
    """Inner regions end first, even if the clock has not moved."""
    order, parent, _ = tree.nest(*arrays([(5, 8), (5, 8), (5, 8)]))
    assert order.tolist() == [2, 1, 0]
    assert parent.tolist() == [-1, 0, 1]


def test_children_are_listed_in_order() -> None:
    children = tree.children_of(np.array([-1, 0, 0, 2, -1, 0]))
    assert [children.of(place) for place in range(6)] == [[1, 2, 5], [], [3], [], [], []]


# Through the profiler


def test_an_only_child_of_the_same_name_is_merged(clock: Clock) -> None:  # noqa: F811
    with profile() as prof:
        with op("aten::arange"):
            clock.advance(1)
            with op("aten::arange"):
                clock.advance(1)
                with op("aten::arange"):
                    clock.advance(1)
                    with op("aten::resize_"):
                        clock.advance(4)
        with op("aten::pow"):
            with op("aten::pow"):
                clock.advance(1)
            with op("aten::copy_"):
                clock.advance(1)
    assert [(e.name, e.cpu_parent and e.cpu_parent.name, e.self_cpu_time_total) for e in prof.events()] == [
        ("aten::arange", None, 3.0),
        ("aten::resize_", "aten::arange", 4.0),
        ("aten::pow", None, 0.0),
        ("aten::pow", "aten::pow", 1.0),
        ("aten::copy_", "aten::pow", 1.0),
    ]


def test_regions_that_cross_are_siblings_with_honest_self_times(clock: Clock) -> None:  # noqa: F811
    first, second = record_function("first"), record_function("second")
    with profile() as prof:
        first.__enter__()
        clock.advance(10)
        second.__enter__()
        clock.advance(10)
        first.__exit__(None, None, None)
        with op("aten::add"):
            clock.advance(10)
        second.__exit__(None, None, None)
    rows = {event.name: event for event in prof.events()}
    assert rows["second"].cpu_parent is None
    assert rows["aten::add"].cpu_parent is rows["second"]
    assert {name: event.self_cpu_time_total for name, event in rows.items()} == {
        "first": 20.0,
        "second": 10.0,
        "aten::add": 10.0,
    }


def spans_of(events: EventList) -> Iterator[tuple[str, list[str]]]:
    for event in events:
        yield event.name, [child.name for child in event.cpu_children]


def test_hand_made_events_nest_by_their_times() -> None:
    """As torch's own test: children by interval, per thread."""
    made = [
        FunctionEvent(0, "", 0, 0, 10),
        FunctionEvent(1, "", 0, 1, 3),
        FunctionEvent(2, "", 0, 1.5, 2.5),
        FunctionEvent(3, "", 0, 4, 5),
        FunctionEvent(4, "other thread", 1, 1, 2),
        FunctionEvent(5, "on another node", 0, 1, 2, node_id=3),
    ]
    for number, event in enumerate(made[:4]):
        event.name = str(number)
    events = EventList(made)
    events._build_tree()
    assert dict(spans_of(events)) == {
        "0": ["1", "3"],
        "1": ["2"],
        "2": [],
        "3": [],
        "other thread": [],
        "on another node": [],
    }
    assert events[0].self_cpu_time_total == 7
    assert [row.key for row in events.key_averages()] == ["0", "1", "2", "3", "other thread", "on another node"]


def test_equal_hand_made_events_nest_in_list_order() -> None:
    events = EventList([FunctionEvent(0, "outer", 0, 0, 10), FunctionEvent(1, "inner", 0, 0, 10)])
    events._build_tree()
    assert dict(spans_of(events)) == {"outer": ["inner"], "inner": []}


def test_async_events_stay_out_of_the_tree() -> None:
    events = EventList([FunctionEvent(0, "outer", 0, 0, 10), FunctionEvent(1, "async", 0, 2, 5, is_async=True)])
    events._build_tree()
    assert events[0].cpu_children == []
    assert (events[1].self_cpu_time_total, events[1].cpu_time_total) == (0, 3)


def test_a_list_without_a_tree_has_no_averages() -> None:
    with pytest.raises(AssertionError, match="tree"):
        EventList([]).key_averages()


def test_backward_borrows_the_stack_of_forward() -> None:
    events = EventList(
        [
            FunctionEvent(0, "aten::mul", 1, 0, 10, sequence_nr=7, stack=["forward.py(1): f"]),
            FunctionEvent(1, "MulBackward0", 1, 20, 40, sequence_nr=7, scope=1, fwd_thread=1, stack=[]),
            FunctionEvent(2, "aten::mul", 1, 25, 30, stack=["backward.py(1): g"]),
        ]
    )
    events._build_tree()
    assert [event.stack for event in events] == [["forward.py(1): f"]] * 3


def test_a_million_events_take_no_time_to_speak_of() -> None:
    """Not a measurement: a quadratic step anywhere would never end."""
    count = 300_000
    start = np.arange(count) * 10
    nesting = tree.nest(start, start + 5)
    assert (nesting.parent == -1).all()
    deep = np.arange(count)
    assert tree.nest(deep[::-1].copy(), 2 * count - deep[::-1]).parent.tolist() == list(range(-1, count - 1))
