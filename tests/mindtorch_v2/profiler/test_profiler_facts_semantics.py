"""More behaviour of torch 2.13's profiler, fact by fact: lifecycle, threads, aggregation, counted operations, tables."""

import json
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import profiler as package
from mindtorch_v2.autograd import profiler as autograd_profiler
from mindtorch_v2.autograd import profiler_util
from mindtorch_v2.autograd.profiler import profile as autograd_profile
from mindtorch_v2.autograd.profiler_util import EventList, FunctionEvent
from mindtorch_v2.profiler import (
    DeviceType,
    ProfilerAction,
    ProfilerActivity,
    _ExperimentalConfig,
    profile,
    profiler,
    record_function,
    schedule,
)

CPU = ProfilerActivity.CPU
X = torch.ones(4, 4)


def names(prof: Any) -> list[str]:
    return [event.name for event in prof.events()]


def trace_of(prof: Any, folder: Path) -> dict[str, Any]:
    prof.export_chrome_trace(folder / "trace.json")
    trace: dict[str, Any] = json.loads((folder / "trace.json").read_text())
    return trace


# --- schedules and steps ----------------------------------------------------------------------------------------------


def test_schedules_take_numbers_with_a_fraction() -> None:
    actions = schedule(wait=1.0, warmup=1.0, active=1.0)  # type: ignore[arg-type]
    assert [actions(step).name for step in range(4)] == ["NONE", "WARMUP", "RECORD_AND_SAVE", "NONE"]


def test_a_schedule_is_a_plain_function() -> None:
    assert type(schedule(wait=1, warmup=1, active=1)) is type(trace_of)


def test_an_exception_in_the_handler_comes_out_of_step() -> None:
    def handler(prof: profile) -> None:
        raise KeyError("from the handler")

    prof = profile(schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=handler)
    prof.start()
    prof.step()
    with pytest.raises(KeyError, match="from the handler"):
        prof.step()
    assert prof.step_num == 2


def test_a_handler_that_cannot_be_called_is_an_error_at_the_end() -> None:
    prof = profile(on_trace_ready=5)  # type: ignore[arg-type]
    prof.start()
    X + X
    with pytest.raises(TypeError):
        prof.stop()


def test_stopping_keeps_the_number_of_the_step() -> None:
    prof = profile()
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with prof:
                prof.step()
    assert prof.step_num == 2


def test_a_cpu_profiler_never_stops_for_a_device() -> None:
    seen = []
    with profile(schedule=schedule(wait=0, warmup=1, active=1, repeat=2), acc_events=True) as prof:
        for _ in range(6):
            seen.append(prof.current_action)
            prof.step()
    assert ProfilerAction.DEVICE_STOPPED not in seen


def test_steps_begin_and_end_between_the_ops_around_them() -> None:
    with profile(schedule=schedule(wait=0, warmup=1, active=2, repeat=1)) as prof:
        for _ in range(3):
            X + X
            prof.step()
    steps = [event for event in prof.events() if event.name == "ProfilerStep*"]
    assert [[child.name for child in step.cpu_children] for step in steps] == [["aten::add"], ["aten::add"]]


# --- what is said once, what is ignored -------------------------------------------------------------------------------


def test_that_cycles_clear_events_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "_shown_warnings", set())
    prof = profile()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            with prof:
                X + X
    assert [str(warning.message)[:40] for warning in said] == ["Warning: Profiler clears events at the e"]
    assert said[0].category is UserWarning


def test_metadata_given_too_early_is_not_kept(tmp_path: Path) -> None:
    prof = profile()
    prof.add_metadata("early", "lost")
    prof.preset_metadata_json("preset", '"kept"')
    with prof:
        prof.add_metadata("text", "kept")
        prof.add_metadata_json("json", '{"a": [1, 2]}')
    trace = trace_of(prof, tmp_path)
    assert (trace["text"], trace["json"], trace["preset"]) == ("kept", {"a": [1, 2]}, "kept")
    assert "early" not in trace


def test_a_false_use_cuda_is_deprecated_too() -> None:
    with pytest.warns(FutureWarning, match="use_cuda"):
        assert profile(use_cuda=False).activities == {CPU}


def test_names_of_activities_are_checked() -> None:
    for wrong in ("cpu_op", "no such thing"):
        with pytest.raises(RuntimeError, match=wrong):
            profile(activities=[{CPU: [wrong]}]).start()


def test_memory_timelines_ask_for_what_they_need_before_anything_else() -> None:
    with (
        pytest.warns(FutureWarning, match="export_memory_timeline"),
        pytest.raises(ValueError, match=r"record_shapes.*profile_memory.*with_stack"),
    ):
        profile().export_memory_timeline("never written")


def test_stacks_are_not_exported_before_the_start_or_without_stacks(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="initialized"):
        profile(with_stack=True).export_stacks(str(tmp_path / "stacks"))
    with profile() as prof:
        X + X
    with pytest.raises(AssertionError, match="with_stack"):
        prof.export_stacks(str(tmp_path / "stacks"))


def test_a_trace_has_the_id_that_the_callback_gives(tmp_path: Path) -> None:
    with profile(custom_trace_id_callback=lambda: "mine") as prof:
        pass
    assert trace_of(prof, tmp_path)["trace_id"] == "mine"
    with profile() as prof:
        own = prof.get_trace_id()
    assert trace_of(prof, tmp_path)["trace_id"] == own


def test_every_cycle_has_an_id_of_its_own() -> None:
    ids = []
    with profile(
        schedule=schedule(wait=0, warmup=1, active=1, repeat=2),
        on_trace_ready=lambda prof: ids.append(prof.get_trace_id()),
        acc_events=True,
    ) as prof:
        for _ in range(4):
            prof.step()
    assert len(set(ids)) == 2


def test_both_flags_are_false_while_warming_up() -> None:
    prof = profile(schedule=schedule(wait=0, warmup=1, active=1, repeat=1))
    seen = [torch.autograd._profiler_enabled()]
    with prof:
        for _ in range(2):
            seen.append(torch.autograd._profiler_enabled())
            prof.step()
        seen.append(torch.autograd._profiler_enabled())
    assert seen == [False, False, True, False]


# --- threads ----------------------------------------------------------------------------------------------------------


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_backward_in_another_thread_is_not_recorded() -> None:
    loss = (torch.ones(3, requires_grad=True) * 2).sum()
    with profile() as prof, record_function("mine"):
        in_thread(loss.backward)
    assert names(prof) == ["mine"]


def test_backward_runs_on_the_thread_that_calls_it() -> None:
    x = torch.ones(3, requires_grad=True)
    with profile() as prof:
        (x * 2).sum().backward()
    assert {event.thread for event in prof.events()} == {1}
    assert any(event.name == "MulBackward0" for event in prof.events())


def test_annotations_of_other_threads_are_recorded_with_all_threads_only() -> None:
    def work() -> None:
        with record_function("theirs"):
            X + X

    for option, expected in ((False, []), (True, ["theirs", "aten::add"])):
        with profile(experimental_config=_ExperimentalConfig(profile_all_threads=option)) as prof:
            in_thread(work)
        assert [event.name for event in prof.events() if event.thread != 1] == expected


# --- aggregation ------------------------------------------------------------------------------------------------------


def hand_made(**fields: Any) -> FunctionEvent:
    return FunctionEvent(**{"id": 1, "name": "op", "thread": 1, "start_us": 0, "end_us": 10, "stack": [], **fields})


@pytest.mark.parametrize(
    "other",
    [
        {"name": "another"},
        {"node_id": 3},
        {"device_type": DeviceType.CUDA},
        {"is_legacy": True},
        {"is_user_annotation": True},
    ],
)
def test_rows_differ_by_name_node_device_legacy_and_annotation(other: dict[str, Any]) -> None:
    events = EventList([hand_made(), hand_made(id=2, start_us=20, end_us=30, **other), hand_made(id=3, start_us=40)])
    events._build_tree()
    assert [row.count for row in events.key_averages()] == [2, 1]


@pytest.mark.parametrize(
    "other", [{"thread": 2}, {"overload_name": "out"}, {"input_shapes": [[1]]}, {"stack": ["a.py(1): f"]}, {"scope": 7}]
)
def test_rows_are_shared_by_threads_overloads_shapes_stacks_and_scopes(other: dict[str, Any]) -> None:
    events = EventList([hand_made(), hand_made(id=2, start_us=20, end_us=30, **other)])
    events._build_tree()
    (row,) = events.key_averages()
    assert row.count == 2
    assert (row.input_shapes, row.overload_name, row.stack) == ("", "", [])


def test_rows_stand_in_the_order_of_their_first_events() -> None:
    with profile() as prof:
        X * X
        X + X
        X * X
    assert [(row.key, row.count) for row in prof.key_averages()] == [("aten::mul", 2), ("aten::add", 1)]


def test_averages_of_averages_are_refused() -> None:
    with profile() as prof:
        X + X
    with pytest.raises(AssertionError):
        prof.key_averages().key_averages()


def test_the_singular_keyword_is_the_profilers_and_the_plural_the_lists() -> None:
    with profile(record_shapes=True) as prof:
        X + X
    assert prof.key_averages(group_by_input_shape=True)[0].input_shapes == [[4, 4], [4, 4], []]
    assert prof.events().key_averages(group_by_input_shapes=True)[0].input_shapes == [[4, 4], [4, 4], []]
    with pytest.raises(TypeError):
        prof.events().key_averages(group_by_input_shape=True)  # type: ignore[call-arg]


def test_slices_are_plain_lists() -> None:
    with profile() as prof:
        X + X
        X * X
    assert type(prof.events()[:1]) is list
    assert type(prof.key_averages()[:1]) is list


# --- counted operations -----------------------------------------------------------------------------------------------


def flops(run: Callable[[], Any]) -> int:
    with profile(with_flops=True) as prof:
        run()
    return sum(event.flops for event in prof.events())


@pytest.mark.parametrize(
    ("run", "count"),
    [
        (lambda: torch.ones(3) * torch.ones(2, 3), 3),
        (lambda: torch.ones(2, 3) + torch.ones(3), 6),
        (lambda: X.clone().add_(X), 0),
        (lambda: X.clone().mul_(X), 0),
        (lambda: X - X, 0),
        (lambda: X / X, 0),
        (lambda: torch.mv(X, torch.ones(4)), 0),
        (lambda: torch.nn.functional.linear(torch.ones(5, 8), torch.ones(16, 8)), 2 * 5 * 8 * 16),
        (lambda: torch.nn.functional.conv1d(torch.ones(1, 2, 8), torch.ones(3, 2, 3)), 0),
        (lambda: torch.nn.functional.conv_transpose2d(torch.ones(1, 2, 4, 4), torch.ones(2, 3, 3, 3)), 0),
        (lambda: torch.nn.functional.conv2d(torch.ones(2, 3, 8, 8), torch.ones(6, 1, 3, 3), groups=3), 7776),
        (lambda: torch.nn.functional.conv2d(torch.ones(3, 8, 8), torch.ones(6, 3, 3, 3)), 0),
    ],
)
def test_operations_are_counted_where_torch_counts_them(run: Callable[[], Any], count: int) -> None:
    assert flops(run) == count


# --- memory -----------------------------------------------------------------------------------------------------------


def test_bytes_are_exact() -> None:
    with profile(profile_memory=True) as prof:
        one = torch.empty(1, dtype=torch.uint8)
    assert one.numel() == 1
    assert prof.events()[0].cpu_memory_usage == 1


def test_what_is_allocated_and_freed_counts_by_key() -> None:
    def allocate() -> Any:
        with record_function("allocate"):
            return torch.rand(10, 10)

    def free(holder: list[Any]) -> None:
        with record_function("free"):
            holder.clear()

    with profile(profile_memory=True) as prof:
        free([allocate()])
        outside = torch.rand(3)
        del outside
    usage = {row.key: row.cpu_memory_usage for row in prof.key_averages()}
    assert (usage["allocate"], usage["free"], usage["[memory]"]) == (400, -400, -12)


# --- tables -----------------------------------------------------------------------------------------------------------


def table_of(**fields: Any) -> str:
    options = fields.pop("table", {})
    return EventList([hand_made(**fields)], **fields.pop("list", {})).table(**options)


@pytest.mark.parametrize(
    ("us", "text"), [(999.9996, "1000.000us"), (999.0, "999.000us"), (1000.0, "1.000ms"), (1e6, "1.000s")]
)
def test_times_have_the_unit_that_fits(us: float, text: str) -> None:
    assert f"Self CPU time total: {text}" in table_of(end_us=us)


def test_a_name_of_52_characters_is_cut_to_itself() -> None:
    assert f"{'n' * 52}..." in table_of(name="n" * 52)
    assert "..." not in table_of(name="n" * 51)
    assert f"{'n' * 7}..." in table_of(name="n" * 30, table={"max_name_column_width": 10})
    assert "n" * 80 in table_of(name="n" * 80, table={"max_name_column_width": None})


def test_nothing_of_nothing_is_no_number() -> None:
    assert table_of(end_us=0).count("NaN") == 2


def test_an_async_event_has_no_share_of_the_total() -> None:
    row = table_of(is_async=True).splitlines()[3].split()
    assert row[3] == "0"


def test_an_unknown_unit_is_ignored() -> None:
    assert table_of(table={"time_unit": "h"}) == table_of()


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (-1024, "-1.00 KB"), (5 * 2**20, "5.00 MB"), (3 * 2**30, "3.00 GB")],
)
def test_bytes_have_the_unit_that_fits(nbytes: int, text: str) -> None:
    events = EventList([hand_made(cpu_memory_usage=nbytes)], profile_memory=True)
    assert f"  {text}  " in events.table()


def test_the_scale_of_operations_is_that_of_the_smallest() -> None:
    events = [hand_made(flops=5_000_000), hand_made(flops=2_000), hand_made(flops=0)]
    text = EventList(events, with_flops=True).table()
    assert "Total KFLOPs" in text
    assert [line.split()[-1] for line in text.splitlines()[3:6]] == ["5000.000", "2.000", "--"]


def test_tables_of_incomplete_events_are_refused() -> None:
    with pytest.raises(TypeError):
        EventList([hand_made(flops=None), hand_made(flops=1)], with_flops=True).table()
    with pytest.raises(TypeError):
        EventList([hand_made(stack=["a.py(1): f"]), hand_made(stack=None)]).table()


def test_the_node_column_is_for_nodes() -> None:
    assert "Node ID" in table_of(node_id=0)
    assert "Node ID" not in table_of()


def test_autograds_table_has_no_unit_of_time() -> None:
    with autograd_profile() as prof:
        X + X
    with pytest.raises(TypeError):
        prof.table(time_unit="ms")  # type: ignore[call-arg]


# --- what star imports bring ------------------------------------------------------------------------------------------


def test_exported_names_are_torchs() -> None:
    assert sorted({*package.__all__} - {"TraceError", "flight", "load", "recover"}) == [
        "DeviceType",
        "ExecutionTraceObserver",
        "ProfilerAction",
        "ProfilerActivity",
        "kineto_available",
        "profile",
        "record_function",
        "schedule",
        "supported_activities",
        "tensorboard_trace_handler",
    ]
    assert (len(profiler.__all__), len(autograd_profiler.__all__), len(profiler_util.__all__)) == (6, 11, 9)
    for reachable in ("RecordScope", "KinetoStepTracker", "_KinetoProfile", "_ExperimentalConfig", "itt"):
        assert hasattr(package, reachable)
    assert (profiler_util.MEMORY_EVENT_NAME, autograd_profiler.kineto_available()) == ("[memory]", True)
