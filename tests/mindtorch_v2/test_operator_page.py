"""docs/operators.md is current: it lists every measured operator, the rows there are, and figures at or above the floors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mindtorch_v2.dispatch.op import OPS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operators.md").read_text()
FLOORS = json.loads((ROOT / "tests" / "parity" / "floors.json").read_text())
LISTED = set((ROOT / "tests" / "parity" / "data" / "opinfo_names.txt").read_text().split())


REMEDY = "rows were added or removed: run `python tests/parity/record_operators.py --rows`"


def table() -> dict[str, list[str]]:
    """Cells by operator."""
    lines = re.findall(r"^\| `([^`]+)` \| (.*) \|$", PAGE, re.M)
    return {name: [cell.strip() for cell in cells.split(" | ")] for name, cells in lines}


def test_every_measured_operator_is_listed() -> None:
    assert set(table()) == LISTED


def test_the_rows_are_those_of_the_table() -> None:
    listed = {name for line in re.findall(r"^- \*\*\w+\*\*: (.*)$", PAGE, re.M) for name in line.split(", ")}
    assert listed == {op.name for op in OPS.values()}, REMEDY
    assert f"{len(OPS)} rows," in PAGE, REMEDY


@pytest.mark.parametrize("figure", sorted(name for name in FLOORS if re.match("operators|double|error|meta", name)))
def test_figures_are_at_or_above_their_floors(figure: str) -> None:
    reached = re.search(rf"^\| {figure} \| (\d+) \| \d+ \|$", PAGE, re.M)
    assert reached is not None
    assert int(reached[1]) >= FLOORS[figure]


def test_marks_add_up_to_the_figures() -> None:
    names = ["operators", "operators_float64", "operators_int64", "operators_bool", "operators_complex64"]
    for column, figure in enumerate([*names, "double_backward", "error_inputs", "meta"]):
        marks = [cells[column] for cells in table().values() if cells[column]]
        reached, of = re.search(rf"^\| {figure} \| (\d+) \| (\d+) \|$", PAGE, re.M).groups()  # type: ignore[union-attr]
        assert (marks.count("yes"), len(marks)) == (int(reached), int(of))


def test_what_does_not_agree_says_why() -> None:
    silent = [name for name, cells in table().items() if any("/" in c for c in cells[:8]) and len(cells[-1]) < 10]
    assert silent == []
