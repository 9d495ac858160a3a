"""torch.utils.tensorboard: what stands in event files, and what is said where no package can write them."""

import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.utils import pictures


def test_without_a_package_the_import_says_what_to_install() -> None:
    program = """
import sys
sys.modules["tensorboard"] = sys.modules["tensorboardX"] = None
try:
    from mindtorch_v2.utils.tensorboard import SummaryWriter
except ModuleNotFoundError as error:
    print(error)
import mindtorch_v2
print(hasattr(mindtorch_v2.utils, "tensorboard"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "neither is installed. Install one: pip install tensorboard" in done.stdout
    assert done.stdout.endswith("False\n")


@pytest.mark.parametrize(
    ("formats", "shape", "expected"),
    [
        ("CHW", (3, 4, 5), (4, 5, 3)),
        ("HWC", (4, 5, 4), (4, 5, 4)),
        ("HW", (4, 5), (4, 5, 3)),
        ("NCHW", (2, 1, 4, 5), (4, 10, 3)),
    ],
)
def test_pictures_become_rows_columns_and_channels(
    formats: str, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert pictures.laid_out(np.zeros(shape, np.uint8), formats).shape == expected


def test_a_picture_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="size of input tensor and input format are different"):
        pictures.laid_out(np.zeros((2, 3), np.uint8), "CHW")


def test_a_png_file_holds_the_pixels() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    file = pictures.png(pixels)
    at = file.index(b"IDAT")
    (length,) = struct.unpack(">I", file[at - 4 : at])
    rows = np.frombuffer(zlib.decompress(file[at + 4 : at + 4 + length]), np.uint8).reshape(2, 13)
    assert file.startswith(b"\x89PNG")
    assert rows[:, 1:].tobytes() == pixels.tobytes()


def test_edges_grow_by_a_tenth_to_both_sides() -> None:
    edges = pictures.default_edges()
    assert len(edges) == 1551
    assert edges[775] == 0
    assert edges[777] / edges[776] == pytest.approx(1.1)
    assert (edges == -edges[::-1]).all()


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    writer = torch.utils.tensorboard.SummaryWriter(tmp_path)
    writer.add_scalar("loss", torch.tensor(0.5), 3)
    writer.add_histogram("weights", torch.ones(4))
    writer.close()
    read = reader.EventAccumulator(str(tmp_path))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("loss")] == [(3, 0.5)]
    assert read.Histograms("weights")[0].histogram_value.num == 4


def test_pictures_of_points_lie_on_a_square() -> None:
    pixels = pictures.on_a_square(np.stack([np.full((1, 2, 3), i / 5) for i in range(1, 6)]))
    assert pixels.shape == (9, 9, 1)
    assert pixels[::2, ::3, 0].tolist()[:3] == [[51, 102, 153], [204, 255, 0], [0, 0, 0]]


def written(folder: Path) -> list[Any]:
    """All values in the event files of a folder."""
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    events = pytest.importorskip("tensorboard.compat.proto.event_pb2")
    files = sorted(folder.rglob("events*"))
    raws = (raw for file in files for raw in loader.RawEventFileLoader(str(file)).Load())
    return [value for raw in raws for value in events.Event.FromString(raw).summary.value]


def test_numbers_in_the_new_style_may_be_precise(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with torch.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_scalar("plain", 0.1, double_precision=True)
        writer.add_scalar("new", 0.1, new_style=True)
        writer.add_scalar("precise", 0.1, new_style=True, double_precision=True)
    plain, new, precise = written(tmp_path)
    assert plain.HasField("simple_value")
    assert new.tensor.float_val[0] == np.float32(0.1)
    assert precise.tensor.double_val[0] == 0.1
    assert precise.metadata.plugin_data.plugin_name == "scalars"


def test_settings_know_what_else_they_might_have_been(tmp_path: Path) -> None:
    data = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    with torch.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1, "name": "a", "none": None}, {"loss": 2.0}, {"lr": [0.1, 0.01]}, "run")
        for domains in ({"lr": ["a"]}, {"other": [1.0]}, {"lr": 0.1}, 3):
            with pytest.raises(TypeError, match="hparam_domain_discrete"):
                writer.add_hparams({"lr": 0.1}, {"loss": 2.0}, domains)
        with pytest.raises(
            ValueError, match=r"value should be one of int, float, str, bool, or torch.Tensor, got list"
        ):
            writer.add_hparams({"lr": [1]}, {"loss": 2.0})
    experiment = data.HParamsPluginData.FromString(written(tmp_path)[0].metadata.plugin_data.content).experiment
    assert [info.name for info in experiment.hparam_infos] == ["lr", "name"]
    assert [v.number_value for v in experiment.hparam_infos[0].domain_discrete.values] == [0.1, 0.01]
    assert [info.name.tag for info in experiment.metric_infos] == ["loss"]


def test_points_have_pictures(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with torch.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_embedding(torch.ones(5, 2), label_img=torch.rand(5, 3, 4, 6))
        with pytest.raises(AssertionError, match="#images should equal with #data points"):
            writer.add_embedding(torch.ones(5, 2), label_img=torch.rand(4, 3, 4, 6))
    assert (tmp_path / "00000" / "default" / "sprite.png").read_bytes().startswith(b"\x89PNG")
    assert "single_image_dim: 6 single_image_dim: 4" in (tmp_path / "projector_config.pbtxt").read_text()
