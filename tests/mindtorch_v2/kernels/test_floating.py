"""NumPy's settings while the package computes: what they are inside, and that they are as before afterwards."""

import numpy as np
import pytest

from mindtorch_v2.kernels.floating import LONG_RUN, quiet, spreading


@pytest.mark.parametrize("run", [LONG_RUN, 10 * LONG_RUN])
def test_what_is_spread_over_long_runs_is_not_buffered(run: int) -> None:
    before = np.getbufsize()
    with spreading(run):
        assert np.getbufsize() <= LONG_RUN
    assert np.getbufsize() == before


@pytest.mark.parametrize("run", [0, 1, LONG_RUN - 1])
def test_what_is_spread_over_short_runs_is_buffered(run: int) -> None:
    before = np.getbufsize()
    with spreading(run):
        assert np.getbufsize() == before


@pytest.mark.parametrize("settings", [quiet, lambda: spreading(1), lambda: spreading(LONG_RUN)])
def test_floating_point_flags_are_ignored_inside_and_seen_again_afterwards(settings) -> None:
    zero = np.zeros(3)
    with np.errstate(all="raise"):
        with settings():
            assert np.isinf(1 / zero).all()
        with pytest.raises(FloatingPointError):
            1 / zero
