"""Calls that nest without end: some levels down they go on in another thread, which has a stack of its own.

A backward that calls backward nests as deep as the program has it; one stack would overflow, or Python's limit be met.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

# How many levels share a thread: each takes a dozen frames of the thousand that Python allows by default, and what users
# call in between has to find room too. And how many there may be in all, where a program never comes to an end.
LEVELS = 32
MOST = 20_000

# What a thread that goes on has to take over from the one that waits for it; context variables it takes over anyway.
_carried: list[threading.local] = []


def carry(local: threading.local) -> threading.local:
    """Have the attributes of a thread-local go along."""
    _carried.append(local)
    return local


def call(level: int, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function at a level of nesting: here, or in a thread of its own."""
    if level > MOST:
        raise RecursionError(
            f"backward passes are nested more than {MOST} deep: a backward function calls backward() again and again. If "
            "that is meant, compute the inner gradients outside of backward"
        )
    return function(*args) if level % LEVELS else _in_a_thread(function, *args)


def _in_a_thread(function: Callable[..., Any], *args: Any) -> Any:
    context = contextvars.copy_context()
    states = [(local, dict(local.__dict__)) for local in _carried]
    results: list[Any] = []
    errors: list[BaseException] = []

    def go_on() -> None:
        for local, state in states:
            local.__dict__.update({k: list(v) if type(v) is list else v for k, v in state.items()})
        try:
            results.append(context.run(function, *args))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=go_on, name="nested backward", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors.pop()
    return results.pop()
