"""torch.utils.checkpoint: how far a function is repeated, and what is said if the repetition differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.utils import checkpoint as module
from mindtorch_v2.utils.checkpoint import CheckpointError, checkpoint


def steps(log: list[str]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        x = x.sin()
        log.append("sin")
        x = x.exp()
        log.append("exp")
        return x + 1

    return function


def repeated(**options: Any) -> list[str]:
    """What is run again in backward."""
    log: list[str] = []
    result = checkpoint(steps(log), torch.ones(3, requires_grad=True), use_reentrant=False, **options)
    del log[:]
    result.sum().backward()
    return log


def other_the_second_time(first: Callable[[Any], Any], second: Callable[[Any], Any], **options: Any) -> Any:
    """The gradient where forward does one thing and its repetition another."""
    calls: list[int] = []
    x = torch.ones(3, requires_grad=True)

    def function(a: Any) -> Any:
        calls.append(1)
        return first(a) if len(calls) == 1 else second(a)

    checkpoint(function, x, use_reentrant=False, **options).sum().backward()
    return x.grad


def test_repetition_ends_when_all_is_there() -> None:
    assert repeated() == ["sin"]
    assert repeated(early_stop=False) == ["sin", "exp"]


def test_a_block_decides_for_the_calls_inside() -> None:
    with module.set_checkpoint_early_stop(False):
        assert repeated() == ["sin", "exp"]
    with module.set_checkpoint_early_stop(True):
        assert repeated(early_stop=False) == ["sin"]
    assert repeated(early_stop=False) == ["sin", "exp"]


def test_what_was_found_is_not_kept() -> None:
    log: list[str] = []
    x = torch.ones(3, requires_grad=True)
    result = checkpoint(steps(log), x, use_reentrant=False).sum()
    result.backward(retain_graph=True)
    once = x.grad.clone()
    result.backward()
    assert log == ["sin", "exp", "sin", "sin"]
    assert torch.equal(x.grad, once * 2)


def test_tensors_that_are_missing_or_too_many() -> None:
    with pytest.raises(CheckpointError, match=r"(?s)different number of tensors.*forward: 2\n.*recomputation: 1\."):
        other_the_second_time(lambda a: a.sin().exp(), torch.sin)
    with pytest.raises(CheckpointError, match="trying to save more tensors during recomputation"):
        other_the_second_time(torch.sin, lambda a: a.sin().exp(), early_stop=False)
    assert torch.equal(other_the_second_time(torch.sin, lambda a: a.sin().exp()), torch.ones(3).cos())


def test_shapes_and_dtypes_are_compared() -> None:
    with pytest.raises(CheckpointError, match=r"(?s)different metadata.*position 0:.*Size\(\[3\]\).*Size\(\[1, 3\]\)"):
        other_the_second_time(torch.sin, lambda a: a[None].sin())
    with pytest.raises(CheckpointError, match=r"(?s)different metadata.*torch.float32.*torch.float64"):
        other_the_second_time(torch.sin, lambda a: a.double().sin())
    grad = other_the_second_time(torch.sin, lambda a: a.double().sin(), determinism_check="none")
    assert grad.tolist() == pytest.approx([0.5403023] * 3)
    with pytest.raises(ValueError, match=r"determinism_check should be one of \['default', 'none'\], but got x"):
        checkpoint(torch.sin, torch.ones(1), use_reentrant=False, determinism_check="x")


def test_debug_shows_where_tensors_were_saved() -> None:
    def fewer(**options: Any) -> str:
        with pytest.raises(CheckpointError) as raised:
            other_the_second_time(lambda a: a.sin().exp(), torch.sin, **options)
        return str(raised.value)

    assert "test_checkpoint.py" not in fewer()
    assert fewer(debug=True).count("  torch.float32 [3]\n") == 3
    with module.set_checkpoint_debug_enabled(True):
        assert "test_checkpoint.py" in fewer()
    with module.set_checkpoint_debug_enabled(False):
        assert "test_checkpoint.py" not in fewer(debug=True)


def test_options_that_do_not_go_together() -> None:
    x = torch.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(torch.sin, x, use_reentrant=True, debug=True)
    with pytest.raises(ValueError, match="debug=True is incompatible with non-default context_fn"):
        checkpoint(torch.sin, x, use_reentrant=False, debug=True, context_fn=lambda: module.noop_context_fn())
