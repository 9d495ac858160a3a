"""Kills programs that record, in more than twenty-five ways, and looks at what is left of their recordings.

`python kills.py --seed N --seconds S` goes on for so many seconds, with `--only WAY` in one way only. What it
asks for: one call recovers all that was known to be in the spool; regions nest, and none ends before what is in it; every
worker is on a track or in a note; the first note is true; nothing crashes, and nothing takes twenty seconds.
"""

import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import mindtorch_v2 as torch
from children import PATIENCE_S, Failure, forked, outcome, waited
from mindtorch_v2.profiler import load, profile, recover
from mindtorch_v2.profiler.analyse import tree
from mindtorch_v2.profiler.analyse.metrics import Metrics
from mindtorch_v2.profiler.capture.capture import Capture, Track
from options import attack_parser, repeat
from victims import EXPORT, LEDGER, SPOOL, WAYS, Victim, Way

# Running a victim


def _group_ended(group: int) -> None:
    """Wait for workers that outlive their parent; those that do not end by themselves are killed."""
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    os.killpg(group, signal.SIGKILL)


def _send(pid: int, signals: tuple[int, ...], ready: int, chance: random.Random) -> None:
    if select.select([ready], [], [], PATIENCE_S)[0] and os.read(ready, 1):
        time.sleep(chance.random() * 0.08)
        for number in signals:
            os.kill(pid, number)


def _run(name: str, folder: Path, seed: int) -> None:
    """Have a victim come to its end."""
    way, chance = WAYS[name], random.Random(seed)
    ready, said = os.pipe()
    try:
        if way.is_program:
            script = Path(__file__).with_name("victims.py")
            with (folder / "words").open("w") as words:
                pid = subprocess.Popen(
                    [sys.executable, str(script), name, str(folder), str(seed)],
                    stdout=said,
                    stderr=words,
                    start_new_session=True,
                ).pid
        else:
            say_ready = lambda: os.write(said, b"r")  # noqa: E731
            pid = forked(lambda: way.inside(Victim(folder, seed, say_ready)), folder / "words")
        if way.signals:
            _send(pid, way.signals, ready, chance)
        waited(pid)
        _group_ended(pid)
    finally:
        os.close(ready)
        os.close(said)


# Looking at what is left


class Ledger:
    """What a victim said of itself."""

    def __init__(self, path: Path) -> None:
        self.held: dict[int, int] = {}
        self.made = 0
        self.workers: list[int] = []
        self.first = 0
        for line in path.read_text().splitlines():
            sort, pid, *rest = line.split()
            self.first = self.first or int(pid)
            if sort == "held":
                self.held[int(pid)] = int(rest[0])
            elif sort == "made":
                self.made = int(rest[0])
            else:
                self.workers.append(int(pid))


def _count(capture: Capture, track: Track, name: str) -> int:
    kinds = [kind for kind in np.unique(track.kind).tolist() if capture.kinds[kind].name == name]
    return int(np.isin(track.kind, kinds).sum())


def _check_tree(capture: Capture) -> None:
    for track in capture.tracks:
        if tree.crossings(track.start_ns, track.end_ns).any():
            raise Failure(f"regions of {track.name} cross each other")
        names = [capture.kinds[kind].name for kind in track.kind.tolist()]
        for place in np.flatnonzero(np.array(names) == "outermost").tolist():
            inside = track.start_ns >= track.start_ns[place]
            if track.end_ns[place] < track.end_ns[inside].max():
                raise Failure("the outermost region ends before what is in it")
    metrics = Metrics(capture)
    inner = metrics.parent >= 0
    outer = metrics.parent[inner]
    if (metrics.end_ns[inner] > metrics.end_ns[outer]).any() or (
        metrics.start_ns[inner] < metrics.start_ns[outer]
    ).any():
        raise Failure("a region reaches out of the one that it is in")


def _had_nothing(path: Path) -> bool:
    """Whether a worker ended in order before it had recorded anything."""
    return path.exists() and "ended in order" in recover(path).notes[0]


def _check_counts(capture: Capture, ledger: Ledger, way: Way, workers: Path) -> None:
    tracks = {track.pid or capture.pid: track for track in capture.tracks}
    for pid, steps in ledger.held.items():
        found = _count(capture, tracks[pid], "step") if pid in tracks else 0
        if found < steps and not way.may_lose:
            raise Failure(f"{found} steps of process {pid} were recovered; {steps} were known to be in the spool")
    told = " ".join(capture.notes)
    for pid in ledger.workers:
        words = re.search(rf"\b{pid}\b|worker|Worker|forked processes", told)
        if pid not in tracks and words is None and not _had_nothing(workers / f"{pid}.mtspool"):
            raise Failure(f"worker {pid} is neither on a track nor in the notes: {capture.notes}")


def _check_note(capture: Capture, ledger: Ledger) -> None:
    note = capture.notes[0]
    lost = re.search(r"; (\d+) rows recorded from", note)
    if ledger.made and "ended while it recorded" in note:
        found = _count(capture, capture.tracks[0], "step")
        if found < ledger.made - 3:
            raise Failure(f"{found} of {ledger.made} steps are there, and the note says: {note}")
    if ledger.made and lost is not None:
        (track,) = capture.tracks
        steps = max(_count(capture, track, "step"), 1)
        rows = len(track) + len(track.nbytes)
        if rows + int(lost[1]) < rows / (steps + 1) * (ledger.made - 4):
            raise Failure(f"{rows} rows of {steps} steps are there, {ledger.made} were made, and the note says: {note}")


def _check(name: str, folder: Path) -> None:
    way, ledger = WAYS[name], Ledger(folder / LEDGER)
    if not ledger.held and name != "schedule":
        raise Failure("the program ended before it had recorded anything")
    try:
        capture = recover(folder / SPOOL)
    except ValueError as error:
        if way.may_lose and SPOOL in str(error):
            return
        raise
    _check_tree(capture)
    _check_counts(capture, ledger, way, folder / f"{SPOOL}.workers")
    _check_note(capture, ledger)
    capture.key_averages().table()
    if (folder / EXPORT).exists():
        load(folder / EXPORT)
    if (folder / "theirs").exists() and (folder / "theirs").stat().st_size:
        raise Failure("the profiler wrote into a file of the program")
    if (folder / "other.mtspool").exists():
        _check_tree(recover(folder / "other.mtspool"))


def attempt(name: str, seed: int) -> str:
    """One kill; why it went wrong, or nothing."""
    with tempfile.TemporaryDirectory(prefix="kills-") as made:
        folder = Path(made)
        try:
            _run(name, folder, seed)
            return outcome(lambda: _check(name, folder), folder / "words of the reader")
        except (Failure, OSError) as error:
            said = folder / "words"
            return f"{type(error).__name__}: {error}\n{said.read_text() if said.exists() else ''}"


def main(seed: int, seconds: float, only: str = "") -> int:
    """Kill in all ways, in turn, as long as there is time, and in each once at least; how many went wrong."""
    # Copies of a process with threads are what is looked at here.
    warnings.simplefilter("ignore", DeprecationWarning)
    with profile(record_shapes=True, profile_memory=True):  # so that victims, which are copies, have all compiled
        x = torch.ones((4, 4), requires_grad=True)
        (x * x).sum().backward()
    names = [only] if only else list(WAYS)
    return repeat("kills", seed, seconds, names, attempt)


if __name__ == "__main__":
    parser = attack_parser(__doc__)
    parser.add_argument("--only", default="", metavar="WAY")
    options = parser.parse_args()
    sys.exit(main(options.seed, options.seconds, options.only) > 0)
