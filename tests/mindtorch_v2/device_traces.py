"""Small traces of devices, as Kineto writes them with CUPTI, roctracer, XPUPTI and MTIA, made by hand for tests.

Times are microseconds. `DeviceTrace` adds rows one by one; `training_step` is a whole step with most of what occurs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROCESS, BACKWARD_THREAD = 4000, 4001
# By vendor: the category of the runtime's calls, and its calls that launch a kernel, a copy, a set and a graph.
_CALLS = {
    "cuda": ("cuda_runtime", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaGraphLaunch"),
    "rocm": ("cuda_runtime", "hipLaunchKernel", "hipMemcpyWithStream", "hipMemsetAsync", "hipGraphLaunch"),
    "xpu": ("xpu_runtime", "urEnqueueKernelLaunch", "urEnqueueUSMMemcpy", "urEnqueueUSMFill", "urEnqueueGraph"),
    "privateuse1": ("privateuse1_runtime", "launchKernel", "copyAsync", "setAsync", "launchGraph"),
    "mtia": ("mtia_runtime", "runFunction", "enqueueCommand memcpyHtoDAsync", "enqueueCommand memset", "runGraph"),
}
_NAMES = {"cuda": "NVIDIA H100", "rocm": "AMD Instinct MI300X", "xpu": "Intel Max 1550", "mtia": "ARTEMIS"}
_CATEGORIES = {"kernel": "kernel", "copy": "gpu_memcpy", "set": "gpu_memset"}
_PLACES = ("kernel", "copy", "set", "graph")


@dataclass
class DeviceTrace:
    """Rows of a trace. Without `external_ids`, as in 2022, work tells its correlation id in place of an op's id."""

    vendor: str = "cuda"
    device: int = 0
    external_ids: bool = True
    events: list[dict[str, Any]] = field(default_factory=list)
    _last_id: int = 0
    _last_correlation: int = 5000

    def row(self, cat: str, name: str, pid: Any, tid: Any, ts: float, dur: float, args: dict[str, Any]) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
        )

    def op(self, name: str, ts: float, dur: float, tid: int = PROCESS, **more: Any) -> int:
        """An op, or with `cat` another region of a thread; its External id."""
        self._last_id += 1
        cat = more.pop("cat", "cpu_op")
        args = {"External id": self._last_id, "Record function id": 0}
        args |= {key.replace("_", " "): value for key, value in more.items()}
        self.row(cat, name, PROCESS, tid, ts, dur, args | {"Ev Idx": self._last_id - 1})
        return self._last_id

    def annotation(self, name: str, ts: float, dur: float, tid: int = PROCESS) -> int:
        return self.op(name, ts, dur, tid, cat="user_annotation")

    def python(self, name: str, ts: float, dur: float, tid: int = PROCESS, **args: Any) -> None:
        """A call of a Python function or a module."""
        self.row("python_function", name, PROCESS, tid, ts, dur, {key.replace("_", " "): v for key, v in args.items()})

    def call(self, name: str, ts: float, dur: float, op: int = 0, tid: int = PROCESS) -> int:
        """A call of the runtime; its correlation id."""
        self._last_correlation += 1
        correlation = self._last_correlation
        args: dict[str, Any] = {"cbid": 211, "correlation": correlation}
        external = op if self.external_ids else correlation
        self.row(
            _CALLS[self.vendor][0], name, PROCESS, tid, ts, dur, {"External id": external} | args if external else args
        )
        self.events.append(self._arrow("s", correlation, PROCESS, tid, ts))
        return correlation

    def work(self, sort: str, name: str, ts: float, dur: float, correlation: int, op: int = 0, **args: Any) -> None:
        """A row of the device: a "kernel", a "copy" or a "set"."""
        stream = args.pop("stream", 7)
        external = op if self.external_ids else correlation
        own: dict[str, Any] = {"External id": external} if external and self.vendor != "mtia" else {}
        own |= {"device": self.device, "stream": stream, "correlation": correlation}
        category = _CATEGORIES[sort]
        if self.vendor == "mtia":
            category, name = "mtia_ccp_events", "dma_request" if sort == "copy" else name
        elif self.vendor == "cuda":
            own["context"] = 1
        if sort == "kernel" and self.vendor in ("cuda", "rocm"):
            own |= {"grid": [8, 1, 1], "block": [128, 1, 1]}
        self.row(category, name, self.device, stream, ts, dur, own | args)
        self.events.append(self._arrow("f", correlation, self.device, stream, ts) | {"bp": "e"})

    def launch(
        self, sort: str, name: str, at: float, ts: float, dur: float, op: int = 0, tid: int = PROCESS, **args: Any
    ) -> int:
        """A call that takes 2 us from `at` on, and the work it launches; the correlation id of both."""
        correlation = self.call(_CALLS[self.vendor][1 + _PLACES.index(sort)], at, 2.0, op, tid)
        self.work(sort, name, ts, dur, correlation, op, **args)
        return correlation

    def graph(self, at: float, kernels: list[tuple[str, float, float]], op: int = 0, stream: int = 7) -> int:
        """One launch of a graph of kernels (name, start, length)."""
        correlation = self.call(_CALLS[self.vendor][4], at, 3.0, op)
        for node, (name, ts, dur) in enumerate(kernels):
            self.work("kernel", name, ts, dur, correlation, op, stream=stream, **{"graph id": 1, "graph node id": node})
        return correlation

    def on_device(self, name: str, ts: float, dur: float, op: int, stream: int = 7) -> None:
        """What of a user's region was seen on the device."""
        self.row("gpu_user_annotation", name, self.device, stream, ts, dur, {"External id": op})

    def memory(self, ts: float, nbytes: int, allocated: int, address: int = 1 << 40, tid: int = PROCESS) -> None:
        """An allocation (positive) or a free on the device."""
        args = {"Total Reserved": 1 << 30, "Total Allocated": allocated, "Bytes": nbytes, "Addr": address}
        args |= {"Device Id": self.device, "Device Type": 1}
        self.events.append(
            {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": PROCESS, "tid": tid, "ts": ts}
            | {"args": args}
        )

    def _arrow(self, sort: str, number: int, pid: int, tid: int, ts: float) -> dict[str, Any]:
        return {"ph": sort, "id": number, "pid": pid, "tid": tid, "ts": ts, "cat": "ac2g", "name": "ac2g"}

    def trace(self) -> dict[str, Any]:
        names = [(PROCESS, PROCESS, "thread 4000 (python)"), (self.device, 7, "stream 7")]
        named = [
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "ts": 0.0, "args": {"name": name}}
            for pid, tid, name in names
        ]
        properties = {"id": self.device, "name": _NAMES.get(self.vendor, "accelerator"), "totalGlobalMem": 1 << 36}
        return {"schemaVersion": 1, "deviceProperties": [properties], "traceEvents": [*self.events, *named]}

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(self.trace()))
        return path


def training_step(vendor: str = "cuda", external_ids: bool = True) -> DeviceTrace:
    """A step: a copy in, a linear layer forward and backward, an all-reduce beside it, a graph, a kernel from before.

    | device time | us | who asked |
    |---|---|---|
    | `early` on stream 7 | 5 | nobody: launched before the recording |
    | a copy from host to device | 20 | aten::copy_ in aten::to |
    | `gemm` | 30 | aten::addmm in aten::linear in the module Linear_0 |
    | `gemm_t` and a set | 25 + 1 | aten::mm in AddmmBackward0, gradient of aten::addmm |
    | `ncclDevKernel_AllReduce` on stream 20 | 40 | record_param_comms |
    | `one`, `two` of a graph | 6 + 4 | no op; the region ProfilerStep#1 |
    """
    trace = DeviceTrace(vendor, external_ids=external_ids)
    trace.work("kernel", "early", 90.0, 5.0, 17)
    step = trace.annotation("ProfilerStep#1", 100.0, 400.0)
    trace.op("aten::to", 105.0, 20.0)
    copy = trace.op("aten::copy_", 108.0, 15.0)
    trace.launch("copy", "Memcpy HtoD (Pageable -> Device)", 110.0, 115.0, 20.0, copy, bytes=4096)
    trace.python("nn.Module: Linear_0", 130.0, 40.0, Python_id=1, Python_module_id=0)
    shapes = {"Input_Dims": [[8], [4, 16], [16, 8]], "Input_type": ["float", "float", "float"]}
    trace.op("aten::linear", 132.0, 35.0, Input_Dims=[[4, 16], [8, 16], [8]], Input_type=["float", "float", "float"])
    addmm = trace.op("aten::addmm", 135.0, 30.0, Sequence_number=3, Fwd_thread_id=0, **shapes)
    trace.memory(138.0, 128, 1152)
    trace.launch("kernel", "gemm", 140.0, 150.0, 30.0, addmm)
    thread = {"tid": BACKWARD_THREAD, "Sequence_number": 3, "Fwd_thread_id": 1}
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", 200.0, 60.0, **thread)
    trace.op("AddmmBackward0", 202.0, 50.0, **thread)
    mm = trace.op("aten::mm", 205.0, 30.0, BACKWARD_THREAD)
    trace.launch("set", "Memset (Device)", 206.0, 210.0, 1.0, mm, BACKWARD_THREAD, bytes=512)
    trace.launch("kernel", "gemm_t", 210.0, 220.0, 25.0, mm, BACKWARD_THREAD)
    comms = trace.op("record_param_comms", 240.0, 10.0, BACKWARD_THREAD)
    reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    trace.launch("kernel", reduce, 242.0, 230.0, 40.0, comms, BACKWARD_THREAD, stream=20)
    trace.graph(300.0, [("one", 310.0, 6.0), ("two", 318.0, 4.0)])
    trace.call("cudaStreamSynchronize" if vendor == "cuda" else "hipStreamSynchronize", 330.0, 20.0)
    trace.on_device("ProfilerStep#1", 115.0, 207.0, step)
    trace.memory(480.0, -128, 1024)
    return trace
