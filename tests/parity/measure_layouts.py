"""How results and gradients lie in memory, beside torch: every case of `layout_cases` in every mix of layouts.

    python tests/parity/measure_layouts.py [--only TEXT] [--modes plain,unwatched,recorded,meta] [--verbose]

Prints, for each case that differs, how many of its mixes do, and one of them.
"""

import argparse
import re
import sys
import warnings
from collections import Counter

import numpy as np
import torch

import mindtorch_v2
from layout_cases import CASES

FORMATS = {4: "channels_last", 5: "channels_last_3d"}


def geometry(T, t):
    found = [tuple(t.shape), tuple(t.stride()), t.is_contiguous()]
    if t.dim() in FORMATS:
        found.append(t.is_contiguous(memory_format=getattr(T, FORMATS[t.dim()])))
    return tuple(found)


def flat(result):
    if isinstance(result, (list, tuple)):
        return [t for r in result for t in flat(r)]
    return [result] if isinstance(result, (torch.Tensor, mindtorch_v2.Tensor)) else []


def values_of(t):
    return np.asarray(t.detach().to("cpu").resolve_conj().resolve_neg().numpy())


def run(T, case, layouts, device="cpu", watched=True):
    """Geometries of results and gradients, and the values of the results."""
    T.manual_seed(3)
    tensors = []
    for layout, shape, dtype in zip(layouts, case.shapes, case.dtypes):
        t = layout(T, shape, dtype)
        if device != "cpu":
            t = T.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device)
        tensors.append(t)
    T.manual_seed(3)
    leaves = [t for t in tensors if t.is_floating_point()] if case.grad and watched else []
    for t in leaves:
        t.requires_grad_()
    results = flat(case.function(T, *tensors))
    found = {"out": [geometry(T, t) for t in results]}
    values = [values_of(t) for t in results] if case.values and device == "cpu" else None
    outputs = [t for t in results if t.requires_grad]
    if outputs and leaves:
        for name, make in (
            ("same", lambda t: T.ones_like(t)),
            ("plain", lambda t: T.ones(t.shape, dtype=t.dtype, device=t.device)),
        ):
            grads = T.autograd.grad(outputs, leaves, [make(t) for t in outputs], retain_graph=True, allow_unused=True)
            found[f"grad {name}"] = [None if g is None else geometry(T, g) for g in grads]
        T.autograd.backward(outputs, [T.ones_like(t) for t in outputs])
        found["backward"] = [None if t.grad is None else geometry(T, t.grad) for t in leaves]
    return found, values


def attempt(*args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run(*args)
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:300]


def recorded(*args):
    with mindtorch_v2.profiler.profile():
        return attempt(*args)


def unwatched(T, case, layouts):
    """Without a graph, where ops take shorter ways."""
    return attempt(T, case, layouts, "cpu", False)


MODES = {
    "unwatched": unwatched,
    "plain": attempt,
    "recorded": recorded,
    "meta": lambda *args: attempt(*args, "meta"),
}


def differences(case, layouts, mode="plain", want=None):
    """What differs from torch, as (part, got, wanted)."""
    if mode == "unwatched":
        want = unwatched(torch, case, layouts)
    want = attempt(torch, case, layouts) if want is None else want
    if isinstance(want, str):
        return []
    got = MODES[mode](mindtorch_v2, case, layouts)
    if isinstance(got, str):
        return [("error", got, "a result")]
    found = [(part, got[0].get(part), want[0][part]) for part in want[0] if got[0].get(part) != want[0][part]]
    if mode != "meta" and want[1] is not None:
        for a, b in zip(got[1], want[1]):
            if a.shape == b.shape and not np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True):
                found.append(("values", a.ravel()[:6].tolist(), b.ravel()[:6].tolist()))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--modes", default="plain")
    parser.add_argument("--few", action="store_true", help="the first layouts of each rank alone")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    totals, counts = Counter(), Counter()
    for case in CASES:
        if not re.search(options.only, case.name):
            continue
        bad, example, parts = Counter(), {}, Counter()
        mixes = case.mixes(options.few)
        for layouts in mixes:
            want = attempt(torch, case, layouts)
            totals["refused"] += isinstance(want, str)
            if isinstance(want, str) and options.verbose:
                print("torch refuses", case.name, want)
            for mode in options.modes.split(","):
                totals[mode] += 1
                found = differences(case, layouts, mode, want)
                if found:
                    counts[mode] += 1
                    bad[mode] += 1
                    for part, *_ in found:
                        parts[mode, part] += 1
                        example.setdefault((mode, part), []).append(
                            ([f.__name__ for f in layouts], *next(e for p, *e in found if p == part))
                        )
        if bad:
            print(f"{case.name}: {dict(bad)} of {len(mixes)}")
            for key, (first, *more) in example.items():
                print(f"    {' '.join(key)} {parts[key]}: {first[0]} got {first[1]} want {first[2]}")
                if options.verbose:
                    for other in more:
                        print(f"        {other[0]} got {other[1]} want {other[2]}")
    print(
        {mode: f"{counts[mode]} of {totals[mode]} differ" for mode in options.modes.split(",")},
        "torch refuses",
        totals["refused"],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
