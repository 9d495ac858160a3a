"""The inner profiler's raw results: events asked by methods, and their tree with what happened to memory."""

import json
from pathlib import Path
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2._C._profiler import RecordScope, _EventType
from mindtorch_v2.profiler import profile, record_function
from profiler_clock import Clock, allocate, clock, free, op  # noqa: F401


def shown(nodes: list[Any]) -> list[Any]:
    return [(node.name, node.duration_time_ns, shown(node.children)) for node in nodes]


def recorded(clock: Clock) -> Any:  # noqa: F811
    with profile(profile_memory=True) as prof:
        clock.advance(5)
        with record_function("outer"):
            with op("aten::mul"), op("aten::mul"):
                clock.advance(1)
                allocate(40, 1)
                clock.advance(2)
            clock.advance(1)
            free(40, 1)
            clock.advance(1)
        clock.advance(1)
        allocate(8, 2)
        clock.advance(1)
    return prof


def test_the_tree_holds_everything_as_it_was_recorded(clock: Clock) -> None:  # noqa: F811
    results = recorded(clock).profiler.kineto_results
    inner = ("aten::mul", 3000, [("[memory]", 0, [])])
    assert shown(results.experimental_event_tree()) == [
        ("outer", 5000, [("aten::mul", 3000, [inner]), ("[memory]", 0, [])]),
        ("[memory]", 0, []),
    ]


def test_nodes_of_the_tree_say_what_they_are(clock: Clock) -> None:  # noqa: F811
    outer, last = recorded(clock).profiler.kineto_results.experimental_event_tree()
    freed = outer.children[1]
    assert [node.tag for node in (outer, freed, last)] == [
        _EventType.TorchOp,
        _EventType.Allocation,
        _EventType.Allocation,
    ]
    assert outer.typed == (_EventType.TorchOp, ("outer", RecordScope.USER_SCOPE, -1))
    assert (freed.parent is outer, outer.parent) == (True, None)
    assert [(x.extra_fields.alloc_size, x.extra_fields.total_allocated) for x in (freed, last)] == [(-40, 0), (8, 8)]
    assert outer.end_time_ns - outer.start_time_ns == outer.duration_time_ns


def test_events_answer_by_methods(clock: Clock) -> None:  # noqa: F811
    prof = recorded(clock)
    results = prof.profiler.kineto_results
    assert [(event.name(), event.nbytes()) for event in results.events()] == [
        ("outer", 0),
        ("aten::mul", 0),
        ("aten::mul", 0),
        ("[memory]", 40),
        ("[memory]", -40),
        ("[memory]", 8),
    ]
    first, same = results.events()[0], prof.events()[0]
    assert first.start_ns() - results.trace_start_ns() == same.time_range.start * 1000 == 5000
    assert (first.duration_ns(), first.end_ns() - first.start_ns()) == (5000, 5000)
    assert (first.is_user_annotation(), first.scope(), first.activity_type()) == (True, 7, "user_annotation")
    assert first.start_thread_id() == first.end_thread_id() == same.thread


def test_every_method_of_an_event_has_an_answer() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) as prof:
        (x * x).sum().backward()
    events = prof.profiler.kineto_results.events()
    for event in events:
        answers = {name: getattr(event, name)() for name in dir(event) if not name.startswith("_")}
        assert answers["end_ns"] - answers["start_ns"] == answers["duration_ns"]
        assert None not in answers.values(), (answers["name"], [name for name in answers if answers[name] is None])
    product = next(event for event in events if event.name() == "aten::mul")
    assert (product.shapes(), product.dtypes(), product.flops()) == ([[2, 3], [2, 3]], ["float", "float"], 6)
    assert any(event.is_python_function() for event in events)


def test_correlation_ids_are_unique_and_small() -> None:
    with profile() as prof:
        torch.ones(3).add(1).exp()
    ids = [event.correlation_id() for event in prof.profiler.kineto_results.events()]
    assert len(set(ids)) == len(ids)
    assert all(0 < number < 2**32 for number in ids)


def test_results_are_there_once_the_recording_has_ended(tmp_path: Path) -> None:
    prof = torch.autograd.profiler.profile()
    assert prof.kineto_results is None
    with prof:
        torch.ones(2)
        assert prof.kineto_results is None
    prof.kineto_results.save(str(tmp_path / "trace.json"))
    names = [event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
    assert "aten::ones" in names
