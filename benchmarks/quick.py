"""A minute's worth of measurements against limits wide enough for any machine: fails where something became twice as slow.

Limits are about twice what the ratio to torch is, once with the compiled kernels and once without. A case that exceeds
its limit is measured again, twice, before it counts.
"""

import sys

import harness
import kernels
import profiler_cost
import programs
import small_calls
import small_ops
from harness import Case, Row, compare, table

TRIES = 3

# Ratio to torch above which a case fails: with the compiled kernels, and in pure NumPy.
LIMITS = {
    "x + x": (1.5, 1.5),
    "x * 2.0": (0.7, 0.7),
    "x.view(16)": (1.5, 1.5),
    "ten ops, forward + backward": (1.7, 1.7),
    "softmax": (2.2, 9.0),
    "a linear layer, forward + backward": (1.7, 1.7),
    "SGD, ten parameters 16×16": (0.45, 1.1),
    "Adam, ten parameters 16×16": (0.4, 0.9),
    "add 1M": (2.0, 2.0),
    "exp 1M": (1.5, 3.5),
    "relu 1M": (2.5, 3.0),
    "sum 1M": (3.0, 3.5),
    "softmax 2048×512": (2.0, 5.0),
    "layer_norm 2048×512": (2.8, 7.0),
    "matmul 512": (1.8, 1.8),
    "max_pool2d 2×2": (0.4, 0.4),
    "batch_norm": (0.9, 1.1),
    "topk 10 of 1000×1000": (1.6, 1.8),
    "gather 1M": (2.2, 3.5),
    "LSTM layer 32×16×128 → 256": (2.2, 3.2),
    "MLP 784-256-10, batch 64": (1.8, 2.2),
    "VAE 784-400-20, batch 64": (1.8, 2.2),
}
# The same for what recording adds to `x + x`, by what is recorded: with the compiled helper, and without.
RECORDING = {
    "plain": (0.5, 1.6),
    "record_shapes": (0.6, 2.0),
    "profile_memory": (0.6, 4.0),
    "with_stack": (0.7, 9.0),
    "all options": (0.5, 4.0),
}
RECORDING_ROUNDS = 15


def is_compiled() -> bool:
    return harness.importlib.import_module(f"{harness.OURS}.kernels.compiled").C is not None


def chosen() -> list[Case]:
    every = [*small_ops.CASES, *small_calls.CASES, *kernels.LARGE, *programs.CASES]
    by_name = {case.name: case for case in every}
    compiled = is_compiled()
    return [by_name[name]._replace(bound=limits[0 if compiled else 1]) for name, limits in LIMITS.items()]


def recorded(modes: list[str]) -> list[Row]:
    rows = profiler_cost.recording(modes, RECORDING_ROUNDS)
    which = 0 if is_compiled() else 1
    return [row._replace(bound=RECORDING[mode][which]) for mode, row in zip(modes, rows, strict=True)]


def too_slow(rows: list[Row]) -> list[str]:
    return [row.name for row in rows if row.ratio is not None and row.bound is not None and row.ratio > row.bound]


def slow_calls() -> list[str]:
    """The cases that were too slow as often as they were measured, or failed."""
    cases = chosen()
    for _ in range(TRIES):
        rows = [row.scaled(1e-3) for row in compare(cases)]
        print(table(rows, "us"), flush=True)
        slow = [row.name for row in rows if row.ours is None] or too_slow(rows)
        cases = [case for case in cases if case.name in slow]
        if not cases:
            break
    return slow


def slow_recording() -> list[str]:
    modes = list(RECORDING)
    for _ in range(TRIES):
        rows = recorded(modes)
        print(table(rows, "ns"), flush=True)
        modes = [mode for mode, row in zip(modes, rows, strict=True) if row.name in too_slow(rows)]
        if not modes:
            break
    return [f"recording: {mode}" for mode in modes]


def main() -> int:
    harness.ROUNDS = 7
    slow = slow_calls() + slow_recording()
    if slow:
        print(f"failed, or slower than the limit, {TRIES} times: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
