"""Products of one matrix with many others of few rows, as the steps of a recurrent layer take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .compiled import C

# One row is done by BLAS without laying the matrix out, and many are worth its doing so for each product.
FEWEST, MOST = 2, 128


def multiplier(matrix: Any, sizes: Sequence[int]) -> Callable[[Any], Any]:
    """``x -> x @ matrix`` for an ``x`` of each of these numbers of rows, with ``matrix`` laid out but once."""
    rows = sum(sizes) // max(len(sizes), 1)
    panels = C.pack(matrix) if C is not None and FEWEST <= rows <= MOST else None
    columns = matrix.shape[1]

    def times(x: Any) -> Any:
        made = None if panels is None else C.times_packed(x, panels, columns)
        return x @ matrix if made is None else made

    return times
