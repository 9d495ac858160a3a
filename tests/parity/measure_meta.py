"""Meta tensors: shapes and dtypes of results and gradients found without computing, beside torch's.

    python tests/parity/measure_meta.py [--package mindtorch_v2] [--only NAME,...] [--part 0/2] [--verbose]
                                        [--json OUT] [--samples 8] [--dtype float32] [--seconds 20]

Operators and samples are OpInfo's, all tensors moved to the meta device; what torch itself cannot do on meta, because
the shape depends on the values, is left out.
"""

from typing import Any

import torch
from torch.utils._pytree import tree_map_only

import measure_operators
from measure_operators import (
    Limits,
    Result,
    Timeout,
    Translator,
    Unsupported,
    chosen_dtype,
    chosen_samples,
    flat,
    resolve,
    summed,
)

DEFAULTS = Limits()


class MetaTranslator(Translator):
    """Rebuilds tensors on the meta device."""

    def tensor(self, x: torch.Tensor) -> Any:
        if x.layout != torch.strided or x.is_quantized:
            raise Unsupported("layout/dtype")
        ours = self.package.empty(tuple(x.shape), dtype=self.dtype(x.dtype), device="meta").requires_grad_(
            x.requires_grad
        )
        if x.requires_grad:
            self.leaves.append((x, ours))
        return ours

    def __call__(self, x: Any) -> Any:
        return self.package.device("meta") if isinstance(x, torch.device) else super().__call__(x)


def to_meta(x: Any) -> Any:
    x = tree_map_only(torch.Tensor, lambda t: t.detach().to("meta").requires_grad_(t.requires_grad), x)
    return tree_map_only(torch.device, lambda d: torch.device("meta"), x)


def facts(result: Any) -> list[Any]:
    """What is to agree: shapes and dtypes, and where the tensors live."""
    return [
        (tuple(x.shape), str(x.dtype).split(".")[-1], str(x.device)) if hasattr(x, "dtype") else type(x).__name__
        for x in flat(result)
    ]


def gradients_fit(results: list[Any], leaves: list[Any], package: Any) -> str:
    """Differentiate on meta; say which gradient is not like its input."""
    outputs = [x for x in results if getattr(x, "requires_grad", False)]
    if not outputs or not leaves:
        return ""
    gradients = package.autograd.grad(outputs, leaves, [package.ones_like(x) for x in outputs], allow_unused=True)
    for leaf, gradient in zip(leaves, gradients):
        if gradient is not None and facts([gradient]) != facts([leaf]):
            return f"gradient {facts([gradient])} of {facts([leaf])}"
    return ""


def check_sample(sample: Any, ours: Any, theirs: Any, package: Any) -> str | None:
    """Return what is different, or nothing; None for a sample left out."""
    try:
        want = facts(theirs(*to_meta([sample.input, *sample.args]), **to_meta(sample.kwargs)))
        translate = MetaTranslator(package)
        args, kwargs = translate([sample.input, *sample.args]), translate(sample.kwargs)
    except Exception:
        return None
    try:
        results = ours(*args, **kwargs)
        got = facts(results)
        if why := gradients_fit(flat(results), [leaf for _, leaf in translate.leaves], package):
            return why
    except (Timeout, KeyboardInterrupt):
        raise
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:110]}"
    return "" if got == want else f"{got} instead of {want}"


def check(op: Any, package: Any, limits: Limits) -> Result | None:
    """Compare one operator; None where torch has it neither on meta nor for this dtype."""
    dtype = chosen_dtype(op, limits)
    if dtype is None:
        return None
    ours, theirs = resolve(op.name, package), resolve(op.name, torch)
    grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    samples = chosen_samples(op, dtype, grad, limits.samples)
    outcomes = [why for s in samples if (why := check_sample(s, ours, theirs, package)) is not None]
    return summed(outcomes)


if __name__ == "__main__":
    measure_operators.main("meta", "have torch's shapes and dtypes on the meta device", DEFAULTS, check)
