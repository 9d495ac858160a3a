"""Behaviour of torch 2.13's profiler that programs rely on, fact by fact."""

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.profiler import ProfilerAction, _ExperimentalConfig, profile, record_function, schedule
from mindtorch_v2.utils import data

X = torch.ones(4, 4)


def names(prof: Any) -> list[str]:
    return [event.name for event in prof.events()]


# --- steps ------------------------------------------------------------------------------------------------------------


def test_a_profile_left_while_it_records_has_the_step_that_is_open() -> None:
    with profile(schedule=schedule(wait=0, warmup=1, active=5)) as prof:
        for _ in range(3):
            X + X
            prof.step()
    steps = [event for event in prof.events() if event.name == "ProfilerStep*"]
    assert [event.trace_name for event in steps] == ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"]
    assert steps[-1].time_range.end >= steps[-2].time_range.end


def test_steps_after_the_end_go_on_counting() -> None:
    prof = profile(schedule=schedule(wait=1, warmup=1, active=1))
    with prof:
        prof.step()
    prof.step()
    assert (prof.step_num, prof.current_action) == (2, ProfilerAction.RECORD_AND_SAVE)
    prof.stop()


def test_any_annotation_that_looks_like_a_step_shares_its_row() -> None:
    with profile() as prof:
        for number in (7, 8):
            with record_function(f"ProfilerStep#{number}"):
                pass
    assert [(row.key, row.count) for row in prof.key_averages()] == [("ProfilerStep*", 2)]
    assert [event.trace_name for event in prof.events()] == ["ProfilerStep#7", "ProfilerStep#8"]


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rf", "Pi", "Pc", "_Z3fooi", 'with "quotes"', "back\\slash", "ünïcode"])
def test_names_are_what_was_given(name: str, tmp_path: Path) -> None:
    with profile() as prof, record_function(name):
        pass
    assert names(prof) == [name]
    prof.export_chrome_trace(tmp_path / "trace.json")
    found = [event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
    assert name in found


def test_only_annotations_are_annotations() -> None:
    with profile() as prof, record_function("mine"):
        X + X
    assert {event.name: event.is_user_annotation for event in prof.events()} == {"mine": True, "aten::add": False}


class CustomSGD(torch.optim.SGD):
    """An optimizer of a user's own."""


def test_a_training_loop_is_annotated_at_a_high_level() -> None:
    model = torch.nn.Linear(4, 2)
    loader = data.DataLoader(data.TensorDataset(torch.ones(6, 4)), batch_size=2)
    optimizer = pickle.loads(pickle.dumps(CustomSGD(model.parameters(), lr=0.1)))
    with profile() as prof:
        for (batch,) in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    counts = {row.key: row.count for row in prof.key_averages() if "#" in row.key}
    assert counts == {
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": 4,
        "Optimizer.zero_grad#CustomSGD.zero_grad": 3,
        "Optimizer.step#CustomSGD.step": 3,
    }


# --- inputs -----------------------------------------------------------------------------------------------------------


def test_values_of_as_strided() -> None:
    x = torch.rand(2, 6)
    with profile(record_shapes=True) as prof:
        torch.as_strided(x, [4, 3], [1, 4])
    (event,) = prof.events()
    assert (event.input_shapes, event.concrete_inputs) == ([[2, 6], [], [], []], [None, [4, 3], [1, 4], None])


class Scaled(torch.autograd.Function):
    """Takes tensors and a number between them."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float, bias: torch.Tensor) -> torch.Tensor:
        return x * factor + bias

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, None, grad.sum(0)


def test_inputs_of_a_custom_function() -> None:
    x, bias = torch.ones(2, 3, requires_grad=True), torch.ones(3, requires_grad=True)
    with profile(record_shapes=True) as prof:
        Scaled.apply(x, 2.0, bias).sum().backward()
    shapes = {event.name: event.input_shapes for event in prof.events()}
    assert shapes["Scaled"] == [[2, 3], [], [3]]
    assert shapes["ScaledBackward"] == [[2, 3]]


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_a_unit_of_time_holds_everywhere_in_a_table(unit: str) -> None:
    with profile() as prof:
        X @ X
        X + X
    for rows in (prof.key_averages(), prof.events()):
        text = rows.table(time_unit=unit)
        found = re.findall(r"\d+\.\d+([a-z]+)", text)
        assert set(found) == {unit}
        assert len(found) == 3 * len(rows) + 1


def test_flops_have_a_column_with_a_scale() -> None:
    with profile(with_flops=True, record_shapes=True) as prof:
        torch.ones(50, 50) @ torch.ones(50, 50)
        X + X
    assert re.search(r"Total M?FLOPs", prof.key_averages().table(sort_by="cpu_time_total", row_limit=10))
    assert sum(row.flops for row in prof.key_averages()) == 2 * 50**3 + 16


def test_grouping_without_what_was_recorded_adds_nothing() -> None:
    with profile() as prof:
        X + X
    plain = prof.key_averages()
    for grouping in ({"group_by_stack_n": 5}, {"group_by_input_shape": True}, {"group_by_overload_name": True}):
        rows = prof.key_averages(**grouping)
        assert [(row.key, row.count) for row in rows] == [(row.key, row.count) for row in plain]
        assert rows.table() == plain.table()


# --- sequence numbers and threads -------------------------------------------------------------------------------------


def test_forward_and_backward_share_sequence_numbers() -> None:
    x = torch.ones(3, 3, requires_grad=True)
    with profile() as prof:
        torch.sub(x.add(1).mul(2), x).sum().backward()
    top = {event.name: event.sequence_nr for event in prof.events() if event.cpu_parent is None}
    nodes = {event.name: (event.sequence_nr, event.fwd_thread) for event in prof.events() if event.scope == 1}
    first = top["aten::add"]
    assert [top[f"aten::{name}"] - first for name in ("add", "mul", "sub", "sum")] == [0, 1, 2, 3]
    for name in ("Add", "Mul", "Sub", "Sum"):
        assert nodes[f"{name}Backward0"] == (top[f"aten::{name.lower()}"], 1)
    assert nodes["torch::autograd::AccumulateGrad"] == (-1, 0)


def test_overloads_are_names_of_a_trace(tmp_path: Path) -> None:
    config = _ExperimentalConfig(capture_overload_names=True)
    with profile(experimental_config=config) as prof:
        torch.add(X, X)
        torch.add(X, X, out=torch.empty(4, 4))
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    found = [event["name"] for event in events if event.get("cat") == "cpu_op"]
    assert found == ["aten::add.Tensor", "aten::empty.memory_format", "aten::add.out"]


def test_an_empty_profile_adds_up_to_nothing(tmp_path: Path) -> None:
    with profile(record_shapes=True, profile_memory=True, with_flops=True) as prof:
        pass
    total = prof.key_averages().total_average()
    assert (total.key, total.count, total.cpu_time, total.cpu_time_total, total.flops) == ("Total", 0, 0.0, 0, 0)
    assert (prof.events().table(), prof.events().self_cpu_time_total) == ("", 0)
    assert prof.events().to_dict() == prof.key_averages().to_dict() == []
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["name"] for event in events if event["ph"] == "i"} == {
        "Iteration Start: PyTorch Profiler",
        "Record Window End",
    }
