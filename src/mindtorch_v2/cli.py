"""The command `mindtorch`: `mindtorch run script.py [args…]` runs an unmodified torch program."""

from __future__ import annotations

import sys

from . import _launcher
from .version import __version__

_USAGE = """\
usage: mindtorch run script.py [args...]     run a torch program with mindtorch_v2 in torch's place
       mindtorch run -m package [args...]    the same for a module
       mindtorch --version

example: mindtorch run examples/gpt.py --steps 20
"""


def main(arguments: list[str] | None = None) -> int:
    """Run a command line; the exit code is the program's own, 2 for a command that is not understood."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["run"]:
        _launcher.main(given[1:])
        return 0
    if given in (["--version"], ["-V"]):
        print(f"mindtorch_v2 {__version__}")
        return 0
    if given in ([], ["--help"], ["-h"], ["help"]):
        print(_USAGE, end="")
        return 0
    print(f"mindtorch: unknown command {given[0]!r}; known: run, --version, --help", file=sys.stderr)
    return 2
