"""The op table as a whole: every row is consistent and can be generated; importing stays cheap."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.core import tap
from mindtorch_v2.dispatch import codegen, forward, functions
from mindtorch_v2.dispatch.op import OPS, op


@pytest.mark.parametrize("name", sorted(OPS))
def test_a_row_is_consistent_and_its_code_compiles(name: str) -> None:
    row = OPS[name]
    row.check_row()
    assert row.schema.qualified == name
    first = row.schema.arguments[0] if row.schema.arguments else None
    assert row.takes_self == (first is not None and first.name == "self" and first.type == "Tensor")
    for flags in (None, tap.SHAPES | tap.MEMORY):
        compile(forward.forward_source(row, flags), name, "exec")
    if row.formulas:
        compile(codegen.backward_source(row), name, "exec")


def test_a_gradient_for_an_unknown_input_names_the_row() -> None:
    row = op("_unknown_input(Tensor self) -> Tensor", other=lambda g: g)(lambda a: a)
    try:
        with pytest.raises(ValueError, match=r"test_rows\.py:\d+: row _unknown_input: 'other' is neither an option"):
            row.check_row()
    finally:
        del OPS["_unknown_input"]


def test_an_unknown_class_of_autocast_names_the_file_and_the_option() -> None:
    row = op("_unknown_class(Tensor self) -> Tensor", autocast="half")(lambda a: a)
    try:
        with pytest.raises(ValueError, match=r"test_rows\.py:\d+: row _unknown_class: autocast= takes lower_precision"):
            row.check_row()
    finally:
        del OPS["_unknown_class"]


def test_a_wrong_formula_for_flops_names_the_file_and_the_option() -> None:
    with pytest.raises(TypeError, match=r"test_rows\.py:\d+: row _wrong: all_flops= takes a function .* but got 24"):
        op("_wrong(Tensor self) -> Tensor", all_flops=24)(lambda a: a)
    with pytest.raises(ValueError, match=r"test_rows\.py:\d+: row mm\.again: all_flops= is stated twice .* aten::mm"):
        op("mm.again(Tensor self) -> Tensor", all_flops=lambda record: 1)(lambda a: a)


def test_a_formula_that_uses_an_unknown_name_names_the_row() -> None:
    row = op("_unknown_name(Tensor self) -> Tensor", self=lambda g, weight: g)(lambda a: a)
    try:
        with pytest.raises(ValueError, match="row _unknown_name: a gradient formula uses 'weight'"):
            row.check_row()
    finally:
        del OPS["_unknown_name"]


def test_a_second_row_of_the_same_name_is_refused() -> None:
    with pytest.raises(ValueError, match="row exp is defined twice"):
        op("exp(Tensor self) -> Tensor")(lambda a: a)


def test_import_loads_only_the_core() -> None:
    """Submodules wait until they are asked for, and no op is compiled."""
    program = (
        "import sys, mindtorch_v2 as torch; from mindtorch_v2.dispatch import functions; "
        "loaded = {m.split('.')[1] for m in sys.modules if m.startswith('mindtorch_v2.')}; "
        "print(sorted(loaded & {'nn', 'optim', 'profiler', 'distributions', 'serialization'}), len(functions._materialized)); "
        "print(torch.nn.Linear.__name__, torch.optim.SGD.__name__, torch.profiler.profile.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[] 0", "Linear SGD profile"]


def test_ops_called_by_ops_in_use_are_made_before_recording() -> None:
    """`relu` runs `clamp_min` while a recorder is on; making that must not fall into the recording."""
    torch.ones(2).requires_grad_().relu()
    tap.prepare(0)
    made = {row.name for row in functions._materialized}
    assert {"clamp_min", "threshold_backward"} <= made
    assert any(label.startswith("clamp_min") and flags == 0 for label, flags in functions._codes)
