"""Options of functions that steer what is done or refused: none of them is taken and left unread."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindtorch_v2._higher_order_ops import associative_scan
from mindtorch_v2.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES

import mindtorch_v2 as torch
from mindtorch_v2.autograd.functional import hessian, jacobian
from mindtorch_v2.multiprocessing import ProcessRaisedException, start_processes
from mindtorch_v2.sparse import check_sparse_tensor_invariants
from mindtorch_v2.utils.data.datapipes.iter import IterableWrapper
from mindtorch_v2.utils.data.graph_settings import apply_sharding

# --- Jacobians --------------------------------------------------------------------------------------------------------


class Scaled(torch.autograd.Function):
    """Its jvp is not its backward's, so that results show which was asked."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 3


def test_a_jacobian_by_forward_mode() -> None:
    x = torch.tensor([1.0, 2.0])
    assert jacobian(Scaled.apply, x, vectorize=True).tolist() == [[2, 0], [0, 2]]
    assert jacobian(Scaled.apply, x, vectorize=True, strategy="forward-mode").tolist() == [[3, 0], [0, 3]]


def test_forward_mode_gives_blocks_as_reverse_mode_does() -> None:
    def both(a: Any, b: Any) -> Any:
        return (a[:, None] * b).sum(0), a.exp()

    inputs = (torch.tensor([1.0, 2.0]), torch.arange(6.0).view(2, 3))
    ways = [jacobian(both, inputs, vectorize=True, strategy=s) for s in ("forward-mode", "reverse-mode")]
    for forward, reverse in zip(*ways, strict=True):
        assert all(torch.allclose(f, r) and f.shape == r.shape for f, r in zip(forward, reverse, strict=True))


def test_a_hessian_by_forward_mode_over_reverse_mode() -> None:
    found = hessian(
        lambda a: (a**3).sum(), torch.tensor([1.0, 2.0]), vectorize=True, outer_jacobian_strategy="forward-mode"
    )
    assert found.tolist() == [[6, 0], [0, 12]]


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (AssertionError, {"strategy": "sideways"}),
        (NotImplementedError, {"strategy": "forward-mode"}),
        (NotImplementedError, {"strategy": "forward-mode", "vectorize": True, "create_graph": True}),
        (RuntimeError, {"strategy": "forward-mode", "vectorize": True, "strict": True}),
        (RuntimeError, {"vectorize": True, "strict": True}),
    ],
)
def test_strategies_that_do_not_go_together(error: type[Exception], options: dict[str, Any]) -> None:
    x = torch.ones(2)
    with pytest.raises(error) as raised:
        jacobian(torch.sin, x, **options)
    assert raised.type is error
    outer = {"outer_jacobian_strategy" if name == "strategy" else name: value for name, value in options.items()}
    with pytest.raises(error):
        hessian(lambda a: a.sin().sum(), x, **outer)


# --- sparse tensors ---------------------------------------------------------------------------------------------------

UNSORTED = ([0, 2, 2], [1, 0], [1.0, 2.0], (2, 2))


def test_invariants_are_checked_where_it_is_asked_for() -> None:
    with pytest.raises(RuntimeError, match="cannot set is_coalesced to true"):
        torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,), is_coalesced=True, check_invariants=True)
    assert torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,), is_coalesced=True)._nnz() == 2
    with pytest.raises(RuntimeError, match="are sorted and distinct"):
        torch.sparse_csr_tensor(*UNSORTED, check_invariants=True)
    assert torch.sparse_csr_tensor(*UNSORTED)._nnz() == 2


def test_invariants_are_checked_inside_a_block() -> None:
    with check_sparse_tensor_invariants():
        assert check_sparse_tensor_invariants.is_enabled()
        with pytest.raises(RuntimeError, match="are sorted and distinct"):
            torch.sparse_csr_tensor(*UNSORTED)
        assert torch.sparse_csr_tensor(*UNSORTED, check_invariants=False)._nnz() == 2
    assert not check_sparse_tensor_invariants.is_enabled()
    assert check_sparse_tensor_invariants()(check_sparse_tensor_invariants.is_enabled)()


@pytest.mark.parametrize(
    ("index", "size", "text"),
    [
        (5, (2,), "size is inconsistent with indices: for dim 0, size is 2 but found index 5"),
        (-1, (2,), "found negative index -1 for dim 0"),
        (0, (2, 2), "len\\(size\\) = 2, sparse_dim = 1, dense_dim = 0"),
    ],
)
def test_places_lie_inside(index: int, size: tuple[int, ...], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        torch.sparse_coo_tensor([[index]], [1.0], size)


def test_entries_of_rows_may_be_dense() -> None:
    made = torch.arange(1.0, 9.0).view(2, 2, 2).to_sparse_csr(dense_dim=1)
    assert made.values().shape == (4, 2)
    assert made.crow_indices().tolist() == [0, 2, 4]
    with pytest.raises(NotImplementedError, match="a tensor by rows is a matrix here"):
        torch.ones(2, 2, 2).to_sparse_csr()
    with pytest.raises(RuntimeError, match="dense_dim argument given is not supported"):
        torch.eye(2).to_sparse().to_sparse_csr(dense_dim=0)


def test_gradients_of_places_that_are_not_held_are_refused() -> None:
    held = torch.eye(2).to_sparse().requires_grad_()
    with pytest.raises(NotImplementedError, match="masked_grad=False asks for those of its zeros too"):
        held.to_dense(masked_grad=False)
    assert torch.eye(2).to_sparse().to_dense(masked_grad=False).sum() == 2


# --- data pipes -------------------------------------------------------------------------------------------------------

DEFAULT, MACHINES, PROCESSES = SHARDING_PRIORITIES


def shared(*calls: Any, only: Any = None) -> list[int]:
    pipe = IterableWrapper(range(12)).sharding_filter(only)
    for call in calls:
        apply_sharding(pipe, *call)
    assert len(pipe) == len(list(pipe))
    return list(pipe)


def test_shares_of_machines_are_shared_among_processes() -> None:
    assert shared((2, 1, MACHINES), (3, 2, PROCESSES)) == [5, 11]
    assert shared((3, 2, PROCESSES), (2, 1, MACHINES)) == [5, 11]
    assert shared((3, 2, MACHINES), (2, 1, MACHINES)) == [1, 3, 5, 7, 9, 11]


def test_a_filter_may_listen_to_one_group() -> None:
    assert shared((2, 1, MACHINES), (3, 2, PROCESSES), only=PROCESSES) == [2, 5, 8, 11]


def test_groups_are_not_mixed_with_the_default() -> None:
    with pytest.raises(RuntimeError, match="cannot mix DEFAULT and non DEFAULT groups"):
        shared((2, 1), (3, 2, MACHINES))


def test_no_sample_is_shared_out_twice() -> None:
    twice = IterableWrapper(range(12)).sharding_filter().map(abs).sharding_filter()
    with pytest.raises(RuntimeError, match="Sharding twice on a single pipeline"):
        apply_sharding(twice, 2, 0)


# --- processes --------------------------------------------------------------------------------------------------------


def fail_or_finish(index: int, go: Any, done: Path) -> None:
    if index == 0:
        raise ValueError("the first fails")
    go.wait()
    done.touch()


@pytest.mark.parametrize("patient", [True, False])
def test_other_processes_may_end_by_themselves(patient: bool, tmp_path: Path) -> None:
    go, done = multiprocessing.get_context("fork").Event(), tmp_path / "done"
    context = start_processes(fail_or_finish, (go, done), 2, join=False, start_method="fork")
    assert context is not None
    context.processes[0].join()
    if patient:
        go.set()
    with pytest.raises(ProcessRaisedException, match="the first fails"):
        context.join(grace_period=60 if patient else 0)
    assert done.exists() == patient
    assert not any(process.is_alive() for process in context.processes)


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_a_scan_knows_its_modes() -> None:
    with pytest.raises(ValueError, match="Combine_mode must either 'pointwise' or 'generic', but got other"):
        associative_scan(torch.add, torch.ones(3), 0, combine_mode="other")
    assert associative_scan(torch.add, torch.ones(3), 0, combine_mode="generic").tolist() == [1, 2, 3]


def test_an_iteration_that_does_not_happen_is_not_tracked() -> None:
    with pytest.raises(NotImplementedError, match="without iterating"):
        torch.lobpcg(torch.diag(torch.arange(1.0, 10)), 1, tracker=print)


def test_contents_may_be_written_by_others() -> None:
    assert torch.ones(2, dtype=torch.double).__repr__(tensor_contents="...") == "tensor(..., dtype=torch.float64)"


def test_memory_is_exported_as_the_consumer_asks() -> None:
    t = torch.ones(2)
    np.from_dlpack(t)[0] = 5  # of a version that says it may be written
    assert t.tolist() == [5, 1]
    np.from_dlpack(t, copy=True)[0] = 7
    assert t.tolist() == [5, 1]
    with pytest.raises(BufferError, match="unsupported device"):
        t.__dlpack__(dl_device=(2, 0))
