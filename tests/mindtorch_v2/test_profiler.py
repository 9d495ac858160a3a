"""The profiler as programs use it: events, averages, tables and stacks."""

import csv
import io
import json
from pathlib import Path

import pytest

from mindtorch_v2.autograd.profiler_util import FunctionEventAvg
from mindtorch_v2.profiler import ProfilerActivity, profile, record_function
from profiler_clock import Clock, clock, op  # noqa: F401

METRICS = ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]


def small_profile(clock: Clock, **options: bool) -> profile:  # noqa: F811
    """A block of 100 us with two ops of 20 and 30 us in it, and an op of 50 us after it."""
    with profile(**options) as prof:
        with record_function("block"):
            clock.advance(25)
            with op("aten::mm", [(2, 3), (3, 4)]):
                clock.advance(20)
            clock.advance(25)
            with op("aten::mm", [(5, 6), (6, 7)]):
                clock.advance(30)
        clock.advance(1000)
        with op("aten::relu", [(2, 4)]):
            clock.advance(50)
    return prof


def test_key_averages_supports_group_by_input_shape(clock: Clock) -> None:  # noqa: F811
    prof = small_profile(clock, record_shapes=True)
    assert [row.key for row in prof.key_averages()] == ["block", "aten::mm", "aten::relu"]
    rows = [row for row in prof.key_averages(group_by_input_shape=True) if row.key == "aten::mm"]
    assert [(row.input_shapes, row.count, row.cpu_time_total) for row in rows] == [
        ([[2, 3], [3, 4]], 1, 20.0),
        ([[5, 6], [6, 7]], 1, 30.0),
    ]
    assert "Input Shapes" in prof.key_averages(group_by_input_shape=True).table()
    assert "Input Shapes" not in prof.key_averages().table()


def first_caller(clock: Clock) -> None:  # noqa: F811
    with op("aten::mm"):
        clock.advance(10)


def second_caller(clock: Clock) -> None:  # noqa: F811
    with op("aten::mm"):
        clock.advance(30)


def test_key_averages_supports_group_by_stack_n(clock: Clock) -> None:  # noqa: F811
    with profile(with_stack=True) as prof:
        first_caller(clock)
        second_caller(clock)
        second_caller(clock)
    (together,) = prof.key_averages()
    assert (together.count, together.stack) == (3, [])
    first, second = prof.key_averages(group_by_stack_n=1)
    assert (first.count, first.cpu_time_total) == (1, 10.0)
    assert (second.count, second.cpu_time_total) == (2, 60.0)
    assert first.stack[0].endswith(": first_caller")
    assert second.stack[0].endswith(": second_caller")
    assert "Source Location" in prof.key_averages(group_by_stack_n=1).table()


def test_key_averages_table_unknown_sort_key_raises(clock: Clock) -> None:  # noqa: F811
    with pytest.raises(AttributeError, match="no_such_key"):
        small_profile(clock).key_averages().table(sort_by="no_such_key")


def test_key_averages_self_time_subtracts_nested_scope_time(clock: Clock) -> None:  # noqa: F811
    rows = {row.key: row for row in small_profile(clock).key_averages()}
    assert rows["block"].cpu_time_total == 100.0
    assert rows["block"].self_cpu_time_total == 50.0
    assert rows["aten::mm"].self_cpu_time_total == rows["aten::mm"].cpu_time_total == 50.0


def test_key_averages_self_time_not_greater_than_total() -> None:
    with profile() as prof:
        for _ in range(20):
            with record_function("outer"), record_function("middle"):
                with record_function("inner"):
                    pass
                with record_function("inner"):
                    pass
    rows = prof.key_averages()
    assert {row.key: row.count for row in rows} == {"outer": 20, "middle": 20, "inner": 40}
    assert all(0 <= row.self_cpu_time_total <= row.cpu_time_total for row in rows)
    top = sum(event.cpu_time_total for event in prof.events() if event.cpu_parent is None)
    assert rows.self_cpu_time_total == pytest.approx(top, abs=1e-6)


def test_key_averages_iter_returns_row_objects_with_torch_like_attrs(clock: Clock) -> None:  # noqa: F811
    rows = list(small_profile(clock, record_shapes=True, profile_memory=True).key_averages())
    assert all(isinstance(row, FunctionEventAvg) for row in rows)
    names = """key count node_id is_async is_remote use_device cpu_time cpu_time_total self_cpu_time_total device_time
        device_time_total self_device_time_total input_shapes overload_name stack scope cpu_memory_usage
        device_memory_usage self_cpu_memory_usage self_device_memory_usage cpu_children cpu_parent device_type is_legacy
        flops is_user_annotation cpu_time_str cpu_time_total_str self_cpu_time_total_str device_time_str
        device_time_total_str self_device_time_total_str"""
    for name in names.split():
        assert all(hasattr(row, name) for row in rows), name
    mm = rows[1]
    assert (mm.key, mm.count, mm.cpu_time, mm.node_id, mm.scope) == ("aten::mm", 2, 25.0, -1, 0)
    assert (mm.cpu_time_str, mm.self_cpu_time_total_str) == ("25.000us", "50.000us")
    assert (rows[0].is_user_annotation, mm.is_user_annotation) == (True, False)


def test_key_averages_row_getitem_and_attr_consistency(clock: Clock) -> None:  # noqa: F811
    for row in small_profile(clock).key_averages():
        for name in dir(row):
            if not name.startswith("_") and name not in ("cuda_time", "add", "note"):
                assert row[name] == getattr(row, name)
        for wrong in ("no_such_key", "__class__", 0):
            with pytest.raises(KeyError):
                row[wrong]


def test_key_averages_exposes_self_cpu_time_total_aggregate(clock: Clock) -> None:  # noqa: F811
    prof = small_profile(clock)
    rows = prof.key_averages()
    assert rows.self_cpu_time_total == 150.0 == sum(row.self_cpu_time_total for row in rows)
    assert prof.events().self_cpu_time_total == 150.0
    assert "Self CPU time total: 150.000us" in rows.table()


def test_key_averages_total_average_returns_total_row(clock: Clock) -> None:  # noqa: F811
    prof = small_profile(clock)
    for rows in (prof.key_averages(), prof.events()):
        total = rows.total_average()
        assert (total.key, total.count) == ("Total", 4)
        assert (total.cpu_time_total, total.self_cpu_time_total) == (200.0, 150.0)
        assert total.cpu_time == 50.0


def test_key_averages_empty_events_total_average_is_zero() -> None:
    with profile() as prof:
        pass
    total = prof.key_averages().total_average()
    assert (total.key, total.count, total.cpu_time, total.device_time) == ("Total", 0, 0.0, 0.0)
    assert (total.cpu_time_total, total.self_cpu_time_total, total.cpu_memory_usage, total.flops) == (0, 0, 0, 0)
    assert total.cpu_time_str == "0.000us"
    assert prof.key_averages().self_cpu_time_total == 0
    assert prof.key_averages().table() == ""


def test_key_averages_supported_export_stacks_metrics_matches_torch_shape(clock: Clock) -> None:  # noqa: F811
    prof = small_profile(clock)
    assert prof.key_averages().supported_export_stacks_metrics() == METRICS
    assert prof.events().supported_export_stacks_metrics() == METRICS


def test_key_averages_export_stacks_rejects_unsupported_metric(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    prof = small_profile(clock, with_stack=True)
    for events in (prof, prof.events(), prof.key_averages(group_by_stack_n=3)):
        with pytest.raises(ValueError, match=r"metric should be one of: .*self_cpu_time_total"):
            events.export_stacks(str(tmp_path / "stacks"), "cpu_time")


def test_key_averages_export_stacks_writes_stack_lines(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    with profile(with_stack=True) as prof:
        second_caller(clock)
    path = tmp_path / "stacks"
    prof.key_averages(group_by_stack_n=10).export_stacks(path, "self_cpu_time_total")
    (line,) = path.read_text().splitlines()
    frames, _, value = line.rpartition(" ")
    assert value == "30"
    assert frames.split(";")[-1].endswith(":_second_caller")
    assert any("test_key_averages_export_stacks_writes_stack_lines" in frame for frame in frames.split(";"))
    assert " " not in frames
    prof.export_stacks(path)
    # Among all events it is the Python function that moves the clock to which the time belongs.
    assert path.read_text().splitlines()[-1].endswith(":_second_caller 30")
    prof.export_stacks(path, "self_cuda_time_total")
    assert path.read_text() == ""


# Beyond the names above: the list itself, and what is written from it


def test_averages_are_a_list(clock: Clock) -> None:  # noqa: F811
    rows = small_profile(clock).key_averages()
    assert [row.key for row in rows[1:]] == ["aten::mm", "aten::relu"]
    assert rows.index(rows[2]) == 2
    copied = rows.copy()
    copied.sort(key=lambda row: row.cpu_time_total)
    copied.reverse()
    assert [row.key for row in copied] == ["block", "aten::relu", "aten::mm"]
    rows.append(rows[0])
    assert len(rows) == 4


def test_averages_add_up(clock: Clock) -> None:  # noqa: F811
    mm = small_profile(clock).key_averages()[1]
    other = small_profile(clock).key_averages()[1]
    mm += other
    assert (mm.count, mm.cpu_time_total) == (4, 100.0)
    with pytest.raises(AssertionError, match="keys"):
        mm.add(small_profile(clock).key_averages()[0])
    with pytest.raises(AssertionError):
        FunctionEventAvg().add("aten::mm")


def test_events_are_the_same_list_each_time(clock: Clock) -> None:  # noqa: F811
    prof = small_profile(clock)
    assert prof.events() is prof.events()
    assert prof.events()[1].cpu_parent is prof.events()[0]


def test_a_changed_event_counts_as_changed(clock: Clock) -> None:  # noqa: F811
    prof = small_profile(clock)
    prof.events()[1].name = "renamed"
    assert [row.key for row in prof.key_averages()] == ["block", "renamed", "aten::mm", "aten::relu"]


def test_a_shortened_list_counts_what_is_left(clock: Clock) -> None:  # noqa: F811
    events = small_profile(clock).events()
    del events[1]
    assert {row.key: row.count for row in events.key_averages()}["aten::mm"] == 1


def test_averages_as_data(clock: Clock, tmp_path: Path) -> None:  # noqa: F811
    rows = small_profile(clock).key_averages()
    assert rows.to_dict()[1]["key"] == "aten::mm"
    assert json.loads(rows.to_json())[1]["self_cpu_time_total"] == 50.0
    assert rows.to_csv().splitlines()[2].startswith("aten::mm,2,")
    assert rows.to_csv(tmp_path / "rows.csv") is None
    assert (tmp_path / "rows.csv").read_text() == rows.to_csv()


def test_names_of_any_text_survive_csv() -> None:
    names = ["a,b", "new\nline", 'a "quote"', "a \r return", "é漢字", ""]
    with profile() as prof:
        for name in names:
            with record_function(name):
                pass
    for rows in (prof.events(), prof.key_averages()):
        read = list(csv.reader(io.StringIO(rows.to_csv(), newline="")))
        assert [row[read[0].index("name" if "name" in read[0] else "key")] for row in read[1:]] == names


def test_events_as_data(clock: Clock) -> None:  # noqa: F811
    rows = small_profile(clock).events().to_dict()
    assert [row["name"] for row in rows] == ["block", "aten::mm", "aten::mm", "aten::relu"]
    assert rows[1]["parent_id"] == rows[0]["id"]
    assert (rows[1]["start_us"], rows[1]["end_us"]) == (25.0, 45.0)


def test_profile_decorates_functions(clock: Clock) -> None:  # noqa: F811
    prof = profile(activities=[ProfilerActivity.CPU])

    @prof
    def work(us: float) -> str:
        """Works."""
        with op("aten::mm"):
            clock.advance(us)
        return "done"

    assert work(7) == "done"
    assert work.__doc__ == "Works."
    assert prof.events()[0].cpu_time_total == 7.0


def test_same_name_as_op_and_annotation_are_two_rows(clock: Clock) -> None:  # noqa: F811
    with profile() as prof:
        with record_function("aten::mm"):
            clock.advance(1)
        with op("aten::mm"):
            clock.advance(2)
    assert [(row.key, row.is_user_annotation) for row in prof.key_averages()] == [
        ("aten::mm", True),
        ("aten::mm", False),
    ]
