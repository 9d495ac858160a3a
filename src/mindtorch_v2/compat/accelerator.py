"""torch.accelerator where there is none."""

from __future__ import annotations

import importlib
from typing import Any

from ..core.device import device


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def current_accelerator(check_available: bool = False) -> device | None:
    return None


def get_device_module(device: Any = None) -> Any:
    """The module of a device's kind: torch.cuda for "cuda", and torch.cpu where none is asked for."""
    kind = "cpu" if device is None else str(device).partition(":")[0]
    try:
        return importlib.import_module(f"{__name__.rpartition('.')[0]}.{kind}")
    except ModuleNotFoundError:
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        ) from None


def _none_available(name: str) -> Any:
    def unavailable(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("Cannot access accelerator device when none is available.")

    unavailable.__name__ = unavailable.__qualname__ = name
    unavailable.__doc__ = "Needs an accelerator."
    return unavailable


_NAMES = """current_device_index current_device_idx set_device_index set_device_idx synchronize current_stream
    set_stream empty_cache memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_stats
    reset_peak_memory_stats reset_accumulated_memory_stats get_memory_info get_device_capability""".split()
globals().update({_name: _none_available(_name) for _name in _NAMES})


class device_index:
    """`with torch.accelerator.device_index(None)` changes nothing; an index needs an accelerator."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            raise RuntimeError("Cannot access accelerator device when none is available.")

    def __exit__(self, *exc: object) -> None:
        pass
