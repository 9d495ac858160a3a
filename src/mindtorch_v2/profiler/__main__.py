"""`python -m mindtorch_v2.profiler`: the command `mindtorch` without its console script.

A program in place of a command is profiled: `python -m mindtorch_v2.profiler script.py [args…]`.
"""

import sys

from ..cli import main
from ..cli.commands import COMMANDS

_OTHER = (*COMMANDS, "help", "-h", "--help", "-V", "--version")

if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(given if not given or given[0] in _OTHER else ["profile", *given], "python -m mindtorch_v2.profiler"))
