"""Few random numbers in one compiled call: the same as by any other way, and nothing where they are refused."""

from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2.kernels.compiled import C


def fills(generator: Any) -> list[Any]:
    """Every fill on few elements of several types, from a generator or from the usual one."""
    made = []
    for n in (0, 1, 5, 16, 19, 300):
        for dtype in (torch.float32, torch.float64):
            x = torch.zeros(n, dtype=dtype)
            made += [x.clone().normal_(0.5, 2, generator=generator), x.clone().uniform_(generator=generator)]
            made += [x.clone().uniform_(-1, 3, generator=generator), x.clone().random_(generator=generator)]
            made += [x.clone().exponential_(0.7, generator=generator), x.clone().bernoulli_(generator=generator)]
            made += [torch.bernoulli(x + 0.3, generator=generator), torch.randn(n, dtype=dtype, generator=generator)]
            made += [torch.rand(n, 2, dtype=dtype, generator=generator)]
            made += [torch.normal(0.5, 2.0, (n,), dtype=dtype, generator=generator)]
        for dtype in (torch.int64, torch.bool):
            made += [torch.zeros(n, dtype=dtype).bernoulli_(0.4, generator=generator)]
            made += [torch.zeros(n, dtype=dtype).random_(generator=generator)]
        whole = torch.zeros(n, dtype=torch.int64)
        made += [whole.clone().random_(-3, 4, generator=generator), whole.clone().random_(7, generator=generator)]
        made += [torch.randint(-5, 5, (n,), generator=generator), torch.randperm(n, generator=generator)]
    return made


def test_the_usual_generator_draws_what_any_other_does() -> None:
    torch.manual_seed(11)
    given = torch.Generator().manual_seed(11)
    for usual, other in zip(fills(None), fills(given)):
        assert usual.dtype is other.dtype
        assert torch.equal(usual, other)
    assert torch.equal(torch.get_rng_state(), given.get_state())


@pytest.mark.skipif(C is None, reason="the kernels are not built here")
def test_a_locked_generator_is_left_alone() -> None:
    """Few numbers are drawn without the lock, but not while somebody else holds it."""
    before, x = torch.get_rng_state(), np.zeros(4, np.float32)
    with torch.default_generator._engine.lock:
        assert C.random_uniforms(None, x, 0.0, 1.0) is False
        assert C.new_normals((4,), x.dtype, 0.0, 1.0) is None
    assert x.tolist() == [0, 0, 0, 0]
    assert torch.equal(torch.get_rng_state(), before)
    assert C.random_uniforms(None, x, 0.0, 1.0) is True


def test_fills_that_are_refused_draw_nothing() -> None:
    before = torch.get_rng_state()
    x = torch.zeros(4)
    for refused in (
        lambda: x.normal_(0, -1),
        lambda: x.uniform_(1, 0),
        lambda: x.exponential_(0),
        lambda: x.bernoulli_(1.5),
        lambda: torch.bernoulli(x - 1),
        lambda: torch.randn(-1),
        lambda: torch.randint(5, 5, (2,)),
    ):
        with pytest.raises(RuntimeError):
            refused()
    assert torch.equal(torch.get_rng_state(), before)
    x.as_strided((2,), (2,)).uniform_()
    assert x[1::2].tolist() == [0, 0]
