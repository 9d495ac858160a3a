"""Memory that is shared: what moves along when a tensor is moved there, what a recorder sees, files, and what fails."""

import copy
import errno
import gc
import io
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.autograd.memory import holders
from mindtorch_v2.binding import aliases
from mindtorch_v2.core import links, segments
from mindtorch_v2.profiler import profile

pytestmark = pytest.mark.skipif(not segments.POSIX, reason="needs POSIX mmap")


@pytest.fixture
def by_name() -> Iterator[None]:
    """Memory is shared by name."""
    before = segments.strategy()
    segments.set_strategy("file_system")
    yield
    segments.set_strategy(before)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry each time the whole process is searched for tensors."""
    seen: list[int] = []
    search = holders._Index.look_around
    monkeypatch.setattr(holders._Index, "look_around", lambda self: (seen.append(1), search(self))[1])
    return seen


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


def names() -> list[str]:
    return [] if not links._watched else [str(p) for p in Path(links._watched[0][0]).parent.glob("torch_*_*")]


# --- who moves along --------------------------------------------------------------------------------------------------


VIEWS = {
    "itself": lambda x: x,
    "a row": lambda x: x[1],
    "transposed": lambda x: x.T,
    "detached": lambda x: x.detach(),
    "data": lambda x: x.data,
    "a row of data": lambda x: x.data[0],
    "another dtype": lambda x: x.view(torch.int32),
    "a parameter": lambda x: nn.Parameter(x),
    "a subclass": lambda x: x.as_subclass(type("Own", (torch.Tensor,), {})),
    "expanded": lambda x: x[0, :1].expand(5),
    "set to its storage": lambda x: torch.empty(0).set_(x.untyped_storage(), 1, (2,)),
    "made of its storage": lambda x: torch.empty(0).new(x.untyped_storage()),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("other_first", [False, True])
def test_everything_that_looks_at_the_memory_moves_along(name: str, other_first: bool) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    other = VIEWS[name](x)
    before = other.shape, other.stride(), other.storage_offset(), other.tolist()
    assert (other if other_first else x).share_memory_() is (other if other_first else x)
    assert x.is_shared()
    assert other.is_shared()
    assert (other.shape, other.stride(), other.storage_offset(), other.tolist()) == before
    assert other.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    with torch.no_grad():
        x.fill_(9)
        assert (other.view(torch.float32) == 9).all()


def test_versions_stay() -> None:
    x = torch.zeros(3)
    data = x.data
    x.add_(1)
    x.share_memory_()
    x.add_(1)
    assert (x._version, data._version) == (2, 0)


def test_a_storage_moves_its_tensors() -> None:
    x = torch.zeros(3)
    storage = x.untyped_storage()
    part, typed = storage[:4], x.storage()
    assert storage.share_memory_() is storage
    assert x.is_shared()
    assert part.is_shared()
    assert typed.is_shared()
    x.fill_(1)
    assert part.tolist() == storage.tolist()[:4] == [0, 0, 128, 63]
    assert typed.tolist() == [1, 1, 1]


def test_arrays_of_numpy_stay_where_they_are() -> None:
    array = np.zeros(3)
    made_of, beside = torch.from_numpy(array), torch.from_numpy(array)
    handed_out = torch.zeros(3)
    array_of = handed_out.numpy()
    made_of.share_memory_().add_(1)
    handed_out.share_memory_().add_(1)
    assert array.tolist() == beside.tolist() == array_of.tolist() == [0, 0, 0]
    assert not beside.is_shared()


def test_of_a_numpy_array_only_what_the_tensor_looks_at_is_moved() -> None:
    t = torch.from_numpy(np.arange(1000.0)[10:20:3])
    assert (t.storage_offset(), t.untyped_storage().nbytes()) == (0, 80)
    assert t.share_memory_().tolist() == [10, 13, 16, 19]
    assert t.untyped_storage().nbytes() == 80


def test_what_a_node_saved_moves_along() -> None:
    x = torch.zeros(3, requires_grad=True)
    y = x.exp()
    z = y.sum()
    y.share_memory_()
    y.data.fill_(5)  # which nobody counts
    z.backward()
    assert x.grad.tolist() == [5, 5, 5]


def test_what_a_function_of_users_saved_moves_along() -> None:
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    x = torch.zeros(2, requires_grad=True)
    y = Own.apply(x)
    y.share_memory_()
    y.data.fill_(5)
    y.sum().backward()
    assert x.grad.tolist() == [5, 5]


def test_a_change_of_what_was_saved_is_still_noticed() -> None:
    x = torch.zeros(3, requires_grad=True)
    y = x.exp()
    y.share_memory_()
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_views_in_a_graph_keep_their_place() -> None:
    x = torch.ones(4, requires_grad=True)
    y = x * 1
    part = y[:2]
    y.share_memory_()
    part.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 1, 1]


def test_gradients_are_gathered_in_shared_memory() -> None:
    p = nn.Parameter(torch.ones(2))
    (p * 2).sum().backward()
    p.grad.share_memory_()
    place = p.grad.data_ptr()
    (p * 2).sum().backward()
    assert p.grad.tolist() == [4, 4]
    assert p.grad.data_ptr() == place
    assert p.grad.is_shared()


def test_lazily_conjugated_tensors_stay_so() -> None:
    x = torch.tensor([1j, 2j])
    y = x.conj()
    part = y.imag
    y.share_memory_()
    x.mul_(2)
    assert y.is_conj()
    assert y.tolist() == [-2j, -4j]
    assert part.tolist() == [-2, -4]


def test_tensors_of_a_checkpoint_that_share_memory_move_together() -> None:
    x = torch.arange(4.0)
    file = io.BytesIO()
    torch.save({"x": x, "part": x[1:]}, file)
    file.seek(0)
    loaded = torch.load(file)
    loaded["x"].share_memory_().zero_()
    assert loaded["part"].is_shared()
    assert loaded["part"].tolist() == [0, 0, 0]


def test_an_interrupt_does_not_part_tensors_on_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(3)
    others = [x[1:], x.data, x.detach()]
    take, calls = aliases._Move.take, []

    def interrupted(self: Any, holder: Any) -> None:
        calls.append(holder)
        if len(calls) == 2:
            raise KeyboardInterrupt
        take(self, holder)

    monkeypatch.setattr(aliases._Move, "take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        x.share_memory_()
    assert all(t.is_shared() for t in (x, *others))


def test_a_shallow_copy_looks_at_the_same_memory() -> None:
    x = torch.zeros(3)
    other = copy.copy(x)
    x.share_memory_()
    other.fill_(2)
    assert x.tolist() == [2, 2, 2]


def test_a_frozen_heap_is_searched_too() -> None:
    x = torch.zeros(3)
    part = x[1:]
    gc.freeze()
    try:
        x.share_memory_()
        assert part.is_shared()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


# --- how long it takes ------------------------------------------------------------------------------------------------


def test_a_tensor_that_nobody_else_looks_at_is_moved_without_a_search(searches: list[int]) -> None:
    x, y = torch.zeros(3), torch.zeros(3).data
    y.add_(1)
    parameter = nn.Parameter(torch.zeros(3))
    for t in (x, y, parameter, torch.from_numpy(np.zeros(3)), nn.Linear(2, 2).share_memory().weight):
        t.share_memory_()
    torch.UntypedStorage(8).share_memory_()
    assert not searches


def test_one_search_is_enough_for_many_tensors(searches: list[int]) -> None:
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(5)))
    state = model.state_dict()
    model.share_memory()
    assert len(searches) == 1
    assert all(t.is_shared() for t in state.values())
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(5)))
    state = model.state_dict()
    for t in state.values():
        t.share_memory_()
    assert len(searches) == 2
    assert all(p.is_shared() for p in model.parameters())


def test_a_tensor_made_since_the_last_search_is_found(searches: list[int]) -> None:
    x, y = torch.zeros(3), torch.zeros(3)
    old = y[1:]
    holders.look_around()
    young = y[:1]
    y.share_memory_()
    assert old.is_shared()
    assert young.is_shared()
    assert not x.is_shared()


# --- what it is afterwards --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "bool", "int8", "complex64", "float8_e4m3fn", "float8_e5m2"])
def test_every_dtype(kind: str) -> None:
    x = torch.tensor([0, 1, 1]).to(getattr(torch, kind))
    part = x[1:]
    assert x.share_memory_().dtype is getattr(torch, kind)
    assert part.to(torch.complex64).tolist() == [1, 1]


def test_a_module_shares_parameters_gradients_and_buffers() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model(torch.rand(3, 2)).sum().backward()
    assert model.share_memory() is model
    held = [t for p in model.parameters() for t in (p, p.grad)] + list(model.buffers())
    assert all(t.is_shared() for t in held)
    places = [t.data_ptr() for t in model.state_dict().values()]
    optimizer = torch.optim.Adam(model.parameters())
    for recorded in (False, True):
        with profile() if recorded else torch.enable_grad():
            optimizer.zero_grad()
            model(torch.rand(3, 2)).sum().backward()
            optimizer.step()
    assert [t.data_ptr() for t in model.state_dict().values()] == places


def test_copies_are_not_shared() -> None:
    x = torch.arange(3.0).share_memory_()
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    for made in (x.clone(), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), torch.load(file), x + 0):
        assert made.tolist() == [0, 1, 2]
        assert not made.is_shared()
    assert x[1:].is_shared()
    assert not torch.from_numpy(x.numpy()).is_shared()


def test_no_elements_can_be_shared() -> None:
    x = torch.zeros(0, 3)
    assert not x.is_shared()
    assert x.share_memory_().is_shared()
    assert x.shape == (0, 3)


@pytest.mark.filterwarnings("ignore:The number of elements in the out tensor")  # torch warns first, too
def test_shared_memory_cannot_grow() -> None:
    x = torch.arange(4.0).share_memory_()
    whole = x[:]
    for grow in (lambda: x.resize_(5), lambda: torch.arange(5.0, out=x), lambda: x.untyped_storage().resize_(64)):
        with pytest.raises(RuntimeError, match="not resizable"):
            grow()
    torch.arange(3.0, out=x)
    assert x.tolist() == [0, 1, 2]
    assert x.data_ptr() == whole.data_ptr()
    assert whole.tolist() == [0, 1, 2, 3]


def test_what_has_no_memory_is_refused() -> None:
    with pytest.raises(RuntimeError, match="only available on CPU"):
        torch.zeros(2, device="meta").share_memory_()
    with pytest.raises(NotImplementedError, match="Cannot access storage of SparseTensorImpl"):
        torch.eye(2).to_sparse().share_memory_()
    with pytest.raises(RuntimeError, match="uninitialized parameter"):
        nn.LazyLinear(2).share_memory()


def test_a_recorder_sees_the_new_memory_and_the_end_of_the_old() -> None:
    x = torch.zeros(1000)
    part = x[1:]
    with profile(profile_memory=True) as prof:
        x.share_memory_()
        y = torch.zeros(500)
        y.share_memory_()
        del y, x, part
    changes = [e.cpu_memory_usage for e in prof.events() if e.name == "[memory]"]
    assert changes == [4000, 2000, -2000, -2000, -4000]


# --- new shared memory ------------------------------------------------------------------------------------------------


def test_storages_made_in_shared_memory() -> None:
    storage = torch.UntypedStorage._new_shared(8)
    assert storage.is_shared()
    assert storage.tolist() == [0] * 8
    typed = torch.ones(2).storage()._new_shared(3)
    t = torch.ones(2).new(typed).resize_(1, 3)
    assert t.is_shared()
    t.fill_(2)
    assert typed.tolist() == [2, 2, 2]


def test_a_descriptor_leads_to_the_same_memory() -> None:
    x = torch.zeros(2)
    fd, size = x.untyped_storage()._share_fd_cpu_()
    again = torch.UntypedStorage._new_shared_fd_cpu(fd, size)
    x.fill_(1)
    assert again.data_ptr() == x.data_ptr()
    assert os.fstat(fd).st_size == size == 8


def test_a_name_leads_to_the_same_memory_and_is_taken_over(by_name: None) -> None:
    x = torch.zeros(2)
    _, name, size = x.untyped_storage()._share_filename_cpu_()
    assert os.path.exists(name)
    again = torch.UntypedStorage._new_shared_filename_cpu(b"", name, size)
    assert again.data_ptr() == x.data_ptr()
    assert not os.path.exists(name)


def test_unknown_strategies_are_refused() -> None:
    assert torch.multiprocessing.get_all_sharing_strategies() >= {torch.multiprocessing.get_sharing_strategy()}
    with pytest.raises(AssertionError, match="invalid sharing strategy 'mail', expected one of"):
        torch.multiprocessing.set_sharing_strategy("mail")


def test_memory_by_descriptor_leaves_neither_names_nor_files_open() -> None:
    before, there = open_files(), names()
    kept = [torch.zeros(3).share_memory_() for _ in range(20)]
    assert names() == there
    if segments.strategy() == "file_descriptor":
        assert open_files() == before + 20
    del kept
    assert open_files() == before


def test_memory_by_name_keeps_no_file_open_and_its_name_goes_with_it(by_name: None) -> None:
    torch.zeros(1).share_memory_()  # starts the watcher
    before, there = open_files(), len(names())
    kept = [torch.zeros(3).share_memory_() for _ in range(20)]
    assert open_files() == before
    assert len(names()) == there + 20
    del kept
    assert len(names()) == there


# --- what fails -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", sorted(segments.STRATEGIES))
def test_a_full_memory_is_an_error_with_a_remedy(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(segments, "_chosen", [strategy])
    torch.zeros(1).share_memory_()
    before, there = open_files(), names()
    monkeypatch.setattr(os, "posix_fallocate", full)
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match=r"unable to allocate 12 bytes .*No space left on device \(28\); .*smaller"):
        x.share_memory_()
    assert not x.is_shared()
    assert x.tolist() == [1, 1, 1]
    assert (open_files(), names()) == (before, there)


def test_more_than_the_machine_has_is_refused_before_it_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_LARGE", 1)
    monkeypatch.setattr(segments, "_free_memory", lambda: 8.0)
    with pytest.raises(RuntimeError, match=r"Cannot allocate memory \(12\)"):
        torch.ones(3).share_memory_()


def test_too_many_open_files_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> int:
        raise OSError(errno.EMFILE, "")

    monkeypatch.setattr(segments, "_nameless", refuse)
    monkeypatch.setattr(segments, "_chosen", ["file_descriptor"])
    with pytest.raises(RuntimeError, match=r"Too many open files \(24\); .*ulimit -n.*set_sharing_strategy"):
        torch.ones(3).share_memory_()


def test_without_anonymous_memory_a_file_without_a_name_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*args: Any) -> int:
        raise OSError(errno.ENOSYS, "")

    monkeypatch.setattr(os, "memfd_create", absent, raising=False)
    monkeypatch.setattr(segments, "_chosen", ["file_descriptor"])
    there = names()
    x = torch.ones(3).share_memory_()
    assert x.is_shared()
    assert set(names()) <= set(there)


def test_without_mmap_sharing_says_so_and_files_can_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    np.arange(4, dtype=np.float32).tofile(tmp_path / "numbers")
    monkeypatch.setattr(segments, "POSIX", False)
    monkeypatch.setattr(segments, "_C", None)
    with pytest.raises(RuntimeError, match=r"POSIX mmap, which .* does not have"):
        torch.ones(3).share_memory_()
    t = torch.from_file(str(tmp_path / "numbers"), shared=True, size=4)
    t.add_(1)
    assert torch.from_file(str(tmp_path / "numbers"), size=4).tolist() == [1, 2, 3, 4]


def test_accelerators_memory_is_not_promised() -> None:
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        torch.zeros(2).pin_memory()


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def numbers(tmp_path: Path) -> str:
    """A file of the numbers from 0 to 3."""
    np.arange(4, dtype=np.float32).tofile(tmp_path / "numbers")
    return str(tmp_path / "numbers")


def test_changes_of_a_shared_file_are_in_the_file(numbers: str) -> None:
    t = torch.from_file(numbers, shared=True, size=4)
    t[1:].fill_(7)
    assert np.fromfile(numbers, np.float32).tolist() == [0, 7, 7, 7]
    assert t.is_shared()
    assert t.untyped_storage().filename == numbers
    assert t.share_memory_().untyped_storage().filename == numbers


def test_changes_of_a_file_that_is_not_shared_are_not(numbers: str) -> None:
    t = torch.from_file(numbers, size=2, dtype=torch.float32, requires_grad=True)
    t.data.fill_(7)
    assert np.fromfile(numbers, np.float32).tolist() == [0, 1, 2, 3]
    assert t.requires_grad
    assert t.untyped_storage().filename is None
    place = t.data_ptr()
    t.share_memory_()  # other processes have not seen it so far
    assert t.data_ptr() != place
    assert t.tolist() == [7, 7]


def test_a_shared_file_is_made_and_lengthened(tmp_path: Path) -> None:
    path = tmp_path / "new"
    assert torch.from_file(str(path), shared=True, size=2).tolist() == [0, 0]
    assert torch.from_file(str(path), shared=True, size=4, dtype=torch.float64).tolist() == [0, 0, 0, 0]
    assert path.stat().st_size == 32
    assert torch.UntypedStorage.from_file(str(path), True, 16).nbytes() == 16


def test_a_full_disk_leaves_the_file_as_it_was(numbers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(RuntimeError, match=r"unable to resize file <.*> .*No space left on device \(28\)"):
        torch.from_file(numbers, shared=True, size=400)
    assert os.path.getsize(numbers) == 16


def test_files_that_cannot_be_mapped(tmp_path: Path, numbers: str) -> None:
    with pytest.raises(RuntimeError, match=r"size <16> is smaller than the required mapping size <20>"):
        torch.from_file(numbers, size=5)
    with pytest.raises(RuntimeError, match=r"in read-only mode: No such file or directory \(2\)"):
        torch.from_file(str(tmp_path / "absent"), size=1)
    with pytest.raises(RuntimeError, match=r"in read-write mode: Is a directory \(21\)"):
        torch.from_file(str(tmp_path), shared=True, size=1)
    with pytest.raises(RuntimeError, match=r"unable to mmap -4 bytes"):
        torch.from_file(numbers, size=-1)
    with pytest.raises(TypeError, match="must be str, not PosixPath"):
        torch.from_file(tmp_path / "numbers", size=1)
    assert torch.from_file(str(tmp_path / "absent")).tolist() == []


def test_from_file_is_recorded(numbers: str) -> None:
    with profile(profile_memory=True) as prof:
        torch.from_file(numbers, shared=True, size=4)
    assert [(e.name, e.cpu_memory_usage) for e in prof.events()][:1] == [("aten::from_file", 16)]


# --- deep copies ------------------------------------------------------------------------------------------------------


def test_deep_copies_share_memory_as_the_originals_do() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    made = copy.deepcopy({"x": x, "transposed": x.T, "row": x[1], "data": x.data})
    assert made["transposed"].stride() == (1, 3)
    assert made["row"].storage_offset() == 3
    made["x"].zero_()
    assert made["row"].tolist() == [0, 0, 0]
    assert made["data"].sum() == made["transposed"].sum() == 0
    assert x.sum() == 15
