"""Event objects: attributes, defaults, deprecated names, and views that cost little."""

import copy
import importlib
import inspect
import pickle
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd import profiler_util
from mindtorch_v2.autograd.profiler_util import (
    EventList,
    EventMetadata,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
    MemRecordsAcc,
    StringTable,
    _format_memory,
    _format_time,
    _format_time_share,
)
from mindtorch_v2.profiler import DeviceType, _ExperimentalConfig, profile
from profiler_clock import Clock, clock, op  # noqa: F401


def one_event(clock: Clock, **options: Any) -> FunctionEvent:  # noqa: F811
    with profile(**options) as prof:
        clock.advance(3)
        with op("aten::add", [(2, 3), (3,)]):
            clock.advance(1.234)
    return prof.events()[0]


def test_values_of_a_plain_op(clock: Clock) -> None:  # noqa: F811
    event = one_event(clock)
    assert (event.name, event.key, event.trace_name, event.overload_name) == ("aten::add", "aten::add", "aten::add", "")
    assert (event.node_id, event.count, event.scope, event.thread, event.fwd_thread) == (-1, 1, 0, 1, 0)
    assert (event.use_device, event.device_type, event.flops, event.kernels) == (None, DeviceType.CPU, 0, [])
    assert (event.is_async, event.is_remote, event.is_legacy, event.is_python_function) == (False,) * 4
    assert (event.activity_type, event.external_id, event.sequence_nr) == ("cpu_op", event.id, -1)
    assert (event.stack, event.input_shapes, event.concrete_inputs, event.input_dtypes) == ([], [], [], [])
    assert (event.structured_input_shapes, event.structured_input_strides, event.kwinputs) == ([], [], {})
    assert (event.python_id, event.python_parent_id, event.python_module_id) == (-1, -1, -1)
    assert (event.flow_id, event.flow_type, event.flow_start, event.linked_correlation_id) == (0, 0, False, 0)
    assert (event.self_cpu_percent, event.total_cpu_percent, event.total_device_percent) == (-1, -1, -1)
    assert (event.time_range.start, event.time_range.end, event.cpu_time_total) == (3.0, 4.234, 1.234)
    assert (event.device_time_total, event.self_device_time_total, event.device_memory_usage) == (0, 0, 0)
    assert event.event_metadata is None


def test_shapes_come_with_the_option(clock: Clock) -> None:  # noqa: F811
    event = one_event(clock, record_shapes=True)
    assert event.input_shapes == event.structured_input_shapes == [[2, 3], [3]]
    assert event.input_dtypes == ["float", "float"]


def test_tensor_lists_have_structure_only(clock: Clock) -> None:  # noqa: F811
    with profile(record_shapes=True) as prof, op("aten::cat", [((2, 3), (2, 3)), ()]):  # type: ignore[list-item]
        clock.advance(1)
    assert prof.events()[0].input_shapes == [[], []]
    assert prof.events()[0].structured_input_shapes == [[[2, 3], [2, 3]], []]


def test_ids_are_unique_over_sessions(clock: Clock) -> None:  # noqa: F811
    first, second = one_event(clock), one_event(clock)
    assert first.id < second.id


def test_repr_reads_as_torchs(clock: Clock) -> None:  # noqa: F811
    event = one_event(clock, record_shapes=True)
    assert repr(event) == (
        f"<FunctionEvent id={event.id} name=aten::add overload_name= device_type=DeviceType.CPU node_id=-1 "
        "cpu_time=1.234us start_us=3.0 end_us=4.234 cpu_children=[] None_time=0.000us name=aten::add thread=1 "
        "input_shapes=[[2, 3], [3]] cpu_memory_usage=0 None_memory_usage=0 is_async=False is_remote=False seq_nr=-1 "
        "is_legacy=False>"
    )
    average = FunctionEventAvg().add(event)
    assert repr(average) == (
        "<FunctionEventAvg key=aten::add self_cpu_time=1.234us cpu_time=1.234us  self_cuda_time=0.000us "
        "cuda_time=0.000us input_shapes=[[2, 3], [3]] cpu_memory_usage=0 cuda_memory_usage=0>"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cuda_time", "device_time"),
        ("cuda_time_total", "device_time_total"),
        ("self_cuda_time_total", "self_device_time_total"),
        ("self_cuda_memory_usage", "self_device_memory_usage"),
    ],
)
def test_old_names_warn(clock: Clock, old: str, new: str) -> None:  # noqa: F811
    event = one_event(clock)
    with pytest.warns(FutureWarning, match=f"`{old}` is deprecated.*`{new}`"):
        assert getattr(event, old) == getattr(event, new)


def test_unknown_attributes_are_unknown(clock: Clock) -> None:  # noqa: F811
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = one_event(clock).no_such_thing  # type: ignore[attr-defined]
    assert {"name", "flops", "stack", "cpu_time_total"} <= set(dir(one_event(clock)))


def test_views_and_hand_made_events_pickle(clock: Clock) -> None:  # noqa: F811
    with profile(record_shapes=True) as prof, op("outer"), op("inner", [(2,)]):
        clock.advance(2)
    outer, inner = pickle.loads(pickle.dumps(list(prof.events())))
    assert outer.cpu_children == [inner]
    assert inner.cpu_parent is outer
    assert (inner.name, inner.input_shapes, inner.self_cpu_time_total) == ("inner", [[2]], 2.0)
    made = pickle.loads(pickle.dumps(FunctionEvent(1, "made", 1, 0, 5)))
    assert (made.name, made.cpu_time_total) == ("made", 5)


def test_hand_made_events_have_torchs_defaults() -> None:
    event = FunctionEvent(3, "made", 7, 1, 4)
    assert (event.id, event.thread, event.device_resource_id, event.device_index) == (3, 7, 7, 0)
    assert (event.flops, event.trace_name, event.stack, event.input_shapes) == (None, None, None, None)
    assert (event.flow_id, event.activity_type, event.external_id, event.fwd_thread) == (None, None, 0, None)
    assert event.cpu_time_total == event.self_cpu_time_total == 3


def test_only_cpu_events_have_children_and_kernels() -> None:
    cpu, cuda = FunctionEvent(1, "cpu", 1, 0, 5), FunctionEvent(2, "gpu", 1, 0, 5, device_type=DeviceType.CUDA)
    for use in (
        lambda: cuda.append_kernel("k", 0, 1),
        lambda: cuda.append_cpu_child(cpu),
        lambda: cpu.append_cpu_child(cuda),
        lambda: cpu.set_cpu_parent(cuda),
        lambda: cpu.append_cpu_child("child"),  # type: ignore[arg-type]
    ):
        with pytest.raises(AssertionError):
            use()


def test_device_times_come_from_kernels() -> None:
    outer = FunctionEvent(1, "outer", 1, 0, 10, use_device="cuda")
    inner = FunctionEvent(2, "inner", 1, 2, 5, use_device="cuda")
    outer.append_cpu_child(inner)
    outer.append_kernel("k", 0, 7)
    inner.append_kernel("k", 0, 3)
    assert (outer.device_time_total, outer.self_device_time_total) == (10, 7)
    kernel = FunctionEvent(3, "k", 1, 0, 4, use_device="cuda", device_type=DeviceType.CUDA)
    assert (kernel.device_time_total, kernel.cpu_time_total, kernel.self_cpu_time_total) == (4, 0, 0)
    odd = FunctionEvent(4, "k", 1, 0, 4, use_device="cuda", device_type=DeviceType.FPGA)
    with pytest.raises(AssertionError, match="FPGA"):
        _ = odd.device_time_total


def test_device_metadata_is_sorted_into_fields() -> None:
    extra = {
        "stream": "7",
        "grid": "[1, 2, 3]",
        "blocks per SM": "0.5",
        "Collective name": '"allreduce"',
        "Is asynchronized op": "1",
        "est. achieved occupancy %": "40",
        "In msg nelems": "5",
    }
    metadata = FunctionEvent(1, "k", 1, 0, 1, extra_meta=extra).event_metadata
    assert isinstance(metadata, EventMetadata)
    assert (metadata.stream, metadata.grid, metadata.blocks_per_sm) == (7, [1, 2, 3], 0.5)
    assert (metadata.collective_name, metadata.is_async, metadata.in_msg_nelems) == ("allreduce", True, 5)
    assert metadata.est_occupancy_pct == 40.0
    assert metadata.rank is None
    assert FunctionEvent(1, "k", 1, 0, 1, extra_meta={"unknown": "1"}).event_metadata is None


def test_small_classes() -> None:
    assert Interval(1.5, 4).elapsed_us() == 2.5
    assert Kernel("k", 0, 3)._fields == ("name", "device", "duration")
    table = StringTable()
    assert (table["rf"], table["_Z3fooi"]) == ("rf", "_Z3fooi")
    assert (_format_time(999.9996), _format_time(1000), _format_time(2e6)) == ("1000.000us", "1.000ms", "2.000s")
    assert (_format_memory(-1023), _format_memory(2048), _format_memory(3 * 1024**3)) == (
        "-1023 B",
        "2.00 KB",
        "3.00 GB",
    )
    assert (_format_time_share(1, 3), _format_time_share(0, 0)) == ("33.33%", "NaN")
    with pytest.raises(AssertionError):
        _format_time_share(1, 0)


def test_memory_records_in_an_interval() -> None:
    class Record:
        def __init__(self, start: int) -> None:
            self._start = start

        def start_ns(self) -> int:
            return self._start

    records = [[Record(start), False] for start in (30, 10, 20, 40)]
    found = [record[0].start_ns() for record in MemRecordsAcc(records).in_interval(10, 30)]
    assert found == [10, 20, 30]
    assert list(MemRecordsAcc([]).in_interval(0, 100)) == []


def test_event_list_is_a_list_with_options() -> None:
    events = EventList([1, 2], use_device="cuda", profile_memory=True, with_flops=True)
    assert isinstance(events, list)
    assert type(events[:1]) is list
    with pytest.raises(TypeError):
        events.key_averages(group_by_input_shape=True)  # type: ignore[call-arg]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda events: pickle.loads(pickle.dumps(events))])
def test_lists_are_copied_and_pickled_with_their_events(copied: Any) -> None:
    with profile(record_shapes=True, profile_memory=True) as prof:
        torch.mm(torch.ones(2, 3), torch.ones(3, 4))
    events, rows = prof.events(), prof.key_averages()
    for original in (events, rows):
        other = copied(original)
        assert type(other) is EventList
        assert [(event.key, event.cpu_time_total, event.cpu_memory_usage) for event in other] == [
            (event.key, event.cpu_time_total, event.cpu_memory_usage) for event in original
        ]
        assert other.table() == original.table()
    again = copied(events).key_averages(group_by_input_shapes=True)
    assert [(row.key, row.count, row.input_shapes) for row in again] == [
        (row.key, row.count, row.input_shapes) for row in events.key_averages(group_by_input_shapes=True)
    ]


def test_only_exposed_events_of_ops_have_metadata_as_json() -> None:
    def metadata(**options: Any) -> list[Any]:
        with profile(profile_memory=True, **options) as prof:
            x = torch.ones(3)
            del x
        with pytest.warns(FutureWarning, match="metadata_json"):
            return [event.metadata_json for event in prof.events()]

    assert metadata() == ["", "", "", None]
    exposed = metadata(experimental_config=_ExperimentalConfig(expose_kineto_event_metadata=True))
    assert exposed == ['"Ev Idx": 0', '"Ev Idx": 1', '"Ev Idx": 2', None]


def test_a_hand_made_event_has_all_its_values_itself() -> None:
    event = FunctionEvent(1, "mine", 2, 3.0, 7.0)
    assert vars(event)["count"] == 1
    assert vars(event)["self_cpu_percent"] == vars(event)["total_cpu_percent"] == -1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda event: event.append_cpu_child(5), "Expected child to be a FunctionEvent, got int"),
        (lambda event: event.set_cpu_parent(None), "Expected parent to be a FunctionEvent, got NoneType"),
        (lambda event: FunctionEventAvg().add(5), "Expected other to be a FunctionEvent or FunctionEventAvg, got int"),
        (lambda event: EventList([event]).key_averages(), "Expected tree to be built before calling key_averages"),
    ],
)
def test_what_is_no_event_is_refused_in_torchs_words(call: Any, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        call(FunctionEvent(1, "a", 1, 0, 10))


def test_names_and_frames_that_torch_leaves_out() -> None:
    assert [profiler_util._filter_name(name) for name in ("[memory]", "aten::is_leaf", "aten::mm")] == [
        True,
        True,
        False,
    ]
    kept = profiler_util._filter_stack_entry
    assert [kept(entry) for entry in ("torch/autograd/__init__.py(9): backward", "net.py(3): backward")] == [
        False,
        True,
    ]
    assert profiler_util._rewrite_name("ProfilerStep#3") == "ProfilerStep#3"
    assert profiler_util._rewrite_name("ProfilerStep#3", with_wildcard=True) == "ProfilerStep*"


def test_events_in_any_list_make_a_table() -> None:
    events = EventList([FunctionEvent(1, "a", 1, 0, 10), FunctionEvent(2, "b", 1, 20, 50)])
    events._build_tree()
    wanted = events.table(sort_by="cpu_time", header="H", row_limit=1, time_unit="ms")
    assert profiler_util._build_table(list(events), "cpu_time", "H", 1, time_unit="ms") == wanted


def test_an_event_of_a_profile_has_all_its_values_in_its_dictionary(clock: Clock) -> None:  # noqa: F811
    event = one_event(clock, record_shapes=True)
    values = vars(event)
    by_hand = vars(FunctionEvent(1, "aten::add", 1, 0, 1))
    assert values.keys() == by_hand.keys()
    assert (values["name"], values["input_shapes"], values["count"]) == ("aten::add", [[2, 3], [3]], 1)
    assert all(values[name] == getattr(event, name) for name in values)


def test_what_is_put_into_the_dictionary_of_an_event_stays(clock: Clock) -> None:  # noqa: F811
    event = one_event(clock)
    event.__dict__["mine"] = 5
    assert (event.mine, copy.copy(event).mine) == (5, 5)  # type: ignore[attr-defined]


def test_a_row_of_averages_has_all_its_values_in_its_dictionary(clock: Clock) -> None:  # noqa: F811
    with profile() as prof, op("aten::mean", [(2,)]), op("aten::sum", [(2,)]):
        clock.advance(1)
    row, inner = prof.key_averages()
    assert [child.name for child in vars(row)["cpu_children"]] == ["aten::sum"]
    assert vars(row).keys() == {*vars(FunctionEventAvg()), "is_user_annotation"}
    assert [child.name for child in pickle.loads(pickle.dumps(row)).cpu_children] == ["aten::sum"]
    assert inner.cpu_children == []


def test_the_signature_of_an_event_names_its_arguments() -> None:
    names = list(inspect.signature(FunctionEvent).parameters)
    assert names[:6] == ["id", "name", "thread", "start_us", "end_us", "overload_name"]


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("autograd.profiler", "DeviceType ProfilerActivity ProfilerState MEMORY_EVENT_NAME OUT_OF_MEMORY_EVENT_NAME"),
        ("autograd.profiler_util", "DeviceType MEMORY_EVENT_NAME OUT_OF_MEMORY_EVENT_NAME"),
        ("autograd.profiler_legacy", "DeviceType ProfilerState EventList FunctionEvent"),
        ("profiler.profiler", "ProfilerActivity kineto_available"),
    ],
)
def test_names_are_found_where_programs_look_for_them(module: str, names: str) -> None:
    found = importlib.import_module(f"mindtorch_v2.{module}")
    assert [name for name in names.split() if not hasattr(found, name)] == []


def test_what_is_worked_out_cannot_be_set(clock: Clock) -> None:  # noqa: F811
    for event in (one_event(clock), FunctionEvent(0, "a", 1, 0, 1)):
        for name in ("key", "cpu_time_total", "self_cpu_time_total", "cpu_time_str"):
            with pytest.raises(AttributeError, match=name):
                setattr(event, name, 3)
        event.name = "b"
        assert event.key == "b"


def test_self_times_of_copies_are_whole_nanoseconds(clock: Clock) -> None:  # noqa: F811
    with profile() as prof, op("parent"):
        for us in (0.1, 0.2):
            with op("child"):
                clock.advance(us)
    events = prof.events()
    for same in (copy.deepcopy(events), pickle.loads(pickle.dumps(events))):
        assert [event.self_cpu_time_total for event in same] == [0.0, 0.1, 0.2]
        assert "-0.000us" not in same.table()
    events[1].name = "renamed"
    assert [event.self_cpu_time_total for event in events] == [0.0, 0.1, 0.2]


def test_string_table_takes_texts_only() -> None:
    with pytest.raises(TypeError, match="int"):
        StringTable()[3]  # type: ignore[index]


def test_rows_are_read_by_name_and_have_no_items(clock: Clock) -> None:  # noqa: F811
    with profile() as prof, op("aten::add"):
        clock.advance(1)
    (row,) = prof.key_averages()
    with pytest.warns(FutureWarning) as warned:
        assert row["cuda_time"] == 0
    assert len(warned) == 1
    with pytest.raises(TypeError, match="not iterable"):
        list(row)
    with pytest.raises(TypeError):
        assert "count" in row
    for unknown in ("nothing", "_known", 0, None):
        with pytest.raises(KeyError):
            row[unknown]


def test_self_times_of_copies_are_not_negative_where_children_cross(clock: Clock) -> None:  # noqa: F811
    first, second = op("first"), op("second")
    with profile() as prof, op("around"):
        first.__enter__()
        clock.advance(1)
        second.__enter__()
        clock.advance(8)
        first.__exit__(None, None, None)
        clock.advance(1)
        second.__exit__(None, None, None)
    assert copy.deepcopy(prof.events())[0].self_cpu_time_total == prof.events()[0].self_cpu_time_total == 0.0


def test_a_text_is_no_list_of_metrics() -> None:
    with pytest.raises(TypeError, match="profiler_metrics expects a list"):
        _ExperimentalConfig(profiler_metrics="cycles")
