"""Samples whose distribution differs per element: multinomial, Poisson, binomial, gamma and Dirichlet.

Those by rejection read the stream one number after the other, because what an element takes from it decides where the
next one starts; with one rate or probability for all elements, whole rounds of attempts are made at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.errors import broadcast_error
from ..checks import is_float, not_implemented, type_name
from .arrays import FLOAT32, FLOAT64, NARROW, Array, from_int64, quiet
from .continuous import exponential, normal_pair
from .engine import CHUNK, Doubles, Engine, Generator, engine_of

Attempt = Callable[[Doubles, Doubles], tuple[Doubles, npt.NDArray[np.bool_]]]

_INT64_MIN = -(1 << 63)
_MAX_CATEGORIES = 1 << 24
_LOWEST_LOG = -1e6  # stands for the log of zero: finite, yet longer than any number of trials takes
_MANY = 32  # elements alike, for which rounds are worth their arrays


class _Reader:
    """Uniform doubles one by one. It reads ahead only what is going to be needed in any case."""

    __slots__ = ("_engine", "_next")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._next: Callable[[], float] = iter(()).__next__

    def uniform(self, waiting: int) -> float:
        """The next double, while `waiting` elements after this one will take at least one each."""
        try:
            return self._next()
        except StopIteration:
            self._next = iter(self._engine.double_list(min(waiting + 1, CHUNK))).__next__
            return self._next()

    def normal(self, waiting: int) -> float:
        """The next standard normal, from the pair at hand or a new one."""
        kept = self._engine.next_normal
        if kept is not None:
            self._engine.next_normal = None
            return kept
        first = self.uniform(waiting)
        value, self._engine.next_normal = normal_pair(first, self.uniform(waiting))
        return value


def _rounds(engine: Engine, count: int, attempt: Attempt) -> Doubles:
    """`count` accepted values. A round makes as many attempts as values are missing, so none is one too many."""
    accepted: list[Doubles] = []
    while count:
        uniforms = engine.doubles(2 * min(count, CHUNK))
        values, good = attempt(uniforms[0::2], uniforms[1::2])
        accepted.append(values[good])
        count -= accepted[-1].size
    return np.concatenate(accepted) if accepted else np.empty(0)


def _each_once(function: Callable[[float], float], values: Doubles) -> Doubles:
    """`function` of the values, called once for each different one."""
    different, place = np.unique(values, return_inverse=True)
    return np.array([function(value) for value in different.tolist()], np.float64)[place]


def _is_uniform(values: Array) -> bool:
    return bool((values == values[0]).all())


# --- multinomial ------------------------------------------------------------------------------------------------------


def multinomial(
    p: Array, num_samples: int, replacement: bool = False, generator: Generator | None = None
) -> npt.NDArray[np.int64]:
    """Indices drawn with the (unnormalised) probabilities `p` of one row, or of each row.

    Without replacement equal keys, as several zero probabilities have, come in the order of their indices.
    """
    _check_multinomial(p, num_samples, replacement)
    rows = p if p.ndim == 2 else p[None]
    if rows.shape[0] == 0:
        return np.empty((0, num_samples), np.int64)
    by_keys = not replacement or num_samples == 1
    selected = (_by_keys if by_keys else _by_search)(rows, num_samples, generator)
    return selected if p.ndim == 2 else selected[0]


def _by_keys(rows: Array, num_samples: int, generator: Generator | None) -> npt.NDArray[np.int64]:
    """The largest p / e, e exponential: sampling without replacement as a race."""
    _check_probabilities(rows)
    with quiet():
        keys = rows / exponential(rows.shape, rows.dtype, 1.0, generator)
    keys = keys.astype(np.float32) if keys.dtype in NARROW else keys
    if num_samples == 1:
        first: npt.NDArray[np.int64] = keys.argmax(-1, keepdims=True).astype(np.int64, copy=False)
        return first
    np.negative(keys, out=keys)
    if num_samples * 8 > keys.shape[1]:
        return keys.argsort(-1, kind="stable")[:, :num_samples].astype(np.int64, copy=False)
    best = np.sort(keys.argpartition(num_samples - 1, -1)[:, :num_samples], -1)
    order = np.take_along_axis(keys, best, -1).argsort(-1, kind="stable")
    return np.take_along_axis(best, order, -1).astype(np.int64, copy=False)


def _by_search(rows: Array, num_samples: int, generator: Generator | None) -> npt.NDArray[np.int64]:
    """Where a uniform number falls among the cumulated probabilities."""
    totals = _cumulated(rows)
    engine = engine_of(generator)
    with engine.lock:
        chances = engine.doubles(rows.shape[0] * num_samples).reshape(-1, num_samples)
    selected = np.empty(chances.shape, np.int64)
    for row, chance, out in zip(totals, chances, selected):
        out[...] = row.searchsorted(chance)
    return selected


def _cumulated(rows: Array) -> Doubles:
    """Running sums of each row in the type torch adds them in, scaled to end at one."""
    if not (rows >= 0).all():
        raise RuntimeError("invalid multinomial distribution (encountering probability entry < 0)")
    if not np.isfinite(rows).all():
        raise RuntimeError("invalid multinomial distribution (encountering probability entry = infinity or NaN)")
    sums = np.add.accumulate(rows, -1, dtype=FLOAT64 if rows.dtype == FLOAT64 else FLOAT32)
    if rows.shape[1] == 0 or not (sums[:, -1] > 0).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    sums /= sums[:, -1:].copy()
    sums[:, -1] = 1
    return sums.astype(np.float64, copy=False)


def _check_multinomial(p: Array, num_samples: int, replacement: bool) -> None:
    if p.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not is_float(p.dtype):
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {type_name(p.dtype)}")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > p.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if p.shape[-1] > _MAX_CATEGORIES:
        raise RuntimeError("number of categories cannot exceed 2^24")


def _check_probabilities(rows: Array) -> None:
    if rows.shape[1] == 0:
        raise RuntimeError("invalid multinomial distribution (there are no categories to draw from)")
    if not ((rows >= 0) & (rows < np.inf)).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (rows == 0).all(-1).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


# --- Poisson ----------------------------------------------------------------------------------------------------------


def poisson(rate: Array, generator: Generator | None = None) -> Array:
    """Counts of events with the given rate per element, in the type of `rate`."""
    if not is_float(rate.dtype):
        raise not_implemented("poisson_cpu", rate.dtype)
    if not (rate >= 0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    rates = rate.astype(np.float64).ravel()
    drawn = np.flatnonzero(rates)
    counts = np.zeros(rates.size, np.int64)
    engine = engine_of(generator)
    with engine.lock, quiet():
        counts[drawn] = _poisson_drawn(engine, rates[drawn])
    return from_int64(counts, rate.dtype).reshape(rate.shape)


def _poisson_drawn(engine: Engine, rates: Doubles) -> Any:
    if not (rates >= 10).any():
        return _poisson_small(engine, np.exp(-rates).tolist())
    if rates.size >= _MANY and _is_uniform(rates):
        return _rounds(engine, rates.size, _poisson_attempt(float(rates[0]))).astype(np.int64)
    return _poisson_each(_Reader(engine), rates)


def _poisson_small(engine: Engine, limits: list[float]) -> list[int]:
    """How many uniform factors keep a product above each limit."""
    counts: list[int] = []
    product, count = 1.0, 0
    while len(counts) < len(limits):
        limit = limits[len(counts)]
        for uniform in engine.double_list(min(len(limits) - len(counts), CHUNK)):
            product *= uniform
            if product > limit:
                count += 1
            else:
                counts.append(count)
                product, count = 1.0, 0
                limit = limits[len(counts)] if len(counts) < len(limits) else 0.0
    return counts


def _poisson_constants(rates: Any) -> tuple[Any, Any, Any, Any]:
    """a, b, 1/alpha and v_r of Hörmann's transformed rejection (1993)."""
    b = 0.931 + 2.53 * np.sqrt(rates)
    return -0.059 + 0.02483 * b, b, 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)


def _poisson_attempt(rate: float) -> Attempt:
    a, b, inverse_alpha, v_r = (float(c) for c in _poisson_constants(rate))

    def attempt(first: Doubles, v: Doubles) -> tuple[Doubles, npt.NDArray[np.bool_]]:
        u = first - 0.5
        us = 0.5 - np.abs(u)
        k = np.floor((2 * a / us + b) * u + rate + 0.43)
        good = (us >= 0.07) & (v <= v_r)
        unsure = np.flatnonzero(~good & (k >= 0) & ((us >= 0.013) | (v <= us)))
        k_unsure = k[unsure]
        log_factorials = _each_once(lambda n: math.lgamma(n + 1), k_unsure)
        area = np.log(v[unsure]) + math.log(inverse_alpha) - np.log(a / (us[unsure] * us[unsure]) + b)
        good[unsure] = area <= -rate + k_unsure * math.log(rate) - log_factorials
        return k, good

    return attempt


def _poisson_each(reader: _Reader, rates: Doubles) -> list[int]:
    constants = (c.tolist() for c in _poisson_constants(rates))
    waiting = range(rates.size - 1, -1, -1)
    return [
        _poisson_large(reader, left, rate, *given) if rate >= 10 else _poisson_single(reader, left, rate)
        for left, rate, *given in zip(waiting, rates.tolist(), *constants)
    ]


def _poisson_large(
    reader: _Reader, waiting: int, rate: float, a: float, b: float, inverse_alpha: float, v_r: float
) -> int:
    while True:
        u = reader.uniform(waiting) - 0.5
        v = reader.uniform(waiting)
        us = 0.5 - abs(u)
        value = (2 * a / us + b) * u + rate + 0.43 if us else -math.inf
        k = math.floor(value) if abs(value) < 2.0**63 else _INT64_MIN  # as x86 converts what does not fit
        if us >= 0.07 and v <= v_r:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        area = _log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b)
        if area <= -rate + k * math.log(rate) - math.lgamma(k + 1):
            return k


def _poisson_single(reader: _Reader, waiting: int, rate: float) -> int:
    """`_poisson_small` for one element among others."""
    limit, product, count = math.exp(-rate), 1.0, 0
    while True:
        product *= reader.uniform(waiting)
        if not product > limit:
            return count
        count += 1


def _log(x: float) -> float:
    return math.log(x) if x else -math.inf


# --- binomial ---------------------------------------------------------------------------------------------------------


def binomial(count: Array, prob: Array, generator: Generator | None = None) -> Array:
    """Successes in `count` trials of probability `prob`, element by element."""
    for name, given in (("count", count), ("prob", prob)):
        if not is_float(given.dtype):
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {type_name(given.dtype)}")
    if prob.dtype != count.dtype:
        raise RuntimeError(f"Found dtype {type_name(prob.dtype)} but expected {type_name(count.dtype)}")
    if count.dtype in NARROW:
        raise not_implemented("binomial_cpu", count.dtype)
    try:
        trials, chance = np.broadcast_arrays(count, prob)
    except ValueError:
        raise broadcast_error(count.shape, prob.shape) from None
    shape, trials, chance = trials.shape, trials.ravel(), chance.ravel()
    result = np.where((trials <= 0) | (chance <= 0), 0, np.where(chance >= 1, trials, np.nan)).astype(count.dtype)
    drawn = np.flatnonzero((trials > 0) & (chance > 0) & (chance < 1))
    if drawn.size:
        result[drawn] = _binomial_drawn(engine_of(generator), trials[drawn], chance[drawn])
    return result.reshape(shape)


def _binomial_drawn(engine: Engine, trials: Array, chance: Array) -> Array:
    """The side of the rarer outcome is counted, then mirrored back where that was the failures."""
    mirrored = chance > 0.5
    rarer = np.where(mirrored, (1.0 - chance.astype(np.float64)).astype(chance.dtype), chance)
    large = trials * rarer >= 10.0
    with engine.lock, quiet():
        if not large.any():
            found: Any = _binomial_small(engine, trials.tolist(), np.log1p(-rarer).tolist())
        elif trials.size >= _MANY and _is_uniform(trials) and _is_uniform(rarer):
            found = _rounds(engine, trials.size, next(_transformed(trials[:1], rarer[:1])).attempt)
        else:
            found = _binomial_each(_Reader(engine), trials, rarer, large)
    successes = np.array(found, trials.dtype)
    return np.where(mirrored, trials - successes, successes)


def _binomial_small(engine: Engine, trials: list[float], log_failure: list[float]) -> list[int]:
    """How many geometric waiting times fit into the trials of each element."""
    found: list[int] = []
    elapsed, successes = 0.0, 0
    while len(found) < len(trials):
        n, step = trials[len(found)], log_failure[len(found)]
        uniforms = engine.doubles(min(len(trials) - len(found), CHUNK))
        for log in np.log(uniforms).clip(min=_LOWEST_LOG).tolist():
            elapsed += math.ceil(log / step)
            if elapsed <= n:
                successes += 1
            else:
                found.append(successes)
                elapsed, successes = 0.0, 0
                if len(found) < len(trials):
                    n, step = trials[len(found)], log_failure[len(found)]
    return found


def _binomial_each(reader: _Reader, trials: Array, chance: Array, large: Array) -> list[float]:
    transformed = _transformed(trials[large], chance[large])
    log_failure = np.log1p(-chance).tolist()
    waiting = range(trials.size - 1, -1, -1)
    return [
        next(transformed).draw(reader, left) if is_large else _binomial_single(reader, left, n, step)
        for left, is_large, n, step in zip(waiting, large.tolist(), trials.tolist(), log_failure)
    ]


def _binomial_single(reader: _Reader, waiting: int, trials: float, log_failure: float) -> int:
    """`_binomial_small` for one element among others."""
    elapsed, successes = 0.0, 0
    while True:
        elapsed += math.ceil(max(_log(reader.uniform(waiting)), _LOWEST_LOG) / log_failure)
        if elapsed > trials:
            return successes
        successes += 1


def _transformed(trials: Array, chance: Array) -> Iterator[_Transformed]:
    """The samplers of large binomials, set up in the element type as torch does it."""
    one = trials.dtype.type(1)
    deviation = np.sqrt(trials * chance * (one - chance))
    mode = np.floor((trials + one) * chance)
    columns = (trials, chance, deviation, trials * chance, chance / (one - chance), mode)
    return (_Transformed(*given) for given in zip(*(column.tolist() for column in columns)))


class _Transformed:
    """Hörmann's transformed rejection for binomials (BTRS, 1993)."""

    __slots__ = ("a", "alpha", "b", "c", "m", "mode_term", "n", "r", "v_r")

    def __init__(self, n: float, p: float, deviation: float, mean: float, odds: float, mode: float) -> None:
        self.n, self.r, self.m = n, odds, mode
        self.b = 1.15 + 2.53 * deviation
        self.a = -0.0873 + 0.0248 * self.b + 0.01 * p
        self.c = mean + 0.5
        self.v_r = 0.92 - 4.2 / self.b
        self.alpha = (2.83 + 5.1 / self.b) * deviation
        self.mode_term = (mode + 0.5) * math.log((mode + 1) / (odds * (n - mode + 1)))
        self.mode_term += _stirling_tail(mode) + _stirling_tail(n - mode)

    def draw(self, reader: _Reader, waiting: int) -> float:
        while True:
            u = reader.uniform(waiting) - 0.5
            v = reader.uniform(waiting)
            us = 0.5 - abs(u)
            if us == 0:
                continue
            k = math.floor((2 * self.a / us + self.b) * u + self.c)
            if 0 <= k <= self.n:
                if us >= 0.07 and v <= self.v_r:
                    return k
                if _log(v * self.alpha / (self.a / (us * us) + self.b)) <= self.bound(k):
                    return k

    def attempt(self, first: Doubles, v: Doubles) -> tuple[Doubles, npt.NDArray[np.bool_]]:
        """`draw` for many at once: the values, and which of them are accepted."""
        u = first - 0.5
        us = 0.5 - np.abs(u)
        k = np.floor((2 * self.a / us + self.b) * u + self.c)
        possible = (k >= 0) & (k <= self.n)
        good = possible & (us >= 0.07) & (v <= self.v_r)
        unsure = np.flatnonzero(possible & ~good)
        us, v = us[unsure], v[unsure]
        area = np.log(v * self.alpha / (self.a / (us * us) + self.b))
        good[unsure] = area <= _each_once(self.bound, k[unsure])
        return k, good

    def bound(self, k: float) -> float:
        """log of the ratio between the probabilities of `k` and of the mode."""
        rest = self.n - k
        away = (self.n + 1) * math.log((self.n - self.m + 1) / (rest + 1))
        towards = (k + 0.5) * math.log(self.r * (rest + 1) / (k + 1))
        return self.mode_term + away + towards - _stirling_tail(k) - _stirling_tail(rest)


def _stirling_tail(k: float) -> float:
    """What Stirling's formula leaves out of log(k!)."""
    if k < 10:
        return math.lgamma(int(k) + 1) - ((int(k) + 0.5) * math.log(int(k) + 1) - (int(k) + 1) + _HALF_LOG_TWO_PI)
    square = (k + 1) * (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


# --- gamma and Dirichlet ----------------------------------------------------------------------------------------------


def standard_gamma(alpha: Array, generator: Generator | None = None) -> Array:
    """Gamma samples of shape `alpha` and rate one; never zero, at least the smallest normal number."""
    if alpha.dtype not in (FLOAT32, FLOAT64):
        raise not_implemented("gamma_cpu", alpha.dtype)
    values = _gammas(alpha, generator).astype(alpha.dtype)
    return _at_least_tiny(values).reshape(alpha.shape)


def dirichlet(alpha: Array, generator: Generator | None = None) -> Array:
    """Dirichlet samples along the last dimension, inside (0, 1)."""
    if alpha.dtype not in (FLOAT32, FLOAT64):
        raise not_implemented("dirichlet", alpha.dtype)
    gammas = _at_least_tiny(_gammas(alpha.astype(np.float64), generator)).reshape(alpha.shape)
    total = gammas.sum(-1, keepdims=True) if gammas.ndim else gammas
    shares = _at_least_tiny((gammas / total).astype(alpha.dtype))
    inside: Array = np.minimum(shares, np.nextafter(alpha.dtype.type(1), alpha.dtype.type(0)))
    return inside


def _at_least_tiny(values: Array) -> Array:
    """Also what is not a number becomes the smallest normal number, as by C++'s max."""
    raised: Array = np.fmax(values, np.finfo(values.dtype).tiny)
    return raised


def _gammas(alpha: Array, generator: Generator | None) -> Doubles:
    """Samples by Marsaglia and Tsang's method (2000), their constants in the type of `alpha`."""
    shapes = alpha.ravel()
    one = shapes.dtype.type(1)
    drawn = np.flatnonzero(shapes != 0)
    shapes = shapes[drawn]
    samples = np.zeros(alpha.size)
    engine = engine_of(generator)
    with engine.lock, quiet():
        boost = np.where(shapes < 1, one / shapes, 0).tolist()
        d = (np.where(shapes < 1, shapes + one, shapes) - np.float32(1) / np.float32(3)).astype(np.float64)
        c = (1.0 / np.sqrt(9.0 * d)).tolist()
        reader = _Reader(engine)
        waiting = range(drawn.size - 1, -1, -1)
        samples[drawn] = [_gamma(reader, *given) for given in zip(waiting, boost, d.tolist(), c)]
    return samples


_SQUEEZE = float(np.float32(0.0331))


def _gamma(reader: _Reader, waiting: int, boost: float, d: float, c: float) -> float:
    """One sample; a shape below one is drawn for one more and scaled down by a power of a uniform number."""
    scale = 1.0
    if boost:
        chance = 1 - reader.uniform(waiting)
        scale = chance**boost if boost > 0 else math.nan
    while True:
        x = reader.normal(waiting)
        y = 1.0 + c * x
        if y <= 0:
            continue
        v = y * y * y
        u = 1 - reader.uniform(waiting)
        square = x * x
        if u < 1.0 - _SQUEEZE * square * square or math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return scale * d * v
