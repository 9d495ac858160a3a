"""Tensors on the meta device: results have shapes and dtypes, and cost nothing however large they are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.dispatch.op import OPS

F = nn.functional


def huge(*shape: int, dtype: torch.dtype = torch.float32) -> Any:
    return torch.empty(shape or (100_000, 100_000), dtype=dtype, device="meta")


# A call on tensors of 10^10 elements, and the shape it gives.
CALLS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "add": (lambda: huge() + huge(100_000), (100_000, 100_000)),
    "matmul": (lambda: huge() @ huge(100_000, 7), (100_000, 7)),
    "batch matmul": (lambda: huge(10, 9, 10**6, 100) @ huge(9, 100, 10**6), (10, 9, 10**6, 10**6)),
    "sum": (lambda: huge().sum(0), (100_000,)),
    "argmax": (lambda: huge().argmax(1, keepdim=True), (100_000, 1)),
    "softmax": (lambda: huge().softmax(-1), (100_000, 100_000)),
    "sort": (lambda: huge().sort(0).indices, (100_000, 100_000)),
    "transpose": (lambda: huge(10**5, 10**6).T, (10**6, 10**5)),
    "index": (lambda: huge()[5:, None, ::2], (99_995, 1, 50_000)),
    "gather": (lambda: huge().gather(1, huge(100_000, 3, dtype=torch.int64)), (100_000, 3)),
    "cat": (lambda: torch.cat([huge(), huge()], 1), (100_000, 200_000)),
    "pad": (lambda: F.pad(huge(), (1, 2)), (100_000, 100_003)),
    "conv2d": (lambda: F.conv2d(huge(100, 3, 10_000, 10_000), huge(64, 3, 3, 3), stride=2), (100, 64, 4999, 4999)),
    "max_pool2d": (lambda: F.max_pool2d(huge(100, 3, 10_000, 10_000), 2), (100, 3, 5000, 5000)),
    "interpolate": (lambda: F.interpolate(huge(100, 3, 10_000, 10_000), scale_factor=2), (100, 3, 20_000, 20_000)),
    "embedding": (lambda: F.embedding(huge(10**6, dtype=torch.int64), huge(10**6, 10**4)), (10**6, 10**4)),
    "layer_norm": (lambda: F.layer_norm(huge(), (100_000,)), (100_000, 100_000)),
    "cross_entropy": (lambda: F.cross_entropy(huge(), huge(100_000, dtype=torch.int64)), ()),
    "attention": (lambda: F.scaled_dot_product_attention(*[huge(8, 16, 10**5, 64)] * 3), (8, 16, 10**5, 64)),
    "svd": (lambda: torch.linalg.svd(huge(), full_matrices=False).S, (100_000,)),
    "solve": (lambda: torch.linalg.solve(huge(), huge(100_000, 5)), (100_000, 5)),
    "rfft": (lambda: torch.fft.rfft(huge()), (100_000, 50_001)),
    "cumsum": (lambda: huge().cumsum(0), (100_000, 100_000)),
    "where": (lambda: huge().where(huge() > 0, 0), (100_000, 100_000)),
    "eye": (lambda: torch.eye(100_000, device="meta"), (100_000, 100_000)),
    "arange": (lambda: torch.arange(10**10, device="meta"), (10**10,)),
    "linspace": (lambda: torch.linspace(0, 1, 10**10, device="meta"), (10**10,)),
    "rand": (lambda: torch.rand(100_000, 100_000, device="meta"), (100_000, 100_000)),
    "tril_indices": (lambda: torch.tril_indices(100_000, 100_000, device="meta"), (2, 5_000_050_000)),
    "dropout": (lambda: F.dropout(huge()), (100_000, 100_000)),
    "einsum": (lambda: torch.einsum("ij,kj->ik", huge(), huge()), (100_000, 100_000)),
    "in place": (lambda: huge().mul_(2).clamp_(0), (100_000, 100_000)),
}


@pytest.mark.parametrize("name", CALLS)
def test_large_tensors_cost_nothing(name: str) -> None:
    call, shape = CALLS[name]
    call()  # what is made once for all calls
    tracemalloc.start()
    try:
        result = call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.shape == shape
    assert result.is_meta
    assert peak < 200_000


def test_a_large_network_can_be_run_and_differentiated() -> None:
    net = nn.Sequential(nn.Linear(50_000, 100_000, device="meta"), nn.ReLU(), nn.Linear(100_000, 10, device="meta"))
    loss = net(huge(4096, 50_000)).square().mean()
    loss.backward()
    assert loss.shape == ()
    assert net[0].weight.grad.shape == (100_000, 50_000)
    assert net[0].weight.grad.is_meta


def needs_a_rule(name: str) -> bool:
    """Rows with a kernel of their own that is neither elementwise nor a view, and that take tensors."""
    op = OPS[name]
    return op.kind == "kernel" and op.rule is None and op.kernel is not None and op.takes_tensors


@pytest.mark.parametrize("name", sorted(filter(needs_a_rule, OPS)))
def test_every_row_with_a_kernel_has_a_rule_for_shapes(name: str) -> None:
    assert OPS[name].meta is not None, f"{OPS[name].place}: row {name} has no option meta="


def test_no_row_has_a_rule_that_is_never_asked() -> None:
    assert [name for name, op in OPS.items() if op.meta is not None and not needs_a_rule(name)] == []


def test_a_row_without_a_rule_is_named_with_its_file_and_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPS["mm"], "meta", None)
    with pytest.raises(NotImplementedError, match=r"ops/linalg/products\.py:\d+\) has no option meta="):
        torch.mm(huge(2, 3), huge(3, 4))


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.mm(huge(2, 3), huge(4, 5))
    with pytest.raises(RuntimeError, match="must match the size"):
        huge(2, 3) + huge(4)
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        torch.cat([huge(2, 3), huge(2, 4)])
    with pytest.raises(RuntimeError, match="expected input"):
        F.conv2d(huge(1, 3, 8, 8), huge(4, 2, 3, 3))
    with pytest.raises(IndexError, match="Dimension out of range"):
        huge(2, 3).sum(2)


def test_what_depends_on_values_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="depends on the values"):
        huge(3).nonzero()
    with pytest.raises(RuntimeError, match="cannot be called on meta tensors"):
        huge().item()


def test_a_number_in_memory_beside_one_without() -> None:
    shapeless = torch.ones((), device="meta")
    assert torch.where(shapeless > 0, shapeless, torch.tensor(0.0)).device.type == "meta"
    assert torch.where(shapeless > 0, torch.tensor(0.0), shapeless).device.type == "meta"


def test_new_tensors_without_dimensions_and_on_another_device() -> None:
    x = torch.ones(2, device="meta")
    assert x.new_zeros(()).shape == ()
    assert x.new_full((), 3.0).is_meta
    assert torch.randint_like(x, 4, device="cpu").device.type == "cpu"
    assert torch.randint_like(x, 4, requires_grad=True).requires_grad


def test_values_written_under_a_mask_have_a_gradient() -> None:
    x, values = (torch.ones(5, 5, device="meta", requires_grad=True) for _ in range(2))
    torch.index_put(x, (torch.ones(5, dtype=torch.bool, device="meta"),), values).sum().backward()
    assert values.grad is not None
    assert values.grad.shape == (5, 5)
