"""`torch.special`: the special functions under the names they have there."""

from __future__ import annotations

from typing import Any

from ._bind import public_functions


def _functions() -> dict[str, Any]:
    """The operators named `special_…`, and the few that have no row of that name."""
    table = public_functions()
    found = {name.removeprefix("special_"): f for name, f in table.items() if name.startswith("special_")}
    for name in ("softmax", "log_softmax", "logsumexp"):
        if name in table:
            found.setdefault(name, table[name])
    return found


globals().update(_functions())
__all__ = sorted(_functions())
