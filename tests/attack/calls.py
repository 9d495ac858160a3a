"""Calls public functions and methods of tensors on odd layouts and with wrong arguments, with the compiled modules and without.

    python tests/attack/calls.py --seed 1 --seconds 30

A call may return or raise an ordinary exception, and both ways must do the same (but for TypeErrors and ValueErrors, which
may be raised by one alone): results are compared, gradients too. It may not end the process, hang, raise a SystemError or run
out of recursion. Each call is made from the seed and its number alone,
so `--seed S --first N --rounds 1 --tell` makes one of them again and says what it is.
"""

from __future__ import annotations

import faulthandler
import inspect
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "mindtorch_v2"))

import mindtorch_v2 as torch
from op_samples import SAMPLES
from options import calls_parser

ORDINARY = (TypeError, ValueError, RuntimeError, LookupError, ArithmeticError, MemoryError, AttributeError, AssertionError,
            NotImplementedError, BufferError)  # fmt: skip
HANG_S = 20.0
MEMORY = 4 << 30
PLACES = (torch, torch.nn.functional, torch.linalg, torch.special, torch.fft)
DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128".split()
LAYOUTS = "plain transposed stepped expanded offset empty number overlapping leaf".split()
INTEGERS = (0, 1, -1, 2, 3, -2, 5, 7, 100, -100, 2**31, 2**40, 2**62, 2**63 - 1, 2**63, -(2**63), 2**70)
OTHERS = (0.5, -1.5, float("nan"), float("inf"), 1e300, True, False, None, 1j, "sum", "x", "", b"x", (), (0,), (1, -1), (2, 3),
          (2**40, 2**40), [], [0, 1], [None], ["x"], {}, slice(None), Ellipsis, object(), range(3), np.float32(2), np.int64(1),
          torch.float16, torch.bool, torch.int64, torch.float64)  # fmt: skip
# What changes the process, waits, reads files, or is not a call on tensors.
LEFT_OUT = """compile load save fork wait from_file import_ir_module manual_seed seed initial_seed get_rng_state
    thread_safe_generator parse_ir parse_schema merge_type_from_type_comment unify_type_list vitals_enabled
    read_vitals autocast_increment_nesting autocast_decrement_nesting clear_autocast_cache share_memory_
    tolist storage untyped_storage data_ptr typename register_hook register_post_accumulate_grad_hook
    module_load map_ map2_ apply_ cudnn_affine_grid_generator frombuffer init_num_threads
    prepare_multiprocessing_environment classproperty overrides""".split()
PREFIXES = (
    "_",
    "set_",
    "get_",
    "is_",
    "use_",
    "import_",
    "register_",
    "cudnn_",
    "miopen_",
    "mkldnn_",
    "fbgemm_",
    "quantize",
)
UNWRITTEN = ("empty", "new_empty", "resize", "rand", "normal", "bernoulli", "multinomial", "poisson", "binomial")
WILD = " of infinities or nan"
# Of double precision, too, as gradients of single precision may arrive there.
LOOSE = {"float16": 2e-2, "bfloat16": 5e-2, "float32": 2e-4, "float64": 1e-6, "complex64": 2e-4, "complex128": 1e-6}


class Call(NamedTuple):
    """What is called, with what."""

    name: str
    function: Callable[..., Any]
    given: tuple[Any, ...]
    keywords: dict[str, Any]


def callables() -> dict[str, Callable[..., Any]]:
    """Public functions and methods that take tensors, by a name that says where they are from."""
    found = {}
    for place in (*PLACES, torch.Tensor):
        for name in sorted(dir(place)):
            made = None if name in LEFT_OUT or name.startswith(PREFIXES) else getattr(place, name, None)
            if callable(made) and not inspect.isclass(made) and not inspect.ismodule(made):
                found[f"{place.__name__}.{name}"] = made
    found.update(
        {f"Tensor.{name}": getattr(torch.Tensor, name) for name in ("__getitem__", "__setitem__", "__matmul__")}
    )
    return found


ALL = callables()
NAMES = sorted(ALL)
SAMPLED = [
    (f"{place.__name__}.{base}", name)
    for name in sorted(SAMPLES)
    for base in (name.partition(".")[0],)
    for place in (*PLACES, torch.Tensor)
    if f"{place.__name__}.{base}" in ALL
]


class Maker:
    """Makes one call."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, number])

    def pick(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, of: int) -> bool:
        return bool(self.rng.integers(of) == 0)

    def values(self, shape: tuple[int, ...], dtype: str) -> Any:
        if dtype == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if "int" in dtype:
            return self.rng.integers(0, 4, shape).astype(dtype)
        drawn = np.round(self.rng.standard_normal(shape) * 2, 2)
        if self.chance(6):
            drawn = np.where(self.rng.random(shape) < 0.2, self.pick((np.nan, np.inf, -np.inf, 0.0, -0.0)), drawn)
        with np.errstate(all="ignore"):
            if dtype.startswith("complex"):
                return (drawn + 1j * np.round(self.rng.standard_normal(shape), 2)).astype(dtype)
            return np.asarray(drawn).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)

    def of(self, shape: tuple[int, ...], dtype: str) -> Any:
        values = self.values(shape, dtype)
        if dtype == "bfloat16":
            return torch.tensor(values.astype(np.float32).tolist(), dtype=torch.bfloat16).reshape(shape)
        return torch.tensor(values.item(), dtype=getattr(torch, dtype)) if not shape else torch.from_numpy(values)

    def laid(self, shape: tuple[int, ...], dtype: str) -> Any:
        """A tensor of that shape (but for those that are to be empty or a number) somewhere in memory."""
        layout = self.pick(LAYOUTS)
        if layout == "number":
            return self.of((), dtype)
        if layout == "leaf" and dtype in LOOSE:
            return self.of(shape, dtype).requires_grad_()
        if not shape or layout in ("plain", "leaf"):
            return self.of(shape, dtype)
        if layout == "transposed":
            return self.of(shape[::-1], dtype).permute(*range(len(shape))[::-1])
        if layout == "stepped":
            return self.of((*shape[:-1], shape[-1] * 2), dtype)[..., ::2]
        if layout == "expanded":
            return self.of((*shape[:-1], 1), dtype).expand(*shape)
        if layout == "empty":
            return self.of((*shape[:-1], 0), dtype)
        if layout == "overlapping" and len(shape) == 1:
            return self.of((shape[0] + 3,), dtype).unfold(0, 3, 1)
        return self.of((shape[0] + 1, *shape[1:]), dtype)[1:]

    def tensor(self) -> Any:
        shape = tuple(int(self.pick((0, 1, 1, 2, 3, 4, 5))) for _ in range(int(self.rng.integers(5))))
        return self.laid(shape, self.pick(DTYPES))

    def anything(self) -> Any:
        kind = int(self.rng.integers(6))
        if kind == 0:
            return self.pick(INTEGERS)
        if kind == 1:
            return self.pick(OTHERS)
        return [self.tensor() for _ in range(self.pick((0, 1, 2)))] if kind == 2 else self.tensor()

    def changed(self, value: Any) -> Any:
        """An argument of a sample: the same, in another layout or type, or something else altogether."""
        change = int(self.rng.integers(12))
        if change == 0:
            return self.anything()
        if isinstance(value, list | tuple) and value and isinstance(value[0], torch.Tensor):
            return type(value)(self.changed(v) for v in value)
        if not isinstance(value, torch.Tensor):
            return self.pick(INTEGERS) if change == 1 else value
        dtype = str(value.dtype).removeprefix("torch.")
        if change < 3:
            return self.laid(tuple(value.shape), self.pick(DTYPES) if change == 1 else dtype)
        return self.laid(tuple(value.shape), dtype) if change < 7 and "float" in dtype else value

    def call(self) -> Call:
        if self.chance(3):
            name = self.pick(NAMES)
            given = tuple(self.anything() for _ in range(int(self.rng.integers(5))))
            first = () if not name.startswith("Tensor.") or self.chance(20) else (self.tensor(),)
            return Call(name, ALL[name], (*first, *given), {})
        name, sample = self.pick(SAMPLED)
        given, keywords = SAMPLES[sample]()
        return Call(
            f"{name} as {sample}",
            ALL[name],
            tuple(self.changed(v) for v in given),
            {k: self.changed(v) if self.chance(4) else v for k, v in keywords.items()},
        )


def is_wild(call: Call) -> bool:
    """Whether infinities or nan are among what is given: what comes of them depends on the order of operations."""
    given = list(tensors_in((call.given, list(call.keywords.values()))))
    return any(not np.isfinite(told(t)[3]).all() for t in given if t.is_floating_point() or t.is_complex())


def tensors_in(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_in(one)


def told(value: Any) -> Any:
    """What is compared of a result: numbers, and tensors as their type, shape and values."""
    if isinstance(value, torch.Tensor):
        if value.is_meta or value.layout is not torch.strided or value.numel() > 1 << 20:
            return "tensor", str(value.dtype), tuple(value.shape), None
        plain = value.detach().resolve_conj().resolve_neg()
        wide = plain.to(torch.float64) if plain.dtype is torch.bfloat16 else plain
        return "tensor", str(value.dtype), tuple(value.shape), np.array(wide.numpy())
    if isinstance(value, list | tuple):
        return "list", [told(v) for v in value]
    return ("number", value) if isinstance(value, bool | int | float | complex) else ("other", type(value).__name__)


def gradients(result: Any, given: Any) -> Any:
    """The gradients of the inputs, where the result has any."""
    leaves = [t for t in tensors_in(given) if t.requires_grad and t.is_leaf]
    ends = [t for t in tensors_in(result) if t.requires_grad and not t.is_complex()]
    if not leaves or not ends:
        return ()
    torch.autograd.backward([end.sum() for end in ends])
    return [told(leaf.grad) for leaf in leaves if leaf.grad is not None]


def outcome(call: Call) -> Any:
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = call.function(*call.given, **call.keywords)
            return "returned", told(result), gradients(result, (call.given, list(call.keywords.values())))
    except RecursionError as error:
        return "wrong", f"RecursionError: {error}"
    except ORDINARY as error:
        wrong = isinstance(error, NameError) or "returned a result with an exception set" in str(error)
        return ("wrong" if wrong else "raised"), type(error).__name__, str(error)[:300]
    except BaseException as error:
        return "wrong", f"{type(error).__name__}: {str(error)[:300]}"


def bounded() -> None:
    """No more memory than these calls need, so that what asks for more gets a MemoryError."""
    if "asan" not in os.environ.get("LD_PRELOAD", ""):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def work(seed: int, first: int, rounds: int, seconds: float, log: Path) -> None:
    """Make calls and write what came of each, before it the number of the one under way."""
    bounded()
    until = time.monotonic() + seconds
    with log.open("wb") as out:
        for number in range(first, first + rounds):
            if time.monotonic() > until:
                break
            call = Maker(seed, number).call()
            pickle.dump((number, call.name + WILD * is_wild(call)), out)
            out.flush()
            faulthandler.dump_traceback_later(HANG_S, exit=True)
            made = outcome(call)
            faulthandler.cancel_dump_traceback_later()
            pickle.dump(made, out)


def read(log: Path) -> Iterator[tuple[int, str, Any]]:
    """What came of calls; None of the last one if the process ended in it."""
    with log.open("rb") as file:
        while True:
            try:
                number, name = pickle.load(file)
            except EOFError:
                return
            try:
                made = pickle.load(file)
            except (EOFError, pickle.UnpicklingError):
                made = None
            yield number, name, made


def close(a: Any, b: Any, name: str) -> bool:
    """Whether two results are the same up to rounding."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) == len(b) == 4 and type(a[0]) is type(b[0]) is str:
            return a[:3] == b[:3] and (a[3] is None or b[3] is None or near(a[3], b[3], a[1], name))
        return len(a) == len(b) and all(close(x, y, name) for x, y in zip(a, b))
    if isinstance(a, float | complex) and isinstance(b, float | complex):
        return near(np.asarray(a), np.asarray(b), "torch.float32", name)
    return type(a) is type(b) and a == b


def near(a: Any, b: Any, dtype: str, name: str) -> bool:
    if name.rpartition(".")[2].startswith(UNWRITTEN):
        return True  # memory as it was found, or another stream of numbers
    if WILD in name:  # nan or an infinity, one as good as the other
        a, b = (np.where(np.isfinite(v), v, np.nan) for v in (a, b))
    if ".conv" in name:  # without the compiled modules zeros around an image meet infinite weights, which makes nan
        a, b = (np.where(np.isfinite(a) & np.isfinite(b), v, 0) for v in (a, b))
    loose = LOOSE.get(dtype.removeprefix("torch."), 0.0)
    scale = np.nanmax(np.abs(np.where(np.isfinite(b), b, 0)), initial=1.0) if loose else 0.0
    return (
        bool(np.allclose(a, b, rtol=loose, atol=loose * scale, equal_nan=True)) if loose else bool(np.array_equal(a, b))
    )


def difference(one: Any, other: Any, name: str) -> str:
    """What is wrong with what came of a call, compiled and pure; empty where nothing is."""
    for way, made in (("compiled", one), ("pure", other)):
        if made is not None and made[0] == "wrong":
            return f"{way}: {made[1]}"
    if one is None or other is None or one[0] == other[0] == "raised":
        return ""
    if any(made[0] == "raised" and made[1] in ("TypeError", "ValueError") for made in (one, other)):
        return ""  # an argument of the wrong kind, which one of the two takes for what it can be read as
    return (
        ""
        if one[0] == other[0] and close(one[1:], other[1:], name)
        else f"compiled: {short(one)}\n    pure: {short(other)}"
    )


def short(made: Any) -> str:
    return " ".join(str(made).split())[:400]


def both(seed: int, first: int, rounds: int, seconds: float, folder: Path) -> Iterator[tuple[int, str, str]]:
    """Calls made both ways: what was wrong with each; a process that ended is the last."""
    logs, ended = [], {}
    for pure in ("", "1"):
        logs.append(folder / f"pure{pure}")
        made = max((n for n, _, _ in read(logs[0])), default=first) - first + 1 if pure else rounds
        given = [
            "--seed",
            seed,
            "--first",
            first,
            "--rounds",
            made,
            "--seconds",
            1e9 if pure else seconds,
            "--worker",
            logs[-1],
        ]
        command = [sys.executable, "-X", "faulthandler", __file__, *map(str, given)]
        limit = (3 * seconds if pure else seconds) + 5 * HANG_S
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env={**os.environ, "MINDTORCH_PURE": pure}
        )
        ended[pure] = f"the process ended with {done.returncode}\n{done.stderr[:3000]}" if done.returncode else ""
        if done.returncode and all(last is not None for _, _, last in read(logs[-1])):
            raise RuntimeError(f"no call was under way when {ended[pure]}")
    others = {number: made for number, _, made in read(logs[1])}
    for number, name, made in read(logs[0]):
        yield number, name, ended[""] if made is None else difference(made, others.get(number), name)
        if number in others and others[number] is None:
            yield number, name, f"without the compiled modules {ended['1']}"


def main(seed: int, seconds: float, rounds: int = 1 << 40, first: int = 0) -> int:
    """Attack for some seconds, of which the calls without the compiled modules take about half; how many findings."""
    found, until, end = 0, time.monotonic() + seconds, first + rounds
    print(f"calls: seed {seed}", flush=True)
    begun = first
    with tempfile.TemporaryDirectory() as folder:
        while first < end and (left := until - time.monotonic()) > 1:
            for number, name, wrong in both(seed, first, end - first, min(left / 2, 20.0), Path(folder)):
                first = number + 1
                if wrong:
                    found += 1
                    print(f"call {number} ({name}): {wrong}", flush=True)
    print(f"{first - begun} calls, {found} findings", flush=True)
    return found


def tell(seed: int, number: int) -> None:
    """Say what a call is, and make it."""
    call = Maker(seed, number).call()
    for part in (call.name, *call.given, call.keywords):
        strides = f"{tuple(part.shape)} {part.stride()} {part.dtype} " if isinstance(part, torch.Tensor) else ""
        print(" ", strides, repr(part)[:300])
    bounded()
    print(short(outcome(call)))


if __name__ == "__main__":
    parser = calls_parser(__doc__)
    parser.add_argument("--tell", action="store_true", help="say what the first call is")
    args = parser.parse_args()
    if args.tell:
        tell(args.seed, args.first)
    elif args.worker:
        work(args.seed, args.first, args.rounds, args.seconds, args.worker)
    else:
        sys.exit(main(args.seed, args.seconds, args.rounds, args.first) > 0)
