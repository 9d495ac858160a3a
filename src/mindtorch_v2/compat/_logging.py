"""torch._logging: the compiler's logs, which stay empty."""

from __future__ import annotations

from typing import Any


def set_logs(**levels: Any) -> None:
    """There is no compiler that could log."""
