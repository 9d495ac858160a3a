"""Reading Chrome traces of torch with 300 k events: CPU seconds and the peak of memory, against fixed limits.

One trace is recorded anew in a process of its own (by this package where torch is absent), another is made up in torch's
layout with launches, kernels and arrows between them. They are loaded in other processes, so that nobody's memory counts
for another. Beside it stands `json.load`, which keeps every event as dicts.
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
    kept = mindtorch_v2.profiler.api.load(sys.argv[1])
print(json.dumps([time.process_time() - began, peak() - before]))
"""
# Each round of the loop above leaves about 90 events in a trace.
ROUNDS = 3300
LAUNCH = """  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 9, "tid": 9,
    "ts": {0}000.125, "dur": 90.500,
    "args": {{
      "External id": {0},"Record function id": 0, "Input Dims": [[64], [32, 64], [64, 64]], "Ev Idx": {0}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
    "ts": {0}010.125, "dur": 5.250,
    "args": {{
      "External id": {0}, "cbid": 211, "correlation": {0}
    }}
  }},
  {{
    "ph": "s", "id": {0}, "pid": 9, "tid": 9, "ts": {0}010.125,
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "ampere_sgemm_32x32_sliced1x4_tn", "pid": 0, "tid": 7,
    "ts": {0}030.500, "dur": 60.000,
    "args": {{
      "External id": {0}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {0},
      "registers per thread": 86, "shared memory": 32768, "blocks per SM": 0.5, "grid": [1, 2, 3], "block": [128, 1, 1]
    }}
  }},
  {{
    "ph": "f", "id": {0}, "pid": 0, "tid": 7, "ts": {0}030.500,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }}"""
LAUNCHES = 60_000


def measured(path: Path, reader: str) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), reader], check=True, capture_output=True, text=True
    )
    seconds, megabytes = json.loads(done.stdout)
    return seconds, megabytes


def main() -> None:
    recorder = THEIRS if THEIRS in packages() else OURS
    times, memory = [], []
    with tempfile.TemporaryDirectory() as folder:
        recorded, launches = Path(folder) / "trace.json", Path(folder) / "gpu.json"
        command = [sys.executable, "-c", RECORD, recorder, str(recorded), str(ROUNDS)]
        subprocess.run(command, check=True, capture_output=True)
        events = ",\n".join(LAUNCH.format(number) for number in range(1, LAUNCHES + 1))
        launches.write_text('{"schemaVersion": 1, "traceEvents": [\n' + events + "]}")
        for path, whose in ((recorded, f"{recorder}'s trace"), (launches, "launches and kernels")):
            seconds, megabytes = measured(path, "load")
            plain_seconds, plain_megabytes = measured(path, "json")
            name = f"{whose} of {path.stat().st_size / 1e6:.0f} MB"
            beside = f"limit {SECONDS:.0f} s; json.load takes {plain_seconds:.1f} s"
            times.append(Row(name, seconds, None, note=beside))
            beside = f"limit {MEGABYTES:.0f} MB; json.load takes {plain_megabytes:.0f} MB"
            memory.append(Row(name, megabytes, None, note=beside))
    report("load_time", times, "s")
    report("load_memory", memory, "MB")
    for one, other in zip(times, memory):
        if (one.ours or 0) > SECONDS or (other.ours or 0) > MEGABYTES:
            sys.exit(f"over the limit: {one.name}: {one.ours:.2f} s, {other.ours:.0f} MB")


if __name__ == "__main__":
    main()
