"""`torch.special`: the special functions under the names they have there."""

from __future__ import annotations

from typing import Any

from .binding.public import public_functions


def _functions() -> dict[str, Any]:
    """The operators named `special_…`."""
    table = public_functions()
    return {name.removeprefix("special_"): f for name, f in table.items() if name.startswith("special_")}


globals().update(_functions())
__all__ = sorted(_functions())
