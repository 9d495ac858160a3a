"""`x * scale + shift` on arrays, rounded once as the fused instruction rounds, which NumPy does not offer.

torch's vectorised kernels are compiled with that instruction, so uniform numbers depend on it in their last bit.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

_SPLIT = 134217729.0  # 2**27 + 1 cuts a double into two halves whose products are exact


def fma32(x: Floats, scale: np.float32, shift: np.float32) -> Floats:
    """Single precision: the product is exact in double precision, only its sum with `shift` rounds twice."""
    wide = x.astype(np.float64)
    wide *= float(scale)
    total = wide + float(shift)
    result = total.astype(np.float32)
    # The first rounding matters only where it lands on the middle between two single precision numbers.
    middle = np.flatnonzero((total.view(np.int64) & 0x1FFFFFFF) == 0x10000000)
    if middle.size:
        rest = _sum_error(wide[middle], float(shift), total[middle])
        result[middle] = np.where(rest == 0, total[middle], np.nextafter(total[middle], np.copysign(np.inf, rest)))
    return result


def fma64(x: Doubles, scale: float, shift: float) -> Doubles:
    """Double precision, by exact products and sums and one addition rounded to odd (Boldo and Melquiond, 2008).

    Exact as long as no product falls among the subnormal numbers.
    """
    if abs(scale) > 2.0**900:  # the split below would overflow
        return fma64(x, scale * 2.0**-100, shift * 2.0**-100) * 2.0**100
    product = x * scale
    product_rest = _product_error(x, scale, product)
    low = product_rest + shift
    low_rest = _sum_error(product_rest, shift, low)
    high = product + low
    high_rest = _sum_error(product, low, high)
    rest = low_rest + high_rest
    lost = _sum_error(low_rest, high_rest, rest)
    bits = rest.view(np.int64)
    inexact_and_even = (lost != 0) & (bits & 1 == 0)
    bits += np.where(inexact_and_even, np.where((lost > 0) == (rest > 0), 1, -1), 0)
    result: Doubles = high + rest
    return result


def scale_shift32(x: Floats, scale: np.float32, shift: np.float32) -> Floats:
    """`fma32`, taking the short way where it rounds alike. May overwrite `x`."""
    if shift != 0 and not _is_power_of_two(float(scale)):
        return fma32(x, scale, shift)
    x *= scale
    x += shift
    return x


def scale_shift64(x: Doubles, scale: float, shift: float) -> Doubles:
    """`fma64`, taking the short way where it rounds alike. May overwrite `x`."""
    if shift != 0 and not _is_power_of_two(scale):
        return fma64(x, scale, shift)
    x *= scale
    x += shift
    return x


def _is_power_of_two(scale: float) -> bool:
    return abs(math.frexp(scale)[0]) == 0.5


def _sum_error(a: Doubles, b: Doubles | float, total: Doubles) -> Doubles:
    """What rounding took from a + b = total (Knuth's two-sum)."""
    of_b = total - a
    error: Doubles = (a - (total - of_b)) + (b - of_b)
    return error


def _product_error(a: Doubles, b: float, product: Doubles) -> Doubles:
    """What rounding took from a * b = product (Dekker's product)."""
    high_a, low_a = _halves(a)
    high_b, low_b = _halves(np.full((), b))
    error: Doubles = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    return error


def _halves(a: Doubles) -> tuple[Doubles, Doubles]:
    spread = a * _SPLIT
    high = spread - (spread - a)
    return high, a - high
