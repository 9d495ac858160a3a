"""The op table as a whole: every row is consistent and can be generated; importing stays cheap."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import _codegen, _forward, _functions, _tap
from mindtorch_v2._op import OPS, op


@pytest.mark.parametrize("name", sorted(OPS))
def test_a_row_is_consistent_and_its_code_compiles(name: str) -> None:
    row = OPS[name]
    row.check_row()
    assert row.schema.qualified == name
    first = row.schema.arguments[0] if row.schema.arguments else None
    assert row.takes_self == (first is not None and first.name == "self" and first.type == "Tensor")
    for flags in (None, _tap.SHAPES | _tap.MEMORY):
        compile(_forward.forward_source(row, flags), name, "exec")
    if row.formulas:
        compile(_codegen.backward_source(row), name, "exec")


def test_a_gradient_for_an_unknown_input_names_the_row() -> None:
    row = op("_unknown_input(Tensor self) -> Tensor", other=lambda g: g)(lambda a: a)
    try:
        with pytest.raises(ValueError, match="row _unknown_input: gradient for 'other'"):
            row.check_row()
    finally:
        del OPS["_unknown_input"]


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
        "import sys, mindtorch_v2 as torch; from mindtorch_v2 import _functions; "
        "loaded = {m.split('.')[1] for m in sys.modules if m.startswith('mindtorch_v2.')}; "
        "print(sorted(loaded & {'nn', 'optim', 'profiler', 'distributions', 'serialization'}), len(_functions._materialized)); "
        "print(torch.nn.Linear.__name__, torch.optim.SGD.__name__, torch.profiler.profile.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[] 0", "Linear SGD profile"]


def test_ops_called_by_ops_in_use_are_made_before_recording() -> None:
    """`relu` runs `clamp_min` while a recorder is on; making that must not fall into the recording."""
    torch.ones(2).requires_grad_().relu()
    _tap.prepare(0)
    made = {row.name for row in _functions._materialized}
    assert {"clamp_min", "threshold_backward"} <= made
    assert any(label.startswith("clamp_min") and flags == 0 for label, flags in _functions._codes)
