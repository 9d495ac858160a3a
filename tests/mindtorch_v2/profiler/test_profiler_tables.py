"""Our table renderer, fed with torch's own event data, prints torch's tables character for character."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mindtorch_v2.autograd.profiler_util import EventList, FunctionEvent
from mindtorch_v2.profiler import DeviceType

GOLDEN = json.loads(gzip.decompress((Path(__file__).parents[1] / "data" / "profiler_tables.json.gz").read_bytes()))
CASES = [(mode, place) for mode, data in GOLDEN.items() for place in range(len(data["tables"]))]


def made(fields: dict[str, Any]) -> FunctionEvent:
    fields = dict(fields, device_type=DeviceType(fields["device_type"]))
    kernels = fields.pop("kernels")
    event = FunctionEvent(**fields)
    for kernel in kernels:
        event.append_kernel(*kernel)
    return event


def events_of(mode: str) -> EventList:
    events = EventList([made(fields) for fields in GOLDEN[mode]["events"]], **GOLDEN[mode]["options"])
    events._build_tree()
    return events


@pytest.mark.parametrize(("mode", "place"), CASES)
def test_table_is_torchs(mode: str, place: int) -> None:
    case = GOLDEN[mode]["tables"][place]
    shown = events_of(mode)
    if case["averages"] is not None:
        shown = shown.key_averages(**case["averages"], include_python_functions=True)
    assert shown.table(**case["table"]) == case["text"]


def test_source_and_flops_stand_under_their_own_headers() -> None:
    """torch 2.13 swaps the two cells."""
    event = FunctionEvent(1, "aten::mm", 1, 0, 10, stack=["a.py(1): f", "b.py(2): g"], flops=1000)
    lines = EventList([event], with_flops=True).table().splitlines()
    header = lines[1]
    row, further = (line for line in lines if ".py(" in line)
    assert row.index("a.py(1): f") == header.index("Source Location")
    assert further.index("b.py(2): g") == header.index("Source Location")
    assert row.rstrip().endswith("1.000")


def test_nothing_prints_nothing() -> None:
    assert EventList([]).table() == ""


def test_printing_notes_the_shares_on_the_events() -> None:
    events = events_of("plain")
    events.table()
    assert events[0].self_cpu_percent.endswith("%")
    assert events[0].total_cpu_percent.endswith("%")


@pytest.mark.parametrize("key", ["no_such_key", "kernels_total", 5])
def test_unknown_sort_key_raises(key: Any) -> None:
    with pytest.raises(AttributeError):
        events_of("plain").table(sort_by=key)


@pytest.mark.parametrize("limit", [None, -1, 2.5, "3"])
def test_a_limit_that_is_never_met_is_none(limit: Any) -> None:
    events = events_of("plain")
    assert events.table(row_limit=limit) == events.table(row_limit=len(events))
