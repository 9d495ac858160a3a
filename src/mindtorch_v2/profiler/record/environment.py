"""What was timed, and where: the implementation of torch, versions, the machine, its threads. Every recording carries it,
since times of two recordings that differ in it cannot be compared."""

from __future__ import annotations

import json
import platform
import sys
import time
from typing import Any

import numpy as np

from ...core import machine, tap

# The key that traces and spools have it under.
METADATA = "environment"
OURS = "mindtorch_v2"
UNKNOWN = "unknown: the file does not say"


def environment(implementation: str = "", threads: int = 0, devices: list[str] | None = None) -> dict[str, Any]:
    """Of this process; of this package's implementation unless another is named."""
    return {
        "implementation": implementation or f"{OURS} on NumPy {np.__version__}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "processor": machine.processor_name(),
        "processors": machine.processors(),
        "threads": threads or machine.THREADS[0],
        "devices": devices or ["cpu"],
        "clock": "CPU time of the process" if tap.NAMESPACE["clock"] is time.process_time_ns else "wall",
    }


def environment_text() -> str:
    return json.dumps(environment())


def stated(metadata: dict[str, Any]) -> dict[str, Any]:
    """What a recording says of where it was made; empty if it says nothing."""
    said = metadata.get(METADATA)
    return said if isinstance(said, dict) else {}


def implementation_of(metadata: dict[str, Any], live: bool = False) -> str:
    """Which torch was timed, in words; `live` for a recording of this process."""
    said = stated(metadata).get("implementation")
    if isinstance(said, str):
        return said
    return str(environment()["implementation"]) if live else UNKNOWN


def installed_torch() -> str:
    """The version of the torch that is loaded in this process and is not this package under torch's name, else ''."""
    module = sys.modules.get("torch")
    version = getattr(module, "__version__", "")
    has_core = getattr(sys.modules.get("torch._C"), "_autograd", None) is not None
    return str(version) if has_core and module is not sys.modules.get(OURS) else ""
