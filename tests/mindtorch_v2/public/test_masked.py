"""torch.masked: what a mask leaves out does not count, forward or backward."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mindtorch_v2 as torch

masked = torch.masked
X = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
MASK = torch.tensor([[True, False, True], [False, False, False]])
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sum", [4, 0]),
        ("prod", [3, 1]),
        ("amax", [3, -INF]),
        ("amin", [1, INF]),
        ("argmax", [2, 0]),
        ("argmin", [0, 0]),
        ("mean", [2, NAN]),
        ("median", [1, NAN]),
        ("logsumexp", [math.log(math.e + math.e**3), -INF]),
        ("var", [2, NAN]),
        ("std", [math.sqrt(2), NAN]),
        ("cumsum", [[1, 1, 4], [0, 0, 0]]),
        ("cumprod", [[1, 1, 3], [1, 1, 1]]),
        ("softmax", [[1 / (1 + math.e**2), 0, 1 / (1 + math.e**-2)], [NAN, NAN, NAN]]),
        ("softmin", [[1 / (1 + math.e**-2), 0, 1 / (1 + math.e**2)], [NAN, NAN, NAN]]),
    ],
)
def test_left_out_elements_do_not_count(name: str, expected: Any) -> None:
    np.testing.assert_allclose(getattr(masked, name)(X, 1, mask=MASK).numpy(), expected, rtol=1e-6)


def test_norms() -> None:
    np.testing.assert_allclose(masked.norm(X, 2.0, 1, mask=MASK).numpy(), [math.sqrt(10), 0], rtol=1e-6)
    np.testing.assert_allclose(masked.norm(X, -INF, 1, mask=MASK).numpy(), [1, INF])
    unit = masked.normalize(X, 2.0, 1, mask=MASK)
    np.testing.assert_allclose(unit.numpy(), [[1 / math.sqrt(10), 0, 3 / math.sqrt(10)], [0, 0, 0]], rtol=1e-6)


def test_logaddexp_has_a_mask_for_each_side() -> None:
    got = masked.logaddexp(X, X, input_mask=MASK, other_mask=~MASK)
    np.testing.assert_allclose(got.numpy(), X.numpy())


def test_gradients_reach_kept_elements_only() -> None:
    x = X.clone().requires_grad_()
    masked.sum(x, mask=MASK).backward()
    np.testing.assert_array_equal(x.grad.numpy(), MASK.numpy().astype(np.float32))


def test_a_mask_broadcasts_and_must_fit() -> None:
    assert masked.sum(X, 1, mask=torch.tensor([True, True, False])).tolist() == [3, 9]
    with pytest.raises(IndexError, match="mask dimensionality higher than of the input"):
        masked.sum(X, mask=torch.ones(2, 2, 3, dtype=torch.bool))
    with pytest.raises(RuntimeError, match="must match the existing size"):
        masked.sum(X, mask=torch.ones(4, dtype=torch.bool))


def test_integers_have_their_own_extremes() -> None:
    assert masked.amax(X.int(), 1, mask=MASK).tolist() == [3, -(2**31)]
    assert masked.sum(X.int(), mask=MASK).dtype is torch.int64


def test_mean_of_integers_is_refused() -> None:
    with pytest.raises(ValueError, match="Could not infer output dtype"):
        masked.mean(X.int(), 1)
