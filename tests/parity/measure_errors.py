"""Error inputs: the wrong calls torch ships for its operators (OpInfo) raise here what they raise there.

    python tests/parity/measure_errors.py [--package mindtorch_v2] [--only NAME,...] [--part 0/2] [--verbose]
                                          [--json OUT] [--seconds 20]

An operator agrees when each of its error samples raises an exception of torch's type.
"""

from typing import Any

import torch

import measure_operators
from measure_operators import Limits, Result, Timeout, Translator, Unsupported, base, resolve

DEFAULTS = Limits(samples=1000)


class StridedTranslator(Translator):
    """Keeps what tensors share and how they lie in memory: that is what is wrong with some of the samples."""

    def __init__(self, package: Any) -> None:
        super().__init__(package)
        self.memory: dict[int, Any] = {}

    def tensor(self, x: torch.Tensor) -> Any:
        if x.ndim > 64:
            raise Unsupported("NumPy has no arrays of more than 64 dimensions")
        if x.layout != torch.strided or x.dtype == torch.bfloat16 or x.is_quantized or x.is_conj() or x.is_neg():
            return super().tensor(x)
        storage = x.untyped_storage()
        if x.is_meta or not storage.data_ptr():
            return (
                super().tensor(x)
                if not x.is_meta
                else self.package.empty(x.shape, dtype=self.dtype(x.dtype), device="meta")
            )
        if storage.data_ptr() not in self.memory:
            whole = torch.empty(0, dtype=x.dtype).set_(storage)
            self.memory[storage.data_ptr()] = self.package.from_numpy(base(whole).copy())
        memory = self.memory[storage.data_ptr()].view(self.dtype(x.dtype))
        ours = memory.as_strided(tuple(x.shape), x.stride(), x.storage_offset())
        return ours.requires_grad_(x.requires_grad)


def raised(function: Any, args: Any, kwargs: Any) -> str:
    """The name of the exception a call raises, or nothing."""
    try:
        function(*args, **kwargs)
    except (Timeout, KeyboardInterrupt):
        raise
    except BaseException as error:
        return type(error).__name__
    return ""


def check_sample(sample: Any, ours: Any, theirs: Any, package: Any) -> str | None:
    """Return what is different, or nothing; None for a sample left out."""
    translate = StridedTranslator(package)
    try:
        args, kwargs = translate([sample.input, *sample.args]), translate(sample.kwargs)
    except (Unsupported, KeyError, RuntimeError):  # RuntimeError: its memory went with an earlier sample
        return None
    want = raised(theirs, [sample.input, *sample.args], sample.kwargs)
    if not want:
        return None
    got = raised(ours, args, kwargs)
    return "" if got == want else f"{got or 'nothing'} raised instead of {want}"


def check(op: Any, package: Any, limits: Limits) -> Result | None:
    """Compare one operator; None where torch ships no error inputs for it."""
    if op.error_inputs_func is None:
        return None
    ours, theirs = resolve(op.name, package), resolve(op.name, torch)
    wrong = [error.sample_input for error in op.error_inputs("cpu")]
    outcomes = [(s, why) for s in wrong if (why := check_sample(s, ours, theirs, package)) is not None]
    if not outcomes:
        return None
    good = sum(not why for _, why in outcomes)
    reason = next((f"{why}: {s.summary()!s:.300}" for s, why in outcomes if why), "")
    return Result(len(outcomes), good, good, reason)


if __name__ == "__main__":
    measure_operators.main("error_inputs", "raise torch's exceptions for torch's error inputs", DEFAULTS, check)
