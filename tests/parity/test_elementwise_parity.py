"""Elementwise operators beside torch: result dtypes and refusals for every pair of dtypes, second derivatives."""

import warnings
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import mindtorch_v2

warnings.filterwarnings("ignore", category=UserWarning)

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
PAIRS = """add sub mul div floor_divide remainder fmod pow rsub maximum minimum fmax fmin hypot copysign heaviside gcd lcm
    float_power true_divide nextafter atan2 logaddexp logaddexp2 xlogy eq ne lt le gt ge isclose logical_and logical_or
    logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift special.xlog1py igamma""".split()
SINGLES = """abs neg sign sgn square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan
    sinh cosh tanh asinh acosh atanh ceil floor round trunc frac sigmoid logit erf erfc erfinv lgamma digamma sinc i0
    deg2rad rad2deg nan_to_num angle relu positive isnan isinf isfinite isposinf isneginf isreal logical_not bitwise_not
    signbit conj_physical frexp nn.functional.relu6 nn.functional.leaky_relu nn.functional.elu nn.functional.gelu
    nn.functional.silu nn.functional.mish nn.functional.softplus nn.functional.hardtanh nn.functional.hardswish
    nn.functional.logsigmoid nn.functional.softshrink nn.functional.hardshrink nn.functional.glu""".split()


def part(package: Any, name: str) -> Any:
    return reduce(getattr, name.split("."), package)


def twos(package: Any, dtype: str, *shape: int) -> Any:
    return package.full(shape, 2).to(getattr(package, dtype))


def outcome(function: Callable[..., Any], *args: Any) -> str:
    """The dtypes of the results, or the kind of error (torch says NotImplementedError where it has no kernel)."""
    try:
        result = function(*args)
    except RuntimeError:
        return "RuntimeError"
    except Exception as error:
        return type(error).__name__
    results = result if isinstance(result, tuple) else (result,)
    return " ".join(str(r.dtype).removeprefix("torch.") for r in results)


def agree(want: str, got: str) -> bool:
    return want == got or "complex32" in want  # which NumPy does not have


@pytest.mark.parametrize("name", SINGLES)
def test_dtypes_of_one(name: str) -> None:
    theirs, ours = part(torch, name), part(mindtorch_v2, name)
    for dtype in DTYPES:
        want, got = outcome(theirs, twos(torch, dtype, 2)), outcome(ours, twos(mindtorch_v2, dtype, 2))
        assert agree(want, got), f"{name}({dtype}): {got}, torch {want}"


@pytest.mark.parametrize("name", PAIRS)
def test_dtypes_of_two(name: str) -> None:
    theirs, ours = part(torch, name), part(mindtorch_v2, name)
    wrong = []
    for left in DTYPES:
        others: list[Any] = [(right, shape) for right in DTYPES for shape in ((2,), ())]
        for right, shape in others:
            if left == "float16" and right.startswith("complex"):
                continue  # meets in complex32
            want = outcome(theirs, twos(torch, left, 2), twos(torch, right, *shape))
            got = outcome(ours, twos(mindtorch_v2, left, 2), twos(mindtorch_v2, right, *shape))
            if not agree(want, got):
                wrong.append(f"{left} {right}{shape}: {got}, torch {want}")
        for number in (2, 2.5, 1j):
            if left == "float16" and number == 1j:
                continue
            want = outcome(theirs, twos(torch, left, 2), number)
            got = outcome(ours, twos(mindtorch_v2, left, 2), number)
            if not agree(want, got):
                wrong.append(f"{left} {number}: {got}, torch {want}")
    assert not wrong, "\n".join(wrong)


# --- second derivatives -----------------------------------------------------------------------------------------------

SMOOTH = """abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh clamp complex copysign cos cosh deg2rad
    digamma div erf erfc erfinv exp exp2 expm1 float_power fmax fmin fmod frac hypot i0 ldexp lerp lgamma log log10 log1p
    log2 logaddexp logaddexp2 logit max maximum min minimum mul mvlgamma nan_to_num neg polar pow rad2deg reciprocal
    remainder rsqrt rsub sgn sigmoid sin sinc sinh sqrt square sub tan tanh trunc xlogy special.entr special.erfcx
    special.i0e special.i1 special.i1e special.log_ndtr special.ndtr special.ndtri special.xlog1py nn.functional.celu
    nn.functional.elu nn.functional.gelu nn.functional.glu nn.functional.hardshrink nn.functional.hardswish
    nn.functional.hardtanh nn.functional.leaky_relu nn.functional.logsigmoid nn.functional.mish nn.functional.prelu
    nn.functional.relu nn.functional.relu6 nn.functional.selu nn.functional.silu nn.functional.softplus
    nn.functional.softshrink nn.functional.softsign nn.functional.tanhshrink nn.functional.threshold""".split()
OPERATORS = {op.name: op for op in op_db if op.variant_test_name in ("", "no_rounding_mode", "binary", "mvlgamma_p_3")}


def converted(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    t = mindtorch_v2.from_numpy(value.detach().resolve_conj().numpy().copy())
    return t.requires_grad_() if value.requires_grad else t


def noise(package: Any, like: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(tuple(like.shape))
    if like.dtype.is_complex:
        values = values + 1j * rng.standard_normal(tuple(like.shape))
    return package.from_numpy(np.atleast_1d(np.ascontiguousarray(values))).reshape(tuple(like.shape))


def second_derivatives(package: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Gradients of a random mixture of the gradients of a random mixture of the results."""
    result = part(package, name)(*args, **kwargs)
    leaves = [a for a in [*args, *kwargs.values()] if isinstance(a, package.Tensor) and a.requires_grad]
    seed = noise(package, result, 0).requires_grad_()
    first = package.autograd.grad(result, leaves, seed, create_graph=True, allow_unused=True)
    first = [g for g in first if g is not None and g.requires_grad]
    mixed = [noise(package, g, 1) for g in first]
    second = package.autograd.grad(first, [*leaves, seed], mixed, allow_unused=True) if first else []
    return [None if g is None else g.detach().resolve_conj().numpy() for g in second]


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_second_derivatives(name: str, dtype: Any) -> None:
    operator = OPERATORS[name]
    if dtype not in operator.supported_dtypes("cpu"):
        pytest.skip("torch has no such kernel")
    torch.manual_seed(0)
    samples = list(operator.sample_inputs("cpu", dtype, requires_grad=True))
    for sample in samples[:: max(1, len(samples) // 3)]:
        args = [sample.input, *sample.args]
        try:
            wants = second_derivatives(torch, name, args, sample.kwargs)
        except (RuntimeError, NotImplementedError):
            continue  # torch cannot
        mine = {k: converted(v) for k, v in sample.kwargs.items()}
        gots = second_derivatives(mindtorch_v2, name, [converted(a) for a in args], mine)
        gots = gots or [None] * len(wants)  # no graph where torch has one of zeros
        for want, got in zip(wants, gots, strict=True):
            if want is not None or got is not None:
                zero = np.zeros_like(want if want is not None else got)
                np.testing.assert_allclose(
                    got if got is not None else zero, want if want is not None else zero, rtol=1e-6, atol=1e-7
                )
