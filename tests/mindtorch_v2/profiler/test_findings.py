"""What the report finds worth knowing, on captures made for one finding each. Checked as data, before any HTML."""

from typing import Any

import pytest

from mindtorch_v2.profiler.advise import findings
from mindtorch_v2.profiler.advise.findings import INFO, WARNING, Finding
from mindtorch_v2.profiler.advise.moduletree import module_tree
from mindtorch_v2.profiler.advise.places import Places, innermost, is_users
from mindtorch_v2.profiler.advise.steps import find_steps
from mindtorch_v2.profiler.advise.summary import summarise
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.capture.capture import PYTHON_FUNCTION, USER_ANNOTATION, Capture
from report_captures import Builder, hostile, small

US = 1000


def found(capture: Capture, overhead: float = 0.0) -> dict[str, Finding]:
    metrics = Metrics(capture)
    modules = module_tree(metrics)
    run = findings.Run(
        metrics, modules, find_steps(metrics), summarise(metrics), Places(metrics, modules), overhead
    )  # fmt: skip
    return {finding.rule: finding for finding in findings.find(run)}


def repeated(made: Builder, name: str, count: int, length: int, gap: int = 0, **more: Any) -> int:
    """Regions one after the other; returns where they end."""
    at = 0
    for _ in range(count):
        made.region(made.kind(name), at, at + length, **more)
        at += length + gap
    return at


def test_tiny_ops_are_found_with_the_line_they_come_from() -> None:
    made = Builder(stacks=True)
    stack = made.stack("mindtorch_v2/nn/functional.py(9): relu", "train.py(7): step", "train.py(20): <module>")
    repeated(made, "aten::add", 200, 3 * US, stack=stack)
    finding = found(made.capture())["tiny_ops"]
    assert finding.level == WARNING
    assert finding.calls == 200
    assert finding.time_ns == 600 * US
    assert finding.spots[0][:3] == ("train.py(7): step", 200, 600 * US)


def test_tiny_ops_that_are_many_but_take_little_are_mentioned() -> None:
    made = Builder()
    end = repeated(made, "aten::add", 200, 3 * US)
    made.region(made.kind("aten::mm"), end, end + 5000 * US)
    assert found(made.capture())["tiny_ops"].level == INFO


def test_ops_that_take_no_time_at_all_are_no_tiny_ops() -> None:
    made = Builder()
    repeated(made, "aten::add", 200, 0)
    assert "tiny_ops" not in found(made.capture())


def test_long_ops_are_no_tiny_ops() -> None:
    made = Builder()
    repeated(made, "aten::mm", 200, 50 * US)
    assert "tiny_ops" not in found(made.capture())


def test_ops_inside_of_ops_do_not_count_as_tiny() -> None:
    made = Builder()
    for i in range(200):
        made.region(made.kind("aten::linear"), i * 100 * US, (i * 100 + 90) * US)
        made.region(made.kind("aten::t"), i * 100 * US + 10, i * 100 * US + 20)
    assert "tiny_ops" not in found(made.capture())


def test_copies_count_once_and_contiguous_tensors_do_not_count() -> None:
    made = Builder(stacks=True)
    stack = made.stack("model.py(4): forward")
    for i in range(5):
        at = i * 100 * US
        made.region(made.kind("aten::contiguous"), at, at + 40 * US, stack=stack)
        made.region(made.kind("aten::clone"), at + US, at + 39 * US, stack=stack)
        made.region(made.kind("aten::copy_"), at + 2 * US, at + 38 * US, stack=stack)
        made.region(made.kind("aten::contiguous"), at + 50 * US, at + 51 * US)
    finding = found(made.capture())["copies"]
    assert finding.calls == 5
    assert finding.time_ns == 200 * US
    assert finding.level == WARNING
    assert [spot.place for spot in finding.spots] == ["model.py(4): forward"]


def test_casts_there_and_back_are_a_warning() -> None:
    made = Builder(shapes=True, stacks=True)
    stack = made.stack("data.py(3): load")
    there, back = made.cast([8], "float", 7), made.cast([8], "double", 6)
    for i in range(4):
        made.region(made.kind("aten::_to_copy"), i * 1000 * US, i * 1000 * US + US, inputs=there, stack=stack)
        made.region(
            made.kind("aten::_to_copy"), i * 1000 * US + 5 * US, i * 1000 * US + 6 * US, inputs=back, stack=stack
        )
    finding = found(made.capture())["casts"]
    assert finding.level == WARNING
    assert "double and float go both ways" in finding.title
    assert finding.spots[0].place == "data.py(3): load"


def test_a_copy_that_keeps_the_dtype_is_no_cast() -> None:
    made = Builder(shapes=True)
    same = made.cast([8], "float", 6)
    repeated(made, "aten::_to_copy", 5, 100 * US, inputs=same)
    assert "casts" not in found(made.capture())


def test_reads_of_values_are_counted_by_step() -> None:
    finding = found(small())["synchronisations"]
    assert finding.title == "item() and truth tests read 3 values, 1 a step"
    assert finding.level == INFO or finding.share >= 0.01
    assert finding.spots[0].place == "train.py(12): train"


def test_an_item_inside_a_truth_test_counts_once() -> None:
    made = Builder()
    for i in range(2):
        made.region(made.kind("aten::is_nonzero"), i * 100, i * 100 + 50)
        made.region(made.kind("aten::item"), i * 100 + 1, i * 100 + 40)
        made.region(made.kind("aten::_local_scalar_dense"), i * 100 + 2, i * 100 + 30)
    assert found(made.capture())["synchronisations"].calls == 2


def test_waiting_for_the_loader_is_found() -> None:
    made = Builder()
    wait = made.kind("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", USER_ANNOTATION)
    for i in range(4):
        made.region(wait, i * 100 * US, i * 100 * US + 30 * US)
        made.region(made.kind("aten::mm"), i * 100 * US + 30 * US, i * 100 * US + 100 * US)
    finding = found(made.capture(stop=400 * US))["loader_waits"]
    assert finding.level == WARNING
    assert finding.share == pytest.approx(0.3)


def test_flags_of_which_nothing_came_are_named() -> None:
    made = Builder(shapes=True, memory=True, flops=True, modules=True, stacks=True)
    repeated(made, "aten::mm", 3, 100 * US)
    title = found(made.capture())["unused_flags"].title
    for flag in ("record_shapes", "profile_memory", "with_flops", "with_modules", "with_stack"):
        assert f"{flag}=True" in title


def test_flags_that_brought_something_are_not_named() -> None:
    assert "unused_flags" not in found(small())


def test_a_slow_first_step_is_found() -> None:
    made = Builder()
    for i, (begin, end) in enumerate([(0, 500), (500, 600), (600, 700), (700, 800)]):
        made.region(made.kind(f"ProfilerStep#{i}", USER_ANNOTATION), begin * US, end * US)
    finding = found(made.capture())["slow_first_step"]
    assert finding.time_ns == 400 * US
    assert "5.0 times" in finding.title


def test_python_between_ops_is_found_with_its_function() -> None:
    made = Builder(stacks=True)
    made.region(made.kind("train.py(3): loop", PYTHON_FUNCTION), 0, 1000 * US)
    made.region(made.kind("aten::mm"), 100 * US, 200 * US)
    finding = found(made.capture())["between_ops"]
    assert finding.time_ns == 900 * US
    assert finding.spots[0].event == 0


def test_the_cost_of_recording_is_said_when_it_matters() -> None:
    assert "profiler_cost" not in found(small(), overhead=0.05)
    assert "with_stack" in found(small(), overhead=0.2)["profiler_cost"].advice


def test_notes_of_the_capture_come_first() -> None:
    assert next(iter(found(hostile()))) == "notes"


def test_a_note_that_all_is_there_is_no_warning() -> None:
    capture = small()
    capture.notes.append("the spool ended in order: nothing is missing at its end")
    assert "notes" not in found(capture)


def test_nothing_is_found_in_nothing() -> None:
    assert found(Builder().capture()) == {}


@pytest.mark.parametrize(
    ("frame", "users"),
    [
        ("train.py(3): main", True),
        ("src/app/model.py(10): forward", True),
        ("mindtorch_v2/nn/modules/linear.py(5): forward", False),
        ("torch/nn/modules/linear.py(5): forward", False),
        ("/usr/lib/python3.11/threading.py(1): run", False),
        ("<built-in method add>", False),
        ("<string>(1): <module>", False),
        ("nn.Module: Linear_0", False),
    ],
)
def test_frames_of_the_user_are_told_from_others(frame: str, users: bool) -> None:
    assert is_users(frame) is users


def test_the_innermost_user_frame_is_the_place() -> None:
    assert innermost(["torch/x.py(1): f", "a.py(2): g", "b.py(3): h"]) == "a.py(2): g"
    assert innermost(["torch/x.py(1): f"]) == ""


def test_without_stacks_the_module_or_annotation_is_the_place() -> None:
    made = Builder(modules=True)
    made.region(made.kind("loop", USER_ANNOTATION), 0, 100)
    made.region(made.kind("nn.Module: Net_0", PYTHON_FUNCTION, path="Net"), 10, 50)
    made.region(made.kind("aten::mm"), 20, 30)
    made.region(made.kind("aten::add"), 60, 70)
    metrics = Metrics(made.capture())
    places = Places(metrics, module_tree(metrics))
    assert [places.of(event) for event in range(4)] == ["", "Net", "Net", "loop"]
