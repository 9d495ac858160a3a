"""Checkpoints go both ways between torch and mindtorch_v2."""

import io
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch

import mindtorch_v2 as mt

sys.path.insert(0, str(Path(__file__).parents[1] / "mindtorch_v2"))
import checkpoint_mutations

FORMATS = [True, False]
DIRECTIONS = [(torch, mt), (mt, torch)]


def travel(thing: Any, writer: Any, reader: Any, zipped: bool = True, **options: Any) -> Any:
    buffer = io.BytesIO()
    writer.save(thing, buffer, _use_new_zipfile_serialization=zipped)
    buffer.seek(0)
    return reader.load(buffer, **options)


def values(t: Any) -> Any:
    return t.detach().to(torch.complex128 if isinstance(t, torch.Tensor) else mt.complex128).tolist()


@pytest.mark.parametrize("zipped", FORMATS)
@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
@pytest.mark.parametrize(
    "dtype", "float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 bool complex64 complex128".split()
)
def test_dtypes(dtype: str, writer: Any, reader: Any, zipped: bool) -> None:
    x = writer.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]).to(getattr(writer, dtype)).t()
    y = travel({"x": x}, writer, reader, zipped)["x"]
    assert (str(y.dtype), y.stride(), values(y)) == (str(x.dtype), x.stride(), values(x))


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
@pytest.mark.parametrize("dtype", "uint16 uint32 uint64 float8_e4m3fn float8_e5m2".split())
def test_newer_dtypes(dtype: str, writer: Any, reader: Any) -> None:
    y = travel(writer.tensor([1.0, 2.0]).to(getattr(writer, dtype)), writer, reader)
    assert (str(y.dtype), y.to(reader.float32).tolist()) == (f"torch.{dtype}", [1, 2])


@pytest.mark.parametrize("zipped", FORMATS)
@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
def test_shared_storages_and_offsets(writer: Any, reader: Any, zipped: bool) -> None:
    x = writer.arange(6.0)
    a, b = travel([x, x[2:]], writer, reader, zipped)
    a[3] = 9
    assert b.tolist() == [2, 9, 4, 5]
    assert b.storage_offset() == 2


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
def test_containers(writer: Any, reader: Any) -> None:
    held = OrderedDict(a=[1, 2.5, None, (True, "t")], b={"deep": {1: b"bytes", "set": {1, 2}}}, c=10**20, d=1 - 2j)
    assert travel(held, writer, reader) == held


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
def test_values_of_torch(writer: Any, reader: Any) -> None:
    held = [writer.Size([1, 2]), writer.float16, writer.device("cpu"), writer.strided, writer.ones(2, device="meta")]
    size, dtype, device, layout, on_meta = travel(held, writer, reader)
    assert isinstance(size, reader.Size)
    assert (dtype, device, layout) == (reader.float16, reader.device("cpu"), reader.strided)
    assert on_meta.is_meta


def trained(package: Any) -> tuple[Any, Any]:
    package.manual_seed(0)
    model = package.nn.Sequential(
        package.nn.Conv2d(1, 2, 3), package.nn.BatchNorm2d(2), package.nn.Flatten(), package.nn.Linear(8, 3)
    )
    optimizer = package.optim.AdamW(model.parameters(), lr=0.01)
    model(package.ones(2, 1, 4, 4)).sum().backward()
    optimizer.step()
    return model, optimizer


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
def test_models_and_optimizers(writer: Any, reader: Any) -> None:
    model, optimizer = trained(writer)
    found = travel({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, writer, reader)
    other, again = trained(reader)
    other.load_state_dict(found["model"])
    again.load_state_dict(found["optimizer"])
    assert other[3].weight.tolist() == model[3].weight.tolist()
    mine, theirs = again.state_dict(), optimizer.state_dict()
    assert mine["state"][0]["exp_avg"].tolist() == theirs["state"][0]["exp_avg"].tolist()
    assert mine["param_groups"] == theirs["param_groups"]


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
def test_parameters(writer: Any, reader: Any) -> None:
    p = travel(writer.nn.Parameter(writer.ones(2), requires_grad=False), writer, reader)
    assert isinstance(p, reader.nn.Parameter)
    assert not p.requires_grad


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
def test_whole_modules(writer: Any, reader: Any) -> None:
    module = travel(writer.nn.Linear(2, 3), writer, reader, weights_only=False)
    assert type(module) is reader.nn.Linear
    assert module(reader.ones(1, 2)).shape == (1, 3)


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
def test_mapped_files(writer: Any, reader: Any, tmp_path: Path) -> None:
    writer.save({"x": writer.arange(5)}, tmp_path / "x.pt")
    assert reader.load(tmp_path / "x.pt", mmap=True)["x"].tolist() == [0, 1, 2, 3, 4]


def test_ten_thousand_damaged_files() -> None:
    loaded = [checkpoint_mutations.load_damaged(data) for data in checkpoint_mutations.mutations(10_000, seed=20)]
    assert len(loaded) == 10_000
    assert set(loaded) == {True, False}  # some damage goes unnoticed, most is named
