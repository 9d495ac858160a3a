"""Checkpoints: what comes back, what stays shared, what is refused, and that damage ends in an exception."""

import io
import pickle
import struct
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

import pytest

import checkpoint_mutations
import mindtorch_v2 as torch


def reload(thing: object, **options: object) -> object:
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)


def archive_of(text: bytes) -> io.BytesIO:
    """A checkpoint whose pickle is `text`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", text)
    buffer.seek(0)
    return buffer


class Marked(torch.Tensor):
    pass


class Settings:
    def __init__(self, rate: float) -> None:
        self.rate = rate


@pytest.mark.parametrize(
    "dtype",
    """float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 bool complex64 complex128
    float8_e4m3fn""".split(),
)
def test_every_dtype_comes_back(dtype: str) -> None:
    d = getattr(torch, dtype)
    x = torch.tensor([0.0, 1.0, 1.0]).to(d)
    y = reload(x)
    assert y.dtype is d
    assert y.to(torch.complex64).tolist() == [0, 1, 1]


def test_strides_and_offsets_are_kept() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    y = reload(x[1:, 1:].t())
    assert (y.stride(), y.storage_offset(), y.untyped_storage().nbytes()) == ((1, 4), 5, 48)
    assert y.tolist() == [[5, 9], [6, 10], [7, 11]]


def test_shared_memory_stays_shared() -> None:
    x = torch.zeros(4)
    a, b = reload([x, x[2:]])
    a[2] = 7
    assert b.tolist() == [7, 0]


def test_a_tensor_saved_twice_is_one() -> None:
    x = torch.zeros(1)
    a, b = reload([x, x])
    assert a is b


def test_containers_and_plain_values() -> None:
    held = OrderedDict(a=[1, 2.5, None], b=(True, "text", b"bytes"), c={1, 2}, d=Counter("aab"), e=1 + 2j, f=10**30)
    found = reload(held)
    assert found == held
    assert type(found) is OrderedDict


def test_torch_values() -> None:
    held = {"size": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cpu"), "layout": torch.strided}
    found = reload(held)
    assert found == held
    assert type(found["size"]) is torch.Size


def test_leaves_that_require_grad() -> None:
    y = reload(torch.ones(2, requires_grad=True) * 2)
    assert y.requires_grad
    assert y.is_leaf


def test_parameters_stay_parameters() -> None:
    p = reload(torch.nn.Parameter(torch.ones(2), requires_grad=False))
    assert type(p) is torch.nn.Parameter
    assert not p.requires_grad


def test_model_and_optimizer_states() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.randn(4, 2)).sum().backward()
    optimizer.step()
    found = reload({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    assert found["model"]._metadata == model.state_dict()._metadata
    other = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    other.load_state_dict(found["model"])
    again = torch.optim.Adam(other.parameters())
    again.load_state_dict(found["optimizer"])
    assert torch.equal(other[0].weight, model[0].weight)
    assert again.param_groups[0]["lr"] == 0.1


def test_whole_modules_need_trust() -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL torch\.nn\.modules\.linear\.Linear was not an allowed"):
        reload(torch.nn.Linear(2, 2))
    assert type(reload(torch.nn.Linear(2, 2), weights_only=False)) is torch.nn.Linear


def test_classes_can_be_allowed() -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals\(\[.*Settings\]\)"):
        reload(Settings(0.5))
    with torch.serialization.safe_globals([Settings]):
        assert reload(Settings(0.5)).rate == 0.5
    assert torch.serialization.get_safe_globals() == []


def test_subclasses_and_attributes() -> None:
    x = torch.ones(2).as_subclass(Marked)
    x.note = "kept"
    with torch.serialization.safe_globals([Marked]):
        y = reload(x)
    assert (type(y), y.note) == (Marked, "kept")


@pytest.mark.parametrize("call", ["os.system", "builtins.eval", "builtins.getattr", "subprocess.Popen"])
def test_code_is_refused(call: str) -> None:
    module, _, name = call.rpartition(".")
    attack = f"c{module}\n{name}\n(X\x04\x00\x00\x00echotR.".encode()
    with pytest.raises(pickle.UnpicklingError, match="was not an allowed global"):
        torch.load(archive_of(attack))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"r\xff\xff\xff\xff", "empty stack"),  # a memo far away, of nothing
        (b"X\xff\xff\xff\x7f", "ends in the middle"),  # a text longer than the file
        (b"})" + b"\x85" * 100_000 + b"Ns", "nested too deeply"),  # a key as deep as the stack
        (b"})" + b"q\x01h\x01\x86" * 64 + b"Ns", "hold each other too often"),  # a key that takes for ever to hash
        (b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f", "opcode"),  # bytes longer than any memory
    ],
)
def test_hostile_pickles_are_refused(body: bytes, words: str) -> None:
    with pytest.raises((pickle.UnpicklingError, EOFError), match=words):
        torch.load(archive_of(b"\x80\x02" + body + b"."))


def test_a_memo_far_away_takes_no_memory() -> None:
    assert torch.load(archive_of(b"\x80\x02Nr\xff\xff\xff\xff0j\xff\xff\xff\xff.")) is None


def test_a_tensor_cannot_reach_beyond_its_storage() -> None:
    data = bytearray(checkpoint_mutations.sample())
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as made:
        for name in old.namelist():
            text = old.read(name)
            made.writestr(name, text.replace(b"K\x02K\x03\x86", b"K\x02K\xff\x86") if name.endswith("pkl") else text)
    buffer.seek(0)
    with pytest.raises(RuntimeError, match="does not fit its storage"):
        torch.load(buffer)


def test_damaged_files_raise() -> None:
    loaded = [checkpoint_mutations.load_damaged(data) for data in checkpoint_mutations.mutations(300, seed=0)]
    assert 0 < sum(loaded) < 300


def test_files_of_the_older_format() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    buffer = io.BytesIO()
    torch.save({"x": x, "y": x[1]}, buffer, _use_new_zipfile_serialization=False)
    buffer.seek(0)
    found = torch.load(buffer)
    found["x"][1, 0] = 9
    assert found["y"].tolist() == [9, 4, 5]


def test_map_location() -> None:
    x = torch.ones(2)
    assert reload(x, map_location="meta").device.type == "meta"
    assert reload(x, map_location=torch.device("cpu")).tolist() == [1, 1]
    assert reload(x, map_location={"cpu": "meta"}).is_meta
    seen = []
    found = reload(x, map_location=lambda storage, location: seen.append((storage.nbytes(), location)))
    assert found.tolist() == [1, 1]
    assert seen == [(8, "cpu")]
    with pytest.raises(RuntimeError, match=r"map_location=torch\.device\('cpu'\)"):
        reload(x, map_location="cuda")


def test_paths_and_mapped_files(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save({"x": torch.arange(4.0)}, path)
    assert torch.load(str(path))["x"].tolist() == [0, 1, 2, 3]
    mapped = torch.load(path, mmap=True)["x"]
    mapped += 1
    assert mapped.tolist() == [1, 2, 3, 4]
    assert torch.load(path)["x"].tolist() == [0, 1, 2, 3]
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist()[0] == "model/data.pkl"
        info = archive.getinfo("model/data/0")
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        lengths = struct.unpack("<HH", file.read(4))
    assert (info.header_offset + 30 + sum(lengths)) % 64 == 0


def test_what_is_no_checkpoint() -> None:
    with pytest.raises(pickle.UnpicklingError, match="no checkpoint"):
        torch.load(io.BytesIO(b"hello world"))
    with pytest.raises(EOFError, match="empty"):
        torch.load(io.BytesIO(b""))
    with pytest.raises(ValueError, match="must be a file path"):
        torch.load(io.BytesIO(b""), mmap=True)
    with pytest.raises(FileNotFoundError):
        torch.load("no/such/file.pt")


def test_entries_of_a_checkpoint_can_be_read_one_by_one(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "model.pt")
    reader = torch.PyTorchFileReader(tmp_path / "model.pt")
    assert {"data.pkl", "data/0", "version"} <= set(reader.get_all_records())
    assert reader.has_record("data/0")
    assert reader.get_record("data/0") == struct.pack("=2f", 1, 1)


def archive_in_order(order: bytes | None) -> io.BytesIO:
    """A checkpoint of [1, 2] that says (or does not say) what order its bytes are in."""
    saved, made = io.BytesIO(), io.BytesIO()
    torch.save(torch.tensor([1, 2], dtype=torch.int16), saved)
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            is_mark = name.endswith("/byteorder")
            if not is_mark or order is not None:
                new.writestr(name, order if is_mark and order is not None else old.read(name))
    made.seek(0)
    return made


def test_bytes_are_read_in_the_order_the_file_names() -> None:
    assert torch.load(archive_in_order(b"little")).tolist() == [1, 2]
    assert torch.load(archive_in_order(b"big")).tolist() == [256, 512]


@pytest.mark.parametrize("order", [b"middle", b"", b"little\n", b"\xff"])
def test_an_unknown_order_of_bytes_is_refused(order: bytes) -> None:
    with pytest.raises(ValueError, match="Unknown endianness type"):
        torch.load(archive_in_order(order))


@pytest.mark.parametrize(
    ("default", "values"), [(None, [1, 2]), ("NATIVE", [1, 2]), ("LITTLE", [1, 2]), ("BIG", [256, 512])]
)
def test_files_without_a_mark_are_read_as_the_default_says(default: str | None, values: list[int]) -> None:
    options = torch.serialization
    try:
        options.set_default_load_endianness(None if default is None else options.LoadEndianness[default])
        assert torch.load(archive_in_order(None)).tolist() == values
    finally:
        options.set_default_load_endianness(None)
