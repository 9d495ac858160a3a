"""Kills programs that record into a spool, and looks at what is left of their recordings.

`python spool_kills.py 50` does so fifty times in each way and prints how much was lost at most.
"""

import os
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from mindtorch_v2.profiler import recover
from mindtorch_v2.profiler.capture.capture import Capture

# Counts its steps in a file that outlives it, and says when the spool holds a whole one; from then on it may be killed.
# Of two flushes that end after a step, the second has also begun after it.
PROGRAM = """
import os, struct, sys
import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile, record_function
way, spool, count = sys.argv[1:]
counter = os.open(count, os.O_RDWR | os.O_CREAT)
x = torch.ones((4, 4), requires_grad=True)
prof = profile(record_shapes=True, profile_memory=True, spool=spool)
prof.__enter__() if way == "with" else prof.start()
MARK = b"\\xf5MTCO"  # of the chunk that ends a flush
steps = extra = 0
def flushes():
    with open(spool, "rb") as file:
        return file.read().count(MARK)
try:
    with record_function("outermost"):
        while True:
            with record_function("step"):
                (x * x).sum().backward()
            steps += 1
            os.pwrite(counter, struct.pack("<qq", steps, torch.core.tap.clock()), 0)
            if steps == 1:
                first = flushes()
            if extra or flushes() >= first + 2:
                extra += 1
            if extra == 1:
                print("ready", flush=True)
            if extra == 100:
                if way == "_exit":
                    os._exit(3)
                if way in ("exception", "with"):
                    raise KeyError("the end")
except KeyError:
    if way == "with":
        prof.__exit__(*sys.exc_info())
    raise
"""

WAYS = ("exception", "with", "SIGTERM", "SIGKILL", "_exit")


class Killed(NamedTuple):
    """What became of one program."""

    capture: Capture
    status: int
    # Steps it had made, and when the last of them ended.
    steps: int
    last_ns: int

    @property
    def recovered(self) -> int:
        """How many whole steps there are in the capture."""
        (track,) = self.capture.tracks
        steps = [number for number in set(track.kind.tolist()) if self.capture.kinds[number].name == "step"]
        counts = [int((track.kind == number).sum()) for number in steps]
        return counts[0] - (not self.ended_in_order and "step" in self.open_at_the_end) if counts else 0

    @property
    def ended_in_order(self) -> bool:
        return "ended in order" in self.capture.notes[0]

    @property
    def open_at_the_end(self) -> set[str]:
        """Names of the regions that reach to the end of what is there."""
        (track,) = self.capture.tracks
        last = track.end_ns == self.capture.stop_ns - self.capture.start_ns
        return {self.capture.kinds[number].name for number in track.kind[last].tolist()}


def kill(way: str, folder: Path) -> Killed:
    """Run the program, end it in one of the ways, and recover its spool."""
    spool, count = folder / "run.mtspool", folder / "count"
    command = [sys.executable, "-c", PROGRAM, way, str(spool), str(count)]
    words = folder / "stderr"
    with words.open("w") as stderr:
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    with program:
        assert program.stdout is not None
        said = program.stdout.readline()
        assert said == "ready\n", f"the program ended too early: {said}{words.read_text()}"
        if way in ("SIGTERM", "SIGKILL"):
            program.send_signal(getattr(signal, way))
        status = program.wait()
    steps, last_ns = struct.unpack("<qq", count.read_bytes())
    return Killed(recover(spool), status, steps, last_ns)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for way in WAYS:
        lost, behind = 0, 0.0
        for _ in range(count):
            with tempfile.TemporaryDirectory() as folder:
                found = kill(way, Path(folder))
            assert 0 < found.recovered <= found.steps + 1, (way, found)
            lost = max(lost, found.steps - found.recovered)
            behind = max(behind, (found.last_ns - found.capture.stop_ns) / 1e9)
        assert behind <= 1, f"{way}: {behind:.3f} s lost"
        print(f"{way:10} {count} of {count} recovered; lost at most {lost} steps, {behind:.3f} s")


if __name__ == "__main__":
    main()
