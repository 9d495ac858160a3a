"""Owns the Bessel functions of orders 0 and 1, plain (J, Y) and modified (I, K), the spherical j0 and Airy's Ai.

J and Y are tables over their distance from the nearest zero up to x = 8, and a wave with slowly varying amplitude from
there on; I and K are power series near zero and exponentials times a table further out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ..blockwise import Array, Block, elementwise, fill, horner, ratio
from . import tables

_TWO_OVER_PI = 2.0 / math.pi
_INVERSE_SQRT_PI = 1.0 / math.sqrt(math.pi)

_WAVE_FROM = 8.0
_I_FAR = 12.0
_K_FAR = 1.0
_AIRY_WAVE_FROM = 2.0
_AIRY_DECAY_FROM = 1.0

Zero: TypeAlias = tuple[float, float]
Table: TypeAlias = tuple[tuple[Array, ...], tuple[Array, ...]]
Formula: TypeAlias = Callable[[Block], Block]


# ------------------------------------------------------------------------------------------------------------- J and Y


@elementwise
def bessel_j0(x: Block, out: Block) -> None:
    """J0(x), nan at ±inf."""
    out[...] = _j0(np.abs(x))


@elementwise
def bessel_j1(x: Block, out: Block) -> None:
    """J1(x), nan at ±inf."""
    out[...] = np.copysign(1.0, x) * _j1(np.abs(x))


@elementwise
def bessel_y0(x: Block, out: Block) -> None:
    """Y0(x): -inf at 0, nan on the left."""
    out[...] = math.nan
    fill(out, (x > 0) & (x < 4.0), _y0_low, x)
    fill(out, (x >= 4.0) & (x < _WAVE_FROM), _y0_high, x)
    fill(out, x >= _WAVE_FROM, _y0_wave, x)
    out[x == 0] = -math.inf


@elementwise
def bessel_y1(x: Block, out: Block) -> None:
    """Y1(x): -inf at 0, nan on the left."""
    out[...] = math.nan
    fill(out, (x > 0) & (x < 4.0), _y1_low, x)
    fill(out, (x >= 4.0) & (x < _WAVE_FROM), _y1_high, x)
    fill(out, x >= _WAVE_FROM, _y1_wave, x)
    out[x == 0] = -math.inf


@elementwise
def spherical_bessel_j0(x: Block, out: Block) -> None:
    """sin(x) / x: 1 at 0, 0 at ±inf."""
    np.divide(np.sin(x), x, out)
    out[x == 0] = 1.0
    out[np.isinf(x)] = 0.0


def _j0(x: Block) -> Block:
    value = np.full_like(x, math.nan)
    fill(value, x < 4.0, _j0_low, x)
    fill(value, (x >= 4.0) & (x < _WAVE_FROM), _j0_high, x)
    fill(value, x >= _WAVE_FROM, _j0_wave, x)
    return value


def _j1(x: Block) -> Block:
    value = np.full_like(x, math.nan)
    fill(value, x < 4.0, _j1_low, x)
    fill(value, (x >= 4.0) & (x < _WAVE_FROM), _j1_high, x)
    fill(value, x >= _WAVE_FROM, _j1_wave, x)
    return value


def _distance(x: Block, zero: Zero) -> Block:
    """x² - zero², exact where it is small."""
    return ((x - zero[0]) - zero[1]) * (x + zero[0])


def _j0_low(x: Block) -> Block:
    return _distance(x, tables.J0_LOW_ZERO) * ratio(x * x, tables.J0_LOW)


def _j0_high(x: Block) -> Block:
    return _distance(x, tables.J0_HIGH_ZERO) * ratio(x * x - 40.0, tables.J0_HIGH)


def _j1_low(x: Block) -> Block:
    return x * _distance(x, tables.J1_LOW_ZERO) * ratio(x * x, tables.J1_LOW)


def _j1_high(x: Block) -> Block:
    return x * _distance(x, tables.J1_HIGH_ZERO) * ratio(x * x - 40.0, tables.J1_HIGH)


def _y0_low(x: Block) -> Block:
    zero = tables.Y0_LOW_ZERO
    part = _distance(x, zero) * ratio(x * x, tables.Y0_LOW)
    part += _TWO_OVER_PI * np.log(x / zero[0]) * _j0_low(x)
    return part


def _y0_high(x: Block) -> Block:
    zero = tables.Y0_HIGH_ZERO
    part = _distance(x, zero) * ratio(x * x - 40.0, tables.Y0_HIGH)
    part += _TWO_OVER_PI * np.log(x / zero[0]) * _j0_high(x)
    return part


def _y1_low(x: Block) -> Block:
    zero = tables.Y1_LOW_ZERO
    part = _distance(x, zero) * ratio(x * x, tables.Y1_LOW) / x
    part += _TWO_OVER_PI * np.log(x / zero[0]) * _j1_low(x)
    return part


def _y1_high(x: Block) -> Block:
    zero = tables.Y1_HIGH_ZERO
    part = _distance(x, zero) * ratio(x * x - 40.0, tables.Y1_HIGH) / x
    part += _TWO_OVER_PI * np.log(x / zero[0]) * _j1_high(x)
    return part


def _wave(x: Block, p: Table, q: Table) -> tuple[Block, Block, Block, Block]:
    """P and Q of the wave, scaled, with sin x + cos x and sin x - cos x, which shift its phase by π/4 exactly."""
    scale = _INVERSE_SQRT_PI / np.sqrt(x)
    v = (8.0 / x) ** 2
    sin, cos = np.sin(x), np.cos(x)
    return scale * ratio(v, p), scale * ratio(v, q) / x, sin + cos, sin - cos


def _j0_wave(x: Block) -> Block:
    p, q, plus, minus = _wave(x, tables.P0, tables.Q0)
    return p * plus - q * minus


def _y0_wave(x: Block) -> Block:
    p, q, plus, minus = _wave(x, tables.P0, tables.Q0)
    return p * minus + q * plus


def _j1_wave(x: Block) -> Block:
    p, q, plus, minus = _wave(x, tables.P1, tables.Q1)
    return p * minus + q * plus


def _y1_wave(x: Block) -> Block:
    p, q, plus, minus = _wave(x, tables.P1, tables.Q1)
    return q * minus - p * plus


# ------------------------------------------------------------------------------------------------------------- I and K


@elementwise
def i0(x: Block, out: Block) -> None:
    """I0(x), nan at ±inf as in torch."""
    x = np.abs(x)
    np.multiply(_scaled_i0(x), np.exp(x), out)


@elementwise
def i0e(x: Block, out: Block) -> None:
    """exp(-|x|) I0(x)."""
    out[...] = _scaled_i0(np.abs(x))


@elementwise
def i1(x: Block, out: Block) -> None:
    """I1(x), nan at ±inf as in torch."""
    size = np.abs(x)
    np.multiply(_scaled_i1(size), np.exp(size), out)
    np.negative(out, out, where=x < 0)


@elementwise
def i1e(x: Block, out: Block) -> None:
    """exp(-|x|) I1(x)."""
    out[...] = _scaled_i1(np.abs(x))
    np.negative(out, out, where=x < 0)


modified_bessel_i0 = i0
modified_bessel_i1 = i1


@elementwise
def modified_bessel_k0(x: Block, out: Block) -> None:
    """K0(x): inf at 0, nan on the left."""
    _fill_positive(x, out, _k0_near, lambda x: _scaled_k0_far(x) * np.exp(-x))


@elementwise
def modified_bessel_k1(x: Block, out: Block) -> None:
    """K1(x): inf at 0, nan on the left."""
    _fill_positive(x, out, _k1_near, lambda x: _scaled_k1_far(x) * np.exp(-x))


@elementwise
def scaled_modified_bessel_k0(x: Block, out: Block) -> None:
    """exp(x) K0(x)."""
    _fill_positive(x, out, lambda x: _k0_near(x) * np.exp(x), _scaled_k0_far)


@elementwise
def scaled_modified_bessel_k1(x: Block, out: Block) -> None:
    """exp(x) K1(x)."""
    _fill_positive(x, out, lambda x: _k1_near(x) * np.exp(x), _scaled_k1_far)


def _fill_positive(x: Block, out: Block, near: Formula, far: Formula) -> None:
    out[...] = math.nan
    fill(out, (x > 0) & (x < _K_FAR), near, x)
    fill(out, x >= _K_FAR, far, x)
    out[x == 0] = math.inf


def _i0_near(x: Block) -> Block:
    return horner(0.25 * x * x, tables.I0_NEAR)


def _i1_near(x: Block) -> Block:
    return 0.5 * x * horner(0.25 * x * x, tables.I1_NEAR)


def _scaled_i0(x: Block) -> Block:
    value = x.copy()
    fill(value, x < _I_FAR, lambda x: _i0_near(x) * np.exp(-x), x)
    fill(value, x >= _I_FAR, lambda x: horner(_I_FAR / x, tables.I0_FAR) / np.sqrt(x), x)
    return value


def _scaled_i1(x: Block) -> Block:
    value = x.copy()
    fill(value, x < _I_FAR, lambda x: _i1_near(x) * np.exp(-x), x)
    fill(value, x >= _I_FAR, lambda x: horner(_I_FAR / x, tables.I1_FAR) / np.sqrt(x), x)
    return value


def _k0_near(x: Block) -> Block:
    return horner(0.25 * x * x, tables.K0_NEAR) - (np.log(x) - math.log(2.0)) * _i0_near(x)


def _k1_near(x: Block) -> Block:
    rest = 0.5 * x * horner(0.25 * x * x, tables.K1_NEAR)
    return 1.0 / x + (rest + (np.log(x) - math.log(2.0)) * _i1_near(x))


def _scaled_k0_far(x: Block) -> Block:
    return ratio(1.0 / x, tables.K0_FAR) / np.sqrt(x)


def _scaled_k1_far(x: Block) -> Block:
    return ratio(1.0 / x, tables.K1_FAR) / np.sqrt(x)


# ---------------------------------------------------------------------------------------------------------------- Airy


@elementwise
def airy_ai(x: Block, out: Block) -> None:
    """Ai(x), nan at ±inf as in torch."""
    out[...] = math.nan
    fill(out, (x >= -_AIRY_WAVE_FROM) & (x < _AIRY_DECAY_FROM), _airy_series, x)
    fill(out, (x >= _AIRY_DECAY_FROM) & (x < math.inf), _airy_decay, x)
    fill(out, x < -_AIRY_WAVE_FROM, _airy_wave, -x)


def _airy_series(x: Block) -> Block:
    cube = x * x * x
    return horner(cube, tables.AIRY_EVEN) - x * horner(cube, tables.AIRY_ODD)


def _airy_decay(x: Block) -> Block:
    root = np.sqrt(x)
    zeta = 2.0 / 3.0 * x * root
    value = ratio(1.0 / zeta, tables.AIRY_DECAY)
    value *= np.exp(-zeta) / np.sqrt(root)
    return value


def _airy_wave(x: Block) -> Block:
    """Ai(-x), with the phase ζ - π/4 taken through sin ζ ± cos ζ."""
    root = np.sqrt(x)
    zeta = 2.0 / 3.0 * x * root
    v = 1.0 / (zeta * zeta)
    sin, cos = np.sin(zeta), np.cos(zeta)
    wave: Block = ratio(v, tables.AIRY_P) * (cos + sin) + ratio(v, tables.AIRY_Q) / zeta * (sin - cos)
    wave *= math.sqrt(0.5 / math.pi) / np.sqrt(root)
    return wave
