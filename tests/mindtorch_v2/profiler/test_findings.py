"""What could be saved in a run, on captures made for one finding each. Checked as data, before any text or page."""

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from mindtorch_v2.profiler.advise.findings import HIGH, LOW, MEDIUM, Finding, Run, find
from mindtorch_v2.profiler.advise.moduletree import module_tree
from mindtorch_v2.profiler.advise.origins import LIBRARIES, SCRIPT, Frame, Origins, frame_of, installed
from mindtorch_v2.profiler.advise.places import Places
from mindtorch_v2.profiler.advise.rules import RULES, advise
from mindtorch_v2.profiler.advise.source import Sources
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.capture.capture import PYTHON_FUNCTION, USER_ANNOTATION, Capture
from report_captures import Builder, hostile, small

US = 1000
MS = 1000 * US
STEP = 10 * MS


def found(capture: Capture) -> dict[str, Finding]:
    """Of each rule the first finding."""
    return {finding.rule: finding for finding in reversed(advise(capture))}


class Training:
    """A program of equal steps in `main` of train.py; a test puts into each step what it is about."""

    def __init__(self, steps: int = 10, **options: bool) -> None:
        self.made = Builder(stacks=True, **options)
        self.steps = steps
        made = self.made
        made.region(made.kind("train.py(1): <module>", PYTHON_FUNCTION), 0, (steps + 2) * STEP)
        made.region(made.kind("train.py(5): main", PYTHON_FUNCTION), 1, (steps + 2) * STEP - 1)
        for step in range(steps):
            self.region(f"ProfilerStep#{step}", step, 0, STEP, USER_ANNOTATION)

    def region(
        self, name: str, step: int, start: int, end: int, category: str = "cpu_op", line: int = 0, function: str = "main",
        **more: Any,
    ) -> None:  # fmt: skip
        """In a step, from `start` to `end` after its beginning; an op is called from a line."""
        at = (step + 1) * STEP
        if category == "cpu_op" and "stack" not in more:
            frames = [f"train.py({line}): {function}", "train.py(90): <module>"]
            if function != "main":
                frames.insert(1, "train.py(20): main")
            more["stack"] = self.made.stack(*frames)
        self.made.region(self.made.kind(name, category), at + start, at + end, **more)

    def compute(self, since: int = 5 * MS) -> None:
        """What every step does at its end: one long op."""
        for step in range(self.steps):
            self.region("aten::mm", step, since, STEP - US, line=30)

    def capture(self) -> Capture:
        return self.made.capture()


def element_loop(
    function: str = "clip", turns: int = 100, ops: tuple[str, ...] = ("aten::select", "aten::norm")
) -> Training:
    run = Training()
    run.compute(since=turns * 20 * US + 500 * US)
    for step in range(run.steps):
        run.region(f"train.py(40): {function}", step, 0, turns * 20 * US + US, PYTHON_FUNCTION)
        for turn in range(turns):
            for place, op in enumerate(ops):
                at = turn * 20 * US + place * 8 * US
                run.region(op, step, at + US, at + 5 * US, line=42 + place, function=function)
    return run


# Loops


def test_a_loop_over_rows_is_named_with_its_lines_turns_and_share() -> None:
    finding = found(element_loop().capture())["element_loop"]
    assert finding.level == HIGH
    assert "in clip turns 1,000 times (100 a step)" in finding.title
    assert finding.share == pytest.approx(0.2, abs=0.01)
    assert [spot.place for spot in finding.spots] == ["train.py:42 in clip"]


def test_a_loop_begins_where_its_source_says(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("\n" * 40 + "for i in range(9):\n    a(i)\n    b(i)\n")
    os.utime(tmp_path / "train.py", (0, 0))
    capture = element_loop().capture()
    capture.metadata[SCRIPT] = str(tmp_path / "train.py")
    assert found(capture)["element_loop"].spots[0].place == "train.py:41 in clip"


def test_source_that_has_changed_since_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("\n" * 40 + "for i in range(9):\n    a(i)\n    b(i)\n")
    capture = element_loop().capture()
    capture.metadata[SCRIPT] = str(tmp_path / "train.py")
    assert found(capture)["element_loop"].spots[0].place == "train.py:42 in clip"


def test_a_loop_that_reads_is_called_that() -> None:
    finding = found(element_loop(ops=("aten::eq", "aten::item")).capture())["reads"]
    assert "reads 1,000 single values" in finding.title
    assert finding.spots[0].line == 43


def test_what_a_comprehension_does_belongs_to_the_function_it_is_in() -> None:
    run = Training()
    run.compute()
    for step in range(run.steps):
        for turn in range(50):
            at = turn * 20 * US
            run.region("train.py(44): <genexpr>", step, at, at + 10 * US, PYTHON_FUNCTION)
            run.region("aten::item", step, at + US, at + 5 * US, line=44, function="<genexpr>")
    finding = found(run.capture())["reads"]
    assert finding.calls == 500
    assert finding.spots[0].place == "train.py:44 in main"


def test_a_few_turns_are_no_loop() -> None:
    assert "element_loop" not in found(element_loop(turns=8).capture())


def test_a_loop_without_indexing_or_reading_is_none_over_elements() -> None:
    assert "element_loop" not in found(element_loop(ops=("aten::mul_", "aten::add_")).capture())


def test_turns_over_an_unpacked_tensor_are_a_loop() -> None:
    run = element_loop(ops=("aten::norm",))
    for step in range(run.steps):
        run.region("aten::unbind", step, 0, US // 2, line=41, function="clip")
    assert found(run.capture())["element_loop"].calls == 1000


def test_steps_of_a_recurrence_are_no_loop_over_elements() -> None:
    assert "element_loop" not in found(element_loop(ops=("aten::select", "aten::lstm_cell")).capture())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("outs.append(x[i] @ w)", False),
        ("row = x[i]\n    total += row @ w", False),
        ("h = x[i] @ h", True),
        ("self.h = x[i] @ self.h", True),
        ("y = x[i] @ h\n    h = y", True),
    ],
)
def test_the_source_tells_a_recurrence_from_a_loop_over_rows(tmp_path: Path, body: str, expected: bool) -> None:
    (tmp_path / "train.py").write_text(f"for i in range(9):\n    {body}\n")
    os.utime(tmp_path / "train.py", (0, 0))
    capture = small()
    capture.metadata[SCRIPT] = str(tmp_path / "train.py")
    assert Sources(capture).carries(Frame("train.py", 2, "forward")) is expected


def test_shares_leave_out_what_other_programs_took() -> None:
    capture = element_loop().capture()
    share = found(capture)["element_loop"].share
    wall, ran = [STEP] * 10, [STEP // 2] * 10
    capture.metadata["step_clock"] = {
        "step": list(range(10)), "wall_ns": wall, "cpu_ns": ran, "thread_cpu_ns": ran, "switches": [5] * 10,
    }  # fmt: skip
    busy = found(capture)
    lost = busy["busy_machine"].share
    assert 0.3 < lost <= 0.5
    assert busy["element_loop"].share == pytest.approx(share / (1 - lost), rel=1e-3)


def test_long_ops_make_no_loop_over_elements() -> None:
    run = Training()
    for step in range(run.steps):
        for turn in range(40):
            run.region("aten::select", step, turn * 200 * US, turn * 200 * US + US, line=42)
            run.region("aten::mm", step, turn * 200 * US + US, turn * 200 * US + 190 * US, line=42)
    assert "element_loop" not in found(run.capture())


def test_what_a_loop_does_is_not_told_again_as_copies_or_reads() -> None:
    rules = found(element_loop(ops=("aten::select", "aten::clone")).capture())
    assert set(rules) == {"element_loop"}


# Ops


def test_reads_inside_an_optimizer_are_not_the_users() -> None:
    run = Training()
    for step in range(run.steps):
        run.region("Optimizer.step#Adam.step", step, 0, 5 * MS, USER_ANNOTATION)
        for place in range(10):
            run.region("aten::item", step, place * 400 * US, place * 400 * US + 300 * US, line=50)
    assert "reads" not in found(run.capture())


def test_reads_that_a_library_makes_are_not_the_users() -> None:
    run = Training()
    stack = run.made.stack("mindtorch_v2/nn/utils/clip_grad.py(9): clip_grad_norm_", "train.py(50): main")
    for step in range(run.steps):
        run.region("aten::item", step, 0, MS, stack=stack)
    assert "reads" not in found(run.capture())


def test_reads_of_the_users_are_counted_by_step() -> None:
    run = Training()
    run.compute()
    for step in range(run.steps):
        run.region("aten::item", step, 0, MS, line=50)
    finding = found(run.capture())["reads"]
    assert "read 10 values (1 a step)" in finding.title
    assert finding.spots[0].place == "train.py:50 in main"


def test_built_in_functions_between_an_op_and_its_line_do_not_matter() -> None:
    run = Training()
    run.compute()
    stack = run.made.stack("<built-in method item of Tensor object at 0x7f>", "train.py(50): main")
    for step in range(run.steps):
        run.region("aten::item", step, 0, MS, stack=stack)
    assert found(run.capture())["reads"].calls == 10


def test_what_saves_less_than_half_a_percent_is_left_out() -> None:
    run = Training()
    run.compute()
    for step in range(run.steps):
        run.region("aten::item", step, 0, 40 * US, line=50)
    assert "reads" not in found(run.capture())


def test_casts_there_and_back_are_told_with_their_backward() -> None:
    run = Training()
    run.compute()
    stack = run.made.stack("train.py(27): forward", "train.py(90): <module>")
    for step in range(run.steps):
        for at in (0, 300):
            run.region("aten::_to_copy", step, at * US, (at + 200) * US, stack=stack)
    finding = found(run.capture())["casts"]
    assert finding.level == MEDIUM
    assert "20 casts there and back" in finding.title
    assert finding.spots[0].place == "train.py:27 in forward"


def test_dtypes_are_named_where_they_were_recorded() -> None:
    run = Training(shapes=True)
    run.compute()
    there, back = run.made.cast([8], "float", 7), run.made.cast([8], "double", 6)
    for step in range(run.steps):
        run.region("aten::_to_copy", step, 0, 200 * US, line=27, inputs=there)
        run.region("aten::_to_copy", step, 300 * US, 500 * US, line=27, inputs=back)
    assert "between double and float" in found(run.capture())["casts"].title


def test_a_cast_one_way_weighs_little_and_one_that_keeps_the_dtype_is_none() -> None:
    run = Training(shapes=True)
    run.compute()
    there, same = run.made.cast([8], "float", 7), run.made.cast([8], "float", 6)
    for step in range(run.steps):
        run.region("aten::_to_copy", step, 0, 200 * US, line=27, inputs=there)
        run.region("aten::_to_copy", step, 300 * US, 500 * US, line=28, inputs=same)
    finding = found(run.capture())["casts"]
    assert finding.level == LOW
    assert finding.calls == 10


def test_copies_of_a_state_in_every_step_are_named() -> None:
    run = Training()
    run.compute()
    for step in range(run.steps):
        for place in range(4):
            run.region("aten::clone", step, place * 100 * US, place * 100 * US + 80 * US, line=60)
    finding = found(run.capture())["copies"]
    assert finding.level == MEDIUM
    assert "40 copies of tensors (4 a step)" in finding.title
    assert finding.spots[0].place == "train.py:60 in main"
    # The line is there for the copies: what it does between them counts too.
    assert finding.time_ns > 40 * 80 * US


def test_a_deep_copy_is_the_users_though_a_library_makes_it() -> None:
    run = Training()
    run.compute()
    stack = run.made.stack("copy.py(128): deepcopy", "train.py(61): main", "train.py(90): <module>")
    for step in range(run.steps):
        for place in range(4):
            run.region("aten::clone", step, place * 100 * US, place * 100 * US + 80 * US, stack=stack)
    assert found(run.capture())["copies"].spots[0].place == "train.py:61 in main"


def test_one_copy_a_step_and_contiguous_tensors_weigh_little() -> None:
    run = Training()
    run.compute()
    for step in range(run.steps):
        run.region("aten::clone", step, 0, 200 * US, line=60)
        run.region("aten::contiguous", step, 300 * US, 400 * US, line=61)
    rules = found(run.capture())
    assert rules["copies"].level == LOW
    assert "layout_copies" not in rules


def test_tensors_built_in_every_step_are_named() -> None:
    run = Training()
    run.compute()
    for step in range(run.steps):
        run.region("aten::ones", step, 0, 200 * US, line=70)
        run.region("aten::tril", step, 200 * US, 500 * US, line=70)
    finding = found(run.capture())["rebuilt"]
    assert finding.spots[0].place == "train.py:70 in main"
    assert finding.level == MEDIUM


def test_tensors_built_once_are_not() -> None:
    run = Training()
    run.compute()
    run.region("aten::ones", 3, 0, 3 * MS, line=70)
    assert "rebuilt" not in found(run.capture())


def test_batches_too_small_to_be_worth_their_calls() -> None:
    run = Training(steps=60)
    for step in range(run.steps):
        run.region("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", step, 0, 100 * US, USER_ANNOTATION)
        for place in range(50):
            run.region("aten::addmm", step, place * 100 * US + 200 * US, place * 100 * US + 205 * US, line=30 + place)
    assert found(run.capture())["small_batches"].level == MEDIUM


# The run


def loading(users: bool, name: str = "_SingleProcessDataLoaderIter") -> Training:
    run = Training()
    run.compute()
    for step in range(run.steps):
        run.region(f"enumerate(DataLoader)#{name}.__next__", step, 0, 3 * MS, USER_ANNOTATION)
        file = "data.py(7): __getitem__" if users else "torch/utils/data/dataset.py(9): __getitem__"
        run.region(file, step, 10 * US, 3 * MS - 10 * US, PYTHON_FUNCTION)
    return run


def test_slow_loading_in_the_main_process_is_named_with_the_function() -> None:
    finding = found(loading(users=True).capture())["loader_waits"]
    assert finding.level == HIGH
    assert finding.share == pytest.approx(0.3, abs=0.01)
    assert finding.spots[0].place == "in __getitem__ at data.py:7"


def test_loading_by_the_library_alone_weighs_little() -> None:
    assert found(loading(users=False).capture())["loader_waits"].level == LOW


def test_waiting_for_workers_is_told_from_loading() -> None:
    finding = found(loading(users=False, name="_MultiProcessingDataLoaderIter").capture())["loader_waits"]
    assert "waits for the DataLoader's workers" in finding.title
    assert finding.level == HIGH


def one_slow_step() -> Capture:
    """Step 12 of 20 takes 48 ms longer than the others, in `save`."""
    made, ends = Builder(stacks=True), 0
    for step in range(20):
        length = 50 * MS if step == 12 else 2 * MS
        made.region(made.kind(f"ProfilerStep#{step}", USER_ANNOTATION), ends + 10, ends + length)
        if step == 12:
            made.region(made.kind("train.py(70): save", PYTHON_FUNCTION), ends + MS, ends + length - MS)
        ends += length
    made.region(made.kind("train.py(5): main", PYTHON_FUNCTION), 0, ends)
    return made.capture()


def test_a_step_out_of_line_is_blamed_on_what_it_did() -> None:
    finding = found(one_slow_step())["outlier_step"]
    assert finding.title.startswith("Step 12 took 50 ms, 25 times the median")
    assert finding.spots[0].place == "in save at train.py:70"
    assert finding.level == HIGH
    assert finding.time_ns == pytest.approx(48 * MS, rel=0.01)


def test_a_step_that_had_to_leave_the_processor_is_not_blamed() -> None:
    capture = one_slow_step()
    wall = [50 * MS if step == 12 else 2 * MS for step in range(20)]
    switches = [int(step == 12) for step in range(20)]
    clock = {"cpu_ns": [2 * MS] * 20, "thread_cpu_ns": [2 * MS] * 20, "switches": switches}
    capture.metadata["step_clock"] = {"step": list(range(20)), "wall_ns": wall, **clock}
    assert "outlier_step" not in found(capture)


def test_first_steps_that_take_longer_warm_up() -> None:
    made = Builder()
    for i, (begin, end) in enumerate([(0, 500), (500, 600), (600, 700), (700, 800)]):
        made.region(made.kind(f"ProfilerStep#{i}", USER_ANNOTATION), begin * US, end * US)
    finding = found(made.capture())["warm_up"]
    assert finding.level == LOW
    assert finding.time_ns == 400 * US
    assert "5.0 times" in finding.title


def test_python_code_is_blamed_on_the_function_with_the_largest_sum() -> None:
    run = Training()
    run.compute()
    for step in range(run.steps):
        for place in range(20):  # none of them long
            run.region("train.py(77): tokens", step, place * 150 * US, place * 150 * US + 140 * US, PYTHON_FUNCTION)
    finding = found(run.capture())["python_code"]
    assert finding.level == MEDIUM
    assert finding.spots[0].place == "in tokens at train.py:77"


def test_what_torch_does_in_python_is_not_the_users_code() -> None:
    run = Training()
    run.compute(since=4 * MS + US)
    for step in range(run.steps):
        run.region("mindtorch_v2/nn/functional.py(9): pad", step, 0, 4 * MS, PYTHON_FUNCTION)
    assert "python_code" not in found(run.capture())


def test_imports_are_named_but_for_torch_itself() -> None:
    made = Builder(stacks=True)
    made.region(made.kind("train.py(1): <module>", PYTHON_FUNCTION), 0, 1000 * MS)
    for name, start, end in (("slow.py", 10, 400), ("mindtorch_v2/nn/__init__.py", 500, 900)):
        made.region(
            made.kind("<frozen importlib._bootstrap>(1022): _find_and_load", PYTHON_FUNCTION), start * MS, end * MS
        )
        made.region(made.kind(f"{name}(1): <module>", PYTHON_FUNCTION), (start + 1) * MS, (end - 1) * MS)
    finding = found(made.capture())["imports"]
    assert "most of it slow (388 ms)" in finding.title
    assert finding.time_ns == 388 * MS


def test_a_busy_machine_is_said() -> None:
    run = Training()
    run.compute()
    capture = run.capture()
    clock = {"wall_ns": STEP, "cpu_ns": STEP // 2, "thread_cpu_ns": STEP // 2, "switches": 5}
    capture.metadata["step_clock"] = {name: [value] * 10 for name, value in clock.items()} | {"step": list(range(10))}
    finding = found(capture)["busy_machine"]
    assert "put aside 500 times a second" in finding.title
    assert finding.level == LOW
    for quiet in ({"thread_cpu_ns": [STEP] * 10}, {"switches": [0] * 10}, {"wall_ns": "?"}):
        capture.metadata["step_clock"] |= quiet
        assert "busy_machine" not in found(capture)


def test_the_cost_of_recording_is_said_when_it_matters() -> None:
    run = Training()
    run.compute()
    capture = run.capture()
    capture.metadata["profiler_cost"] = {"event_ns": 1e6, "memory_event_ns": 0}
    assert "stacks" in found(capture)["profiler_cost"].advice
    capture.metadata["profiler_cost"] = {"event_ns": 10, "memory_event_ns": 0}
    assert "profiler_cost" not in found(capture)


def test_notes_of_the_capture_come_first() -> None:
    assert advise(hostile())[0].rule == "notes"


def test_a_note_that_all_is_there_is_no_warning() -> None:
    capture = small()
    capture.notes.append("the spool ended in order: nothing is missing at its end")
    assert "notes" not in found(capture)


def test_nothing_is_found_in_nothing() -> None:
    assert found(Builder().capture()) == {}


def test_findings_are_ranked_by_weight_and_saving() -> None:
    run = element_loop()
    for step in range(run.steps):
        run.region("aten::item", step, 2 * MS + 10 * US, 2 * MS + 160 * US, line=50)
        run.region("aten::clone", step, 2 * MS + 200 * US, 2 * MS + 280 * US, line=60)
    assert [finding.rule for finding in advise(run.capture())] == ["element_loop", "reads", "copies"]


# Places and time


def test_every_nanosecond_belongs_to_one_place() -> None:
    for capture in (small(), element_loop().capture(), hostile()):
        run = Run(Metrics(capture))
        outermost = (run.metrics.parent < 0) & ~run.metrics.is_mark
        assert run.code.slices.length_ns.sum() == run.metrics.total_ns[outermost].sum()


def test_a_step_is_the_sum_of_its_parts() -> None:
    run = Run(Metrics(loading(users=True).capture()))
    parts = run.parts.by_step
    assert (parts.sum(axis=1) == STEP).all()
    assert (parts[0, 0], parts[0, 1]) == (3 * MS, 5 * MS - US)  # data, forward


def test_the_phases_of_a_run_follow_each_other() -> None:
    run = Run(Metrics(Training().capture()))
    phases = run.parts.phases()
    assert [phase.name for phase in phases] == ["start-up", "steps", "after"]
    assert all(one.start_ns + one.length_ns == next_.start_ns for one, next_ in itertools.pairwise(phases))


def test_without_stacks_the_module_or_annotation_is_the_place() -> None:
    made = Builder(modules=True)
    made.region(made.kind("loop", USER_ANNOTATION), 0, 100)
    made.region(made.kind("nn.Module: Net_0", PYTHON_FUNCTION, path="Net"), 10, 50)
    made.region(made.kind("aten::mm"), 20, 30)
    made.region(made.kind("aten::add"), 60, 70)
    metrics = Metrics(made.capture())
    places = Places(metrics, module_tree(metrics))
    assert [places.of(event) for event in range(4)] == ["", "Net", "Net", "loop"]


@pytest.mark.parametrize(
    ("frame", "users"),
    [
        ("train.py(3): main", True),
        ("src/app/model.py(10): forward", True),
        ("mine/x.py(1): f", False),
        ("mindtorch_v2/nn/modules/linear.py(5): forward", False),
        ("torch/nn/modules/linear.py(5): forward", False),
        ("contextlib.py(299): helper", False),
        ("importlib/__init__.py(1): import_module", False),
        ("/usr/lib/python3.11/threading.py(1): run", False),
        ("profile.py(1): main", True),
        ("<built-in method add>", False),
        ("<string>(1): <module>", False),
        ("nn.Module: Linear_0", False),
    ],
)
def test_frames_of_the_user_are_told_from_others(frame: str, users: bool) -> None:
    capture = small()
    capture.metadata |= {LIBRARIES: ["mine"], SCRIPT: "/home/me/profile.py"}
    assert Origins(capture).is_users(frame) is users


def test_packages_that_are_installed_are_known() -> None:
    assert "numpy" in installed()
    assert "contextlib" not in installed()


def test_places_say_whether_the_line_ran_or_begins_the_function() -> None:
    assert frame_of("a/b.py(3): f").text == "a/b.py:3 in f"
    assert frame_of("a/b.py(3): f", exact=False).text == "in f at a/b.py:3"
    assert frame_of("a/b.py(3): <listcomp>", exact=False).text == "a/b.py:3"
    assert frame_of("nn.Module: Net_0") is None


def test_source_tells_calls_and_imports(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import json.encoder\n\ndef save():\n    x()\n    time.sleep(1)\n")
    os.utime(tmp_path / "train.py", (0, 0))
    capture = small()
    capture.metadata[SCRIPT] = str(tmp_path / "train.py")
    sources = Sources(capture)
    assert sources.call_in(frame_of("train.py(3): save", exact=False), "sleep").text == "train.py:5 in save"
    assert sources.call_in(frame_of("train.py(3): save", exact=False), "y").text == "in save at train.py:3"
    assert sources.import_of("train.py", "json") == 1
    assert sources.import_of("gone.py", "json") == 0


def test_rules_find_nothing_alarming_in_a_clean_run() -> None:
    run = Training()
    run.compute(since=US)
    assert [finding for finding in find(Run(Metrics(run.capture())), RULES) if finding.level != LOW] == []
