"""The command `mindtorch`: runs torch programs, profiles them, and shows, compares and converts what was recorded.

One module a command; its docstring is the help. A command is loaded when it is asked for.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import importlib
import os
import sys
from types import ModuleType
from typing import Any, NoReturn

from .commands import COMMANDS, usage, version_line
from .terminal import INTERRUPTED, OK, WRONG_USE, UserError, visible, write_whatever_comes

# These run the user's program, whose exceptions and exit code are its own.
_RUN_PROGRAMS = ("run", "profile")


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, and where help is."""

    def print_help(self, file: Any = None) -> None:
        write_whatever_comes()
        super().print_help(file)

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {visible(message)}; see `{self.prog} --help`\n")


def command(name: str) -> ModuleType:
    """The module of a command."""
    return importlib.import_module(f".{name}", __name__)


def parser_of(name: str, prog: str = "mindtorch") -> Parser:
    """The options of a command, with its module's docstring as help."""
    module = command(name)
    parser = Parser(
        prog=f"{prog} {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_options(parser)
    return parser


def main(arguments: list[str] | None = None, prog: str = "mindtorch") -> int:
    """Run a command line. Codes: 0 well, 1 a gate failed, 2 wrong use, 3 a gate measured nothing; of `run` and
    `profile` the program's own."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given or given[0] not in _RUN_PROGRAMS:
        write_whatever_comes()
    if given in (["--version"], ["-V"]):
        print(version_line())
        return OK
    if given in ([], ["--help"], ["-h"], ["help"]):
        print(usage(prog), end="")
        return OK
    if given[0] == "help":
        given = [*given[1:2], "--help"]
    if given[0] not in COMMANDS:
        return _unknown(given[0], prog)
    if given[0] in _RUN_PROGRAMS:
        return _run_program(given, prog, arguments is None or prog != "mindtorch")
    return _guarded(given, prog)


def _unknown(name: str, prog: str) -> int:
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(COMMANDS)}."
    print(f"{prog}: unknown command {name!r}; {hint} See `{prog} --help`", file=sys.stderr)
    return WRONG_USE


def _run_program(given: list[str], prog: str, is_entry: bool) -> int:
    try:
        options = parser_of(given[0], prog).parse_args(given[1:])
        if is_entry and getattr(options, "torch", False):
            command("real_torch").restart_with_plain_allocator()
        command(given[0]).check(options)
    except UserError as error:
        return _tell(error, prog)
    code: int = command(given[0]).run(options)
    return code


def _guarded(given: list[str], prog: str) -> int:
    """Run a command whose mistakes are told in one line."""
    try:
        code: int = command(given[0]).run(parser_of(given[0], prog).parse_args(given[1:]))
        sys.stdout.flush()
        return code
    except UserError as error:
        return _tell(error, prog)
    except BrokenPipeError:
        # Whoever read has seen enough; what is still buffered must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "free some space or write elsewhere" if full else "check the path and its permissions"
        return _tell(UserError(f"{place}{error.strerror or error}; {remedy}"), prog)
    except KeyboardInterrupt:
        return INTERRUPTED


def _tell(error: UserError, prog: str) -> int:
    print(f"{prog}: {visible(str(error))}", file=sys.stderr)
    return WRONG_USE
