"""Checkpoints that were made to do harm: a short error for each, in little time and memory, and no code of theirs runs."""

import io
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import checkpoint_mutations
import mindtorch_v2 as torch
from hostile_checkpoints import HOSTILE, STORED, archive, called, legacy, storage, tensor, text
from mindtorch_v2.core.brief import brief, brief_text
from mindtorch_v2.serialization.limits import Limits, Refused

# Of the largest of these files, twenty times; a few hundred bytes of one of them unfold to gigabytes.
MOST_BYTES = 40 << 20
FORCE, FREE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_end_in_a_short_error(name: str) -> None:
    with pytest.raises(checkpoint_mutations.EXPECTED) as caught:
        torch.load(io.BytesIO(HOSTILE[name]))
    assert len(str(caught.value)) < 1500
    assert not set(str(caught.value)) & set("\x1b\x9b")


@pytest.mark.parametrize("name", [name for name in HOSTILE if not name.startswith("_rebuild")])
def test_hostile_files_take_little_memory(name: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(checkpoint_mutations.EXPECTED):
            torch.load(io.BytesIO(HOSTILE[name]))
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


def test_a_tensor_without_a_storage_is_damage() -> None:
    with pytest.raises(RuntimeError, match="damaged checkpoint: expected a storage, found None"):
        torch.load(io.BytesIO(HOSTILE["tensor without a storage"]))


def test_a_file_that_nobody_saved_is_not_to_be_trusted_either() -> None:
    with pytest.raises(pickle.UnpicklingError, match="hostile") as caught:
        torch.load(io.BytesIO(HOSTILE["layout that unfolds"]))
    assert "weights_only" not in str(caught.value)


class Opener:
    """Pickles as a call of `print`."""

    def __reduce__(self) -> object:
        return print, ("code ran",)


def saved(thing: object) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    buffer.seek(0)
    return buffer


def test_forcing_safe_loads_overrules_the_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FORCE, "1")
    with pytest.raises(pickle.UnpicklingError, match="GLOBAL print was not an allowed global"):
        torch.load(saved(Opener()), weights_only=False)
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        torch.load(saved(1), weights_only=False, pickle_module=pickle)
    assert capsys.readouterr().out == ""


def test_allowing_unsafe_loads_is_told_and_yields_to_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FREE, "yes")
    with pytest.warns(UserWarning, match="forcing weights_only=False"):
        torch.load(saved(Opener()))
    with pytest.raises(pickle.UnpicklingError, match="not an allowed global"):
        torch.load(saved(Opener()), weights_only=True)


def test_both_variables_contradict_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCE, "1")
    monkeypatch.setenv(FREE, "1")
    with pytest.raises(RuntimeError, match="Only one of"):
        torch.load(saved(1))


def test_truth_values_are_0_or_1_whatever_the_file_holds() -> None:
    stored = {"data/0": bytes([0, 1, 2, 255])}
    mask = torch.load(io.BytesIO(archive(tensor(held=storage(4, b"ctorch\nBoolStorage\n")), stored)))
    assert mask._a.view(np.uint8).tolist() == [0, 1, 1, 1]
    assert torch.arange(4)[mask].tolist() == [1, 2, 3]


def test_truth_values_of_the_older_format_too() -> None:
    body = tensor(held=storage(4, b"ctorch\nBoolStorage\n"))
    data = legacy(body, pickle.dumps(["0"], 2), (4).to_bytes(8, "little") + bytes([0, 1, 2, 255]))
    assert torch.load(io.BytesIO(data))._a.view(np.uint8).tolist() == [0, 1, 1, 1]


def test_a_storage_that_is_not_listed_is_damage_not_zeros() -> None:
    with pytest.raises(pickle.UnpicklingError, match="lists other storages than it uses"):
        torch.load(io.BytesIO(HOSTILE["legacy: storage that is not listed"]))


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_mapped_storages_are_where_the_machine_reads_them(tmp_path: Path, shift: int) -> None:
    """An archive that others packed again need not align its entries."""
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as made:
        made.writestr("a" * (1 + shift) + "/data.pkl", b"\x80\x02" + tensor() + b".")
        made.writestr("a" * (1 + shift) + "/data/0", np.arange(4, dtype=np.float32).tobytes())
    x = torch.load(tmp_path / "x.pt", mmap=True)
    assert x._a.flags.aligned
    assert x.tolist() == [0, 1, 2, 3]


def test_a_view_amid_an_element_is_damage() -> None:
    view = storage(5, b"ctorch\nByteStorage\n").replace(b"tQ", b"(NK\x01K\x04ttQ")
    args = (view, b"K\x00", b"K\x01\x85", b"K\x01\x85", b"\x89", b"N", b"ctorch\nfloat32\n")
    body = called(b"ctorch._utils\n_rebuild_tensor_v3\n", *args)
    with pytest.raises(RuntimeError, match="begins amid an element"):
        torch.load(io.BytesIO(legacy(body, pickle.dumps(["0"], 2), (5).to_bytes(8, "little") + bytes(5))))


def test_conjugated_tensors_stay_views_of_their_storage() -> None:
    options = b"K\x00K\x01\x85K\x01\x85\x89N}" + text(b"conj") + b"\x88s"
    body = called(b"ctorch._utils\n_rebuild_tensor_v2\n", storage(1, b"ctorch\nComplexFloatStorage\n"), options)
    x = torch.load(io.BytesIO(archive(body, {"data/0": np.array([1 + 2j], np.complex64).tobytes()})))
    assert x.is_conj()
    assert x.tolist() == [1 - 2j]


def test_attributes_of_autograd_are_not_taken_from_files() -> None:
    call = b"ctorch._tensor\n_rebuild_from_type_v2\n"
    args = b"(" + storage() + b"K\x00K\x04\x85K\x01\x85\x89Nt"
    state = b"}(" + text(b"_grad") + b"K\x01" + text(b"note") + b"K\x02u"
    body = called(call, b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nTensor\n", args, state)
    x = torch.load(io.BytesIO(archive(body, STORED)))
    assert (x.grad, x.note) == (None, 2)


def test_archives_of_others_are_named() -> None:
    packed, compressed = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        made.writestr("model/.data/extern_modules", "numpy")
    with zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("model/data.pkl", b"\x80\x02N.")
    with pytest.raises(RuntimeError, match=r"archive of torch\.package"):
        torch.load(io.BytesIO(packed.getvalue()))
    with pytest.raises(RuntimeError, match="without compression"):
        torch.load(io.BytesIO(compressed.getvalue()))
    with pytest.raises(RuntimeError, match="tar format"):
        torch.load(io.BytesIO(bytes(257) + b"ustar" + bytes(300)))


def test_work_is_paid_for_by_the_size_of_the_file() -> None:
    limits = Limits(0, 0)
    limits.spend(1_000_000)
    with pytest.raises(Refused, match="far more work"):
        limits.spend(1)
    Limits(1000, 0).spend(1_001_000)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"),
        ("a\x1b[2J", r"'a\x1b[2J'"),
        ("a" * 100, f"{'a' * 60!r}…"),
        (1 << 10_000, "a number of 10001 bits"),
        ((1,), "(1,)"),
        ([[[1]], {"a": (2, 3)}], "[[list of 1], {'a': tuple of 2}]"),
        ({1: 2}, "{1: 2}"),
        (list(range(10)), "[0, 1, 2, 3, 4, 5, 6, 7, … 10 in all]"),
        (print, "print"),
        (torch.ones(2), "Tensor"),
    ],
)
def test_short_text_of_any_value(value: object, shown: str) -> None:
    assert brief(value) == shown


def test_short_text_of_what_holds_itself() -> None:
    deep: object = ()
    for _ in range(150_000):
        deep = (deep, deep)
    held: list[object] = []
    held.append(held)
    assert brief(deep) == "((tuple of 2, tuple of 2), (tuple of 2, tuple of 2))"
    assert brief(held) == "[[list of 1]]"


def test_texts_of_others_are_printable() -> None:
    assert brief_text("a\x1b\u202e\ud800é") == r"a\x1b\u202e\ud800é"
    assert brief_text("a" * 500) == "a" * 200 + "…"
