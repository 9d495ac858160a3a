"""Captures from files for all commands: every format there is, `-` for stdin, errors with a remedy."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from pathlib import Path

from ..profiler.api.load import load
from ..profiler.capture.capture import Capture
from ..profiler.export import FORMATS, write
from ..profiler.program import SPOOL, TRACE, nested_steps
from ..profiler.read import torch_windows
from ..profiler.read.jsonstream import TraceError
from .terminal import UserError, Working, say

STDIN = "-"
_READABLE = "a Chrome trace (.json, .json.gz) of torch or of this package, or a spool (.mtspool)"


def read_capture(path: str) -> Capture:
    """The capture in a file, or on stdin for `-`."""
    if path == STDIN:
        return _read_stdin()
    if os.path.isdir(path):
        if not os.path.exists(os.path.join(path, TRACE)) and torch_windows.files(path):
            return _read_windows(path)
        # Steps in a spool are as they were announced; those in the trace beside it have been settled.
        return nested_steps(read_capture(_inside(path)))
    if not os.path.exists(path):
        raise UserError(f"no such file: {path}; give {_READABLE}")
    return _load(path, path)


def _read_windows(folder: str) -> Capture:
    """What a program on real torch that was killed has left."""
    paths = torch_windows.files(folder)
    say(f"note: {folder} has no {TRACE}, as of a program that was killed; its {len(paths)} whole windows are read")
    with Working(f"reading {folder}"):
        try:
            return nested_steps(torch_windows.read(paths))
        except TraceError as error:
            raise UserError(f"cannot read {folder}: {error}") from error


def _inside(folder: str) -> str:
    """The capture in a folder that `mindtorch profile` wrote; the spool is read fastest and tells most."""
    for name in (SPOOL, TRACE, f"{TRACE}.gz"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    raise UserError(f"neither {SPOOL} nor {TRACE} in the folder {folder}; give {_READABLE}")


def _load(path: str, shown: str) -> Capture:
    with Working(f"reading {shown}"):
        try:
            capture = load(path)
        except (ValueError, KeyError, EOFError, gzip.BadGzipFile) as error:
            reason = str(error).replace("\n", " ").removeprefix(f"{shown}: ") or type(error).__name__
            raise UserError(f"cannot read {shown}: {reason}; give {_READABLE}") from error
    for note in capture.notes:
        if "nothing is missing" not in note:
            say(f"note: {shown}: {note}")
    return capture


def _read_stdin() -> Capture:
    if sys.stdin.isatty():
        raise UserError("nothing to read on stdin; pipe a trace into the command or name a file")
    content = sys.stdin.buffer.read()
    if not content:
        raise UserError(f"stdin is empty; pipe {_READABLE} into the command")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "stdin" + _suffix_of(content))
        Path(path).write_bytes(content)
        return _load(path, "stdin")


def _suffix_of(content: bytes) -> str:
    if content[:2] == b"\x1f\x8b":
        return ".json.gz"
    return ".json" if content.lstrip()[:1] in (b"{", b"[") else ".mtspool"


def write_capture(capture: Capture, path: str) -> None:
    """Write a capture in the format its path asks for."""
    parent = os.path.dirname(path) or "."
    if not os.path.isdir(parent):
        raise UserError(f"no such folder: {parent}; make it first")
    if not any(path.lower().endswith(suffix) for suffix in FORMATS):
        raise UserError(f"cannot tell the format of {path!r} from its name; end it with one of {known_suffixes()}")
    with Working(f"writing {path}"):
        try:
            write(capture, path)
        except ImportError as error:  # of an extra, whose name the error tells
            raise UserError(str(error)) from error


def known_suffixes() -> str:
    return ", ".join(sorted(FORMATS))
