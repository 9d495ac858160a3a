"""What tensors are to the program, told as it happens: leaves that gather gradients, and what modules are called with.

The engine and modules announce, whoever sorts memory listens. It keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

NAMES = ("parameter", "optimizer state", "input", "gradient")
PARAMETER, OPTIMIZER_STATE, INPUT, GRADIENT = range(4)

# Each is called with a role and the tensors that have it from now on; what is no tensor is to be passed over.
LISTENERS: list[Callable[[int, Iterable[Any]], None]] = []


def announce(role: int, tensors: Iterable[Any]) -> None:
    for listener in LISTENERS:
        listener(role, tensors)


def announce_call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A module is called: its own parameters, its arguments, and its buffers, which are given to it as these are."""
    parameters = [parameter for parameter in module._parameters.values() if parameter is not None]
    if parameters:
        announce(PARAMETER, parameters)
        announce(GRADIENT, [parameter.grad for parameter in parameters])
    buffers = module._buffers
    given = (*args, *kwargs.values(), *buffers.values()) if kwargs or buffers else args
    if given:
        announce(INPUT, given)
