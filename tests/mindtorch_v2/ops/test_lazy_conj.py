"""Conjugation as a view: `conj()` shares memory, is conjugated when it is used, and writes through."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

import mindtorch_v2 as torch


def numbers(requires_grad: bool = False) -> torch.Tensor:
    return torch.tensor([1 + 2j, 3 - 4j], requires_grad=requires_grad)


def test_conj_is_a_view_on_the_same_memory() -> None:
    x = numbers()
    y = x.conj()
    assert y.is_conj()
    assert y._base is x
    assert (y.data_ptr(), y.stride(), y.untyped_storage().data_ptr()) == (x.data_ptr(), (1,), x.data_ptr())
    assert y.tolist() == [1 - 2j, 3 + 4j]
    assert repr(y) == "tensor([1.-2.j, 3.+4.j])"


def test_conj_of_conj_is_the_plain_memory_again() -> None:
    x = numbers()
    y = x.conj().conj()
    assert not y.is_conj()
    assert y.tolist() == x.tolist()


def test_conj_of_real_numbers_is_the_tensor_itself() -> None:
    x = torch.ones(2)
    assert x.conj() is x
    assert x.resolve_conj() is x


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t[0],
        lambda t: t.view(2, 1),
        lambda t: t.view(1, 2).t(),
        lambda t: t.split(1)[1],
        lambda t: t.unbind()[0],
        lambda t: t.detach(),
        lambda t: t.data,
        lambda t: t.expand(3, 2),
    ],
)
def test_views_of_a_conjugated_tensor_are_conjugated(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    made = view(numbers().conj())
    assert made.is_conj()
    assert made.tolist() == view(numbers().conj_physical()).tolist()


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t + 1,
        torch.clone,
        torch.abs,
        lambda t: t @ t,
        lambda t: torch.cat([t, t]),
        lambda t: t.to(torch.complex128),
        torch.zeros_like,
        lambda t: t.resolve_conj(),
        lambda t: torch.stack([t, t]),
        copy.deepcopy,
    ],
)
def test_results_of_other_ops_are_computed(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    made = function(numbers().conj())
    assert not made.is_conj()
    assert made.tolist() == function(numbers().conj_physical()).tolist()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda y: y.mul_(1j), [2 - 1j, -4 - 3j]),
        (lambda y: y.add_(torch.ones(2)), [2 + 2j, 4 - 4j]),
        (lambda y: y.__setitem__(0, 5 + 1j), [5 - 1j, 3 - 4j]),
        (lambda y: y.copy_(torch.tensor([1j, 2j])), [-1j, -2j]),
        (lambda y: y.fill_(1 + 1j), [1 - 1j, 1 - 1j]),
        (lambda y: torch.add(numbers(), 1, out=y), [2 - 2j, 4 + 4j]),
        (lambda y: y.imag.add_(1), [1 + 1j, 3 - 5j]),
        (lambda y: y.real.zero_(), [2j, -4j]),
    ],
)
def test_changes_reach_the_base(change: Callable[[torch.Tensor], object], expected: list[complex]) -> None:
    x = numbers()
    change(x.conj())
    assert x.tolist() == expected
    assert x._version == 1


def test_changes_of_the_base_are_seen() -> None:
    x = numbers()
    y = x.conj()
    x[0] = 5 + 1j
    assert y.tolist() == [5 - 1j, 3 + 4j]


def test_the_imaginary_part_is_still_to_be_negated() -> None:
    y = numbers().conj()
    assert y.imag.is_neg()
    assert not y.real.is_neg()
    assert y.imag.tolist() == [-2.0, 4.0]
    assert not y.imag.resolve_neg().is_neg()


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda y: y.numpy(), r"has conjugate bit set. Use tensor.resolve_conj\(\)"),
        (lambda y: y.imag.numpy(), r"has negative bit set. Use tensor.resolve_neg\(\)"),
        (torch.view_as_real, "view_as_real doesn't work on unresolved conjugated tensors"),
    ],
)
def test_bare_memory_is_not_handed_out(use: Callable[[torch.Tensor], object], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        use(numbers().conj())


def test_hermitian_transposes_are_views() -> None:
    x = numbers().view(1, 2)
    assert all(t.is_conj() for t in (x.mH, x.H, x.adjoint()))
    assert not x.mT.is_conj()
    assert x.mH.tolist() == [[1 - 2j], [3 + 4j]]


def test_pickled_it_stays_conjugated() -> None:
    y = pickle.loads(pickle.dumps(numbers().conj()))
    assert y.is_conj()
    assert y.tolist() == [1 - 2j, 3 + 4j]


def test_on_meta_it_is_conjugated_too() -> None:
    y = torch.empty(2, dtype=torch.complex64, device="meta").conj()
    assert y.is_conj()
    assert y.device.type == "meta"


# --- gradients --------------------------------------------------------------------------------------------------------


def test_the_gradient_of_a_squared_length() -> None:
    x = numbers(requires_grad=True)
    (x * x.conj()).real.sum().backward()
    assert x.grad.tolist() == [2 + 4j, 6 - 8j]


@pytest.mark.parametrize("change_base", [False, True])
def test_changes_in_place_keep_gradients_right(change_base: bool) -> None:
    x = numbers(requires_grad=True)
    z = x * 1
    y = z.conj()
    (z if change_base else y).mul_(2j)
    (z * y).real.sum().backward()
    assert x.grad.tolist() == [8 + 16j, 24 - 32j]


def test_a_change_of_the_base_is_noticed_by_backward() -> None:
    x = numbers(requires_grad=True)
    z = x * 1
    product = z.conj() * z.conj()
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.abs().sum().backward()
