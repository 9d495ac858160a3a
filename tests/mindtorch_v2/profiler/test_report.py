"""The report's data and file: what is packed, what the tree, steps, memory and diff of a capture are, what escapes."""

import re
from pathlib import Path

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.core import roles
from mindtorch_v2.profiler import profile
from mindtorch_v2.profiler.advise.moduletree import module_tree
from mindtorch_v2.profiler.advise.steps import find_steps
from mindtorch_v2.profiler.advise.summary import summarise
from mindtorch_v2.profiler.analyse.merge import merge
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.capture.capture import USER_ANNOTATION
from mindtorch_v2.profiler.report import Report, make_report, write_report
from mindtorch_v2.profiler.report import page as pages
from mindtorch_v2.profiler.report.allocations import alive_at, biggest, innermost_event, usage
from mindtorch_v2.profiler.report.digest import Digest
from mindtorch_v2.profiler.report.pack import Packer, unpack
from report_captures import HOSTILE, Builder, empty, hostile, large, priced, small

STATIC = Path(pages.__file__).parent / "static"


def data_of(html: str) -> str:
    found = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', html)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    "values",
    [[], [0], [0, 0, 0], [1, 2, 3], [5, -3, 0, -1], [255, 256, 65535], [-(2**40), 2**45], list(range(1000))],
)
@pytest.mark.parametrize("delta", [False, True])
def test_columns_survive_packing(values: list[int], delta: bool) -> None:
    packer = Packer()
    packer.add("x", np.array(values, np.int64), delta=delta)
    packer.add("after", np.array([7, 8]))
    tables, columns = unpack(packer.packed({"name": "</script>"}))
    assert tables == {"name": "</script>"}
    assert columns["x"].tolist() == values
    assert columns["after"].tolist() == [7, 8]


@pytest.mark.parametrize(
    "said", [None, "much", {"event_ns": -1, "memory_event_ns": 1}, {"event_ns": "<b>", "memory_event_ns": 1}, {}]
)
def test_a_capture_that_does_not_say_what_recording_cost_has_no_cost(said: object) -> None:
    capture = small()
    capture.metadata["profiler_cost"] = said
    tables, _ = unpack(Digest(capture).packed("x"))
    assert tables["overhead"] is None


def test_a_capture_from_a_file_tells_what_recording_cost() -> None:
    tables, _ = unpack(Digest(priced()).packed("x"))
    assert tables["overhead"]["per_event_ns"] == 100
    metrics = Metrics(priced())
    cost = 100 * int((~metrics.is_python).sum()) + 50 * len(metrics.memory_events)
    assert tables["overhead"]["share"] == pytest.approx(cost / (priced().stop_ns - priced().start_ns))
    assert "profiler_cost" not in tables["environment"]


def test_the_same_capture_makes_the_same_file() -> None:
    assert make_report(small()).html == make_report(small()).html


def test_depths_times_and_flows_of_events_are_packed() -> None:
    tables, columns = unpack(Digest(small(), None).packed("x"))
    metrics = Metrics(small())
    assert columns["start"].tolist() == metrics.start_ns.tolist()
    assert columns["length"].tolist() == metrics.total_ns.tolist()
    assert columns["depth"].tolist()[:5] == [0, 1, 2, 3, 4]
    assert len(columns["forward"]) == 6
    kinds = [tables["kinds"][tables["calls"][call][0]][0] for call in columns["call"].tolist()]
    assert kinds[:5] == ["ProfilerStep#0", "nn.Module: Model_0", "nn.Module: Linear_0", "aten::linear", "aten::addmm"]


def test_stacks_are_packed_as_a_tree() -> None:
    tables, columns = unpack(Digest(small(), None).packed("x"))
    node, frames = int(columns["stack"][4]), []
    while node:
        node, frame = tables["stacks"][node]
        frames.append(tables["frames"][frame])
    assert frames == ["model.py(20): forward", "train.py(9): train", "train.py(30): <module>"]


def test_modules_have_forward_and_backward_time() -> None:
    tree = module_tree(Metrics(small()))
    assert [node.name for node in tree.nodes] == ["", "Model_0", "Linear_0", "Linear_1"]
    assert [node.parent for node in tree.nodes] == [0, 0, 1, 1]
    assert tree.calls.tolist() == [0, 3, 3, 3]
    assert tree.forward_ns.tolist() == [0, 120_000, 54_000, 54_000]
    assert tree.backward_ns.tolist() == [108_000, 108_000, 54_000, 54_000]
    assert tree.self_forward_ns[1] == 12_000


def test_steps_are_profiler_steps_or_what_repeats() -> None:
    metrics = Metrics(small())
    assert find_steps(metrics).labels(metrics) == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    made = Builder()
    for i in range(3):
        made.region(made.kind("training step", USER_ANNOTATION), i * 100, i * 100 + 90)
        made.region(made.kind("forward", USER_ANNOTATION), i * 100 + 10, i * 100 + 80)
    made.region(made.kind("setup", USER_ANNOTATION), 400, 4000)
    metrics = Metrics(made.capture())
    assert find_steps(metrics).labels(metrics) == ["training step 0", "training step 1", "training step 2"]


def test_steps_are_those_of_one_process() -> None:
    metrics = Metrics(merge([small(), small()], ["rank 0", "rank 1"]))
    assert find_steps(metrics).labels(metrics) == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]


def test_no_steps_are_made_up() -> None:
    made = Builder()
    made.region(made.kind("once", USER_ANNOTATION), 0, 100)
    assert len(find_steps(Metrics(made.capture())).places) == 0


def test_time_is_split_into_ops_python_and_idle() -> None:
    made = Builder()
    made.region(made.kind("loop", USER_ANNOTATION), 0, 100)
    made.region(made.kind("aten::mm"), 10, 50)
    made.region(made.kind("aten::add"), 150, 160)
    summary = summarise(Metrics(made.capture(stop=200)))
    assert summary.window_ns == 200
    assert summary.by_sort == {"op": 50, "annotation": 60}
    assert summary.idle_ns == 90


def test_memory_has_a_course_and_a_peak() -> None:
    made = Builder(memory=True)
    made.region(made.kind("aten::empty"), 0, 100)
    for time, nbytes, address in [(10, 64, 1), (20, 32, 2), (30, -64, 1), (40, 16, 1)]:
        made.bytes(time, nbytes, address)
    found = usage(Metrics(made.capture()))
    assert found.time_ns.tolist() == [0, 10, 20, 30, 40]
    assert np.sum(found.by_category, axis=0).tolist() == [0, 64, 96, 32, 48]
    assert found.peak == 2
    assert found.blocks.nbytes[alive_at(found.blocks, 25)].tolist() == [64, 32]
    assert found.blocks.nbytes[alive_at(found.blocks, 50)].tolist() == [32, 16]


def test_blocks_at_the_peak_name_who_allocated_them() -> None:
    metrics = Metrics(small())
    rows = biggest(metrics, usage(metrics))
    assert [row["bytes"] for row in rows] == [8192, 4096]
    assert {metrics.kind_of(int(metrics.kind[row["event"]])).name for row in rows} == {"aten::addmm"}
    assert all(row["end"] > row["start"] >= 0 for row in rows)


def test_blocks_seen_in_a_role_have_its_category_and_older_ones_count_from_the_start() -> None:
    made = Builder(memory=True)
    made.region(made.kind("aten::zeros"), 0, 100)
    made.bytes(10, 64, 1)
    capture = made.capture()
    capture.memory_roles = np.array([(50, roles.GRADIENT, 1, 64, 0), (50, roles.PARAMETER, 7, 1000, 0)])
    found = usage(Metrics(capture))
    assert found.names == ["Parameter", "Gradient"]
    assert [values.tolist() for values in found.by_category] == [[1000, 1000], [0, 64]]
    assert [row["start"] for row in biggest(Metrics(capture), found)] == [-1, 10]


def test_many_allocations_are_thinned_out_but_keep_the_peak() -> None:
    made = Builder(memory=True)
    for i in range(30_000):
        made.bytes(i * 10, 64 if i % 2 == 0 else -64, i // 2)
    made.bytes(123_455, 1_000_000, 999_999)
    made.bytes(123_456, -1_000_000, 999_999)
    found = usage(Metrics(made.capture()))
    assert len(found.time_ns) <= 20_001
    assert sum(values[found.peak] for values in found.by_category) == 1_000_000


def test_a_training_step_has_activations_gradients_and_parameters() -> None:
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        model(torch.ones(8, 64)).relu().sum().backward()
        optimizer.step()
    shown = prof.report()
    assert shown is not None
    tables, _ = unpack(data_of(shown.html))
    assert {"Parameter", "Gradient", "Activation"} <= set(tables["memory"]["categories"])


def test_the_event_around_an_instant_is_the_innermost() -> None:
    metrics = Metrics(small())
    assert metrics.kind_of(int(metrics.kind[innermost_event(metrics, 0, 5000)])).name == "aten::addmm"
    assert metrics.kind_of(int(metrics.kind[innermost_event(metrics, 0, 44_000)])).name == "ProfilerStep#0"
    assert innermost_event(metrics, 1, 100) == -1


def test_a_report_with_another_capture_has_a_diff() -> None:
    tables, _ = unpack(Digest(small(), small(slower=2)).packed("x"))
    rows = {row[0]: row for row in tables["diff"]["op"]["rows"]}
    name, verdict, change, before, after = rows["ProfilerStep*"]
    # One run a side: no verdict on times, no interval, and why.
    assert (name, verdict, change) == ("ProfilerStep*", "unclear", None)
    assert any("one run a side" in line for line in tables["diff"]["op"]["said"])
    assert before[1] - after[1] == pytest.approx(100_000)
    assert unpack(Digest(small(), None).packed("x"))[0]["diff"] is None


def test_what_cannot_be_compared_says_why() -> None:
    tables, _ = unpack(Digest(empty(), empty()).packed("x"))
    assert tables["diff"]["op"]["rows"] == []
    made = Builder()
    made.region(made.kind("aten::mm"), 0, 100)
    tables, _ = unpack(Digest(made.capture(), made.capture()).packed("x"))
    assert "with_modules=True" in tables["diff"]["module"]["missing"]


def test_three_hundred_thousand_events_fit_into_three_megabytes() -> None:
    assert len(make_report(large()).html) <= 3_000_000


@pytest.mark.parametrize("name", HOSTILE[:6])
def test_no_name_leaves_the_data(name: str) -> None:
    html = make_report(hostile(), title=name).html
    data = data_of(html)
    rest = html.replace(data, "")
    assert "window.hacked" not in rest.replace(f"<title>{pages.html.escape(name)}</title>", "")
    assert rest.count("<script") == 2
    assert unpack(data)[0]["title"] == name


def test_only_the_own_script_and_styles_may_run() -> None:
    html = make_report(empty()).html
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert re.search(r"script-src 'sha256-[^']+';", policy[1])


def test_scripts_make_no_markup_from_text_and_load_nothing() -> None:
    for path in sorted(STATIC.glob("*.js")):
        text = path.read_text(encoding="utf-8")
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "fetch(",
            "http:",
            "https:",
        ):
            assert word not in text, f"{path.name} uses {word}"
        assert "</script" not in text


def test_every_static_file_is_in_the_page_and_in_the_package() -> None:
    used = {f"{name}.js" for name in pages.SCRIPTS} | {f"{name}.css" for name in pages.STYLES} | {"page.html"}
    assert {path.name for path in STATIC.iterdir()} == used
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert '"profiler/report/static/*"' in project.partition("[tool.setuptools.package-data]")[2].partition("[")[2]


def test_an_odd_title_can_be_written(tmp_path: Path) -> None:
    write_report(small(), tmp_path / "report.html", title="odd \ud800 <b>")
    assert "<title>odd � &lt;b&gt;</title>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_profile_writes_and_shows_its_report(tmp_path: Path) -> None:
    prof = profile(record_shapes=True, profile_memory=True, with_stack=True)
    with pytest.raises(AssertionError, match="must be initialized"):
        prof.report()
    with prof:
        (torch.ones(4, 4) @ torch.ones(4, 4)).sum()
    prof.export_report(tmp_path / "one.html", title="mine")
    assert prof.report(tmp_path / "two.html") is None
    assert "<title>mine</title>" in (tmp_path / "one.html").read_text(encoding="utf-8")
    tables, _ = unpack(data_of((tmp_path / "two.html").read_text(encoding="utf-8")))
    assert "aten::mm" in {kind[0] for kind in tables["kinds"]}
    assert tables["overhead"]["events"] > 0
    assert tables["environment"]["NumPy"] == np.__version__
    shown = prof.report()
    assert isinstance(shown, Report)
    frame = shown._repr_html_()
    assert frame.startswith("<iframe")
    assert frame.count("<") == 2


def test_a_running_profile_has_no_report() -> None:
    with profile() as prof:
        torch.ones(2)
        with pytest.raises(AttributeError, match="stop the profiler"):
            prof.report()


def test_notebooks_show_tables_with_every_name_escaped() -> None:
    prof = profile(record_shapes=True)
    assert prof._repr_html_() is None
    with prof, torch.profiler.record_function("<script>alert(1)</script>"):
        torch.ones(2) + 1
    assert prof.profiler is not None
    for shown in (prof, prof.profiler, prof.key_averages(), prof.events()):
        html = shown._repr_html_()
        assert html is not None
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
        assert "<script" not in html
        assert "aten::add" in html
    assert "[[2], [], []]" in str(prof.key_averages(group_by_input_shape=True)._repr_html_())


def test_a_notebook_table_of_nothing_says_so() -> None:
    with profile() as prof:
        pass
    assert "No events" in str(prof.events()._repr_html_())
