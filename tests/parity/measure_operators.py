"""Operators: the sample inputs torch ships for each of its operators (OpInfo), run through ours and through torch.

    python tests/parity/measure_operators.py [--package mindtorch_v2] [--only NAME,...] [--part 0/2] [--verbose]
                                             [--json OUT] [--samples 8] [--dtype float32] [--seconds 20]

Values, dtypes, shapes and gradients are compared, operator by operator; an operator agrees when all its samples do.
data/opinfo_names.txt lists the operators this comparison holds for when torch is compared with itself.
Needs torch 2.13.0, expecttest, hypothesis and pytest.
"""

import argparse
import json
import random
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

from parts import part

LISTED = set((Path(__file__).parent / "data" / "opinfo_names.txt").read_text().split())
SKIPPED_PREFIXES = tuple(
    """_refs. ops. jiterator sparse. torch.ops _segment to_sparse _native _efficient _flash _upsample
    _softmax_backward _chunk _batch _unsafe""".split()
)
FORMATS = {
    getattr(torch, name): name for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
}
LAYOUTS = {torch.strided: "strided"}
FALLBACK_DTYPES = (torch.int64, torch.bool, torch.complex64, torch.float64, torch.int32)
MOST_SAMPLES = 60

# Operators whose OpInfo passes the arguments in another order than the public function takes them.
REORDERED: dict[str, Callable[[Any], Callable[..., object]]] = {
    "where": lambda m: lambda x, condition, other: m.where(condition, x, other),
    "nn.functional.embedding": lambda m: lambda weight, index, **k: m.nn.functional.embedding(index, weight, **k),
    "special.polygamma": lambda m: lambda x, n: m.special.polygamma(n, x),
    "einsum": lambda m: lambda tensors, equation: m.einsum(equation, tensors),
    "polygamma": lambda m: lambda x, n: m.polygamma(n, x),
}


class Unsupported(Exception):
    """The package has no such operator, or a sample has no counterpart in it."""


class Timeout(Exception):
    """An operator took longer than it may."""


class Result(NamedTuple):
    samples: int
    forward: int
    backward: int
    why: str


class Limits(NamedTuple):
    samples: int = 8
    dtype: str = "float32"
    seconds: int = 20


DEFAULTS = Limits()


def base(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().resolve_conj().resolve_neg().numpy(force=tensor._is_zerotensor())


class Translator:
    """Rebuilds torch's values in the package, and remembers the tensors that require grad in pairs."""

    def __init__(self, package: Any) -> None:
        self.package = package
        self.leaves: list[tuple[torch.Tensor, Any]] = []

    def dtype(self, dtype: torch.dtype) -> Any:
        return getattr(self.package, str(dtype).split(".")[1])

    def tensor(self, x: torch.Tensor) -> Any:
        if x.layout != torch.strided or x.dtype == torch.bfloat16 or x.is_quantized:
            raise Unsupported("layout/dtype")
        array = base(x).copy()
        if array.ndim:
            ours = self.package.from_numpy(array)
        else:
            ours = self.package.tensor(array.item(), dtype=self.dtype(x.dtype))
        if x.requires_grad:
            ours.requires_grad_(True)
            self.leaves.append((x, ours))
        return ours

    def __call__(self, x: Any) -> Any:
        match x:
            case torch.Tensor():
                return self.tensor(x)
            case torch.dtype():
                return self.dtype(x)
            case torch.device():
                return self.package.device(str(x))
            case torch.memory_format():
                return getattr(self.package, FORMATS[x])
            case torch.layout():
                return getattr(self.package, LAYOUTS[x])
            case torch.Size():
                return self.package.Size(tuple(x))
            case list() | tuple():
                items = [self(item) for item in x]
                return items if type(x) is list else tuple(items)
            case dict():
                return {key: self(value) for key, value in x.items()}
            case slice():
                return slice(self(x.start), self(x.stop), self(x.step))
        return x


def resolve(name: str, package: Any) -> Callable[..., Any]:
    """Find the public function, method or attribute an OpInfo name stands for."""
    if name in REORDERED:
        return REORDERED[name](package)
    found = package
    for word in name.split("."):
        found = getattr(found, word, None)
    if callable(found):
        return found
    last = name.split(".")[-1]
    if hasattr(package.Tensor, last):
        method = getattr(package.Tensor, last)
        return method if callable(method) else lambda x: getattr(x, last)
    if name in ("H", "mH", "mT", "T"):
        return lambda x: getattr(x, name)
    raise Unsupported("absent")


def flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flat(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flat(item)]
    return [value]


def tolerance(dtype: np.dtype) -> tuple[float, float]:
    if dtype in (np.float64, np.complex128):
        return 1e-7, 1e-9
    return (1e-2, 1e-3) if dtype == np.float16 else (2e-4, 2e-5)


def same_tensor(want: torch.Tensor, got: Any, package: Any, what: str) -> str:
    if not isinstance(got, package.Tensor):
        return f"{what}: {type(got).__name__} instead of Tensor"
    if tuple(want.shape) != tuple(got.shape):
        return f"{what}: shape {tuple(got.shape)} instead of {tuple(want.shape)}"
    if str(want.dtype).split(".")[1] != str(got.dtype).split(".")[-1]:
        return f"{what}: dtype {got.dtype} instead of {want.dtype}"
    got = got.detach()
    if got.dtype.is_complex:
        got = got.resolve_conj().resolve_neg()
    expected = base(want)
    rtol, atol = tolerance(expected.dtype)
    with np.errstate(all="ignore"):
        close = np.allclose(np.asarray(got.numpy()), expected, rtol=rtol, atol=atol, equal_nan=True)
    return "" if close else f"{what}: values differ"


def same(want: Any, got: Any, package: Any, what: str) -> str:
    """Return what is different, or nothing."""
    match want:
        case torch.Tensor():
            return same_tensor(want, got, package, what)
        case float():
            agree = np.allclose(want, got, rtol=1e-4, equal_nan=True)
        case torch.Size():
            agree = tuple(want) == tuple(got)
        case bool() | int() | complex() | str() | None:
            agree = want == got
        case torch.dtype():
            agree = str(want).split(".")[1] == str(got).split(".")[-1]
        case _:
            return f"{what}: cannot compare {type(want).__name__}"
    return "" if agree else f"{what}: {got} instead of {want}"


def cotangents(outputs: list[torch.Tensor]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = []
    for output in outputs:
        array = rng.standard_normal(tuple(output.shape))
        if output.dtype.is_complex:
            array = array + 1j * rng.standard_normal(tuple(output.shape))
        arrays.append(np.ascontiguousarray(np.asarray(array).astype(base(output).dtype)))
    return arrays


def same_gradients(pairs: list[tuple[torch.Tensor, Any]], leaves: list[tuple[torch.Tensor, Any]], package: Any) -> str:
    """Differentiate both sides with the same cotangents, and return what is different, or nothing."""
    outputs = [output for output, _ in pairs]
    arrays = cotangents(outputs)
    weights = [torch.from_numpy(array).reshape(output.shape) for array, output in zip(arrays, outputs)]
    try:
        want = torch.autograd.grad(outputs, [leaf for leaf, _ in leaves], weights, allow_unused=True)
    except Exception:
        return ""  # where torch itself has no gradient there is nothing to compare
    got = package.autograd.grad(
        [output for _, output in pairs],
        [leaf for _, leaf in leaves],
        [package.from_numpy(array).reshape(tuple(output.shape)) for array, output in zip(arrays, outputs)],
        allow_unused=True,
    )
    for i, (wanted, gotten) in enumerate(zip(want, got)):
        if wanted is None and gotten is None:
            continue
        if wanted is None or gotten is None:
            present = wanted if gotten is None else gotten
            if float(abs(np.asarray(present.detach().numpy())).sum()) != 0:
                return f"grad{i}: missing on one side"
        elif why := same(wanted, gotten, package, f"grad{i}"):
            return why
    return ""


def same_outputs(want: list[Any], got: list[Any], package: Any) -> str:
    if len(want) != len(got):
        return f"{len(got)} results instead of {len(want)}"
    return next(
        (why for i, (x, y) in enumerate(zip(want, got)) if (why := same(x, y, package, f"out{i}"))),
        "",
    )


def chosen_dtype(op: Any, limits: Limits) -> torch.dtype | None:
    """The dtype to sample: the one asked for, else the next best; none where it was asked for by name."""
    dtype, supported = getattr(torch, limits.dtype), op.supported_dtypes("cpu")
    if dtype in supported:
        return dtype
    if limits.dtype != "float32":
        return None
    return next(d for d in FALLBACK_DTYPES if d in supported)


def chosen_samples(op: Any, dtype: torch.dtype, grad: bool, most: int) -> list[Any]:
    """Take samples evenly from an operator's first ones; the same ones whichever operators ran before."""
    torch.manual_seed(1234)
    np.random.seed(1234)
    random.seed(1234)
    samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=grad), MOST_SAMPLES))
    return samples[:: max(1, len(samples) // most)][:most]


def check_sample(
    sample: Any, ours: Callable[..., Any], theirs: Callable[..., Any], package: Any, grad: bool
) -> tuple[bool, str] | None:
    """Return whether the forward result agrees, and what is different if anything; None for a sample left out."""
    translate = Translator(package)
    try:
        args, kwargs = translate([sample.input, *sample.args]), translate(sample.kwargs)
    except Unsupported:
        return None
    torch.manual_seed(0)
    try:
        want = flat(theirs(sample.input, *sample.args, **sample.kwargs))
    except Exception:
        return None  # what torch refuses is no sample of agreement
    forward = False
    try:
        package.manual_seed(0)
        got = flat(ours(*args, **kwargs))
        if why := same_outputs(want, got, package):
            return False, why
        forward = True
        pairs = [(x, y) for x, y in zip(want, got) if isinstance(x, torch.Tensor) and x.requires_grad]
        if not grad or not translate.leaves or not pairs:
            return True, ""
        return True, same_gradients(pairs, translate.leaves, package)
    except (Timeout, KeyboardInterrupt):
        raise
    except BaseException as error:
        return forward, f"{type(error).__name__}: {str(error)[:110]}"


def summed(outcomes: list[str]) -> Result | None:
    """The result of samples that agree or not as a whole, each told by what is different; None without samples."""
    if not outcomes:
        return None
    good = sum(not why for why in outcomes)
    return Result(len(outcomes), good, good, next((why for why in outcomes if why), ""))


def check(op: Any, package: Any, limits: Limits) -> Result | None:
    """Compare one operator over its samples; None where torch has no such operator for the dtype asked for."""
    dtype = chosen_dtype(op, limits)
    if dtype is None:
        return None
    ours = resolve(op.name, package)
    try:
        theirs = resolve(op.name, torch)
    except Unsupported:
        theirs = op.op
    grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    outcomes = []
    for sample in chosen_samples(op, dtype, grad, limits.samples):
        outcome = check_sample(sample, ours, theirs, package, grad)
        if outcome is not None:
            outcomes.append(outcome)
    forward = sum(agrees for agrees, _ in outcomes)
    backward = sum(agrees and not why for agrees, why in outcomes)
    return Result(len(outcomes) or 1, forward, backward, next((why for _, why in outcomes if why), ""))


def ring(signum: int, frame: FrameType | None) -> None:
    raise Timeout


def check_in_time(
    checked: Callable[[Any, Any, Limits], Result | None], op: Any, package: Any, limits: Limits
) -> Result | None:
    """Check an operator; whatever goes wrong, a part not built yet included, counts as not agreeing."""
    signal.signal(signal.SIGALRM, ring)
    signal.alarm(limits.seconds)
    try:
        return checked(op, package, limits)
    except Timeout:
        return Result(1, 0, 0, "timeout")
    except Unsupported as error:
        return Result(1, 0, 0, str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Result(1, 0, 0, f"{type(error).__name__}: {str(error)[:110]}")
    finally:
        signal.alarm(0)


def listed_operators() -> Iterator[tuple[str, Any]]:
    for op in op_db:
        full = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if full in LISTED and not op.name.startswith(SKIPPED_PREFIXES):
            yield full, op


def measure(
    package: str,
    only: frozenset[str] = frozenset(),
    share: tuple[int, int] = (0, 1),
    limits: Limits = DEFAULTS,
    checked: Callable[[Any, Any, Limits], Result | None] = check,
) -> dict[str, Result]:
    """Check the listed operators, or those named in `only`, or every n-th of them from the k-th on (`share`)."""
    ours = part(package)
    k, n = share
    chosen = [(full, op) for full, op in listed_operators() if not only or op.name in only][k::n]
    results = ((full, check_in_time(checked, op, ours, limits)) for full, op in chosen)
    return {full: result for full, result in results if result is not None}


def figures(results: dict[str, Result], name: str = "operators") -> dict[str, tuple[int, int]]:
    """Return the figure by its name in floors.json, as (agreeing, of)."""
    return {name: (sum(result.backward == result.samples for result in results.values()), len(results))}


def share_of(text: str) -> tuple[int, int]:
    k, n = map(int, text.split("/"))
    if not 0 <= k < n:
        raise argparse.ArgumentTypeError(f"{text!r} is not a part such as 0/2 or 1/2")
    return k, n


def parse(description: str, defaults: Limits) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--package", default="mindtorch_v2")
    parser.add_argument("--only", default="", help="operators of these names, separated by commas")
    parser.add_argument("--part", type=share_of, default=(0, 1), help="a share of the operators, such as 0/2")
    parser.add_argument("--json", type=Path, help="write the figure and each operator's result to this file")
    parser.add_argument("--verbose", action="store_true", help="say why an operator does not agree")
    parser.add_argument("--samples", type=int, default=defaults.samples, help="most samples an operator")
    parser.add_argument("--dtype", default=defaults.dtype)
    parser.add_argument("--seconds", type=int, default=defaults.seconds, help="most time an operator may take")
    return parser.parse_args()


def main(
    name: str = "operators",
    what: str = "agree with torch in values and gradients",
    defaults: Limits = DEFAULTS,
    checked: Callable[[Any, Any, Limits], Result | None] = check,
) -> None:
    """Check operators as the command line asks for, and report; the scripts beside this one share it."""
    options = parse(f"Operators that {what}, over torch's own samples.", defaults)
    warnings.simplefilter("ignore")
    start = time.monotonic()
    only = frozenset(filter(None, options.only.split(",")))
    limits = Limits(options.samples, options.dtype, options.seconds)
    name = name if limits.dtype == defaults.dtype else f"{name}_{limits.dtype}"
    results = measure(options.package, only, options.part, limits, checked)
    if options.verbose:
        for full, r in results.items():
            if r.backward < r.samples:
                print(f"{full}: {r.forward}/{r.samples} forward, {r.backward}/{r.samples} in full: {r.why}")
    if options.json:
        rows = {full: result._asdict() for full, result in results.items()}
        options.json.write_text(json.dumps({"figures": figures(results, name), "results": rows}, indent=1))
    [(good, of)] = figures(results).values()
    absent = sum(r.why == "absent" for r in results.values())
    print(f"{name}: {good}/{of} {what}; {absent} absent; {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
