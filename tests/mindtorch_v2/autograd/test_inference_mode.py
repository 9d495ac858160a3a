"""Tensors made in inference mode: what they are, and what may not be done with them outside."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F


def made_in_inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(2),
        lambda: torch.tensor([1.0]),
        lambda: torch.arange(3),
        lambda: torch.ones(2) + 1,
        lambda: torch.ones(2).max(0)[0],
        lambda: torch.ones(2).exp(),
        lambda: torch.ones(4).split(2)[0],
        lambda: torch.ones(2, 2) @ torch.ones(2, 2),
        lambda: torch.sort(torch.ones(3))[1],
        lambda: torch.cat([torch.ones(2)]),
        lambda: F.linear(torch.ones(2), torch.ones(2, 2)),
        lambda: torch.ones(2)[None],
    ],
)
def test_what_is_made_in_inference_mode_stays_marked(make: Callable[[], torch.Tensor]) -> None:
    with torch.inference_mode():
        made = make()
    assert made.is_inference()
    assert not make().is_inference()


def test_views_are_marked_and_copies_are_not() -> None:
    y = made_in_inference()
    assert all(t.is_inference() for t in (y.view(3), y[0], y.t(), y.detach(), y.chunk(3)[0]))
    assert not any(t.is_inference() for t in (y.clone(), y * 2))
    assert torch.is_inference(y)


def test_tensors_from_outside_are_not_marked() -> None:
    x = torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        x.mul_(2)
        view = x.view(3)
    assert not x.is_inference()
    assert not view.is_inference()


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda y: y.add_(1), "Inplace update to inference tensor outside InferenceMode"),
        (lambda y: y.__setitem__(0, 1.0), "Inplace update to inference tensor outside InferenceMode"),
        (lambda y: y.view(3).zero_(), "Inplace update to inference tensor outside InferenceMode"),
        (lambda y: torch.ones(3, requires_grad=True) * y, "Inference tensors cannot be saved for backward"),
        (lambda y: y.requires_grad_(), "Setting requires_grad=True on inference tensor outside InferenceMode"),
        (lambda y: y._version, "Inference tensors do not track version counter"),
    ],
)
def test_outside_it_takes_no_part_in_autograd(use: Callable[[torch.Tensor], object], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        use(made_in_inference())


def test_what_needs_no_saving_is_fine() -> None:
    x, y = torch.ones(3, requires_grad=True), made_in_inference()
    (x + y).sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_inside_it_may_be_changed() -> None:
    with torch.inference_mode():
        y = torch.ones(3)
        y.add_(1)
        y[0] = 5
        torch.add(y, y, out=y)
    assert y.tolist() == [10.0, 4.0, 4.0]


def test_the_mode_can_be_left_inside() -> None:
    with torch.inference_mode(), torch.inference_mode(False):
        assert not torch.ones(3).is_inference()


def test_other_threads_are_not_in_the_mode() -> None:
    found: list[bool] = []
    with torch.inference_mode():
        thread = threading.Thread(target=lambda: found.append((torch.ones(2) + 1).is_inference()))
        thread.start()
        thread.join()
    assert found == [False]
