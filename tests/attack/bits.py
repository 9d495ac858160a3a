"""Random calls of every op, alone and watched in a random way: what they give must be the same to the bit.

    python tests/attack/bits.py [--seed N] [--seconds N]

Arguments are made from the schema of an op's row, or from its sample with other dtypes, layouts and sizes; rows join by
themselves. Many calls are refused, and then the errors are compared. Prints each difference with the seed of its round,
which repeats it: `--seed N --seconds 0` runs that round alone.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "mindtorch_v2"))

import mindtorch_v2 as torch
from mindtorch_v2.dispatch.op import OPS
from watched_cases import LAYOUTS, NAMES, op_case
from watching import CIRCUMSTANCES, WAYS, Case, called, differences

DTYPES = (torch.float32,) * 4 + (torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.int64, torch.bool)
SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 7, 16, 33, 64, 65, 130)
CALLS = 60  # in a round
MOST_ELEMENTS = 1 << 19
# Ops that give what happens to be there, and a row for numbers alone that a tensor cannot reach.
UNFIT = frozenset(
    """empty empty_like new_empty new_empty_strided empty_strided empty_permuted resize_ resize_as_ set_ from_file
    _add_number_""".split()
)


def _shape(rng: random.Random, common: list[int]) -> tuple[int, ...]:
    """Part of the shape that the tensors of a call have in common, now and then another one."""
    if rng.random() < 0.15:
        return tuple(rng.choice(SIZES[:10]) for _ in range(rng.randrange(5)))
    shape = [
        1 if rng.random() < 0.1 else n for n in common[rng.randrange(len(common) + 1) if rng.random() < 0.15 else 0 :]
    ]
    return tuple(shape)


def _tensor(rng: random.Random, common: list[int], dtype: Any) -> Any:
    shape = _shape(rng, common)
    values = np.random.default_rng(rng.randrange(1 << 30)).standard_normal(shape)
    if dtype is torch.int64:
        values = np.round(values * 2)
    elif rng.random() < 0.1:
        values = np.where(values > 1, rng.choice([np.inf, -np.inf, np.nan, -0.0]), values)
    made = torch.from_numpy(np.asarray(values > 0 if dtype is torch.bool else values)).to(dtype)
    made = LAYOUTS[rng.choice(list(LAYOUTS))](made)
    return made.requires_grad_() if rng.random() < 0.4 and (made.is_floating_point() or made.is_complex()) else made


def _number(rng: random.Random) -> Any:
    return rng.choice([0, 1, 2, -1, 3, 0.5, -1.5, 2.0, 0.1, True])


def _value(rng: random.Random, kind: str, common: list[int], dtype: Any) -> Any:
    """An argument of a type as schemas name it."""
    match kind.rstrip("?"):
        case "Tensor":
            return _tensor(rng, common, rng.choice(DTYPES) if rng.random() < 0.1 else dtype)
        case "Tensor[]" | "Tensor?[]":
            return [_tensor(rng, common, dtype) for _ in range(rng.randrange(1, 4))]
        case "Scalar" | "float":
            return _number(rng)
        case "int" | "SymInt":
            return rng.choice([-2, -1, 0, 0, 1, 1, 2, 3])
        case "int[]":
            return [rng.choice([0, 1, 1, 2, 3]) for _ in range(rng.randrange(1, 4))]
        case "float[]":
            return [0.5, 2.0]
        case "bool":
            return rng.random() < 0.5
        case "str":
            return rng.choice(["mean", "sum", "none", "amax", "constant"])
        case "ScalarType":
            return rng.choice([torch.float32, torch.float64, torch.bfloat16, torch.int64])
    return None


def from_schema(rng: random.Random, name: str) -> Case:
    """A call of what users know a row by, with arguments of the types that the row asks for."""
    row = OPS[name]
    dtype = rng.choice(DTYPES)
    common = [rng.choice(SIZES) for _ in range(rng.choice([0, 1, 2, 2, 3, 4]))]
    while np.prod(common, dtype=np.int64) > MOST_ELEMENTS:
        common.pop()
    state = rng.getstate()

    def case() -> Any:
        rng = random.Random()
        rng.setstate(state)
        args, kwargs = [], {}
        for argument in row.schema.arguments:
            if argument.has_default and rng.random() < 0.6:
                if not argument.kwarg_only:
                    break
                continue
            value = _value(rng, argument.type, common, dtype)
            if value is None and not argument.type.endswith("?"):
                return "no argument of this type can be made up"
            if argument.kwarg_only:
                kwargs[argument.python_name] = value
            else:
                args.append(value)
        return called(row.offered, args, kwargs)

    return case


def from_sample(rng: random.Random, name: str) -> Case:
    """The sample of a row in another dtype, layout and size."""
    dtype = rng.choice([None, torch.float64, torch.float16, torch.bfloat16, torch.complex64])
    return op_case(name, dtype, rng.choice(list(LAYOUTS)), rng.random() < 0.5, rng.choice([1, 1, 2, 5, 11, 26, 60]))


def cases(rng: random.Random) -> dict[str, Case]:
    fit = [name for name, row in OPS.items() if row.name not in UNFIT]
    found: dict[str, Case] = {}
    for i in range(CALLS):
        make, names = (from_sample, NAMES) if rng.random() < 0.4 else (from_schema, fit)
        name = rng.choice(names)
        found[f"{i}: {name}"] = make(rng, name)
    return found


def attacked(seed: int) -> list[str]:
    """What one round of random calls comes to otherwise when it is watched, as lines to read."""
    rng = random.Random(seed)
    chosen = cases(rng)
    ways: dict[str, Callable[[], Any]] = {way: WAYS[way] for way in rng.sample(list(WAYS), 2)}
    around = rng.choice([None, None, *CIRCUMSTANCES])
    if around is None:
        return differences(chosen, ways)
    with CIRCUMSTANCES[around]():
        return [f"{line} (in {around})" for line in differences(chosen, ways)]


def main(seed: int, seconds: float) -> int:
    """Attack for so long, a round at least; the number of differences found."""
    end, found, rounds = time.monotonic() + seconds, 0, 0
    while not rounds or time.monotonic() < end:
        for line in attacked(seed + rounds):
            print(f"seed {seed + rounds}: {line[:600]}", flush=True)
            found += 1
        rounds += 1
    print(f"bits: seeds {seed} to {seed + rounds - 1}, {rounds * CALLS} calls, {found} differences")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare random calls alone and watched.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    sys.exit(bool(main(options.seed, options.seconds)))
