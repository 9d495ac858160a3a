"""Files that an earlier version wrote still load: checkpoints, pickles of objects, traces and spools.

They were made by the version whose modules lay elsewhere; `_FORMER` in `core/addresses.py` says where they are now.
"""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import pytest

import mindtorch_v2 as torch

ARCHIVE = zipfile.ZipFile(Path(__file__).parents[1] / "data" / "former_files.zip")
NAMES = sorted(ARCHIVE.namelist())


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".pkl")])
def test_an_object_is_unpickled(name: str) -> None:
    assert pickle.loads(ARCHIVE.read(name)) is not None


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".pt")])
@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_is_loaded(name: str, tmp_path: Path) -> None:
    found = torch.load(ARCHIVE.extract(name, tmp_path), weights_only=not name.startswith("whole"))
    if name == "whole_module.pt":
        assert found(torch.ones(2, 4)).shape == (2, 2)
    elif name.startswith("checkpoint"):
        assert found["epoch"] == 3
        assert found["optimizer"]["state"]


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith((".json", ".json.gz", ".mtspool"))])
def test_a_recording_is_read(name: str, tmp_path: Path) -> None:
    found = torch.profiler.load(ARCHIVE.extract(name, tmp_path))
    assert "aten::addmm" in {row.key for row in found.key_averages()}
