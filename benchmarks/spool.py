"""How much memory a recording takes however long it is, in a spool and without one, and what stopping it costs.

Rows are written to a lane as fast as Python can, and by real ops; each case is a process of its own.
`python benchmarks/spool.py [millions of rows] [millions of ops]`
"""

import json
import os
import subprocess
import sys
import tempfile

from harness import OURS, Row, report

CHILD = """
import gc, json, resource, sys, threading, time, warnings
warnings.simplefilter("ignore")
import mindtorch_v2 as torch
from mindtorch_v2.core import tap
from mindtorch_v2.profiler import profile
from mindtorch_v2.profiler.record.recorder import RECORDER
mode, count, path = sys.argv[1], int(sys.argv[2]), sys.argv[3] or None

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

def feed(count):
    lane, clock, event = RECORDER.own_lane(), tap.clock, tap.event_id("aten::add")
    write = lane.write
    for _ in range(count):
        start = clock()
        write((start, clock(), event, -1, 0, 0))

x = torch.ones((4, 4))

def ops(count):
    for _ in range(count):
        x + x

work = {"rows": feed, "ops": ops}[mode]
with profile(spool=path) as prof:
    work(1000)
gc.collect()
before = highest = resident()
finished = threading.Event()

def watch():
    global highest
    while not finished.wait(0.01):
        highest = max(highest, resident())

watcher = threading.Thread(target=watch)
watcher.start()
prof = profile(spool=path)
prof.start()
began = time.perf_counter()
work(count)
seconds = time.perf_counter() - began
began = time.perf_counter()
prof.stop()
stop = time.perf_counter() - began
finished.set()
watcher.join()
print(json.dumps({"grown": highest - before, "stop": stop, "seconds": seconds}))
"""


def child(mode: str, count: int, path: str) -> dict[str, float]:
    command = [sys.executable, "-c", CHILD, mode, str(count), path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def counted(path: str) -> tuple[int, bool]:
    """How many rows a spool holds, and whether it ended in order."""
    stored = __import__("mindtorch_v2.profiler.capture.stored", fromlist=["stored"])
    contents = stored.Contents(path)
    rows = sum(
        chunk.count for window in contents.windows.values() for chunks in window.rows.values() for chunk in chunks
    )
    return rows, contents.closed


def main() -> None:
    __import__(OURS)
    millions = [float(text) for text in sys.argv[1:]] + [20.0, 5.0][len(sys.argv) - 1 :]
    memory, stops, sizes = [], [], []
    for mode, number in zip(("rows", "ops"), millions):
        count = int(number * 1e6)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.mtspool")
            spooled = child(mode, count, path)
            rows, in_order = counted(path)
            assert in_order, "the spool did not end in order"
            assert rows == count, f"expected {count} rows in the spool, got {rows}"
            size = os.path.getsize(path)
        kept = child(mode, count, "")
        memory.append(Row(f"{number:g} M {mode} into a spool (bound 64)", spooled["grown"] / 1e6, None))
        memory.append(Row(f"{number:g} M {mode} in memory", kept["grown"] / 1e6, None))
        stops.append(Row(f"stop() after {number:g} M {mode} into a spool", spooled["stop"] * 1e3, None))
        stops.append(Row(f"stop() after {number:g} M {mode} in memory", kept["stop"] * 1e3, None))
        sizes.append(Row(f"{number:g} M {mode}, in the file", size / count, None))
        sizes.append(Row(f"{number:g} M {mode}, in memory (bound 200)", kept["grown"] / count, None))
    report("spool_memory", memory, "MB")
    report("spool_stop", stops, "ms")
    report("spool_size", sizes, "B/event")


if __name__ == "__main__":
    main()
