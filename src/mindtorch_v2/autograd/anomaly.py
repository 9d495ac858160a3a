"""Anomaly mode: backward errors that tell where forward ran, and a check for NaN gradients."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np


class _State:
    enabled = False
    check_nan = True
    # Told when the mode changes; generated code must then hand over the nodes it makes.
    listener: Callable[[], None] = staticmethod(lambda: None)


def _set(enabled: bool, check_nan: bool) -> None:
    _State.enabled, _State.check_nan = enabled, check_nan
    _State.listener()


def tell_changes_to(listener: Callable[[], None]) -> None:
    _State.listener = staticmethod(listener)


def is_enabled() -> bool:
    return _State.enabled


def is_check_nan_enabled() -> bool:
    return _State.check_nan


class set_detect_anomaly:
    """Switches anomaly detection at once; as a context manager it is restored at the end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (_State.enabled, _State.check_nan)
        _set(bool(mode), check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _set(*self._before)


class detect_anomaly(set_detect_anomaly):
    """Anomaly detection inside a `with` block."""

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(_State.enabled)
        self._wanted = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._before = (_State.enabled, _State.check_nan)
        _set(True, self._wanted)


def remember(node: Any) -> None:
    """Keep where the forward of this node ran."""
    node._hooks().trace = traceback.format_stack()[:-2]


def run(node: Any, grads: tuple[Any, ...], edges: tuple[Any, ...]) -> tuple[Any, ...]:
    """Run a node; on an error or a NaN, warn with the forward's stack."""
    try:
        results: tuple[Any, ...] = node.run(grads, edges)
    except Exception:
        _tell(node)
        raise
    if _State.check_nan:
        for position, gradient in enumerate(results):
            if gradient is not None and gradient._a.dtype.kind in "fc" and np.isnan(gradient._a).any():
                _tell(node)
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {position}th output.")
    return results


def _tell(node: Any) -> None:
    trace = None if node.hooks is None else node.hooks.trace
    if trace is None:
        warnings.warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information.",
            stacklevel=4,
        )
    else:
        warnings.warn(
            f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{''.join(trace)}",
            stacklevel=4,
        )
