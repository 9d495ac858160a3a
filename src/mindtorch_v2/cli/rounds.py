"""Runs two programs under the profiler in turns, A, B, A, B, …, so that a machine that gets busier meets both alike."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

from .terminal import UserError, Working, visible

_COMMAND = "mindtorch_v2.profiler"
_SHOWN = 2000


def check(runs: list[str], rounds: int) -> list[list[str]]:
    """The arguments of both runs."""
    if len(runs) != 2:
        raise UserError(
            f"--run is given twice, for A and for B, not {len(runs)} times; it takes what `mindtorch profile` takes"
        )
    if rounds < 2:
        raise UserError(f"--rounds {rounds} cannot tell how much runs differ; take 2 or more, 5 is usual")
    try:
        split = [shlex.split(text) for text in runs]
    except ValueError as error:
        raise UserError(f"cannot read --run: {error}; quote it as a shell does") from error
    if not all(split):
        raise UserError("--run names no program; write --run 'script.py --epochs 1'")
    return split


def run(programs: list[list[str]], rounds: int, folder: str, stacks: bool) -> tuple[list[str], list[str]]:
    """The folders with the profiles of both sides, in order of rounds; with stacks only where they are compared."""
    sides: tuple[list[str], list[str]] = ([], [])
    for number in range(1, rounds + 1):
        for name, program, side in zip("AB", programs, sides):
            place = os.path.join(folder, f"{name}{number}")
            with Working(f"round {number} of {rounds}: {name}"):
                _profile(program, place, stacks)
            side.append(place)
    return sides


def _profile(program: list[str], folder: str, stacks: bool) -> None:
    # What other programs do to the clock is no change of this one; torch's profiler knows no other.
    clock = [] if "--torch" in program or "--clock" in program else ["--clock", "cpu"]
    recorded = [] if stacks else ["--no-stacks"]
    command = [sys.executable, "-m", _COMMAND, "profile", "--no-report", *recorded, *clock, "-o", folder, *program]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode:
        last = visible((done.stderr or done.stdout)[-_SHOWN:].strip())
        raise UserError(f"{shlex.join(program)} ended with code {done.returncode}: {last}")
