"""What the fuzzed readers share: how a harness is run, on what files it begins, and what counts as a finding.

A reader may end in the error it documents; anything else is a finding, and so are more than `TIMEOUT_S` seconds or
`MEMORY_MB` megabytes for one file. Needs atheris, which `make fuzz` installs.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType

import atheris

TESTS = Path(__file__).resolve().parents[1]
TIMEOUT_S, MEMORY_MB = 10, 2048

sys.path[:0] = [str(TESTS / "mindtorch_v2"), str(TESTS / "attack")]


def watch(*modules: str) -> None:
    """Count what is covered in modules that are already imported, those inside packages included."""
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType):
            name = thing.__module__ or ""
            if any(name == module or name.startswith(f"{module}.") for module in modules):
                atheris.instrument_func(thing)


def corpus(folder: str, files: Iterable[bytes]) -> None:
    """Write the files to begin with."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(files):
        (place / f"seed-{number:03d}").write_bytes(data)


def run(one: Callable[[bytes], None], begin: Callable[[], Iterable[bytes]]) -> None:
    """`harness.py CORPUS [options of libFuzzer]` fuzzes, `harness.py FILE` tries one file again."""
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and not Path(sys.argv[1]).is_file():
        corpus(sys.argv[1], begin())
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
