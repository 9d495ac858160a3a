"""What must not happen to whoever gives odd arguments: crashes, hangs, SystemErrors, writes where nothing may be written.

The attacks themselves are in `tests/attack`, and longer there; here they are short, and always the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.kernels.compiled import C

ATTACKS = Path(__file__).parents[1] / "attack"
needs_compiled = pytest.mark.skipif(C is None, reason="the compiled kernels are not built")


class Refusing:
    """Raises however it is read."""

    def __index__(self) -> int:
        raise KeyError("read")

    __float__ = __bool__ = __index__


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, dtype)


def fixed(*shape: int, dtype: Any = np.float32) -> Any:
    made = np.ones(shape, dtype)
    made.flags.writeable = False
    return made


def attacked(name: str, *given: str) -> str:
    """What an attack printed; it found nothing."""
    source = str(Path(torch.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(ATTACKS / name), *given],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_compiled
def test_odd_arguments_of_every_kernel() -> None:
    assert "2000 calls, 0 findings" in attacked("kernels.py", "--seed", "0", "--rounds", "2000", "--seconds", "600")


@needs_compiled
def test_public_calls_on_odd_tensors() -> None:
    assert "250 calls, 0 findings" in attacked("calls.py", "--seed", "0", "--rounds", "250", "--seconds", "600")


@needs_compiled
def test_every_allocation_of_the_kernels_may_fail() -> None:
    pytest.importorskip("_testcapi")
    assert "0 findings" in attacked("allocations_kernels.py")


# Each of these left an exception behind, wrote where it must not, or read what is not there.
DECLINED = {
    "a truth value that raises": lambda: C.log_sum_exp(ones(3), 0, Refusing()),
    "a divisor that raises": lambda: C.add_up(ones(3), 0, False, Refusing()),
    "an order that raises": lambda: C.ordered(ones(3), 0, None, Refusing()),
    "a rank without an order": lambda: C.ranked(ones(3), 0, False, 0, Refusing()),
    "a triangle of no side": lambda: C.triangle(ones(2, 2), 0, Refusing(), ones(2, 2)),
    "a pool of no padding": lambda: C.avg_pool((2,), (1,), (0,), (1,), ones(1, 4), ones(1, 3), Refusing(), 0),
    "an eps that raises": lambda: C.batch_norm(ones(2, 3), None, None, None, None, 0.1, Refusing(), *[ones(2, 3)] * 3),
    "nothing to convert": lambda: C.converted(),
    "groups too many for C": lambda: C.conv_direct(
        ones(1, 1, 40), np.zeros(1, np.int64), ones(1, 1, 1), None, ones(1, 1, 40), (), 2**70
    ),
    "attention of other shapes": lambda: C.attention(
        ones(1, 1, 4, 8), ones(1, 1, 2, 8), ones(1, 1, 2, 8), None, False, 1.0, ones(1, 1, 1, 8), ones(1, 1, 4, 5)
    ),
    "attention into what is read-only": lambda: C.attention(
        *[ones(1, 1, 2, 8)] * 3, None, False, 1.0, fixed(1, 1, 2, 8), ones(1, 1, 2, 2)
    ),
    "points of no images": lambda: C.sample(ones(3), ones(0, 2), True, True, ones(2)),
    "gradients into what is read-only": lambda: C.layer_norm_backward(
        ones(2, 3), ones(2, 3), ones(2), ones(2), None, fixed(2, 3), None, None
    ),
    "moments into what is read-only": lambda: C.channel_moments(ones(2, 3), fixed(3), ones(3)),
    "shapes of what is no array": lambda: C.line_up([ones(3)], ["abc"]),
    "a line that is its own target": lambda: C.lay_out(
        *(lambda line: (line, [line[1:], np.ones(1, np.float32)]))(ones(4))
    ),
    "windows beyond counting": lambda: C.max_pool((2**62,), (1,), (2**61,), (1,), ones(1, 4), ones(1, 3), None),
    "strides beyond counting": lambda: C.stride(ones(4), (1, 2), (2**62, 1)),
    "a stream into itself": lambda: (lambda stream: C.random_words(stream, stream))(np.zeros(316, np.int64)),
    "an axis that is no number": lambda: C.softmax(ones(*[1] * 40), ones(*[1] * 40), "1"),
}


@needs_compiled
@pytest.mark.parametrize("name", DECLINED)
def test_kernels_decline(name: str) -> None:
    assert not DECLINED[name]()


@needs_compiled
def test_a_number_is_read_before_it_is_written_over() -> None:
    """Threads that share a loop begin at different times; the divisor is one of the elements that are divided."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        for at in (0, 70_000, 199_999):
            x = np.arange(1, 200_001, dtype=np.float32)
            expected = x / x[at]
            C.divide(x, x[at : at + 1], out=x)
            np.testing.assert_array_equal(x, expected)
    finally:
        torch.set_num_threads(before)


@needs_compiled
def test_kernels_are_set_up_once() -> None:
    assert C.setup() is True
    assert C.setup(None, None, None) is True
    assert C.add(ones(2), ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize("keepdim", [Refusing(), torch.ones(2), object])
def test_what_is_no_flag_is_refused(keepdim: Any) -> None:
    x = torch.ones(8, 1, dtype=torch.float64)
    with pytest.raises(TypeError, match=r"argument 'keepdim' .* must be bool, not"):
        torch.special.logsumexp(x, 0, keepdim)


COUNTLESS = {
    "arange": lambda: torch.arange(2**63 - 1),
    "arange of int32": lambda: torch.arange(0, 2**63 - 1, dtype=torch.int32),
    "hann_window": lambda: torch.hann_window(2**63 - 1),
    "adaptive_avg_pool1d": lambda: torch.nn.functional.adaptive_avg_pool1d(torch.ones(1, 1, 4), 2**63 - 1),
    "interpolate": lambda: torch.nn.functional.interpolate(torch.ones(1, 1, 4), 2**63 - 1),
    "tensor_split": lambda: torch.ones(3).tensor_split(2**40),
    "mvlgamma": lambda: torch.mvlgamma(torch.ones(3), 2**40),
}


@pytest.mark.parametrize("name", COUNTLESS)
def test_more_than_can_be_counted_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match=r"overflowed|allocate memory|fit into memory"):
        COUNTLESS[name]()


def test_long_sums_of_lgamma_are_the_short_ones_added_up() -> None:
    x = torch.tensor([40.25, 71.5], dtype=torch.float64)
    terms = sum(torch.lgamma(x - 0.5 * j) for j in range(70))
    np.testing.assert_allclose(torch.mvlgamma(x, 70).numpy(), (terms + 70 * 69 / 4 * np.log(np.pi)).numpy(), rtol=1e-13)


def test_a_polynomial_that_would_go_on_for_hours_is_refused() -> None:
    with pytest.raises(RuntimeError, match="up to a degree of 2097152, got 1099511627776"):
        torch.special.laguerre_polynomial_l(torch.tensor([0.5]), 2**40)


def test_a_polynomial_of_a_high_degree_ends_where_all_is_nan() -> None:
    """Elements at one, which have a closed form, would keep the recurrence of the others going."""
    x = torch.tensor([1.0, 3.0], dtype=torch.float64)
    found = torch.special.chebyshev_polynomial_t(x, 2**40)
    assert found[0] == 1
    assert torch.isnan(found[1])


@pytest.mark.parametrize("power", [float("nan"), float("inf"), 2.0])
def test_a_power_that_is_no_int_is_refused(power: float) -> None:
    with pytest.raises(TypeError, match="must be int, not float"):
        torch.linalg.matrix_power(torch.eye(2), power)


def test_groups_that_channels_do_not_fill_are_refused() -> None:
    with pytest.raises(RuntimeError, match="divisible by num_groups"):
        torch.native_group_norm(torch.ones(2, 4, 3), None, None, 2, 4, 3, 3, 1e-5)


def test_layer_norm_of_a_number_is_refused() -> None:
    with pytest.raises(RuntimeError, match="at least 1-dimensional"):
        torch.nn.functional.layer_norm(torch.tensor(1.0), [])


@pytest.mark.parametrize("name", ["var", "std"])
def test_none_among_dimensions_is_refused(name: str) -> None:
    with pytest.raises(TypeError):
        getattr(torch, name)(torch.ones(2, 3), [None], correction=1)


@pytest.mark.parametrize(("name", "bend"), [("huber_loss", "delta"), ("smooth_l1_loss", "beta")])
def test_a_bend_that_is_nan_is_refused(name: str, bend: str) -> None:
    with pytest.raises(RuntimeError, match=f"{name} does not support"):
        getattr(torch.nn.functional, name)(torch.ones(2), torch.zeros(2), **{bend: float("nan")})


@pytest.mark.parametrize("side", [3, 300])  # few elements, and many
def test_diagonals_beyond_the_corners(side: int) -> None:
    x = torch.ones(side, side, dtype=torch.float64)
    for far in (2**63 - 1, side):
        assert torch.equal(x.tril(far), x)
        assert torch.equal(x.triu(-far - 1), x)
        assert x.triu(far).sum() == x.tril(-far - 1).sum() == 0
