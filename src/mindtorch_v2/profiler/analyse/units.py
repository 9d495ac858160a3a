"""How times, shares, bytes and FLOPs are written. It knows numbers only."""

from __future__ import annotations

import math

US_IN_SECOND = 1_000_000.0
US_IN_MS = 1_000.0
_FLOPS_UNITS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


def format_time(time_us: float) -> str:
    """A time in the unit that suits its size."""
    if time_us >= US_IN_SECOND:
        return f"{time_us / US_IN_SECOND:.3f}s"
    if time_us >= US_IN_MS:
        return f"{time_us / US_IN_MS:.3f}ms"
    return f"{time_us:.3f}us"


def format_time_in(time_us: float, unit: str | None) -> str:
    """A time in the unit asked for; any other unit than s, ms and us leaves the choice to its size."""
    if unit == "s":
        return f"{time_us / US_IN_SECOND:.3f}s"
    if unit == "ms":
        return f"{time_us / US_IN_MS:.3f}ms"
    if unit == "us":
        return f"{time_us:.3f}us"
    return format_time(time_us)


def format_time_share(time_us: float, total_time_us: float) -> str:
    """What part of the total a time is; NaN where there is no total."""
    if total_time_us == 0:
        if time_us != 0:
            raise AssertionError(f"Expected time_us == 0 but got {time_us}")
        return "NaN"
    return f"{time_us * 100.0 / total_time_us:.2f}%"


def format_memory(nbytes: int) -> str:
    """A number of bytes in B, KB, MB or GB (1024 each)."""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        size = 1024**power
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def flops_scale(flops: float) -> tuple[float, str]:
    """The factor and the unit in which a positive FLOP count reads best."""
    if flops <= 0:
        raise AssertionError(f"Expected flops to be positive, but got {flops}")
    thousands = max(0.0, min(math.log10(flops) / 3, len(_FLOPS_UNITS) - 1.0))
    return pow(10, math.floor(thousands) * -3.0), _FLOPS_UNITS[int(thousands)]
