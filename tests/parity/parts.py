"""Parts of the package under measurement, whether they are built yet or not."""

import functools
import importlib
import sys
from types import ModuleType


@functools.cache
def part(name: str) -> ModuleType:
    """Return the module of that name, or an empty one where it cannot be imported; says so once, on stderr."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        print(f"cannot import {name}: {type(error).__name__}: {error}", file=sys.stderr)
        return ModuleType(name)
