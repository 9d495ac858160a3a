"""What the examples share: options, the training loop, and the profiler around it. Plain torch code."""

import argparse
import os

import torch
from torch.profiler import ProfilerActivity, profile, record_function


def run(description, make_step):
    """Train for `--steps` steps, print each loss; with `--profile DIR`, profile, print a table and write files.

    `make_step()` seeds nothing and returns a function that does one training step and gives its loss.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--profile", metavar="DIR", help="profile the run; write trace.json and report.html into this directory"
    )
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    step = make_step()
    if options.profile is None:
        for i in range(options.steps):
            print(f"step {i} loss {step().item():.6f}")
        return
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        profile_memory=True,
        with_flops=True,
        with_modules=True,
        with_stack=True,
    ) as prof:
        for i in range(options.steps):
            with record_function("training step"):
                loss = step()
            print(f"step {i} loss {loss.item():.6f}")
            prof.step()
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=12))
    os.makedirs(options.profile, exist_ok=True)
    path = os.path.join(options.profile, "trace.json")
    prof.export_chrome_trace(path)
    print(f"trace:  {path} (open it in https://ui.perfetto.dev or chrome://tracing)")
    if hasattr(prof, "export_report"):  # torch has no report
        path = os.path.join(options.profile, "report.html")
        prof.export_report(path, title=description.partition(":")[0])
        print(f"report: {path} (open it in a browser)")
