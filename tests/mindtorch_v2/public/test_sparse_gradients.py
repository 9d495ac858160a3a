"""Sparse gradients: of embeddings, bags and gather, through the engine and into optimizers."""

from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn
from mindtorch_v2.profiler import profile

INDICES = torch.tensor([[1, 2], [1, 4]])


def table(sparse: bool, **options: Any) -> nn.Embedding:
    torch.manual_seed(0)
    return nn.Embedding(5, 3, sparse=sparse, **options)


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"max_norm": 0.5}])
def test_an_embeddings_gradient_names_the_rows_it_has(options: dict[str, Any]) -> None:
    scale = torch.arange(12.0).view(2, 2, 3)
    sparse, dense = table(True, **options), table(False, **options)
    for each in (sparse, dense):
        (each(INDICES) * scale).sum().backward()
    gradient = sparse.weight.grad
    assert gradient.is_sparse
    assert not gradient.is_coalesced()
    assert gradient._indices().tolist() == ([[1, 1, 4]] if "padding_idx" in options else [[1, 2, 1, 4]])
    assert torch.equal(gradient.to_dense(), dense.weight.grad)


@pytest.mark.parametrize(("mode", "weighted"), [("sum", False), ("sum", True), ("mean", False)])
def test_a_bags_gradient_is_sparse(mode: str, weighted: bool) -> None:
    grads = []
    for sparse in (True, False):
        torch.manual_seed(0)
        bag = nn.EmbeddingBag(5, 3, mode=mode, sparse=sparse, padding_idx=2)
        weights = torch.tensor([1.0, 2, 3, 4], requires_grad=True) if weighted else None
        out = bag(torch.tensor([1, 2, 1, 4]), torch.tensor([0, 2]), per_sample_weights=weights)
        (out * torch.arange(6.0).view(2, 3)).sum().backward()
        grads.append((bag.weight.grad, None if weights is None else weights.grad))
    (sparse_grad, by_weights), (dense_grad, dense_by_weights) = grads
    assert sparse_grad.is_sparse
    assert torch.equal(sparse_grad.to_dense(), dense_grad)
    assert not weighted or torch.equal(by_weights, dense_by_weights)


def test_gather_gives_a_sparse_gradient_where_asked() -> None:
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    x.gather(1, torch.tensor([[0, 0], [1, 2]]), sparse_grad=True).sum().backward()
    assert x.grad.is_sparse
    assert x.grad.to_dense().tolist() == [[2, 0, 0], [0, 1, 1]]


def test_sparse_gradients_of_one_pass_add_up_sparse() -> None:
    e = table(True)
    (e(torch.tensor([1, 2])).sum() + e(torch.tensor([3])).sum()).backward()
    assert e.weight.grad.is_sparse
    assert e.weight.grad.to_dense()[:, 0].tolist() == [0, 1, 1, 1, 0]


@pytest.mark.parametrize("order", ["one pass", "dense first", "sparse first"])
def test_a_sparse_and_a_dense_gradient_make_a_dense_one(order: str) -> None:
    e = table(True)
    steps = [e(torch.tensor([1, 2])).sum(), e.weight.sum()]
    if order == "one pass":
        (steps[0] + steps[1]).backward()
    else:
        for step in steps if order == "sparse first" else reversed(steps):
            step.backward()
    assert not e.weight.grad.is_sparse
    assert e.weight.grad[:, 0].tolist() == [1, 2, 2, 1, 1]


def test_hooks_and_grad_see_a_sparse_gradient() -> None:
    weight, seen = torch.ones(5, 3, requires_grad=True), []
    weight.register_hook(lambda g: seen.append(g.is_sparse) or g * 2)
    nn.functional.embedding(torch.tensor([1, 2]), weight, sparse=True).sum().backward()
    assert seen == [True]
    assert weight.grad.to_dense()[:, 0].tolist() == [0, 2, 2, 0, 0]
    (found,) = torch.autograd.grad(nn.functional.embedding(torch.tensor([1]), weight, sparse=True).sum(), weight)
    assert found.is_sparse


def test_what_sparse_gradients_cannot_be_is_said() -> None:
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        table(True, scale_grad_by_freq=True)(INDICES).sum().backward()


def trained(kind: Any, sparse: bool, **options: Any) -> tuple[list[float], Any]:
    e = table(sparse)
    optimizer = kind(e.parameters(), lr=0.1, **options)
    for _ in range(3):
        optimizer.zero_grad()
        (e(torch.tensor([1, 2, 1])) ** 2).sum().backward()
        optimizer.step()
    return e.weight.detach().flatten().tolist(), optimizer


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.SGD, {}),
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "maximize": True}),
        (torch.optim.SGD, {"momentum": 0.9, "foreach": True}),
        (torch.optim.Adagrad, {"lr_decay": 0.1}),
        (torch.optim.Adagrad, {"foreach": True, "maximize": True}),
    ],
)
def test_optimizers_move_by_sparse_gradients_as_by_dense_ones(kind: Any, options: dict[str, Any]) -> None:
    sparse, _ = trained(kind, True, **options)
    dense, _ = trained(kind, False, **options)
    assert sparse == pytest.approx(dense, rel=1e-6)


@pytest.mark.parametrize("maximize", [False, True])
def test_sparse_adam_moves_the_rows_it_sees_as_adam_does(maximize: bool) -> None:
    """Rows that never have a gradient rest under both; the others have one in each step here."""
    sparse, optimizer = trained(torch.optim.SparseAdam, True, maximize=maximize)
    dense, _ = trained(torch.optim.Adam, False, maximize=maximize)
    assert sparse == pytest.approx(dense, rel=1e-5)
    assert next(iter(optimizer.state.values()))["step"] == 3


def test_momentum_does_not_grow_with_steps() -> None:
    e = table(True)
    optimizer = torch.optim.SGD(e.parameters(), lr=0.1, momentum=0.9)
    for step in range(20):
        optimizer.zero_grad()
        (e(torch.tensor([step % 5, (step * 3) % 5])) ** 2).sum().backward()
        optimizer.step()
    assert optimizer.state[e.weight]["momentum_buffer"]._nnz() <= 7


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Adam", "Adam does not support sparse gradients, please consider SparseAdam instead"),
        ("AdamW", "Adam does not support sparse gradients, please consider SparseAdam instead"),
        *((name, f"{name} does not support sparse gradients")
          for name in "Adadelta Adamax ASGD NAdam RAdam RMSprop Rprop Adafactor".split()),
    ],
)  # fmt: skip
def test_other_optimizers_say_that_they_do_not_take_them(kind: str, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        trained(getattr(torch.optim, kind), True)


def test_sparse_adam_takes_sparse_gradients_of_dense_parameters_only() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SparseAdam([weight])
    weight.sum().backward()
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        optimizer.step()
    with pytest.raises(ValueError, match=r"Sparse params at indices \[\[0, 0\]\]"):
        torch.optim.SparseAdam([torch.ones(2, 2).to_sparse().requires_grad_()])
    with pytest.raises(ValueError, match="Invalid beta parameter at index 0"):
        torch.optim.SparseAdam([weight], betas=(1, 0.5))


def test_zero_grad_and_scalers_know_sparse_gradients() -> None:
    e = table(True)
    scaler, optimizer = torch.amp.GradScaler("cpu", init_scale=8.0), torch.optim.SGD(e.parameters(), lr=1.0)
    scaler.scale(e(INDICES).sum()).backward()
    scaler.unscale_(optimizer)
    assert e.weight.grad.to_dense()[:, 0].tolist() == [0, 2, 1, 0, 1]
    optimizer.zero_grad(set_to_none=False)
    assert e.weight.grad.is_sparse
    assert e.weight.grad._nnz() == 0


@pytest.mark.parametrize("options", [{}, {"record_shapes": True, "profile_memory": True, "with_stack": True}])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.SparseAdam, torch.optim.Adagrad])
def test_recording_changes_nothing(kind: Any, options: dict[str, Any]) -> None:
    plain, _ = trained(kind, True)
    with profile(**options) as prof:
        recorded, _ = trained(kind, True)
    assert recorded == plain
    assert "aten::embedding_backward" in {event.key for event in prof.key_averages()}
