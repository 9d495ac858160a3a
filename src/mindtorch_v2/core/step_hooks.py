"""Steps of a program as they happen: optimizers and profilers announce them, whoever marks steps from outside listens.

It does not know what a step does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Each is called with the optimizer or profiler, and whether it has made a step (else it has just been set up).
LISTENERS: list[Callable[[Any, bool], None]] = []


def announce(source: Any, stepped: bool) -> None:
    """Tell listeners that `source` has made a step, or is ready to make steps."""
    for listener in LISTENERS:
        listener(source, stepped)
