"""Full and failing disks under programs that record, export and save.

`python disks.py --seed N --seconds S`. In each round a program records into a spool, exports and saves checkpoints while some of
its writes fail, or files may not grow beyond a limit. What it asks for: the program computes what it would have; what it
recorded is complete in memory; the spool holds a beginning of it, or all if the disk got better, and says which; an old
file is whole where the new one is not; an error names the path; another place takes the same export.
"""

import errno
import os
import random
import resource
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindtorch_v2 as torch
from children import outcome
from mindtorch_v2.core import files
from mindtorch_v2.profiler import load, profile, record_function, recover
from mindtorch_v2.profiler.capture import spoolfile
from mindtorch_v2.profiler.export import FORMATS
from mindtorch_v2.profiler.record.recorder import RECORDER
from options import attack_parser, repeat

_PATIENCE_S = 20
_ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR, errno.EFBIG)
_OLD = b"what was there before"
_SUFFIXES = sorted(set(FORMATS) - {".parquet"})


class Disk:
    """Writes that fail: from one call on, some or all, with an error or only a part of what was to be written."""

    def __init__(self, chance: random.Random) -> None:
        self.calls = 0
        self.first = chance.choice([1, 2, 3, chance.randrange(1, 60)])
        self.last = self.first + chance.choice([0, 1, 5, 50, 1 << 30])
        self.error = chance.choice(_ERRORS)
        if self.error == errno.EINTR:
            # Which is tried again until it goes well.
            self.last = min(self.last, self.first + 5)
        self.is_short = chance.random() < 0.3
        self.is_well = False

    def write(self, real: Callable[[Any], int], data: Any) -> int:
        self.calls += 1
        if self.is_well or not self.first <= self.calls <= self.last:
            return real(data)
        if self.is_short and len(data) > 1:
            real(data[: len(data) // 2])
        raise OSError(self.error, os.strerror(self.error))


def _broken(disk: Disk) -> None:
    """Put a disk under spools and exports."""
    pwrite, write, replace = os.pwrite, files.FileIO.write, os.replace
    spoolfile.os.pwrite = lambda number, data, offset: disk.write(  # type: ignore[attr-defined]
        lambda part: pwrite(number, part, offset), data
    )

    def write_named(file: Any, data: Any) -> int:
        with files._named(file.shown):
            return disk.write(lambda part: write(file, part), data)

    files._Named.write = write_named  # type: ignore[assignment, method-assign]
    files._BUFFER = 300
    files.os.replace = lambda source, target: disk.write(  # type: ignore[attr-defined]
        lambda _: replace(source, target) or 1, b"-"
    )


def _limited(chance: random.Random) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (chance.randrange(1, 30_000), resource.RLIM_INFINITY))


def _unlimited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _flush() -> None:
    for session in RECORDER.sessions:
        if session.sink is not None:
            session.sink.flush()


def _record(path: Path, steps: int, recovers: Callable[[], object] | None) -> profile:
    x = torch.ones(3)
    with profile(record_shapes=True, profile_memory=True, with_stack=True, spool=path) as made:
        for number in range(steps):
            if recovers is not None and number == steps // 2:
                recovers()
            with record_function(f"step {number}"):
                x = x * 2 - x
            if number % 3 == 0:
                _flush()
    assert x.tolist() == [1, 1, 1]
    return made


def _steps(events: Any) -> list[str]:
    names = [event.name for event in events if event.name.startswith("step")]
    return sorted(names, key=lambda name: int(name.split()[1]))


def _check_spool(made: profile, path: Path, steps: int) -> None:
    expected = [f"step {number}" for number in range(steps)]
    assert _steps(made.events()) == expected, "the recording is not complete in memory"
    try:
        found = recover(path)
    except ValueError as error:
        if path.name not in str(error):
            raise AssertionError("an error that does not name the spool") from error
        return
    there = _steps(found.events())
    assert there == expected[: len(there)], "the spool holds no beginning of the recording"
    assert len(there) == steps or "in order" not in found.notes[0], f"it lacks a part, and says {found.notes}"
    assert len(there) < steps or "in order" in found.notes[0] or "are not in it" in found.notes[0], found.notes


def _check_export(write: Callable[[str], object], path: Path) -> None:
    path.write_bytes(_OLD)
    try:
        write(str(path))
    except OSError as error:
        if path.name not in str(error):
            raise AssertionError("an error that does not name the path") from error
        is_new = False
    else:
        is_new = True
    assert is_new == (path.read_bytes() != _OLD), "neither the old file nor a new one"
    left = [name for name in os.listdir(path.parent) if name.endswith(".part")]
    assert not left, f"{left} were left"


def _writes(made: profile, suffix: str) -> list[tuple[str, Callable[[str], object]]]:
    return [
        (suffix, made.export),
        (".html", made.export_report),
        (".stacks", made.export_stacks),
        (".timeline.json", made.export_memory_timeline),
        (".pt", lambda path: torch.save({"x": torch.ones(1000)}, path)),
    ]


def _rehearse() -> None:
    """Do everything once, so that the programs, which are copies of this one, have all functions compiled."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = _record(Path(folder, "run.mtspool"), 3, None)
        for suffix in _SUFFIXES:
            for name, write in _writes(made, suffix):
                write(os.path.join(folder, f"out{name}"))


def round_of(folder: Path, seed: int) -> None:
    """One program on a bad disk."""
    chance = random.Random(seed)
    warnings.simplefilter("ignore")
    by_limit, gets_better, steps = chance.random() < 0.3, chance.random() < 0.5, chance.randrange(1, 40)
    disk = Disk(chance)
    if by_limit:
        _limited(chance)
    else:
        _broken(disk)

    def mend() -> None:
        disk.is_well = True
        _unlimited()

    made = _record(folder / "run.mtspool", steps, mend if gets_better else None)
    _check_spool(made, folder / "run.mtspool", steps)
    disk.is_well, disk.calls = False, disk.first - chance.randrange(1, 4)
    if by_limit:
        _limited(chance)
    writes = _writes(made, chance.choice(_SUFFIXES))
    for name, write in writes:
        disk.calls = disk.first - chance.randrange(1, 4)
        _check_export(write, folder / f"out{name}")
    mend()
    for name, write in writes:
        _check_export(write, folder / f"elsewhere{name}")
        assert (folder / f"elsewhere{name}").read_bytes() != _OLD
    made.export(folder / "whole.json")
    assert _steps(load(folder / "whole.json").events()) == [f"step {number}" for number in range(steps)]


def _round_to_its_end(folder: Path, seed: int) -> None:
    try:
        round_of(folder, seed)
    except BaseException:
        _unlimited()  # or nothing could be said of it
        raise


def attempt(way: str, seed: int) -> str:
    """One round in a process of its own; why it went wrong, or nothing."""
    with tempfile.TemporaryDirectory(prefix="disks-") as made:
        folder = Path(made)
        return outcome(lambda: _round_to_its_end(folder, seed), folder / "words")


def main(seed: int, seconds: float) -> int:
    """Rounds for so long; how many went wrong."""
    _rehearse()
    return repeat("disks", seed, seconds, ["round"], attempt)


if __name__ == "__main__":
    options = attack_parser(__doc__).parse_args()
    sys.exit(main(options.seed, options.seconds) > 0)
