"""A minute's worth of measurements against limits wide enough for any machine: fails where something became twice as slow.

Limits are about twice what the ratio to torch is, once with the compiled kernels and once without. A case that exceeds
its limit is measured again, twice, before it counts.
"""

import sys

import harness
import kernels
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
    "MLP 784-256-10, batch 64": (1.8, 2.2),
    "VAE 784-400-20, batch 64": (1.8, 2.2),
}


def chosen() -> list[Case]:
    every = [*small_ops.CASES, *small_calls.CASES, *kernels.LARGE, *programs.CASES]
    by_name = {case.name: case for case in every}
    compiled = harness.importlib.import_module(f"{harness.OURS}.kernels.compiled").C is not None
    return [by_name[name]._replace(bound=limits[0 if compiled else 1]) for name, limits in LIMITS.items()]


def too_slow(rows: list[Row]) -> list[str]:
    return [row.name for row in rows if row.ratio is not None and row.bound is not None and row.ratio > row.bound]


def main() -> int:
    harness.ROUNDS = 7
    cases = chosen()
    for _ in range(TRIES):
        rows = [row.scaled(1e-3) for row in compare(cases)]
        print(table(rows, "us"), flush=True)
        failed = [row.name for row in rows if row.ours is None]
        if failed:
            print(f"failed: {', '.join(failed)}", file=sys.stderr)
            return 1
        slow = too_slow(rows)
        if not slow:
            return 0
        cases = [case for case in cases if case.name in slow]
    print(f"slower than the limit, {TRIES} times: {', '.join(slow)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
