"""How the command speaks: data to stdout, talk to stderr, colours on terminals only, errors that name a remedy.

It does not know any command.
"""

from __future__ import annotations

import argparse
import codecs
import io
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import IO

RED, GREEN, YELLOW, BOLD, DIM = "31", "32", "33", "1", "2"
# Exit codes: a gate that fails is not a command that could not run.
OK, FAILED, WRONG_USE, NOTHING_MEASURED, INTERRUPTED = 0, 1, 2, 3, 130
_SILENT_S, _REDRAW_S = 1.0, 0.2
# What steers a terminal or turns text around instead of being shown, and what no encoding has.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# What this command writes beyond ASCII, for terminals that know no more.
_ASCII = {"…": "...", "→": "->", "–": "-", "−": "-", "×": "x", "µ": "u", "·": "-"}
_PLAINER = "mindtorch-plainer"


class UserError(Exception):
    """Something the user can put right: one line that says what came, what is accepted and what to do."""


def add_formats(parser: argparse.ArgumentParser, formats: Iterable[str]) -> None:
    """An option for each format that a command writes; text without one."""
    output = parser.add_mutually_exclusive_group()
    for name in formats:
        if name != "text":
            output.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=f"write {name}")
    parser.set_defaults(format="text")


def visible(text: str) -> str:
    """A name from a file or a program, in one line that no terminal takes for a command."""
    return _STEERING.sub(_escaped, text)


def harmless(text: str) -> str:
    """Lines of data as they are, but for what steers terminals: what goes through a pipe may be shown on one after all."""
    return _STEERING.sub(lambda found: found[0] if found[0] in "\n\t" else _escaped(found), text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _plainer(error: UnicodeError) -> tuple[str | bytes, int]:
    """What to write instead of characters that the output cannot hold."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_ASCII.get(one, one.encode("ascii", "backslashreplace").decode()) for one in lost), error.end


codecs.register_error(_PLAINER, _plainer)


def write_whatever_comes() -> None:
    """Let stdout take every text, whatever its encoding."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_PLAINER)


def width_of_terminal() -> int | None:
    """How many columns stdout has, None if it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def cut(text: str, width: int) -> str:
    """The text, its end given up for a mark if it is too long."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def uses_colour(stream: IO[str]) -> bool:
    """Whether a stream is a terminal whose user has nothing against colours (https://no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and stream.isatty()


def paint(text: str, colour: str, stream: IO[str] | None = None) -> str:
    """The text in a colour where `stream` (stdout) shows colours."""
    return f"\x1b[{colour}m{text}\x1b[0m" if uses_colour(stream or sys.stdout) else text


def say(text: str) -> None:
    """Talk: a line on stderr."""
    sys.stdout.flush()
    print(f"mindtorch: {visible(text)}", file=sys.stderr, flush=True)


class Working:
    """Says what takes long: nothing within the first second, then a line; on a terminal with a running time."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="mindtorch-progress")

    def __enter__(self) -> Working:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        if self._done.wait(_SILENT_S):
            return
        if not sys.stderr.isatty():
            say(f"{self._task} …")
            return
        while not self._done.wait(_REDRAW_S):
            took = time.monotonic() - self._began
            print(f"\rmindtorch: {self._task} … {took:.0f} s\x1b[K", end="", file=sys.stderr, flush=True)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
