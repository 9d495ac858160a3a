"""torch.xpu of a torch built without XPU."""

from __future__ import annotations

from typing import Any

_NOT_COMPILED = "Torch not compiled with XPU enabled"


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def device_count() -> int:
    return 0


def empty_cache() -> None:
    """Nothing is cached."""


def manual_seed(seed: int) -> None:
    int(seed)


def manual_seed_all(seed: int) -> None:
    int(seed)


def get_rng_state_all() -> list[Any]:
    return []


def _needs_xpu(name: str) -> Any:
    def unavailable(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(_NOT_COMPILED)

    unavailable.__name__ = unavailable.__qualname__ = name
    unavailable.__doc__ = "Needs a device, of which there is none."
    return unavailable


_NAMES = """init synchronize current_device set_device get_device_name get_device_properties get_device_capability
    current_stream set_stream mem_get_info memory_allocated max_memory_allocated memory_reserved
    reset_peak_memory_stats""".split()
globals().update({_name: _needs_xpu(_name) for _name in _NAMES})
