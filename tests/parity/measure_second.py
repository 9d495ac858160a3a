"""Double backward: the gradients of gradients of every operator torch differentiates twice, beside torch's own.

    python tests/parity/measure_second.py [--package mindtorch_v2] [--only NAME,...] [--part 0/2] [--verbose]
                                          [--json OUT] [--samples 4] [--dtype float64] [--seconds 20]

Both sides differentiate the same float64 samples (OpInfo's) with the same cotangents, then differentiate the gradients
with respect to the inputs and the cotangents; torch's own checks hold its side against finite differences.
"""

from typing import Any

import numpy as np
import torch

import measure_operators
from measure_operators import (
    Limits,
    Result,
    Timeout,
    Translator,
    Unsupported,
    chosen_samples,
    cotangents,
    flat,
    resolve,
    same_tensor,
    summed,
)

DEFAULTS = Limits(samples=4, dtype="float64")


def second_gradients(framework: Any, outputs: list[Any], leaves: list[Any], weights: list[Any]) -> list[Any] | None:
    """Differentiate twice, weighing the gradients by fixed numbers; None where the gradients are constant."""
    inputs = [*leaves, *weights]
    first = framework.autograd.grad(outputs, leaves, weights, create_graph=True, allow_unused=True)
    varying = [gradient for gradient in first if gradient is not None and gradient.requires_grad]
    if not varying:
        return None
    arrays = cotangents([v if isinstance(v, torch.Tensor) else torch.from_numpy(v.detach().numpy()) for v in varying])
    scales = [framework.from_numpy(array).reshape(tuple(v.shape)) for array, v in zip(arrays, varying)]
    return list(framework.autograd.grad(varying, inputs, scales, allow_unused=True))


def same_second(want: list[Any] | None, got: list[Any] | None, package: Any) -> str:
    """Return what is different, or nothing; no gradient and one that is zero up to rounding are the same."""
    length = len(want or got or ())
    for i, (wanted, gotten) in enumerate(zip(want or [None] * length, got or [None] * length)):
        if wanted is None or gotten is None:
            present = wanted if gotten is None else gotten
            if present is not None and np.abs(present.detach().numpy(force=True)).max(initial=0) > 1e-9:
                return f"second gradient {i}: missing on one side"
        elif why := same_tensor(wanted, gotten, package, f"second gradient {i}"):
            return why
    return ""


def processed(sample: Any, result: Any) -> list[Any]:
    """The results OpInfo differentiates: those that are unique functions of the inputs."""
    return [x for x in flat(sample.output_process_fn_grad(result)) if hasattr(x, "requires_grad")]


def check_sample(sample: Any, ours: Any, theirs: Any, package: Any) -> str | None:
    """Return what is different, or nothing; None for a sample left out."""
    translate = Translator(package)
    try:
        args, kwargs = translate([sample.input, *sample.args]), translate(sample.kwargs)
    except Unsupported:
        return None
    torch.manual_seed(0)
    try:
        results = processed(sample, theirs(sample.input, *sample.args, **sample.kwargs))
        kept = [i for i, x in enumerate(results) if x.requires_grad]
        outputs = [results[i] for i in kept]
        arrays = cotangents(outputs)
        weights = [torch.from_numpy(a).reshape(x.shape).requires_grad_() for a, x in zip(arrays, outputs)]
        want = second_gradients(torch, outputs, [leaf for leaf, _ in translate.leaves], weights) if outputs else None
    except Exception:
        return None  # what torch does not differentiate twice is no sample of agreement
    if not outputs:
        return None
    try:
        package.manual_seed(0)
        results = processed(sample, ours(*args, **kwargs))
        ours_weights = [
            package.from_numpy(a).reshape(tuple(x.shape)).detach().requires_grad_() for a, x in zip(arrays, outputs)
        ]
        leaves = [leaf for _, leaf in translate.leaves]
        got = second_gradients(package, [results[i] for i in kept], leaves, ours_weights)
        return same_second(want, got, package)
    except (Timeout, KeyboardInterrupt):
        raise
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:110]}"


def check(op: Any, package: Any, limits: Limits) -> Result | None:
    """Compare one operator; None where torch has no second derivative of it."""
    dtype = getattr(torch, limits.dtype)
    if not op.supports_autograd or not op.supports_gradgrad or dtype not in op.supported_dtypes("cpu"):
        return None
    ours, theirs = resolve(op.name, package), op.op if op.name == "normal" else resolve(op.name, torch)
    samples = chosen_samples(op, dtype, True, limits.samples)
    outcomes = [why for s in samples if (why := check_sample(s, ours, theirs, package)) is not None]
    return summed(outcomes)


if __name__ == "__main__":
    measure_operators.main("double_backward", "agree with torch in the gradients of gradients", DEFAULTS, check)
