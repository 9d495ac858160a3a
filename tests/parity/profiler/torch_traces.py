"""Record a small training run with torch under each set of options; leave the traces and what torch says of them.

Run as a program, in a process of its own: torch gives the memory of one thread to the Python frames of all threads,
so the threads of a test runner would be part of the answer.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.profiler import _ExperimentalConfig, profile, record_function

OPTIONS: list[dict[str, Any]] = [
    {},
    {"record_shapes": True, "profile_memory": True, "with_flops": True},
    {"with_stack": True, "profile_memory": True},
    {"with_stack": True, "experimental_config": _ExperimentalConfig(verbose=True)},
    {"experimental_config": _ExperimentalConfig(capture_overload_names=True)},
]
SUMS = ("count", "cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "overload_name", "flops")
FIELDS = ("name", "overload_name", "scope", "sequence_nr", "input_shapes", "is_user_annotation", "stack")


def recorded(options: dict[str, Any]) -> profile:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters())
    with profile(**options) as prof:
        for _ in range(2):
            with record_function("forward"):
                loss = torch.nn.functional.cross_entropy(model(torch.randn(5, 8)), torch.randint(0, 4, (5,)))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return prof


def said_by_torch(prof: profile) -> dict[str, Any]:
    return {
        "averages": {
            row.key: {name: getattr(row, name) for name in (*SUMS, "self_cpu_time_total")}
            for row in prof.key_averages()
        },
        "events": [
            {name: getattr(event, name) for name in FIELDS} | {"elapsed": event.time_range.elapsed_us()}
            for event in prof.events()
        ],
    }


def main(folder: Path) -> None:
    for number, options in enumerate(OPTIONS):
        for suffix in ("json", "json.gz"):  # torch saves a recording once
            prof = recorded(options)
            prof.export_chrome_trace(str(folder / f"{number}.{suffix}"))
            (folder / f"{number}.{suffix}.said").write_text(json.dumps(said_by_torch(prof)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
