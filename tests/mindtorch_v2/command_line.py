"""Runs the installed command, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).with_name("mindtorch")


def environment(**more: str) -> dict[str, str]:
    """One BLAS thread, so that tests that run side by side do not wait for each other."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", **more}


def mindtorch(
    *arguments: str | Path, cwd: Path | None = None, stdin: bytes | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    assert COMMAND.exists(), f"{COMMAND} is missing: install the package (make test does)"
    done = subprocess.run(
        [str(COMMAND), *map(str, arguments)],
        capture_output=True,
        check=False,
        timeout=300,
        cwd=cwd,
        input=stdin,
        env=environment(**more),
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def started(*arguments: str | Path, cwd: Path | None = None, **more: str) -> subprocess.Popen[str]:
    """The command with pipes to all its streams, still running."""
    return subprocess.Popen(
        [str(COMMAND), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment(**more),
    )
