"""Reading a Chrome trace of torch with 300 k events: CPU seconds and the peak of memory, against fixed limits.

The trace is recorded anew in a process of its own (by this package where torch is absent) and loaded in another, so that
neither's memory counts for the other. Beside it stands `json.load`, which keeps every event as dicts.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import OURS, THEIRS, Row, packages, report

SECONDS, MEGABYTES = 3.0, 300.0

RECORD = """
import importlib, sys
package = importlib.import_module(sys.argv[1])
x = package.ones((4, 4), requires_grad=True)
w = package.ones((4, 4), requires_grad=True)
with package.profiler.profile(record_shapes=True, profile_memory=True) as prof:
    for _ in range(int(sys.argv[3])):
        (package.nn.functional.linear(x, w).relu() + 1).sum().backward()
prof.export_chrome_trace(sys.argv[2])
"""
MEASURE = """
import json, sys, time
import mindtorch_v2.profiler
def peak():
    # Of this program alone; the peak that getrusage tells counts what the parent had when it started it.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
before, began = peak(), time.process_time()
if sys.argv[2] == "json":
    with open(sys.argv[1]) as file:
        kept = json.load(file)
else:
    kept = mindtorch_v2.profiler.load(sys.argv[1])
print(json.dumps([time.process_time() - began, peak() - before]))
"""
# Each round of the loop above leaves about 90 events in a trace.
ROUNDS = 3300


def measured(path: Path, reader: str) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), reader], check=True, capture_output=True, text=True
    )
    seconds, megabytes = json.loads(done.stdout)
    return seconds, megabytes


def main() -> None:
    recorder = THEIRS if THEIRS in packages() else OURS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        command = [sys.executable, "-c", RECORD, recorder, str(path), str(ROUNDS)]
        subprocess.run(command, check=True, capture_output=True)
        seconds, megabytes = measured(path, "load")
        plain_seconds, plain_megabytes = measured(path, "json")
        size = path.stat().st_size / 1e6
    name = f"{recorder}'s trace of {size:.0f} MB"
    beside = f"limit {SECONDS:.0f} s; json.load takes {plain_seconds:.1f} s"
    report("load_time", [Row(name, seconds, None, note=beside)], "s")
    beside = f"limit {MEGABYTES:.0f} MB; json.load takes {plain_megabytes:.0f} MB"
    report("load_memory", [Row(name, megabytes, None, note=beside)], "MB")
    if seconds > SECONDS or megabytes > MEGABYTES:
        sys.exit(f"over the limit: {seconds:.2f} s, {megabytes:.0f} MB")


if __name__ == "__main__":
    main()
