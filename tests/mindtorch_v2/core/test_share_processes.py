"""Memory that processes share: forked, spawned and served, through arguments, queues, pipes and pools."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing import reduction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
import mindtorch_v2.multiprocessing as mp
from forked import exit_code, fork
from mindtorch_v2 import nn
from mindtorch_v2.binding import reductions
from mindtorch_v2.core import links, segments
from mindtorch_v2.utils.data import DataLoader
from sharing_workers import doubled, echo, serve, train

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
PATIENCE_S = 60


@pytest.fixture(params=sorted(segments.STRATEGIES))
def strategy(request: pytest.FixtureRequest) -> Iterator[str]:
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


def sent(value: Any) -> Any:
    """What another process would get, found in this one; segments are mapped as if they were not known."""
    known = dict(segments._known)
    data = reduction.ForkingPickler.dumps(value)
    segments._known.clear()
    try:
        return reduction.ForkingPickler.loads(data)
    finally:
        segments._known.update(known)


# --- forked processes -------------------------------------------------------------------------------------------------


def test_a_forked_process_writes_to_the_same_memory(strategy: str) -> None:
    x = torch.zeros(2, 3)
    row = x[1]
    x.share_memory_()
    assert exit_code(fork(lambda: row.add_(torch.arange(3.0)))) == 0
    assert x.tolist() == [[0, 0, 0], [0, 1, 2]]


def test_a_file_is_shared_with_a_forked_process(tmp_path: Path) -> None:
    t = torch.from_file(str(tmp_path / "numbers"), shared=True, size=2)
    assert exit_code(fork(lambda: t.fill_(3))) == 0
    assert t.tolist() == [3, 3]
    assert np.fromfile(tmp_path / "numbers", np.float32).tolist() == [3, 3]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_train_one_model(method: str) -> None:
    """The gradient does not depend on the weights, so the sum of all steps is the same in every order."""
    model = nn.Linear(3, 1).share_memory()
    before = model.weight.detach().clone()
    context = mp.get_context(method)
    processes = [context.Process(target=train, args=(model, 2)) for _ in range(1 if method != "fork" else 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_S)
        assert process.exitcode == 0
    moved = (before - model.weight).flatten().tolist()
    assert moved == pytest.approx([0.4 * len(processes)] * 3, abs=1e-5)


# --- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue", "JoinableQueue"])
def test_queues_send_memory(kind: str, strategy: str) -> None:
    context = mp.get_context("fork")
    inbox, outbox = getattr(context, kind)(), getattr(context, kind)()
    process = context.Process(target=echo, args=(inbox, outbox))
    process.start()
    x = torch.arange(6.0).reshape(2, 3)
    inbox.put([x, x.T[1:]])
    back, part = outbox.get()
    assert x.is_shared()
    assert x.tolist() == [[1, 3, 4], [4, 6, 7]]
    assert back.data_ptr() == x.data_ptr()
    assert (part.stride(), part.storage_offset()) == ((1, 3), 1)
    inbox.put(None)
    inbox.put(None)
    process.join(PATIENCE_S)
    assert process.exitcode == 0
    for queue in (inbox, outbox):
        queue.close()


def test_a_spawned_process_sends_memory_through_a_pipe() -> None:
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, sorted(segments.STRATEGIES)))
    process.start()
    for _ in segments.STRATEGIES:
        here.send(torch.ones(2))
        was_shared, made = here.recv()
        here.recv()
        assert was_shared
        assert made.tolist() == [6, 6]
    here.send(None)
    process.join(PATIENCE_S)
    assert process.exitcode == 0


def test_a_pool_works_on_the_memory_it_is_given(strategy: str) -> None:
    with mp.get_context("fork").Pool(1) as pool:
        given = [torch.full((2,), float(i)) for i in range(3)]
        results = pool.map(doubled, given)
        assert [t.tolist() for t in given] == [t.tolist() for t in results] == [[0, 0], [2, 2], [4, 4]]
        pool.close()
        pool.join()


def test_what_comes_is_the_same_memory_mapped_anew(strategy: str) -> None:
    x = torch.arange(4.0)
    a, b = sent((x, x[1:]))
    assert a.data_ptr() != x.data_ptr()
    assert b.data_ptr() == a.data_ptr() + 4
    a.mul_(2)
    assert x.tolist() == [0, 2, 4, 6]
    again = sent(a)  # sent on by who received it
    assert again.fill_(1).is_shared()
    assert x.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, 3, dtype=torch.bfloat16),
        lambda: torch.ones(2, 3, dtype=torch.float8_e5m2),
        lambda: torch.tensor([True, False]),
        lambda: torch.tensor([1 + 2j, 3j]).conj(),
        lambda: torch.tensor(3.0),
        lambda: torch.zeros(0, 3),
        lambda: torch.ones(1).expand(4),
        lambda: torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        lambda: torch.ones(2, requires_grad=True),
        lambda: nn.Parameter(torch.ones(2)),
        lambda: nn.Parameter(torch.tensor([1, 2]), requires_grad=False),
        lambda: torch.ones(2, 3, device="meta"),
    ],
)
def test_every_kind_of_tensor_comes_as_it_was(make: Callable[[], Any]) -> None:
    x = make()
    y = sent(x)
    assert (type(y), y.dtype, y.shape, y.stride()) == (type(x), x.dtype, x.shape, x.stride())
    assert (y.requires_grad, y.is_leaf, y.is_conj(), y.device) == (x.requires_grad, x.is_leaf, x.is_conj(), x.device)
    if not x.is_meta:
        assert y.to(torch.complex64).tolist() == x.to(torch.complex64).tolist()
        assert y.is_shared() == bool(x.numel())


class Own(torch.Tensor):
    """A class that users made."""


def test_tensors_of_users_classes_are_sent_as_memory() -> None:
    x = torch.ones(2).as_subclass(Own)
    x.note = "kept"
    y = sent(x)
    assert type(y) is Own
    assert y.note == "kept"
    y.add_(1)
    assert x.tolist() == [2, 2]


def test_sparse_tensors_modules_and_storages_are_sent_as_memory() -> None:
    sparse, model, x = torch.eye(2).to_sparse(), nn.Linear(2, 2), torch.zeros(2)
    other, same, storage = sent((sparse, model, x.untyped_storage()))
    assert other.to_dense().tolist() == [[1, 0], [0, 1]]
    assert other.values().is_shared()
    with torch.no_grad():
        same.weight.fill_(3)
    assert (model.weight == 3).all()
    storage.fill_(0)
    storage[3] = 64
    assert x.tolist() == [2, 0]


def test_received_tensors_count_their_changes_apart() -> None:
    x = torch.zeros(3)
    a, b = sent((x, x[:]))
    versions = a._version, b._version
    a.add_(1)
    assert (a._version - versions[0], b._version - versions[1]) == (1, 0)


def test_queues_take_leaves_that_need_gradients_and_refuse_results() -> None:
    queue = torch.multiprocessing.SimpleQueue()
    leaf = torch.ones(2, requires_grad=True)
    queue.put([leaf])
    (received,) = queue.get()
    assert (received.requires_grad, received.is_leaf, received.tolist()) == (True, True, [1, 1])
    for result in (leaf * 2, leaf[1:], torch.eye(2, requires_grad=True).to_sparse()):
        with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
            queue.put([result])
    queue.close()


def test_storages_of_meta_tensors_are_not_sent() -> None:
    with pytest.raises(RuntimeError, match="Cannot pickle meta storage"):
        reduction.ForkingPickler.dumps(torch.zeros(2, device="meta").untyped_storage())


def test_a_mapped_file_is_sent_as_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "numbers")
    t = torch.from_file(path, shared=True, size=2)
    sent(t).fill_(4)
    assert t.tolist() == np.fromfile(path, np.float32).tolist() == [4, 4]


def test_a_mapped_file_that_was_replaced_is_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    t = torch.from_file(str(path), shared=True, size=2)
    path.rename(tmp_path / "old")
    np.zeros(2, np.float32).tofile(path)
    with pytest.raises(RuntimeError, match="is another one than was mapped"):
        sent(t)


def test_many_tensors_keep_few_files_open() -> None:
    queue = mp.get_context("fork").SimpleQueue()
    before = len(os.listdir("/dev/fd"))
    for i in range(200):
        queue.put(torch.full((2,), float(i)))
        assert queue.get()[0] == i
        assert len(os.listdir("/dev/fd")) < before + 20
    queue.close()


class Lost:
    """A descriptor that does not arrive."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def detach(self) -> int:
        raise self.error


def test_memory_that_does_not_arrive_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"received 0 items of ancdata; .*ulimit -n"):
        reductions.rebuild_segment(Lost(RuntimeError("received 0 items of ancdata")), 8)
    with pytest.raises(ConnectionRefusedError, match=r"must live until it is received"):
        reductions.rebuild_segment(Lost(ConnectionRefusedError(111, "Connection refused")), 8)
    with pytest.raises(RuntimeError, match=r"No such file or directory \(2\); the processes that knew it have ended"):
        segments.attach_name("/dev/shm/torch_of_nobody", 8)


# --- names ------------------------------------------------------------------------------------------------------------

PROGRAM = """
import os, sys, time
import mindtorch_v2 as torch, mindtorch_v2.multiprocessing as mp
mp.set_sharing_strategy("file_system")
kept = [torch.ones(3).share_memory_() for _ in range(5)]
queue = mp.get_context("fork").SimpleQueue()
if os.fork() == 0:
    queue.put(torch.ones(2))
    queue.put(kept[0])
    {child}
os.wait()
received = queue.get()
from mindtorch_v2.core import links
print(links._watched[0][0], flush=True)
{end}
"""


def left_by(program: str, end: Callable[[int], None] | None) -> list[str]:
    """The names that a program leaves when it and its watcher have ended."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True, pass_fds=[writing]
    )
    os.close(writing)
    assert process.stdout is not None
    beginning = Path(process.stdout.readline().strip())
    if end is not None:
        assert list(beginning.parent.glob(f"{beginning.name}*"))
        end(process.pid)
    process.wait(PATIENCE_S)
    process.stdout.close()
    with open(reading) as ending:
        ending.read()  # the watcher has inherited the other end, as all have
    return [str(p) for p in beginning.parent.glob(f"{beginning.name}*")]


@pytest.mark.parametrize(
    ("child", "end", "kill"),
    [
        ("os._exit(0)", "time.sleep(600)", lambda pid: os.kill(pid, signal.SIGKILL)),
        ("os.kill(os.getpid(), 9)", "time.sleep(600)", lambda pid: os.killpg(pid, signal.SIGKILL)),
        ("sys.exit(1)", "raise SystemExit(3)", None),
    ],
    ids=["killed", "killed with its group", "ended"],
)
def test_no_names_are_left(child: str, end: str, kill: Any) -> None:
    assert left_by(PROGRAM.format(child=child, end=end), kill) == []


def test_a_forked_process_does_not_remove_the_names_of_its_parent() -> None:
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy("file_system")
    try:
        holder = [torch.ones(2).share_memory_()]
    finally:
        mp.set_sharing_strategy(before)
    name = segments.segment_of(holder[0]._a.base).path
    assert exit_code(fork(holder.clear)) == 0
    assert os.path.exists(name)
    assert sent(holder[0]).tolist() == [1, 1]
    assert Path(name).name.startswith(Path(links._watched[0][0]).name)


# --- DataLoader -------------------------------------------------------------------------------------------------------


class Samples(torch.utils.data.Dataset[Any]):
    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def test_batches_are_copies() -> None:
    whole = torch.arange(4.0)
    batches = list(DataLoader(Samples(lambda i: whole[i:]), batch_size=None, num_workers=1))
    assert [b.tolist() for b in batches] == [[0, 1, 2, 3], [1, 2, 3]]
    assert not any(b.is_shared() for b in (*batches, whole))


@pytest.mark.parametrize(
    ("sample", "reason"),
    [(lambda i: lambda: i, "pickle"), (lambda i: torch.ones(1, requires_grad=True) * 2, "Cowardly refusing")],
    ids=["a lambda", "a result that needs gradients"],
)
def test_samples_that_cannot_be_sent_are_an_error_of_the_worker(sample: Any, reason: str) -> None:
    loader = DataLoader(Samples(sample), batch_size=None, num_workers=1, timeout=PATIENCE_S)
    with pytest.raises(Exception, match=rf"(?s)in DataLoader worker process 0.*{reason}"):
        list(loader)
