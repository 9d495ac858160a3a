"""Formulas of factorisations, solvers and transforms: the leading terms of the usual algorithms."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..._tap import InputRecord
from .table import Formula, broadcast, define, numbers, numel, value


def _factor(operations: Callable[[int, int], float], place: int = 0) -> Formula:
    """Operations from the rows and columns of each matrix of the tensor at a place."""

    def formula(record: InputRecord) -> int:
        *batch, rows, columns = record.shapes[place]
        return math.prod(batch) * round(operations(rows, columns))

    return formula


def _solved(matrix: int, given: int, operations: Callable[[int, int], float]) -> Formula:
    """Operations from the size of each matrix and the number of its right-hand sides; vectors are one each."""

    def formula(record: InputRecord) -> int:
        (*batch, _, size), sides = record.shapes[matrix], record.shapes[given]
        if len(sides) <= 1 or (len(sides) == len(batch) + 1 and list(sides[:-1]) == list(batch)):
            return math.prod(batch) * round(operations(size, 1))
        return broadcast((batch, sides[:-2])) * round(operations(size, sides[-1]))

    return formula


def _lu(rows: int, columns: int) -> float:
    least = min(rows, columns)
    return 2 * (rows * columns * least - (rows + columns) * least**2 / 2 + least**3 / 3)


def _qr(rows: int, columns: int) -> float:
    """The triangle, by reflections."""
    tall, least = max(rows, columns), min(rows, columns)
    return 2 * least**2 * (tall - least / 3)


def _singular_values(rows: int, columns: int) -> float:
    tall, least = max(rows, columns), min(rows, columns)
    return 4 * tall * least**2 - 4 * least**3 / 3


def _singular_vectors(rows: int, columns: int) -> float:
    tall, least = max(rows, columns), min(rows, columns)
    return 14 * tall * least**2 + 8 * least**3


def _svd(record: InputRecord) -> int:
    """`_linalg_svd(A, full_matrices, compute_uv, driver)`."""
    return _factor(_singular_vectors if value(record, 2, True) else _singular_values)(record)


def _eigh(record: InputRecord) -> int:
    """`_linalg_eigh(A, UPLO, compute_v)`."""
    return _factor(lambda n, _: 9 * n**3 if value(record, 2, True) else 4 * n**3 / 3)(record)


def _least_squares(record: InputRecord) -> int:
    """By QR: the reflections applied to the right-hand sides, and a triangle solved."""
    rows, columns = record.shapes[0][-2:]
    least, tall = min(rows, columns), max(rows, columns)
    sides = record.shapes[1][-1] if len(record.shapes[1]) > 1 else 1
    return _factor(lambda m, n: _qr(m, n) + sides * (4 * tall * least - 2 * least**2 + least**2))(record)


def _reflected(record: InputRecord) -> int:
    """`ormqr(input, tau, other, left, transpose)`: reflections, four operations for each element they reach."""
    (*batch, rows, columns), count = record.shapes[2], record.shapes[1][-1]
    along, across = (rows, columns) if value(record, 3, True) else (columns, rows)
    return math.prod(batch) * 2 * across * count * (2 * along - count)


define("cholesky linalg_cholesky_ex linalg_ldl_factor_ex", _factor(lambda n, _: n**3 / 3))
define("cholesky_inverse", _factor(lambda n, _: 2 * n**3 / 3))
define("linalg_lu linalg_lu_factor_ex _lu_with_info", _factor(_lu))
define("linalg_det _linalg_det linalg_slogdet _linalg_slogdet", _factor(_lu))
define("linalg_inv_ex", _factor(lambda n, _: 2 * n**3))
define("geqrf linalg_householder_product", _factor(_qr))
define("ormqr", _reflected)
define("linalg_qr", _factor(lambda m, n: 2 * _qr(m, n)))
define("_linalg_svd", _svd)
define("_linalg_eigh", _eigh)
define("linalg_eig", _factor(lambda n, _: 25 * n**3))
define("_linalg_eigvals linalg_eigvals", _factor(lambda n, _: 10 * n**3))
define("linalg_solve_ex _linalg_solve_ex", _solved(0, 1, lambda n, k: 2 * n**3 / 3 + 2 * n**2 * k))
define("linalg_lu_solve", _solved(0, 2, lambda n, k: 2 * n**2 * k))
define("linalg_ldl_solve", _solved(0, 2, lambda n, k: 2 * n**2 * k))
define("cholesky_solve", _solved(1, 0, lambda n, k: 2 * n**2 * k))
define("linalg_solve_triangular", _solved(0, 1, lambda n, k: n**2 * k))
define("triangular_solve", _solved(1, 0, lambda n, k: n**2 * k))
define("linalg_lstsq", _least_squares)


# --- Fourier transforms -----------------------------------------------------------------------------------------------


def _transform(elements: int, points: int, halves: int) -> int:
    """Five a point and halving of complex numbers; half of that for real ones."""
    return round(halves * 2.5 * elements * math.log2(points)) if points > 1 else 0


def _points(record: InputRecord) -> int:
    dims = numbers(record, 1, len(value(record, 1)))
    return math.prod(record.shapes[0][dim] for dim in dims)


def _fft_c2r(record: InputRecord) -> int:
    """Back to real numbers: the last dimension gets the size at place 3."""
    shape = list(record.shapes[0])
    dims = numbers(record, 1, len(value(record, 1)))
    shape[dims[-1]] = int(value(record, 3))
    return _transform(math.prod(shape), math.prod(shape[dim] for dim in dims), 1)


define("_fft_c2c", lambda record: _transform(numel(record), _points(record), 2))
define("_fft_r2c", lambda record: _transform(numel(record), _points(record), 1))
define("_fft_c2r", _fft_c2r)
