"""Owns how an elementwise kernel runs over arrays: in flat blocks that stay in the cache, in the precision it wants.

A kernel fills ``out`` from one-dimensional float blocks of one size; it knows no shapes, memory layouts or dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .checks import is_float, not_implemented
from .compiled import order_of
from .floating import quiet

Array: TypeAlias = npt.NDArray[Any]
Block: TypeAlias = npt.NDArray[np.floating[Any]]  # what kernels see
Kernel: TypeAlias = Callable[..., None]  # (*blocks, out)
Function: TypeAlias = Callable[..., Array]  # (*arrays, out=None)

BLOCK_BYTES = 1 << 18  # a block and two temporaries fit the second-level cache

_SINGLE = np.dtype(np.float32)
_DOUBLE = np.dtype(np.float64)
_FLAGS: Any = ("external_loop", "buffered", "zerosize_ok", "copy_if_overlap")
_READ: Any = ("readonly", "contig")
_WRITE: Any = ("writeonly", "contig")


def elementwise(kernel: Kernel) -> Function:
    """Make a function of arrays from a kernel that computes in float64; narrower results are rounded once."""
    return with_single(kernel, None)


def with_single(kernel: Kernel, single: Kernel | None) -> Function:
    """The same, with ``single`` in place of ``kernel`` for results of float32, float16 and bfloat16."""

    def function(*arrays: Any, out: Array | None = None) -> Array:
        return run(kernel, *arrays, out=out, single=single)

    function.__name__ = function.__qualname__ = kernel.__name__.lstrip("_")
    function.__doc__ = kernel.__doc__
    return function


def run(kernel: Kernel, *arrays: Any, out: Array | None = None, single: Kernel | None = None) -> Array:
    """Fill ``out``, or a new array laid out as the first, with the kernel's values for the broadcast ``arrays``.

    A Python number takes the dtype of the arrays; integers and bools count as float32.
    """
    kind = arrays[0].dtype if out is None and type(arrays[0]) is np.ndarray else None
    known = kernel if kind is _DOUBLE else single if kind is _SINGLE else None
    if known is not None and kind is not None and _are_block(arrays, kind, BLOCK_BYTES // kind.itemsize):
        with quiet():
            whole: Array = np.empty(arrays[0].shape, kind)
            known(*[a.reshape(-1) for a in arrays], whole.reshape(-1))
        return whole
    dtype = result_dtype(kernel.__name__.lstrip("_"), arrays)
    compute, wide = (single, _SINGLE) if single is not None and dtype != _DOUBLE else (kernel, _DOUBLE)
    size = BLOCK_BYTES // wide.itemsize
    with np.errstate(all="ignore"):
        inputs = [a if isinstance(a, np.ndarray) else np.asarray(a, _DOUBLE) for a in arrays]
        result = _empty(inputs, dtype) if out is None else out
        blocks = np.nditer(
            # For an operand without axes, older NumPy (2.2 and before) hands out a buffer it has not filled.
            [a if a.ndim else a.reshape(1) for a in (*inputs, result)],
            flags=_FLAGS,
            op_flags=[_READ] * len(inputs) + [_WRITE],
            op_dtypes=[wide] * (len(inputs) + 1),
            casting="unsafe",
            buffersize=size,
        )
        with blocks:
            for block in blocks:
                compute(*block)
    return result


def _are_block(arrays: tuple[Any, ...], dtype: np.dtype[Any], size: int) -> bool:
    """Whether arrays are one block as they stand: common small ones, which need no iterator."""
    for x in arrays:
        if not (isinstance(x, np.ndarray) and x.dtype is dtype and x.size <= size and x.flags.c_contiguous):
            return False
        if x.shape != arrays[0].shape:
            return False
    return True


def result_dtype(name: str, arrays: tuple[Any, ...]) -> np.dtype[Any]:
    """The float dtype the arrays promote to."""
    dtypes = [a.dtype for a in arrays if isinstance(a, np.ndarray | np.generic)]
    for dtype in dtypes:
        if not (is_float(dtype) or dtype.kind in "biu"):
            raise not_implemented(name, dtype)
    floats = [dtype for dtype in dtypes if is_float(dtype)]
    return functools.reduce(np.promote_types, floats) if floats else _SINGLE


def _empty(inputs: list[Array], dtype: np.dtype[Any]) -> Array:
    shape = np.broadcast_shapes(*(a.shape for a in inputs))
    model = next((a for a in inputs if a.shape == shape), None)
    return np.empty(shape, dtype) if model is None else np.empty_like(model, dtype, order_of(model), False)


# --------------------------------------------------------------------------------------- what kernels are written with


def constants(*values: float, dtype: Any = np.float64) -> tuple[Array, ...]:
    """Numbers as 0-d arrays, which a ufunc takes in half the time that a Python float costs it."""
    return tuple(np.array(value, dtype) for value in values)


def horner(x: Block, coefficients: tuple[Any, ...], out: Block | None = None) -> Block:
    """The polynomial with these coefficients, lowest power first."""
    result: Block = np.multiply(x, coefficients[-1], out)
    for coefficient in coefficients[-2:0:-1]:
        np.add(result, coefficient, result)
        np.multiply(result, x, result)
    np.add(result, coefficients[0], result)
    return result


def ratio(x: Block, table: tuple[tuple[Any, ...], tuple[Any, ...]]) -> Block:
    """The rational function whose numerator and denominator these are."""
    value = horner(x, table[0])
    value /= horner(x, table[1])
    return value


def fill(out: Block, where: Array, formula: Callable[..., Any], *blocks: Block) -> None:
    """Write ``formula(*blocks)`` into ``out`` at the positions ``where`` holds, computing nothing elsewhere."""
    positions = np.flatnonzero(where)  # gathering by index is several times faster than by mask
    if positions.size == where.size:
        out[...] = formula(*blocks)
    elif positions.size:
        out[positions] = formula(*(block.take(positions) for block in blocks))
