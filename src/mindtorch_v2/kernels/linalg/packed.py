"""Products of one matrix with many others of few rows, as the steps of a recurrent layer take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..compiled import C

# One row is done by BLAS without laying the matrix out, and many are worth its doing so for each product.
FEWEST, MOST = 2, 128


# States of so many numbers and more, and so many rows or steps and more, are worth an order of their own for products.
WIDE, SEVERAL = 192, 12


def multiplier(matrix: Any, sizes: Sequence[int]) -> Callable[[Any], Any]:
    """``x -> x @ matrix`` for an ``x`` of each of these numbers of rows, with ``matrix`` laid out but once."""
    rows = sum(sizes) // max(len(sizes), 1)
    panels = C.pack(matrix) if C is not None and FEWEST <= rows <= MOST else None
    if panels is None:
        return _plain_multiplier(matrix, rows, len(sizes))
    columns = matrix.shape[1]

    def times(x: Any) -> Any:
        made = C.times_packed(x, panels, columns)
        return x @ matrix if made is None else made

    return times


def _plain_multiplier(matrix: Any, rows: int, count: int) -> Callable[[Any], Any]:
    """The same by BLAS, which takes twice as long for a few rows times a transposed matrix as for the same from the other
    side, or for one that is turned around beforehand."""
    if C is None and matrix.shape[0] >= WIDE and rows >= SEVERAL:  # compiled steps take rows that lie side by side
        return lambda x: matrix.T.dot(x.T).T
    turned = matrix if count < SEVERAL else np.ascontiguousarray(matrix)
    return lambda x: x.dot(turned)
