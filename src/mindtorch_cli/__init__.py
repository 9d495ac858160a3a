"""Where the command `mindtorch` begins: it answers `--help` and `--version` at once, and loads the package for all else."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "mindtorch_v2")


def _commands() -> dict[str, Any]:
    """What `mindtorch_v2.cli.commands` defines, run from its file: importing the package takes far longer."""
    path = os.path.join(_PACKAGE, "cli", "commands.py")
    names: dict[str, Any] = {"__file__": path}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), names)
    return names


def main() -> int:
    """The console script."""
    given = sys.argv[1:]
    if given in (["--version"], ["-V"]):
        sys.stdout.write(_commands()["version_line"](_PACKAGE) + "\n")
        return 0
    if given in ([], ["--help"], ["-h"], ["help"]):
        sys.stdout.write(_commands()["usage"]("mindtorch"))
        return 0
    code: int = importlib.import_module("mindtorch_v2.cli").main()
    return code
