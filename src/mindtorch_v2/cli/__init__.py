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

from ..version import __version__
from .terminal import INTERRUPTED, OK, WRONG_USE, UserError, visible, write_whatever_comes

# Every command with the first line of its help.
COMMANDS = {
    "run": "Run a torch program with mindtorch_v2 in torch's place.",
    "profile": "Run a torch program under the profiler, without touching its code.",
    "table": "Show where the time went, as a table.",
    "advise": "Say what could be saved: where the program loses time, and what to do about it.",
    "report": "Write a report: one HTML file that opens anywhere, offline.",
    "diff": "Compare runs: what got slower, faster, appeared or went away, beyond noise.",
    "analyze": "Say what limits a run on GPUs and other devices, and who asked for their time.",
    "info": "Say what is in a file.",
    "convert": "Write a trace in another format, chosen by the end of the file's name.",
    "recover": "Get back what a killed program had recorded.",
    "merge": "Put traces of several ranks or workers on one clock, in one file.",
    "top": "Watch a running program: its hottest operators of the last seconds.",
    "attach": "Start or stop profiling a program that is running.",
    "completion": "Print a script that completes `mindtorch` commands in your shell.",
}
# These run the user's program, whose exceptions and exit code are its own.
_RUN_PROGRAMS = ("run", "profile")
_EXAMPLES = """\
examples:
  mindtorch run examples/gpt.py --steps 20
  mindtorch profile --shapes --memory -o before examples/gpt.py
  mindtorch advise before
  mindtorch table before --sort total --limit 20
  mindtorch diff before after --fail-over 10%
"""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, and where help is."""

    def print_help(self, file: Any = None) -> None:
        write_whatever_comes()
        super().print_help(file)

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {visible(message)}; see `{self.prog} --help`\n")


def usage(prog: str) -> str:
    """The help of the command as a whole."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    return (
        f"usage: {prog} COMMAND ...\n\n{(__doc__ or '').splitlines()[0]}\n\ncommands:\n"
        + "\n".join(lines)
        + f"\n\n`{prog} COMMAND --help` explains a command; `{prog} --version` prints the version.\n\n{_EXAMPLES}"
    )


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
        print(f"mindtorch_v2 {__version__}")
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
