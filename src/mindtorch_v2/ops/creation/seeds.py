"""The default generator of random numbers: its seed and its state."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor, make
from ...kernels import random

random.exchange_states_as(make, lambda t: t._a if isinstance(t, Tensor) else t)
Generator = random.Generator
default_generator = random.default_generator


def manual_seed(seed: Any) -> Any:
    """Seed the default generator."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the operating system."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Put the default generator into a state."""
    default_generator.set_state(new_state)
