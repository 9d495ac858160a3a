"""A context manager that sets a module's switches and puts them back."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def switched(module: str, values: dict[str, Any]) -> Iterator[None]:
    """Inside, the module's attributes have these values (None leaves one as it is)."""
    place = vars(sys.modules[module])
    before = {name: place[name] for name in values}
    place.update({name: value for name, value in values.items() if value is not None})
    try:
        yield
    finally:
        place.update(before)
