"""What events tell of inputs: overloads, values by the types of the schema, written tensors, inputs given by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2._C._profiler import _RecordFunctionFast
from mindtorch_v2.profiler import _ExperimentalConfig, profile

X, Y = torch.ones(2, 3), torch.ones(4, dtype=torch.int64)


def recorded(call: Any, **options: Any) -> Any:
    """The first event of a call."""
    with profile(record_shapes=True, **options) as prof:
        call()
    return prof.events()[0]


# --- overloads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name", "overload"),
    [
        (lambda: X + X, "aten::add", "Tensor"),
        (lambda: torch.add(X, X, out=torch.empty(2, 3)), "aten::add", "out"),
        (lambda: torch.exp(X, out=torch.empty(2, 3)), "aten::exp", "out"),
        (lambda: torch.sum(X, 0, out=torch.empty(3)), "aten::sum", "IntList_out"),
        (lambda: torch.empty(2), "aten::empty", "memory_format"),
        (lambda: torch.randperm(3), "aten::randperm", ""),
        (lambda: torch.randperm(3, generator=torch.Generator()), "aten::randperm", "generator"),
        (lambda: torch.max(X, X), "aten::max", "other"),
        (lambda: torch.normal(0.0, 1.0, (2,)), "aten::normal", "float_float"),
        (lambda: X.to("cpu", torch.float64), "aten::to", "device"),
        (lambda: X.to(torch.float64), "aten::to", "dtype"),
    ],
)
def test_overloads_are_torchs(call: Any, name: str, overload: str) -> None:
    with profile(experimental_config=_ExperimentalConfig(capture_overload_names=True)) as prof:
        call()
    assert (name, overload) in [(event.name, event.overload_name) for event in prof.events()]


def test_rows_are_told_apart_by_overload_when_asked() -> None:
    with profile(experimental_config=_ExperimentalConfig(capture_overload_names=True)) as prof:
        torch.add(X, X)
        torch.add(X, X, out=torch.empty(2, 3))
    rows = prof.key_averages(group_by_overload_name=True)
    assert [(row.key, row.overload_name, row.count) for row in rows] == [
        ("aten::add", "Tensor", 1),
        ("aten::empty", "memory_format", 1),
        ("aten::add", "out", 1),
    ]
    assert [(row.key, row.overload_name, row.count) for row in prof.key_averages()] == [
        ("aten::add", "", 2),
        ("aten::empty", "", 1),
    ]


def test_tensors_that_are_written_stand_behind_the_inputs() -> None:
    out = torch.empty(3, 2).t()
    event = recorded(lambda: torch.add(X, X, out=out))
    assert event.input_shapes == [[2, 3], [2, 3], [], [2, 3]]
    assert event.structured_input_strides == [[3, 1], [3, 1], [], [1, 2]]
    assert event.concrete_inputs == [None, None, 1, None]


# --- values -----------------------------------------------------------------------------------------------------------


def test_zero_and_false_are_what_the_schema_says() -> None:
    made = torch.empty(2, 3)
    assert repr(recorded(lambda: made.copy_(X)).concrete_inputs) == "[None, None, False]"
    assert repr(recorded(lambda: X[0]).concrete_inputs) == "[None, 0, 0]"


def test_open_ends_of_slices_are_the_largest_number() -> None:
    assert recorded(lambda: X[:, 1:]).concrete_inputs == [None, 1, 1, 2**63 - 1, 1]
    assert recorded(lambda: X[:1]).concrete_inputs == [None, 0, 0, 1, 1]
    assert torch.equal(X[:, 1:], torch.ones(2, 2))


def test_the_order_of_a_norm_is_what_was_given() -> None:
    assert repr(recorded(lambda: X.norm()).concrete_inputs[1]) == "2"
    assert repr(recorded(lambda: X.norm(p=2.0)).concrete_inputs[1]) == "2.0"


def test_lists_of_optional_tensors_show_nothing() -> None:
    rows = Y - Y
    event = recorded(lambda: X[rows])
    assert event.name == "aten::index"
    assert (event.structured_input_shapes, event.input_dtypes) == ([[2, 3], []], ["float", ""])


def test_layouts_and_memory_formats_are_numbers() -> None:
    turned = X.t()
    assert recorded(turned.contiguous).concrete_inputs == [None, 0]
    assert recorded(lambda: X.to("cpu")).concrete_inputs == [None, 6, 0, None, None, False, False, None]


def test_a_new_tensor_is_made_outside_of_autograd() -> None:
    with profile(record_shapes=True) as prof:
        torch.tensor([1.0, 2.0])
    assert [(event.name, event.sequence_nr) for event in prof.events()][:2] == [("aten::empty", -1), ("aten::to", -1)]


# --- steps ------------------------------------------------------------------------------------------------------------


def names_of(call: Any) -> list[str]:
    with profile() as prof:
        call()
    return [event.name.removeprefix("aten::") for event in prof.events()]


def test_new_tensors_of_a_kind_are_made_in_torchs_steps() -> None:
    assert names_of(lambda: X.new_zeros(2)) == ["new_zeros", "new_empty", "empty", "zero_"]
    assert names_of(lambda: X.new_full((2, 3), 5)) == ["new_full", "new_empty", "empty", "fill_"]
    assert names_of(lambda: torch.max(X, X)) == ["max", "maximum"]
    assert names_of(lambda: torch.normal(0.0, 1.0, (2,))) == ["normal", "empty", "normal_"]
    assert names_of(lambda: torch.randint_like(X, 5)) == ["randint_like", "empty_like", "random_"]


@pytest.mark.parametrize("form", ["zeros", "ones", "empty", "full"])
def test_recording_changes_no_new_tensor(form: str) -> None:
    calls = [
        lambda: getattr(X, f"new_{form}")((2, 3), *([7] if form == "full" else ())),
        lambda: getattr(X, f"new_{form}")(
            size=(2,), dtype=torch.int64, **({"fill_value": 7} if form == "full" else {})
        ),
        lambda: getattr(X, f"new_{form}")([1, 2], *([7.5] if form == "full" else ()), requires_grad=True),
    ]
    for call in calls:
        plain = call()
        with profile():
            made = call()
        assert (made.shape, made.dtype, made.requires_grad) == (plain.shape, plain.dtype, plain.requires_grad)
        assert form == "empty" or torch.equal(made, plain)


@pytest.mark.parametrize("name", ["std", "var"])
def test_a_moment_and_its_mean_are_one_node(name: str) -> None:
    x = torch.tensor([[1.0, 2.0, 4.0], [3.0, 7.0, 5.0]], requires_grad=True)
    with profile() as prof:
        moment, mean = getattr(torch, f"{name}_mean")(x, 1)
        (moment.sum() + 2 * mean.sum()).backward()
    nodes = [event.name for event in prof.events() if event.scope == 1]
    assert f"{name.title()}MeanBackward0" in nodes
    assert "MeanBackward1" not in nodes
    y = x.detach().clone().requires_grad_()
    (getattr(y, name)(1).sum() + 2 * y.mean(1).sum()).backward()
    assert torch.allclose(x.grad, y.grad)


@pytest.mark.parametrize("part", [0, 1])
def test_half_of_a_moment_and_its_mean_has_its_gradient(part: int) -> None:
    x = torch.tensor([[1.0, 2.0, 4.0], [3.0, 7.0, 5.0]], requires_grad=True)
    torch.std_mean(x)[part].backward()
    y = x.detach().clone().requires_grad_()
    (y.mean() if part else y.std()).backward()
    assert torch.allclose(x.grad, y.grad)


def test_mean_and_deviation_of_a_layer_norm_need_no_grad() -> None:
    x = torch.randn(2, 3, requires_grad=True)
    result, mean, rstd = torch.native_layer_norm(x, (3,), None, None, 1e-5)
    assert [t.requires_grad for t in (result, mean, rstd)] == [True, False, False]
    with profile(record_shapes=True) as prof:
        torch.nn.functional.layer_norm(x, (3,)).sum().backward()
    node = next(event for event in prof.events() if event.name == "NativeLayerNormBackward0")
    assert node.input_shapes == [[2, 3]]


# --- inputs given by hand ---------------------------------------------------------------------------------------------


def given(*args: Any, **options: Any) -> Any:
    def enter() -> None:
        with _RecordFunctionFast("mine", *args, **options):
            pass

    return recorded(enter)


def test_a_fast_record_is_an_op_without_inputs() -> None:
    event = given()
    assert (event.name, event.input_shapes, event.kwinputs, event.is_user_annotation) == ("mine", [], {}, False)
    assert (event.activity_type, event.scope, event.sequence_nr) == ("cpu_op", 0, -1)


def test_a_fast_record_shows_tensors_lists_and_numbers() -> None:
    event = given([X.t(), [X, Y], 5, "text", [1, 2], 2.5, None, torch.float32, (X, 1)])
    assert event.input_shapes == [[3, 2], [], [], [], [], [], [], [], []]
    assert event.structured_input_shapes[:2] == [[3, 2], [[2, 3], [4]]]
    assert event.structured_input_strides[:2] == [[1, 3], [[3, 1], [1]]]
    assert event.input_dtypes == ["float", "TensorList", "Scalar", "", "ScalarList", "Scalar", "", "Scalar", ""]
    assert event.concrete_inputs == [None, None, 5, None, [1, 2], 2.5, None, 6, None]


def test_a_fast_record_leaves_out_what_has_no_type() -> None:
    assert given([object(), [], [X, 5], [1, 2.5]]).input_shapes == []


def test_a_fast_record_tells_equal_numbers_apart() -> None:
    found = [given([value], {"k": value}) for value in (1, True, 1.0)]
    assert [repr(event.concrete_inputs[0]) for event in found] == ["1", "True", "1.0"]
    assert [repr(event.kwinputs["k"]) for event in found] == ["1", "True", "1.0"]


def test_keyword_values_of_a_fast_record() -> None:
    kept = {"a": 5, "b": "text", "c": 1.5, "d": True, "e": None, "f": ["x", "y"], "g": [1, 2], "h": (1, 2), "i": 1j}
    assert given([], kept).kwinputs == kept
    assert given([], {"raw": b"x"}).kwinputs == {"raw": "x"}


@pytest.mark.parametrize(
    ("value", "shown", "warning"),
    [
        (object(), "NULL", "value for keyword: k"),
        (("a", "b"), "NULL", "value for keyword: k"),
        ({}, "NULL", "value for keyword: k"),
        (["a", 1], None, "in the List for keyword: k"),
    ],
)
def test_keyword_values_without_a_type_warn(value: Any, shown: Any, warning: str) -> None:
    with pytest.warns(UserWarning, match=f"Unable to infer type of .*{warning}"):
        assert given([], {"k": value}).kwinputs == {"k": shown}


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ((5,), TypeError),
        (("a", "text"), TypeError),
        (("a", 5), TypeError),
        (("a", X), TypeError),
        (("a", [], [1]), TypeError),
        (("a", [], {5: 5}), RuntimeError),
        (("a", [], {"k": 2**70}), RuntimeError),
        ((), TypeError),
        (("a", [], {}, 5), TypeError),
    ],
)
def test_a_fast_record_refuses_other_arguments(args: tuple[Any, ...], error: type[Exception]) -> None:
    with profile(record_shapes=True), pytest.raises(error):
        _RecordFunctionFast(*args).__enter__()


def test_a_fast_record_may_be_used_again_but_not_within_itself() -> None:
    record = _RecordFunctionFast("mine")
    with profile() as prof:
        for _ in range(2):
            with record as entered:
                assert entered is None
        with record, pytest.raises(RuntimeError, match="already entered"):
            record.__enter__()
    assert [event.name for event in prof.events()] == ["mine"] * 3


def test_without_shapes_a_fast_record_keeps_no_inputs() -> None:
    with profile() as prof, _RecordFunctionFast("mine", [X], {"k": 1}):
        X + X
    event = prof.events()[0]
    assert (event.input_shapes, event.kwinputs, event.concrete_inputs) == ([], {}, [])
    assert [child.name for child in event.cpu_children] == ["aten::add"]


def test_a_fast_record_in_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with (
        profile(record_shapes=True) as prof,
        _RecordFunctionFast("mine", [X, [X, Y], 5], {"k": 1, "s": "t", "l": ["a"]}),
    ):
        pass
    prof.export_chrome_trace(path)
    event = next(event for event in json.loads(path.read_text())["traceEvents"] if event["name"] == "mine")
    arguments = event["args"]
    assert arguments["Input type"] == ["float", "TensorList", "Scalar"]
    assert arguments["Input Dims"] == [[2, 3], [[2, 3], [4]], []]
    assert (arguments["k"], arguments["s"], arguments["l"]) == (1, "t", ["a"])


def test_an_argument_that_holds_itself_is_an_error_and_no_crash():
    endless = [1]
    endless.append(endless)
    with profile(record_shapes=True), pytest.raises(RecursionError):
        torch.full(endless, 1.0)
