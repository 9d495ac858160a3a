"""The measuring scripts measure: torch gets full marks, a package that does not exist gets none."""

import json
from types import ModuleType

import pytest

import measure
import measure_errors
import measure_meta
import measure_operators
import measure_second
import measure_surface
import measure_trees
from measure import Figure


@pytest.mark.parametrize("name", ["x*y", "nn.Linear(5,6)(x) [grad]", "record_function nested", "MLP training step"])
def test_torch_records_the_trees_it_recorded(name: str) -> None:
    results = measure_trees.measure("torch", only=name)
    assert results
    assert {result.why for result in results.values()} == {""}


def test_torch_has_its_own_surface() -> None:
    missing = [fact for fact, holds in measure_surface.measure("torch").items() if not holds]
    assert missing == []


@pytest.mark.parametrize("name", ["mul", "linalg.norm", "nn.functional.dropout", "sort", "__getitem__", "polar"])
def test_torch_agrees_with_itself_on_an_operator(name: str) -> None:
    results = measure_operators.measure("torch", only=frozenset([name]))
    assert results
    assert {result.why for result in results.values()} == {""}


@pytest.mark.parametrize("script", [measure_second, measure_meta, measure_errors])
def test_torch_agrees_with_itself_in_every_respect(script: ModuleType) -> None:
    names = frozenset(["mul", "max_pool2d", "take", "nn.functional.max_pool2d", "cumsum", "linalg.solve"])
    results = measure_operators.measure("torch", names, limits=script.DEFAULTS, checked=script.check)
    assert results
    assert {result.why for result in results.values()} == {""}


def test_parts_share_out_the_operators() -> None:
    names = [name for name, _ in measure_operators.listed_operators()]
    assert sorted(names[0::2] + names[1::2]) == sorted(measure_operators.LISTED)


def test_a_package_that_is_not_there_agrees_in_nothing() -> None:
    trees = measure_trees.figures(measure_trees.measure("no_such_package"))
    operators = measure_operators.figures(measure_operators.measure("no_such_package", frozenset(["mul", "sort"])))
    assert (trees["trees_top"], trees["trees_compute"]) == ((0, 214), (0, 214))
    assert operators["operators"] == (0, 2)
    assert measure_surface.figures(measure_surface.measure("no_such_package"))["surface"] == (0, 815)


def test_a_result_that_differs_does_not_agree() -> None:
    want = [{"name": "aten::mul", "input_shapes": [[2, 3], []], "flops": 6, "children": []}]
    other_flops = [want[0] | {"flops": 5}]
    child = {"name": "aten::add", "input_shapes": [], "flops": 0, "children": []}
    noise = {"name": "aten::empty", "input_shapes": [], "flops": 0, "children": [child]}
    assert measure_trees.compare(other_flops, want)[:2] == (False, False)
    assert measure_trees.compare([want[0] | {"children": [child]}], want)[:2] == (True, False)
    assert measure_trees.compare([want[0] | {"children": [child]}], [want[0] | {"children": [noise]}])[:2] == (
        True,
        True,
    )


def test_a_figure_below_its_floor_is_named() -> None:
    figures = measure.total([{"operators": Figure(2, 3)}, {"operators": Figure(1, 3), "surface": Figure(5, 9)}])
    assert figures == {"operators": Figure(3, 6), "surface": Figure(5, 9)}
    assert measure.shortfalls(figures, {"operators": 3, "surface": 5}) == []
    assert measure.shortfalls(figures, {"operators": 4, "surface": 5}) == ["operators is 3, below its floor of 4"]
    assert measure.shortfalls(figures, {"operators": 3, "surface": 5, "trees_top": 0}) == ["trees_top was not measured"]


def test_every_figure_has_a_floor() -> None:
    assert sorted(json.loads(measure.FLOORS.read_text())) == [
        "double_backward",
        "error_inputs",
        "meta",
        "operators",
        "operators_bool",
        "operators_complex64",
        "operators_float64",
        "operators_int64",
        "surface",
        "trees_compute",
        "trees_top",
    ]
