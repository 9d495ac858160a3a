"""The allocator's settings and their switch."""

from __future__ import annotations

import pytest

from mindtorch_v2.core import allocator


def test_the_switch_leaves_the_allocator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDTORCH_MALLOC", "0")
    assert allocator.keep_freed_memory() is False


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator.sys, "platform", "darwin")
    assert allocator.keep_freed_memory() is False
