"""Run a torch program with mindtorch_v2 in torch's place.

`import torch` and every `torch.…` module mean this package in the program, in its DataLoader workers and in the
Pythons it starts. Exit code, output and tracebacks are the program's own. While it runs, `mindtorch top` watches it and
`mindtorch attach` profiles it; MINDTORCH_CONTROL=0 in the environment forbids both.

examples:
  mindtorch run train.py --epochs 3
  mindtorch run -m package.train --epochs 3
"""

from __future__ import annotations

import argparse
import os
import sys

from ..launch import launcher
from ..launch.stepping import StepFunction, StepFunctionMissing
from . import wire
from .terminal import WRONG_USE, UserError, say

# Loaded when the program is first asked for something; most never are.
_CONTROL = "mindtorch_v2.profiler.control"


def add_program(parser: argparse.ArgumentParser) -> None:
    """What to run, and all that comes after it: the program's own arguments."""
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="package",
        help="run a module, with the arguments after it",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="script.py [args...]", help="what to run")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [-m] program [args...]"
    add_program(parser)


def check(options: argparse.Namespace) -> None:
    if not program_of(options):
        raise UserError("no program given; write `mindtorch run script.py [args...]` or `mindtorch run -m package`")


def program_of(options: argparse.Namespace) -> list[str]:
    """The program's part of the command line, as the launcher takes it; empty if there is none."""
    if options.module is not None:
        return ["-m", *options.module] if options.module else []
    program: list[str] = options.program
    return program[1:] if program[:1] == ["--"] else program


def launch(program: list[str], *, ours: bool = True, step: StepFunction | None = None) -> None:
    """Run the program as `__main__`. Modules are looked for where the user is, as under `python -m`."""
    if program[0] == "-m" and not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.getcwd()
    try:
        launcher.run(program, ours=ours, step=step)
    except StepFunctionMissing as error:
        say(f"{error}; name another with --step-on")
        raise SystemExit(WRONG_USE) from None


def run(options: argparse.Namespace) -> int:
    with wire.listening(f"{_CONTROL}:answer"):
        try:
            launch(program_of(options))
        finally:
            control = sys.modules.get(_CONTROL)
            if control is not None:
                control.finish()
    return 0
