"""Every kind of operator through every axis: plain, with grad, recorded, Parameter, subclass, meta, in place, out=,
two threads. Rows join by a line in `op_samples`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.core import tap
from mindtorch_v2.core.tensor import Parameter, Tensor
from mindtorch_v2.dispatch.op import OPS
from op_samples import NO_META, SAMPLES

NAMES = sorted(name for name in SAMPLES if name in OPS)


class ListRecorder(tap.Recorder):
    """Keeps what the tap hands it."""

    def __init__(self, flags: int) -> None:
        self.flags = flags
        self.lane = tap.Lane(0)

    def lane_for_thread(self) -> tap.Lane:
        return self.lane

    def stack(self) -> int:
        return 1

    def stack_of_op(self, lane: Any, caller: FrameType, is_traced: bool) -> int:
        return 1

    def allocated(self, nbytes: int, address: int) -> None:
        """Memory is counted elsewhere."""

    def names(self) -> list[str]:
        rows, _ = self.lane.take()
        flat = np.frombuffer(rows, np.int64) if isinstance(rows, bytes) else rows
        return [tap.EVENTS[event].name for event in flat[2 :: tap.ROW_WIDTH]]


@pytest.fixture
def record() -> Iterator[Callable[[int], ListRecorder]]:
    before = getattr(tap.LANES, "lane", None)

    def start(flags: int) -> ListRecorder:
        recorder = ListRecorder(flags)
        tap.settle(recorder.lane)
        tap.install(recorder)
        return recorder

    yield start
    tap.install(None)
    tap.settle(before)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        return type(value)(mapped(v, change) for v in value)
    return value


def run(name: str, change: Callable[[Any], Any] = lambda t: t) -> tuple[list[Any], list[Any]]:
    """The call of a sample with its tensors changed: (tensors given, results)."""
    args, kwargs = SAMPLES[name]()
    given: list[Any] = []

    def keep(t: Any) -> Any:
        made = change(t)
        given.append(made)
        return made

    result = OPS[name].function(*[mapped(a, keep) for a in args], **{k: mapped(v, keep) for k, v in kwargs.items()})
    return given, list(result) if isinstance(result, (tuple, list)) else [result]


def arrays(results: list[Any]) -> list[np.ndarray[Any, Any]]:
    return [r.detach().numpy() for r in results]


def differentiable(t: Any) -> Any:
    return t.requires_grad_() if t.is_floating_point() else t


def gradients(given: list[Any], results: list[Any]) -> list[Any]:
    total = sum((r * r).sum() for r in results if r.requires_grad)
    total.backward()
    return [t.grad.numpy() for t in given if t.requires_grad]


@pytest.mark.parametrize("name", NAMES)
def test_grad_changes_no_value(name: str) -> None:
    _, plain = run(name)
    _, tracked = run(name, differentiable)
    for a, b in zip(arrays(plain), arrays(tracked), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("flags", [0, tap.SHAPES | tap.MEMORY | tap.STACKS])
@pytest.mark.parametrize("name", NAMES)
def test_twin_agrees_and_records(name: str, flags: int, record: Callable[[int], ListRecorder]) -> None:
    given, plain = run(name, differentiable)
    grads = gradients(given, plain) if any(r.requires_grad for r in plain) else []
    recorder = record(flags)
    given_again, recorded = run(name, differentiable)
    names = recorder.names()
    grads_again = gradients(given_again, recorded) if grads else []
    assert names[-1] == f"aten::{OPS[name].schema.name}"
    for a, b in zip(arrays(plain) + grads, arrays(recorded) + grads_again, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_give_plain_tensors(name: str) -> None:
    def parameter(t: Any) -> Any:
        return torch.nn.Parameter(t) if t.is_floating_point() else t

    given, results = run(name, parameter)
    _, plain = run(name)
    assert all(type(r) is Tensor for r in results)
    assert any(type(g) is Parameter for g in given) or not any(g.is_floating_point() for g in given)
    for a, b in zip(arrays(plain), arrays(results), strict=True):
        np.testing.assert_array_equal(a, b)


class Tagged(Tensor):
    """A subclass without any behaviour of its own."""


@pytest.mark.parametrize("name", NAMES)
def test_subclasses_stay(name: str) -> None:
    _, results = run(name, lambda t: t.as_subclass(Tagged))
    _, plain = run(name)
    assert all(type(r) is Tagged for r in results)
    for a, b in zip(plain, results, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.as_subclass(Tensor).numpy())


@pytest.mark.parametrize("name", [n for n in NAMES if n not in NO_META])
def test_meta_has_the_same_shape_and_dtype(name: str) -> None:
    _, plain = run(name)
    _, empty = run(name, lambda t: t.to("meta"))
    assert [(r.shape, r.dtype) for r in empty] == [(r.shape, r.dtype) for r in plain]
    assert all(r.device.type == "meta" for r in empty)


@pytest.mark.parametrize("name", [n for n in NAMES if OPS[n].has_out])
def test_out_is_filled_and_returned(name: str) -> None:
    _, plain = run(name)
    outs = [torch.empty(r.shape, dtype=r.dtype) for r in plain]
    args, kwargs = SAMPLES[name]()
    result = OPS[name].function(*args, **kwargs, out=outs[0] if len(outs) == 1 else tuple(outs))
    first = result if isinstance(result, Tensor) else result[0]
    assert first is outs[0]
    for a, b in zip(plain, outs, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


IN_PLACE = [n for n in NAMES if n.partition(".")[0] + "_" + "".join(n.partition(".")[1:]) in OPS]


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_agrees_and_counts_a_version(name: str) -> None:
    base, dot, overload = name.partition(".")
    _, plain = run(name)
    if plain[0].dtype is not SAMPLES[name]()[0][0].dtype:
        pytest.skip("the result has another dtype")
    args, kwargs = SAMPLES[name]()
    target = args[0].clone()
    result = OPS[f"{base}_{dot}{overload}"].function(target, *args[1:], **kwargs)
    assert result is target
    assert target._version == 1
    np.testing.assert_array_equal(target.numpy(), plain[0].numpy())


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_on_a_view_reaches_the_base(name: str) -> None:
    """`v = (x * 1)[...]; v.op_()` must give the gradient of `op` to the part of x that v looks at."""
    base, dot, overload = name.partition(".")
    if not OPS[name].differentiable or not SAMPLES[name]()[0][0].is_floating_point():
        pytest.skip("not differentiable")
    args, kwargs = SAMPLES[name]()
    x = torch.stack([args[0], args[0]]).requires_grad_()
    whole = x * 1
    OPS[f"{base}_{dot}{overload}"].function(whole[1], *args[1:], **kwargs)
    whole.sum().backward()
    y = args[0].clone().requires_grad_()
    OPS[name].function(y, *args[1:], **kwargs).sum().backward()
    np.testing.assert_array_equal(x.grad[0].numpy(), np.ones(args[0].shape, np.float32))
    np.testing.assert_allclose(x.grad[1].numpy(), y.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_two_threads_do_not_disturb_each_other(name: str) -> None:
    _, plain = run(name)
    found: list[list[Any]] = []

    def work() -> None:
        for _ in range(5):
            given, results = run(name, differentiable)
            if any(r.requires_grad for r in results):
                gradients(given, results)
        found.append(arrays(results))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 2
    for results in found:
        for a, b in zip(arrays(plain), results, strict=True):
            np.testing.assert_array_equal(a, b)
