"""`mindtorch analyze`: what it prints, in every format. Figures are held by the tests of the analyses."""

import csv
import io
import json
from pathlib import Path

import pytest

from device_traces import training_step
from mindtorch_v2 import cli
from mindtorch_v2.cli.reporters.analyze import TABLES


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return training_step().write(tmp_path / "trace.json")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert cli.main(["analyze", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_answer_comes_first_then_the_tables(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, trace)
    assert text.startswith("The host limits the run: the device has nothing to do for 50%")
    for title in ("Devices", "Operators", "Kernels by family", "Critical path", "Queues", "Roofline"):
        assert f"\n{title}" in text
    assert "15.000us on devices that no operator of the trace asked for" in text


def test_json_is_one_object_with_the_promised_keys(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, trace, "--json"))
    promised = {
        "devices": "device name span_us busy_us idle_us compute_us communication_us copy_us overlap_us",
        "streams": "device stream busy_us idle_us host_wait_us kernel_wait_us other_us",
        "operators": "name calls cpu_self_us cpu_total_us device_self_us device_total_us",
        "kernels": "name kind calls device_us operators",
        "copies": "direction count bytes us",
    }
    for key, names in promised.items():
        assert set(names.split()) <= set(found[key][0])
    assert found["unattributed_us"] == 15.0
    assert found["critical_path"]
    assert found["queue"]


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_written_in_every_format(table: str, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("--csv", "--markdown", "--json"):
        text = printed(capsys, trace, "--table", table, form)
        assert text
    assert (
        printed(capsys, trace, "--table", table, "--csv").splitlines()[0].split(",")[0] == TABLES[table].columns[0].key
    )


def test_csv_has_the_operators_unless_another_table_is_wanted(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, trace, "--csv"))))
    assert float(next(row for row in rows if row["name"] == "aten::mm")["device_self_us"]) == 26.0


def test_several_files_tell_whose_a_row_is(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = training_step("rocm").write(tmp_path / "other.json")
    found = json.loads(printed(capsys, trace, other, "--json"))
    assert [row["file"] for row in found["devices"]] == [str(trace), str(other)]


def test_peaks_of_ones_own_are_read_and_wrong_ones_explained(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    peaks = tmp_path / "peaks.json"
    peaks.write_text(json.dumps({"mine": {"match": "H100", "flops": {"fp32": 1e12}, "bytes_per_s": 1e12}}))
    assert json.loads(printed(capsys, trace, "--peaks", peaks, "--json"))["roofline"][0]["device"] == "mine"
    for wrong in ("{", "[]", '{"mine": 1}'):
        peaks.write_text(wrong)
        assert cli.main(["analyze", str(trace), "--peaks", str(peaks)]) == 2
        assert "peaks" in capsys.readouterr().err
