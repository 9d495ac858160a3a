"""torch.func: transforms of functions compose, and leave the caller's graph alone where it has no part."""

from __future__ import annotations

from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import func, nn

X = [1.0, 2.0, 3.0]


def x() -> Any:
    return torch.tensor(X)


def test_grad() -> None:
    found = func.grad(lambda v: (v**3).sum())(x())
    assert found.tolist() == [3.0, 12.0, 27.0]
    assert not found.requires_grad


def test_grad_of_grad() -> None:
    assert func.grad(func.grad(lambda v: v**3))(torch.tensor(2.0)).item() == 12.0


def test_grad_by_several_arguments_and_by_a_dictionary() -> None:
    a, b = func.grad(lambda p, q: (p * q).sum(), argnums=(0, 1))(x(), 2 * x())
    assert (a.tolist(), b.tolist()) == ([2.0, 4.0, 6.0], X)
    assert func.grad(lambda d: (d["w"] * d["b"]).sum())({"w": x(), "b": 2 * x()})["w"].tolist() == [2.0, 4.0, 6.0]


def test_grad_and_value_with_extras() -> None:
    gradient, (value, extra) = func.grad_and_value(lambda v: ((v**2).sum(), v + 1), has_aux=True)(x())
    assert (gradient.tolist(), value.item(), extra.tolist()) == ([2.0, 4.0, 6.0], 14.0, [2.0, 3.0, 4.0])
    assert not extra.requires_grad


def test_gradient_joins_the_graph_of_what_else_it_depends_on() -> None:
    w = torch.tensor(X, requires_grad=True)
    gradient = func.grad(lambda v: (w * v**2).sum())(x())
    gradient.sum().backward()
    assert w.grad.tolist() == [2.0, 4.0, 6.0]


def test_inner_gradient_is_differentiated_by_the_outer_argument() -> None:
    found = func.grad(lambda a: (func.grad(lambda b: (b * a).sum())(x()) ** 2).sum())(x())
    assert found.tolist() == [2.0, 4.0, 6.0]


def test_no_grad_outside_keeps_the_gradient_plain() -> None:
    v = torch.tensor(X, requires_grad=True)
    with torch.no_grad():
        found = func.grad(lambda v: (v**2).sum())(v)
    assert found.tolist() == [2.0, 4.0, 6.0]
    assert not found.requires_grad
    assert v.grad is None


def test_vjp() -> None:
    (plain, double), pull = func.vjp(lambda v: (v**2, 2 * v), x())
    assert (plain.tolist(), double.tolist()) == ([1.0, 4.0, 9.0], [2.0, 4.0, 6.0])
    (found,) = pull((torch.ones(3), torch.ones(3)))
    assert found.tolist() == [4.0, 6.0, 8.0]
    (again,) = pull((torch.zeros(3), torch.ones(3)))
    assert again.tolist() == [2.0, 2.0, 2.0]


def test_jvp_and_linearize() -> None:
    value, product = func.jvp(lambda v: v**2, (x(),), (torch.tensor([1.0, 0.0, 2.0]),))
    assert (value.tolist(), product.tolist()) == ([1.0, 4.0, 9.0], [2.0, 0.0, 12.0])
    _, push = func.linearize(lambda v: v**2, x())
    assert push(torch.ones(3)).tolist() == [2.0, 4.0, 6.0]


def test_jvp_of_grad_is_a_product_with_the_hessian() -> None:
    _, product = func.jvp(func.grad(lambda v: (v**3).sum()), (x(),), (torch.ones(3),))
    assert product.tolist() == [6.0, 12.0, 18.0]


@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd])
def test_jacobian(transform: Any) -> None:
    found = transform(lambda v: v[:2] * v[1:])(x())
    assert found.tolist() == [[2.0, 1.0, 0.0], [0.0, 3.0, 2.0]]


def test_jacobian_blocks_by_output_and_argument() -> None:
    found = func.jacrev(lambda a, b: {"s": a.sum(), "p": a * b}, argnums=(0, 1))(x(), 2 * x())
    assert found["s"][0].tolist() == [1.0, 1.0, 1.0]
    assert found["s"][1].tolist() == [0.0, 0.0, 0.0]
    assert found["p"][1].diagonal().tolist() == X


def test_hessian() -> None:
    assert func.hessian(lambda v: v[0] * v[1] ** 2 + v[2])(x()).tolist() == [[0, 4, 0], [4, 2, 0], [0, 0, 0]]


def test_vmap_over_chosen_dimensions() -> None:
    a = torch.arange(6.0).reshape(2, 3)
    found = torch.vmap(lambda p, q: (p + q, {"product": p * q}), in_dims=(1, None), out_dims=1)(a, torch.ones(2))
    assert found[0].tolist() == (a + 1).tolist()
    assert found[1]["product"].tolist() == a.tolist()


def test_vmap_nests() -> None:
    a = torch.arange(6.0).reshape(2, 3)
    assert torch.vmap(torch.vmap(lambda v: v * 2))(a).tolist() == (a * 2).tolist()


def test_vmap_is_differentiable() -> None:
    a = torch.ones(2, 3, requires_grad=True)
    torch.vmap(lambda v: (v**2).sum())(a).sum().backward()
    assert a.grad.tolist() == [[2.0] * 3] * 2


def test_gradients_sample_by_sample() -> None:
    layer = nn.Linear(2, 1)
    parameters = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(parameters: Any, sample: Any) -> Any:
        return func.functional_call(layer, parameters, (sample,)).sum()

    found = torch.vmap(func.grad(loss), in_dims=(None, 0))(parameters, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert found["weight"].tolist() == [[[1.0, 2.0]], [[3.0, 4.0]]]
    assert found["bias"].tolist() == [[1.0], [1.0]]


def test_random_numbers_in_a_batch() -> None:
    a = torch.zeros(3)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        torch.vmap(lambda v: v + torch.rand(()))(a)
    assert len(set(torch.vmap(lambda v: v + torch.rand(()), randomness="same")(a).tolist())) == 1
    assert len(set(torch.vmap(lambda v: v + torch.rand(()), randomness="different")(a).tolist())) == 3


def test_models_of_an_ensemble() -> None:
    models = [nn.Linear(3, 2) for _ in range(4)]
    parameters, buffers = func.stack_module_state(models)
    assert tuple(parameters["weight"].shape) == (4, 2, 3)
    assert parameters["weight"].is_leaf
    assert parameters["weight"].requires_grad
    assert buffers == {}
    found = torch.vmap(lambda p: func.functional_call(models[0], p, (x(),)))(parameters)
    assert torch.allclose(found, torch.stack([m(x()) for m in models]))


def test_functional_call_takes_several_dictionaries() -> None:
    layer = nn.Linear(3, 1)
    found = func.functional_call(layer, ({"weight": torch.ones(1, 3)}, {"bias": torch.zeros(1)}), (x(),))
    assert found.tolist() == [6.0]
    with pytest.raises(ValueError, match="weight appeared in multiple dictionaries"):
        func.functional_call(layer, ({"weight": torch.ones(1, 3)}, {"weight": torch.ones(1, 3)}), (x(),))


def test_batch_norm_without_running_statistics() -> None:
    net = func.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(2)))
    assert net[0].running_mean is None
    assert not net[0].track_running_stats


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: func.grad(lambda v: v)(x()),
            RuntimeError,
            "Expected f.* to return a scalar Tensor, got tensor with 1 dims",
        ),
        (lambda: func.grad(lambda v: 1)(x()), RuntimeError, "to return a Tensor, got <class 'int'>"),
        (lambda: func.grad(torch.sum, argnums=3)(x()), RuntimeError, "Got argnum=3, but only 1 positional inputs"),
        (lambda: func.vjp(lambda v: v, x())[1](torch.ones(2)), RuntimeError, "Mismatch in shape"),
        (lambda: func.jvp(torch.sin, x(), x()), RuntimeError, "Expected primals to be a tuple"),
        (lambda: func.vmap(torch.sin)(3), ValueError, "We cannot vmap over non-Tensor arguments"),
        (lambda: func.vmap(torch.add)(x(), torch.ones(2)), ValueError, "same size in the mapped dimension"),
        (lambda: func.vmap(torch.sin, in_dims=(0, 0))(x()), ValueError, "in_dims is not compatible"),
        (lambda: func.vmap(torch.sin, in_dims=1)(x()), ValueError, "expected in_dim to satisfy -1 <= in_dim < 1"),
        (lambda: func.vmap(lambda v: 3)(x()), ValueError, "must only return Tensors"),
        (lambda: func.stack_module_state([]), RuntimeError, "Expected at least one model, got 0"),
        (lambda: func.stack_module_state([nn.ReLU(), nn.Tanh()]), RuntimeError, "of the same class"),
    ],
)
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
