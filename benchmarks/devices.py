"""Reading a trace of a GPU and analysing it, beside Holistic Trace Analysis: CPU seconds and the peak of memory.

Both sides run in a process of their own, with what each takes to import left out of the times, and answer what both can:
busy and idle time of devices and streams, kinds of kernels, overlap of communication and compute, launches, queues, copies.
The trace is a generated one of about 100 k events, or those given as arguments. HTA is looked for in the Python that HTA_PYTHON
names, else in this one; where it is not installed, ours stands alone.

HTA_PYTHON=/path/to/python python benchmarks/devices.py [TRACE ...]
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import Row, report

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "mindtorch_v2"))
from device_runs import device_run

STEPS = 480
# What is asked of reading and analysing with the extra `fast`: a part of HTA's time, and of its memory.
TIMES, MEMORY = 0.2, 0.5

_PEAK = """
import json, sys, time
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
"""
OURS = f"""{_PEAK}
from mindtorch_v2.profiler import load
from mindtorch_v2.profiler.analyse.devices.analysis import Analysis
began = time.process_time()
analysis = Analysis(load(sys.argv[1]))
for name in ("devices", "kernels", "streams", "launches", "queues", "copies"):
    getattr(analysis, name)
shared = time.process_time() - began
top = peak()
analysis.as_dict()
print(json.dumps([shared, top, time.process_time() - began]))
"""
THEIRS = f"""{_PEAK}
import logging, os, warnings
from hta.trace_analysis import TraceAnalysis
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
began = time.process_time()
path = os.path.abspath(sys.argv[1])
found = TraceAnalysis(trace_files={{0: os.path.basename(path)}}, trace_dir=os.path.dirname(path))
failed = []
for name, options in (
    ("get_temporal_breakdown", dict(visualize=False)),
    ("get_gpu_kernel_breakdown", dict(visualize=False)),
    ("get_idle_time_breakdown", dict(ranks=[0], visualize=False)),
    ("get_comm_comp_overlap", dict(visualize=False)),
    ("get_cuda_kernel_launch_stats", dict(ranks=[0], visualize=False)),
    ("get_queue_length_summary", dict(ranks=[0])),
    ("get_memory_bw_summary", dict(ranks=[0])),
):
    try:
        getattr(found, name)(**options)
    except Exception:
        failed.append(name)
print(json.dumps([time.process_time() - began, peak(), failed]))
"""


def measured(python: str, program: str, trace: Path) -> list:
    done = subprocess.run([python, "-c", program, str(trace)], check=True, capture_output=True, text=True)
    found: list = json.loads(done.stdout.splitlines()[-1])
    return found


def has_hta(python: str) -> bool:
    return subprocess.run([python, "-c", "import hta"], capture_output=True).returncode == 0


def main() -> None:
    python = os.environ.get("HTA_PYTHON", sys.executable)
    beside = has_hta(python)
    with tempfile.TemporaryDirectory() as folder:
        traces = [Path(name) for name in sys.argv[1:]]
        if not traces:
            traces = [Path(folder) / "generated.json.gz"]
            with gzip.open(traces[0], "wt", 1) as file:
                json.dump(device_run(STEPS).trace(), file)
        times, memory = [], []
        for trace in traces:
            # In turns, the better of three.
            ours, theirs = [], []
            for _ in range(3):
                ours.append(measured(sys.executable, OURS, trace))
                theirs += [measured(python, THEIRS, trace)] if beside else []
            best, other = min(ours), min(theirs) if theirs else None
            failed = f", HTA fails in {len(other[2])}" if other and other[2] else ""
            note = (
                f"all of ours {best[2]:.2f} s{failed}"
                if beside
                else f"all of ours {best[2]:.2f} s; HTA is not installed"
            )
            times.append(Row(trace.name, best[0], other[0] if other else None, note=note, bound=TIMES))
            memory.append(Row(trace.name, best[1], other[1] if other else None, bound=MEMORY))
    report("devices_time", times, "s")
    report("devices_memory", memory, "MB")


if __name__ == "__main__":
    main()
