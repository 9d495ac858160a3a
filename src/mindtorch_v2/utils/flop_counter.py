"""torch.utils.flop_counter, which counts the operations that torch dispatches to; it is here to point to the profiler."""

from __future__ import annotations

from typing import Any


class FlopCounterMode:
    """Floating point operations by module; not provided."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "torch.utils.flop_counter.FlopCounterMode is not provided by mindtorch_v2; torch.profiler.profile("
            "with_flops=True) counts the operations of each event as all_flops, and as torch's profiler does as flops"
        )


__all__ = ["FlopCounterMode"]
