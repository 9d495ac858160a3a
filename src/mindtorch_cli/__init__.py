"""Where the command `mindtorch` begins: it answers `--version` at once, and loads the package for everything else."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def version() -> str:
    """The package's version, read from its file: importing the package takes far longer."""
    path = Path(__file__).parent.parent / "mindtorch_v2" / "version.py"
    names: dict[str, str] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    return names["__version__"]


def main() -> int:
    """The console script."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        sys.stdout.write(f"mindtorch_v2 {version()}\n")
        return 0
    code: int = importlib.import_module("mindtorch_v2.cli").main()
    return code
