"""How LinearCrossEntropyLoss may trade memory for time. Here it computes all logits at once, whatever is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Sizes and precisions of chunks; checked, and otherwise without effect on results."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, separator, factor = self.chunking_method.partition(":")
            if name != "aspect_ratio" or (separator and not (factor.isdigit() and int(factor) > 0)):
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")


__all__ = ["LinearCrossEntropyOptions"]
