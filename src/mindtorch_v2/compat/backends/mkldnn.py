"""torch.backends.mkldnn: oneDNN is not used; its switches are remembered."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ._switch import switched

enabled = True
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    return False


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> AbstractContextManager[None]:
    """Set the switches for a while."""
    values = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32}
    return switched(__name__, values | {"fp32_precision": fp32_precision})
