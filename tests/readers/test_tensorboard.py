"""torch-tb-profiler 0.4.3, TensorBoard's plugin, loads what its trace handler writes."""

import shutil

import pytest
from torch_tb_profiler import consts
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator

from conftest import Run


def test_the_plugin_makes_its_views(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    if run.name == "loaded":
        # What the handler would have called it.
        file = run.folder / "host_9.1700000000000.pt.trace.json.gz"
        shutil.copy(run.file(".json.gz"), file)
    else:
        (file,) = (run.folder / "tensorboard").iterdir()
    worker = consts.WORKER_PATTERN.match(file.name)
    assert worker
    data = RunProfileData.parse(worker[1], 1, str(file), str(tmp_path_factory.mktemp("cache")))
    data.process()
    if run.name in ("plain", "everything"):
        assert data.steps_names == ["1", "2", "3"]
    expected = {"aten::mm"} if run.name == "loaded" else {"aten::linear", "aten::addmm"}
    assert expected <= {op.name for op in data.op_list_groupby_name}
    views = {view.display_name for view in RunGenerator(worker[1], 1, data).generate_run_profile().views}
    assert {"Overview", "Operator", "Trace"} <= views
    assert ("Memory" in views) == (run.name != "plain")
    if run.name in ("plain", "everything"):
        assert ("Module" in views) == (run.name == "everything")
    if run.name == "loaded":
        assert "Kernel" in views
