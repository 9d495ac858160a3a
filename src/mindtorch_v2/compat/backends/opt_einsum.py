"""torch.backends.opt_einsum: the path of a contraction is NumPy's own choice."""

from __future__ import annotations

enabled = False
strategy: str | None = None


def is_available() -> bool:
    return False
