"""Finds the optional compiled modules. They speak with the Python beside them in no fixed language, so one that is older
than its sources, as in a checkout that has moved on, is not used."""

from __future__ import annotations

import glob
import importlib
import os
import warnings
from typing import Any

_COPYING_S = 60.0  # a checkout that is copied whole may get its files in any order


# What `MINDTORCH_PURE` calls one module that is not wanted; with anything else but 0 none is.
_NAMES = {"recorder": "helper", "kernels": "kernels"}
# The folder a module lies in; its sources are in `native` below.
_FOLDERS = {"helper": "core", "kernels": "kernels"}
_PACKAGE = __name__.partition(".")[0]


def _is_wanted(name: str) -> bool:
    without = os.environ.get("MINDTORCH_PURE", "")
    return without in ("", "0") or _NAMES.get(without, name) != name


def compiled(name: str) -> Any:
    """The compiled module `_{name}`; None where it is not built, not wanted (`MINDTORCH_PURE`) or out of date."""
    if not _is_wanted(name):
        return None
    try:
        module = importlib.import_module(f"{_PACKAGE}.{_FOLDERS[name]}._{name}")
    except ImportError:
        return None
    path = str(module.__file__)
    if not _is_older(path, _sources(os.path.dirname(path))):
        return module
    warnings.warn(
        f"{path} is older than its sources and is not used, which is slow: build it again with "
        "`pip install --editable .` in the checkout, or set MINDTORCH_PURE=1 to do without it",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _sources(folder: str) -> list[str]:
    """What a module was built from, in a checkout; beside an installed one sources have the time they were copied at."""
    if not os.path.exists(os.path.join(folder, *[os.pardir] * 3, "pyproject.toml")):
        return []
    return glob.glob(f"{folder}/native/*.[ch]")


def _is_older(path: str, sources: list[str]) -> bool:
    built = os.stat(path).st_mtime
    return any(os.stat(source).st_mtime > built + _COPYING_S for source in sources)
