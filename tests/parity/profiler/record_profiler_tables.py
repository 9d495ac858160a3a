"""Records tables that torch prints, with the event data they are printed from, for the golden tests of our renderer.

python tests/parity/profiler/record_profiler_tables.py      writes tests/mindtorch_v2/data/profiler_tables.json.gz
"""

import gzip
import json
from pathlib import Path

import torch
from torch.autograd import DeviceType
from torch.autograd.profiler_util import EventList, FunctionEvent
from torch.profiler import ProfilerActivity, _ExperimentalConfig, profile, record_function

OUT = Path(__file__).parents[2] / "mindtorch_v2" / "data" / "profiler_tables.json.gz"
FIELDS = (
    "id name thread overload_name fwd_thread input_shapes scope use_device cpu_memory_usage device_memory_usage "
    "is_async is_remote sequence_nr node_id device_index device_resource_id is_legacy flops trace_name "
    "is_user_annotation is_python_function activity_type"
).split()


def program() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, labels = torch.randn(5, 8), torch.randint(0, 4, (5,))
    with record_function("a block with a rather long name, longer than its column may be wide"):
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    large = torch.empty(600, 1024)
    del large


def described(event: FunctionEvent) -> dict:
    fields = {field: getattr(event, field) for field in FIELDS}
    fields["start_us"], fields["end_us"] = event.time_range.start, event.time_range.end
    fields["flops"] = event.flops or 0
    fields["device_type"] = int(event.device_type)
    fields["stack"] = [entry.rpartition("site-packages/")[2] for entry in event.stack or []]
    fields["kernels"] = [list(kernel) for kernel in event.kernels]
    return fields


def made(fields: dict) -> FunctionEvent:
    fields = dict(fields, device_type=DeviceType(fields["device_type"]))
    kernels = fields.pop("kernels")
    event = FunctionEvent(**fields)
    for kernel in kernels:
        event.append_kernel(*kernel)
    return event


def events_of(events: list[dict], options: dict) -> EventList:
    made_events = EventList([made(fields) for fields in events], **options)
    made_events._build_tree()
    return made_events


def recorded(**options) -> list[dict]:
    program()
    with profile(activities=[ProfilerActivity.CPU], **options) as prof:
        program()
    return [described(event) for event in prof.events()]


def device_events() -> list[dict]:
    """What a profile with a GPU looks like, made by hand: launches, kernels, device memory, an async event."""

    def row(id, name, start, end, **more):
        return described(FunctionEvent(id, name, 1, start, end, use_device="cuda", **more))

    rows = [
        row(1, "aten::mm", 0.0, 100.5, device_memory_usage=4096, cpu_memory_usage=-512, flops=2_000_000, stack=[]),
        row(2, "cudaLaunchKernel", 10.25, 30.125, flops=0, stack=[]),
        row(3, "aten::add", 150.0, 1_400_150.0, device_memory_usage=3 * 1024**3, flops=7, stack=[]),
        row(4, "waiting", 0.0, 2_000_000.0, is_async=True, flops=0, stack=[]),
        row(5, "void gemm", 40.0, 1_234.5, device_type=DeviceType.CUDA, flops=0, stack=[]),
        row(6, "on node", 5.0, 6.0, node_id=2, flops=0, stack=[]),
    ]
    rows[0]["kernels"] = [["void gemm", 0, 1194.5]]
    rows[2]["kernels"] = [["add", 0, 3_000.0]]
    return rows


MODES = {
    "plain": (lambda: recorded(), {}),
    "shapes": (lambda: recorded(record_shapes=True), {}),
    "memory": (lambda: recorded(profile_memory=True), {"profile_memory": True}),
    "flops": (lambda: recorded(with_flops=True), {"with_flops": True}),
    "overloads": (lambda: recorded(experimental_config=_ExperimentalConfig(capture_overload_names=True)), {}),
    "stacks": (lambda: recorded(with_stack=True, experimental_config=_ExperimentalConfig(verbose=True)), {}),
    "device": (device_events, {"profile_memory": True, "with_flops": True, "use_device": "cuda"}),
}
AVERAGES = [
    {},
    {"group_by_input_shapes": True},
    {"group_by_stack_n": 2},
    {"group_by_overload_name": True},
]
TABLES = [
    {},
    {"sort_by": "cpu_time_total", "row_limit": 3},
    {"sort_by": "self_cuda_time_total", "row_limit": 0},
    {"sort_by": "self_cpu_memory_usage", "row_limit": -1},
    {"sort_by": "count", "header": "A HEADER", "top_level_events_only": True, "time_unit": "ms"},
    {"sort_by": "flops", "time_unit": "s", "row_limit": 5},
    {"max_name_column_width": 20, "max_shapes_column_width": 15, "max_src_column_width": 25, "time_unit": "us"},
    {"max_name_column_width": None, "max_shapes_column_width": None, "max_src_column_width": None, "row_limit": 7},
]


def drop_python(events: list[dict]) -> list[dict]:
    """A stack recording without most of the Python functions, which would make the file large."""
    kept = [event for event in events if not event["is_python_function"]]
    return kept + [event for event in events if event["is_python_function"]][-5:]


def main() -> None:
    modes = {}
    for mode, (make, options) in MODES.items():
        data = make()
        if mode == "stacks":
            data = drop_python(data)
        modes[mode] = {"events": data, "options": options, "tables": []}
        choices = [None, *AVERAGES] if mode != "device" else [None, {}]
        for averages in choices:
            for table in TABLES:
                events = events_of(data, options)
                shown = events if averages is None else events.key_averages(**averages)
                if averages is None and table.get("row_limit", 100) not in (0, 3, 5, 7):
                    continue
                entry = {"averages": averages, "table": table, "text": shown.table(**table)}
                modes[mode]["tables"].append(entry)
    OUT.parent.mkdir(exist_ok=True)
    text = json.dumps(modes, separators=(",", ":"))
    OUT.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{sum(len(mode['tables']) for mode in modes.values())} tables, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
