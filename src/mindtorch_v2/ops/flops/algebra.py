"""Formulas of factorisations, solvers and transforms: the leading terms of the usual algorithms."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...core.tap import InputRecord
from .inputs import Formula, broadcast, numbers, value


def factored(operations: Callable[[int, int], float], place: int = 0) -> Formula:
    """Operations from the rows and columns of each matrix of the tensor at a place."""

    def formula(record: InputRecord) -> int:
        *batch, rows, columns = record.shapes[place]
        return math.prod(batch) * round(operations(rows, columns))

    return formula


def solved(matrix: int, given: int, operations: Callable[[int, int], float]) -> Formula:
    """Operations from the size of each matrix and the number of its right-hand sides; vectors are one each."""

    def formula(record: InputRecord) -> int:
        (*batch, _, size), sides = record.shapes[matrix], record.shapes[given]
        if len(sides) <= 1 or (len(sides) == len(batch) + 1 and list(sides[:-1]) == list(batch)):
            return math.prod(batch) * round(operations(size, 1))
        return broadcast((batch, sides[:-2])) * round(operations(size, sides[-1]))

    return formula


def lu(rows: int, columns: int) -> float:
    least = min(rows, columns)
    return 2 * (rows * columns * least - (rows + columns) * least**2 / 2 + least**3 / 3)


def qr(rows: int, columns: int) -> float:
    """The triangle, by reflections."""
    tall, least = max(rows, columns), min(rows, columns)
    return 2 * least**2 * (tall - least / 3)


def _singular_values(rows: int, columns: int) -> float:
    tall, least = max(rows, columns), min(rows, columns)
    return 4 * tall * least**2 - 4 * least**3 / 3


def _singular_vectors(rows: int, columns: int) -> float:
    tall, least = max(rows, columns), min(rows, columns)
    return 14 * tall * least**2 + 8 * least**3


def svd(record: InputRecord) -> int:
    """`_linalg_svd(A, full_matrices, compute_uv, driver)`."""
    return factored(_singular_vectors if value(record, 2, True) else _singular_values)(record)


def eigh(record: InputRecord) -> int:
    """`_linalg_eigh(A, UPLO, compute_v)`."""
    return factored(lambda n, _: 9 * n**3 if value(record, 2, True) else 4 * n**3 / 3)(record)


def least_squares(record: InputRecord) -> int:
    """By QR: the reflections applied to the right-hand sides, and a triangle solved."""
    rows, columns = record.shapes[0][-2:]
    least, tall = min(rows, columns), max(rows, columns)
    sides = record.shapes[1][-1] if len(record.shapes[1]) > 1 else 1
    return factored(lambda m, n: qr(m, n) + sides * (4 * tall * least - 2 * least**2 + least**2))(record)


def reflected(record: InputRecord) -> int:
    """`ormqr(input, tau, other, left, transpose)`: reflections, four operations for each element they reach."""
    (*batch, rows, columns), count = record.shapes[2], record.shapes[1][-1]
    along, across = (rows, columns) if value(record, 3, True) else (columns, rows)
    return math.prod(batch) * 2 * across * count * (2 * along - count)


# --- Fourier transforms -----------------------------------------------------------------------------------------------


def transform(elements: int, points: int, halves: int) -> int:
    """Five a point and halving of complex numbers; half of that for real ones."""
    return round(halves * 2.5 * elements * math.log2(points)) if points > 1 else 0


def transform_points(record: InputRecord) -> int:
    dims = numbers(record, 1, len(value(record, 1)))
    return math.prod(record.shapes[0][dim] for dim in dims)


def fft_c2r(record: InputRecord) -> int:
    """Back to real numbers: the last dimension gets the size at place 3."""
    shape = list(record.shapes[0])
    dims = numbers(record, 1, len(value(record, 1)))
    shape[dims[-1]] = int(value(record, 3))
    return transform(math.prod(shape), math.prod(shape[dim] for dim in dims), 1)
