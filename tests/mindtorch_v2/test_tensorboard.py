"""torch.utils.tensorboard: what stands in event files, and what is said where no package can write them."""

import struct
import subprocess
import sys
import zlib
from pathlib import Path

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
