"""Shared memory beside torch: what moves along, what is sent to other processes, and what is refused."""

import copy
import io
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch

import mindtorch_v2
from side_by_side import Programs, attempt, named, plain

programs = Programs()


def place(t):
    """What can be said of a tensor's memory."""
    return t.is_shared(), t.stride(), t.storage_offset(), t.untyped_storage().nbytes(), t._version


@programs
def views_and_aliases(package, nn):
    x = package.arange(6.0).reshape(2, 3)
    others = [x, x[1], x.T, x.detach(), x.data, x.data[0], nn.Parameter(x), x[0, :1].expand(4), x.view(package.int32)]
    x.add_(1)
    others[4].share_memory_()
    x.add_(1)
    others[4].mul_(2)
    return [(t, place(t)) for t in others]


@programs
def memory_of_numpy(package, nn):
    array = np.arange(100.0)
    a, b = package.from_numpy(array[10:20:3]), package.from_numpy(array)
    before = place(a), place(b)
    a.share_memory_().zero_()
    return before, place(a), place(b), array.sum()


@programs
def saved_for_backward(package, nn):
    x = package.zeros(3, requires_grad=True)
    y = x.exp()
    part = y[:2]
    y.share_memory_()
    y.data.fill_(5)
    y.sum().backward()
    return x.grad, part, place(part)


@programs
def changed_after_it_was_saved(package, nn):
    x = package.zeros(3, requires_grad=True)
    y = x.exp()
    y.share_memory_()
    with package.no_grad():
        y.add_(1)
    y.sum().backward()


@programs
def modules(package, nn):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    nn.init.ones_(model[0].weight)
    model(package.tensor([[1.0, 2.0], [3.0, 5.0]])).sum().backward()
    state = model.state_dict()
    model.share_memory()
    package.optim.SGD(model.parameters(), lr=0.1).step()
    held = [*state.values(), *(p.grad for p in model.parameters())]
    return [t.is_shared() for t in held], state["0.weight"]


@programs
def storages(package, nn):
    x = package.zeros(3)
    storage = x.untyped_storage()
    storage.share_memory_()
    x.fill_(1)
    made = package.UntypedStorage._new_shared(4)
    fd, size = storage._share_fd_cpu_()
    return x.is_shared(), storage.tolist(), storage.is_shared(), made.tolist(), made.is_shared(), fd >= 0, size


@programs
def no_elements(package, nn):
    x = package.zeros(0, 3)
    return x.is_shared(), x.share_memory_().is_shared(), x.shape, x.stride()


@programs
def lazily_conjugated(package, nn):
    x = package.tensor([1j, 2j])
    y = x.conj()
    y.share_memory_()
    x.mul_(2)
    return y.is_conj(), y.is_shared(), [repr(v) for v in y.tolist()]


@programs
def copies(package, nn):
    x = package.arange(6.0).reshape(2, 3).share_memory_()
    file = io.BytesIO()
    package.save([x, x[1]], file)
    file.seek(0)
    loaded = package.load(file)
    made = copy.deepcopy([x, x.T, x[1]])
    for first in (loaded[0], made[0]):
        first.zero_()
    loaded[1].share_memory_()
    return [(t, t.is_shared(), t.stride(), t.storage_offset()) for t in (*loaded, *made, x.clone())]


@programs
def a_meta_tensor(package, nn):
    package.zeros(2, device="meta").share_memory_()


@programs
def a_sparse_tensor(package, nn):
    package.eye(2).to_sparse().share_memory_()


@programs
def pinned(package, nn):
    package.zeros(2).pin_memory()


@programs
def an_unknown_strategy(package, nn):
    package.multiprocessing.set_sharing_strategy("mail")


@programs
def sent_to_this_process(package, nn):
    x = package.arange(6.0).reshape(2, 3)
    p = nn.Parameter(package.ones(2))
    given = [
        x,
        x.T[1:],
        x.data,
        p,
        package.zeros(0, 2),
        package.ones(2, requires_grad=True),
        package.eye(2).to_sparse(),
    ]
    got = ForkingPickler.loads(ForkingPickler.dumps(given))
    got[0].mul_(2)
    same = [t.data_ptr() == g.data_ptr() for t, g in zip(given[:4], got[:4], strict=True)]
    got[-1] = got[-1].to_dense()
    return same, got, [t.is_shared() for t in given[:-1]], [t.stride() for t in got], [t.is_leaf for t in got]


@programs
def sent_though_it_needs_gradients(package, nn):
    ForkingPickler.dumps(package.ones(2, requires_grad=True) * 2)


def of_file(name, *args, **kwargs):
    """A program that maps a file of the numbers from 0 to 3."""

    def program(package, nn, folder):
        path = folder / "numbers"
        np.arange(4, dtype=np.float32).tofile(path)
        t = package.from_file(str(folder / name), *args, **kwargs)
        before = t.clone()
        t.data.add_(1)
        filename = t.untyped_storage().filename
        kept = t.is_shared(), filename is None
        del t
        return before, kept, np.fromfile(path, np.uint8).tolist()

    return program


FILES = [
    of_file("numbers", True, 4),
    of_file("numbers", False, 2),
    of_file("numbers", size=2),
    of_file("numbers", True, 6),
    of_file("numbers", False, 6),
    of_file("numbers", True, 0),
    of_file("numbers", True),
    of_file("numbers", True, -1),
    of_file("numbers", shared=True, size=2, requires_grad=True),
    of_file("absent", False, 1),
    of_file("absent", True, 1),
    of_file("absent/below", True, 1),
    of_file("", True, 1),
    of_file("", False, 1),
]


def compare(theirs, ours):
    (expected, their_error), (result, our_error) = theirs, ours
    assert type(our_error) is type(their_error), (our_error, their_error)
    if their_error is not None:
        # The remedy stands behind torch's words.
        assert str(our_error).replace("mindtorch_v2", "torch").startswith(str(their_error).split("{")[0].rstrip(". "))
        return
    np.testing.assert_equal(plain(result), plain(expected))


@pytest.mark.parametrize("program", programs, ids=named)
def test_programs(program):
    compare(attempt(program, torch, torch.nn), attempt(program, mindtorch_v2, mindtorch_v2.nn))


@pytest.mark.parametrize("program", FILES, ids=range(len(FILES)))
def test_files(program, tmp_path):
    results = []
    for package in (torch, mindtorch_v2):
        results.append(attempt(program, package, package.nn, tmp_path))
        for file in tmp_path.iterdir():
            file.unlink()
    compare(*results)
