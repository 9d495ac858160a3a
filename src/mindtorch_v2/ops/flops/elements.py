"""Formulas of ops that go over elements: functions and their gradients, reductions, scattered sums, losses."""

from __future__ import annotations

import functools
import math

from ...core.tap import InputRecord
from .inputs import Formula, broadcast, has, is_not_one, numel, value

# --- element by element -----------------------------------------------------------------------------------------------


@functools.cache
def each(operations: int, tensors: int, first: int = 0) -> Formula:
    """So many operations for each element of so many inputs, broadcast, from the first (or a later one) on."""
    return lambda record: operations * broadcast(record.shapes[first : first + tensors])


@functools.cache
def elements_of(place: int, operations: int = 1) -> Formula:
    """So many operations for each element of the input at a place."""
    return lambda record: operations * numel(record, place)


# Gradients, whose first input is that of the result.


def scaled_sum(record: InputRecord) -> int:
    return (1 + is_not_one(record, 2)) * broadcast(record.shapes[:2])


def scaled_product_sum(record: InputRecord) -> int:
    return (2 + is_not_one(record, 3)) * broadcast(record.shapes[:3])


# --- reductions -------------------------------------------------------------------------------------------------------


def _results(record: InputRecord, place: int = 1) -> int:
    """How many elements a reduction over the dimensions at a place leaves."""
    shape, dims = record.shapes[0], value(record, place)
    if not isinstance(dims, (list, tuple)) or not dims:
        return 1
    reduced = {int(dim) % len(shape) for dim in dims} if shape else set()
    return math.prod(size for dim, size in enumerate(shape) if dim not in reduced)


@functools.cache
def reduction(operations: int, result: int = 0) -> Formula:
    return lambda record: operations * numel(record) + (result * _results(record) if result else 0)


def vector_norm(record: InputRecord) -> int:
    order, count = value(record, 1, 2), numel(record)
    if order in (0, 1, math.inf, -math.inf):
        return 2 * count
    return (2 if order == 2 else 3) * count + _results(record, 2)


def lines(record: InputRecord) -> int:
    """How many lines along the dimension at place 1 a tensor has."""
    shape = record.shapes[0]
    return numel(record) // max(int(shape[value(record, 1, -1)]), 1) if shape else 1


# --- scattered sums ---------------------------------------------------------------------------------------------------


def index_put(record: InputRecord) -> int:
    return numel(record, 2) if value(record, 3) is True else 0


def embedding_bag(record: InputRecord) -> int:
    """Rows taken are added up, or the largest is found; a mean is divided, weights are multiplied with."""
    width, rows = record.shapes[0][1], numel(record, 1)
    return width * (rows * (1 + has(record, 6)) + (numel(record, 2) if value(record, 4, 0) == 1 else 0))


# --- losses -----------------------------------------------------------------------------------------------------------


def loss(operations: int, reduction: int, weight: int = -1) -> Formula:
    """So many operations an element, then the reduction whose number is at a place: none, mean or sum."""

    def formula(record: InputRecord) -> int:
        count, how = broadcast(record.shapes[:2]), value(record, reduction, 1)
        weighted = weight >= 0 and has(record, weight)
        return (operations + weighted + bool(how)) * count + (how == 1)

    return formula


def nll_loss(record: InputRecord) -> int:
    targets, how = numel(record, 1), value(record, 3, 1)
    return targets * (1 + has(record, 2) + bool(how)) + (how == 1)
