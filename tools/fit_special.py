"""Fits the approximations behind the special functions and writes them to kernels/special/tables.py.

Needs mpmath. Each fit names a smooth part of a special function, the interval it is wanted on and the degrees of a
rational function; Remez' exchange finds the coefficients with the smallest largest error, in 70 digits.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mpmath as mp
from mpmath import besseli, besselj, besselk, bessely, euler, exp, log, loggamma, mpf, pi, psi, sqrt

TARGET = Path(__file__).parents[1] / "src" / "mindtorch_v2" / "kernels" / "special" / "tables.py"

HEADER = '''"""Coefficients of the special functions, lowest power first, as tools/fit_special.py writes them.

A rational function is its numerator and its denominator; a zero is its double and what the double leaves out.
"""

from __future__ import annotations

import numpy as np

from .blockwise import constants

# fmt: off
'''

Number = Any  # mpmath has no types
Function = Callable[[Number], Number]


# ------------------------------------------------------------------------------------------------------- the fitting


class Rational(NamedTuple):
    top: list[Number]
    bottom: list[Number]
    error: Number


class Fit(NamedTuple):
    name: str
    meaning: str
    function: Function
    low: Number
    high: Number
    degrees: tuple[int, int]
    weight: Function | None = None  # the error is measured in units of this; of the function itself by default


def evaluate(coefficients: list[Number], x: Number) -> Number:
    total = mpf(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def powers(x: Number, count: int) -> list[Number]:
    result = [mpf(1)]
    for _ in range(count):
        result.append(result[-1] * x)
    return result


class Grid:
    """The points a fit is judged at: dense towards the ends of the interval, where errors peak."""

    def __init__(self, fit: Fit, density: int = 16) -> None:
        self.fit = fit
        self.m, self.n = fit.degrees
        count = density * (self.m + self.n + 2)
        middle, half = (mpf(fit.low) + fit.high) / 2, (mpf(fit.high) - fit.low) / 2
        self.x = [middle - half * mp.cos(pi * mpf(i) / (count - 1)) for i in range(count)]
        self.f = [fit.function(x) for x in self.x]
        self.unit = [fit.weight(x) for x in self.x] if fit.weight else self.f

    def errors(self, top: list[Number], bottom: list[Number]) -> list[Number]:
        return [(evaluate(top, x) / evaluate(bottom, x) - f) / unit for x, f, unit in zip(self.x, self.f, self.unit)]

    def has_pole(self, bottom: list[Number]) -> bool:
        return len({evaluate(bottom, x) > 0 for x in self.x}) > 1

    def split(self, solution: Iterable[Number]) -> tuple[list[Number], list[Number]]:
        values = list(solution)
        return values[: self.m + 1], [mpf(1), *values[self.m + 1 : self.m + self.n + 1]]


def least_squares(grid: Grid, rounds: int = 12) -> Rational:
    """A first fit: linearised least squares, reweighted by the last denominator and towards the largest errors."""
    m, n = grid.m, grid.n
    size = m + n + 1
    weights = [mpf(1)] * len(grid.x)
    last = [mpf(1)] * len(grid.x)
    best: Rational | None = None
    for turn in range(rounds):
        normal, right = mp.zeros(size), mp.zeros(size, 1)
        for x, f, unit, weight, bottom in zip(grid.x, grid.f, grid.unit, weights, last):
            power = powers(x, max(m, n))
            row = power[: m + 1] + [-f * p for p in power[1 : n + 1]]
            scale = weight / (bottom * unit) ** 2
            for i in range(size):
                scaled = row[i] * scale
                right[i] += scaled * f
                for j in range(i, size):
                    normal[i, j] += scaled * row[j]
        for i in range(size):
            for j in range(i):
                normal[i, j] = normal[j, i]
        top, bottom_now = grid.split(mp.lu_solve(normal, right))
        errors = grid.errors(top, bottom_now)
        largest = max(map(abs, errors))
        if not grid.has_pole(bottom_now) and (best is None or largest < best.error):
            best = Rational(top, bottom_now, largest)
        last = [evaluate(bottom_now, x) for x in grid.x]
        if turn >= 4:
            mean = sum(map(abs, errors)) / len(errors)
            weights = [w * (abs(e) / mean + mpf("0.05")) for w, e in zip(weights, errors)]
    if best is None:
        raise ArithmeticError(f"{grid.fit.name}: every first fit has a pole in the interval; try other degrees")
    return best


def peaks(errors: list[Number], count: int) -> list[int]:
    """Where the error is largest between its sign changes: `count` places, the weaker ends dropped."""
    found: list[int] = []
    start = 0
    while start < len(errors):
        end = start
        while end < len(errors) and (errors[end] > 0) == (errors[start] > 0):
            end += 1
        found.append(max(range(start, end), key=lambda i: abs(errors[i])))
        start = end
    while len(found) > count:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    return found


def level(grid: Grid, places: list[int], guess: Number) -> tuple[list[Number], list[Number], Number]:
    """The rational function whose errors at `places` alternate with one size, and that size."""
    m, n = grid.m, grid.n
    size = m + n + 2
    for _ in range(10):
        matrix, right = mp.zeros(size), mp.zeros(size, 1)
        for row, place in enumerate(places):
            power = powers(grid.x[place], max(m, n))
            unit = grid.unit[place] * (-1) ** row
            for j in range(m + 1):
                matrix[row, j] = power[j]
            for j in range(1, n + 1):
                matrix[row, m + j] = -(grid.f[place] + unit * guess) * power[j]
            matrix[row, size - 1] = -unit
            right[row] = grid.f[place]
        solution = list(mp.lu_solve(matrix, right))
        settled = abs(solution[-1] - guess) <= abs(guess) * mpf("1e-3")
        guess = solution[-1]
        if settled or n == 0:
            break
    return *grid.split(solution), guess


def minimax(fit: Fit, rounds: int = 20) -> Rational:
    """Remez' exchange, started from least squares."""
    grid = Grid(fit)
    best = least_squares(Grid(fit, density=7))
    errors = grid.errors(best.top, best.bottom)
    best = best._replace(error=max(map(abs, errors)))
    count = grid.m + grid.n + 2
    for _ in range(rounds):
        places = peaks(errors, count)
        if len(places) < count:
            break
        guess = sum(abs(errors[i]) for i in places) / count * (1 if errors[places[0]] > 0 else -1)
        top, bottom, size = level(grid, places, guess)
        errors = grid.errors(top, bottom)
        largest = max(map(abs, errors))
        if largest < best.error and not grid.has_pole(bottom):
            best = Rational(top, bottom, largest)
        if largest <= abs(size) * mpf("1.05"):
            break
    return best


# ---------------------------------------------------------------------------------------------------- what is fitted


def at_limit(function: Function, limit: Number) -> Function:
    """`function`, with its limit at 0 where the formula says 0 / 0."""
    return lambda x: function(x) if x else limit


def erf_over_x(u: Number) -> Number:
    return mp.erf(sqrt(u)) / sqrt(u)


def erf_angle(u: Number) -> Number:
    """y / x for the y with erf(x) = tanh(y)."""
    x = sqrt(u)
    return log((1 + mp.erf(x)) / mp.erfc(x)) / (2 * x)


def erf_angle_unit(u: Number) -> Number:
    """An error of y reaches erf(x) times 1 - erf(x)²."""
    x = sqrt(u)
    return mp.erf(x) / (x * mp.erfc(x) * (1 + mp.erf(x)))


def scaled_erfc(t: Number) -> Number:
    """erfcx(x) / t for t = 2 / (2 + x)."""
    x = 2 * (1 - t) / t
    if x > 10**6:
        return (1 - 1 / (2 * x * x) + 3 / (4 * x**4)) / (x * sqrt(pi) * t)
    return exp(x * x) * mp.erfc(x) / t


def inverse_erf(w: Number) -> Number:
    """erfinv(x) / x for w = -log(1 - x²)."""
    if w == 0:
        return sqrt(pi) / 2
    x = sqrt(-mp.expm1(-w))
    if w < 1:
        return mp.erfinv(x) / x
    rest = exp(-w) / (1 + x)  # 1 - x
    y = sqrt(w - log(sqrt(pi * w))) if w > 3 else mp.erfinv(x)
    for _ in range(60):
        step = (mp.erfc(y) - rest) * exp(y * y) * sqrt(pi) / 2
        y += step / (1 - y * step) if abs(y * step) < 0.5 else step
        if abs(step) < mpf(10) ** (8 - mp.mp.dps):
            break
    return y / x


def lgamma_near(t: Number) -> Number:
    if t == 1:
        return 1 - euler
    return loggamma(1 + t) / (t * (t - 1)) if t else euler


def stirling(z: Number) -> Number:
    x = 1 / sqrt(z)
    return (loggamma(x) - (x - mpf("0.5")) * log(x) + x - log(2 * pi) / 2) * x


def digamma_far(z: Number) -> Number:
    x = 1 / sqrt(z)
    return (log(x) - 1 / (2 * x) - psi(0, x)) / z


def scaled_bessel(function: Callable[[int, Number], Number], order: int, start: int, sign: int) -> Function:
    """sqrt(x) exp(sign x) times I or K, for v = start / x."""

    def value(v: Number) -> Number:
        x = mpf(start) / v
        return sqrt(x) * exp(sign * x) * function(order, x)

    return at_limit(value, sqrt(pi / 2) if sign > 0 else 1 / sqrt(2 * pi))


def k0_near(u: Number) -> Number:
    x = 2 * sqrt(u)
    return besselk(0, x) + log(x / 2) * besseli(0, x)


def k1_near(u: Number) -> Number:
    x = 2 * sqrt(u)
    return (besselk(1, x) - 1 / x - log(x / 2) * besseli(1, x)) * 2 / x


def j_over_zero(order: int, zero: Number) -> Function:
    """J / (x^order (x² - zero²)) in u = x²."""
    limit = {0: -1 / zero**2, 1: -1 / (2 * zero**2)}[order]
    return at_limit(lambda u: besselj(order, sqrt(u)) / sqrt(u) ** order / (u - zero**2), limit)


def y_over_zero(order: int, zero: Number) -> Function:
    """x^order (Y - 2/π log(x / zero) J) / (x² - zero²) in u = x²."""

    def value(u: Number) -> Number:
        x = sqrt(u)
        return x**order * (bessely(order, x) - 2 / pi * log(x / zero) * besselj(order, x)) / (u - zero**2)

    limit = {0: -2 / pi * (log(zero / 2) + euler) / zero**2, 1: 2 / pi / zero**2}[order]
    return at_limit(value, limit)


def bessel_wave(order: int, quadrature: bool) -> Function:
    """P or x Q of J = sqrt(2 / πx) (P cos χ - Q sin χ), in v = 64 / x²."""

    def value(v: Number) -> Number:
        x = 8 / sqrt(v)
        angle, scale = x - (2 * order + 1) * pi / 4, sqrt(pi * x / 2)
        j, y = scale * besselj(order, x), scale * bessely(order, x)
        if quadrature:
            return (y * mp.cos(angle) - j * mp.sin(angle)) * x
        return j * mp.cos(angle) + y * mp.sin(angle)

    return at_limit(value, mpf(4 * order**2 - 1) / 8 if quadrature else mpf(1))


def airy_argument(zeta: Number) -> Number:
    return (3 * zeta / 2) ** (mpf(2) / 3)


def airy_decay(v: Number) -> Number:
    """Ai(x) x^¼ exp(ζ) in v = 1 / ζ."""
    x = airy_argument(1 / v)
    return mp.airyai(x) * exp(1 / v) * x ** mpf("0.25")


def airy_wave(quadrature: bool) -> Function:
    """P or ζ Q of Ai(-x) = (P cos χ + Q sin χ) / (sqrt(π) x^¼), χ = ζ - π/4, in v = 1 / ζ²."""

    def value(v: Number) -> Number:
        zeta = 1 / sqrt(v)
        x = airy_argument(zeta)
        a, b = (sqrt(pi) * x ** mpf("0.25") * f(-x) for f in (mp.airyai, mp.airybi))
        cos, sin = mp.cos(zeta - pi / 4), mp.sin(zeta - pi / 4)
        return (a * sin + b * cos) * zeta if quadrature else a * cos - b * sin

    return at_limit(value, mpf(5) / 72 if quadrature else mpf(1))


def airy_series(odd: bool) -> Function:
    """Ai(x) = f(x³) - x g(x³): f, or g."""

    def value(w: Number) -> Number:
        x = mp.sign(w) * mp.cbrt(abs(w))
        if odd:
            return (mp.airybi(x) / sqrt(mpf(3)) - mp.airyai(x)) / (2 * x)
        return (mp.airybi(x) / sqrt(mpf(3)) + mp.airyai(x)) / 2

    return at_limit(value, -mp.airyai(0, derivative=1) if odd else mp.airyai(0))


def shifted(function: Function, centre: Number) -> Function:
    return lambda t: function(centre + t)


# fmt: off
def fits() -> Iterator[Fit]:
    psi_zero = digamma_zero()
    yield Fit("ERF_SINGLE", "y / x in x², with erf(x) = tanh(y), |x| <= 4, for float32",
              at_limit(erf_angle, 2 / sqrt(pi)), 0, 16, (6, 0), at_limit(erf_angle_unit, mpf(1)))
    yield Fit("ERF", "erf(x) / x in x², |x| <= 6", at_limit(erf_over_x, 2 / sqrt(pi)), 0, 36, (12, 12))
    yield Fit("ERFINV_0", "erfinv(x) / x in w = -log(1 - x²), w <= 5", inverse_erf, 0, 5, (8, 8))
    yield Fit("ERFINV_5", "the same in w - 5, w <= 15", shifted(inverse_erf, 5), 0, 10, (8, 8))
    yield Fit("ERFINV_15", "the same in w - 15, w <= 37", shifted(inverse_erf, 15), 0, 22, (8, 8))
    yield Fit("ERFINV_FAR", "the same in sqrt(w) - 6, w <= 756",
              lambda t: inverse_erf((6 + t) ** 2), 0, mpf("21.5"), (7, 7))
    yield Fit("LGAMMA_NEAR", "lgamma(1 + t) / (t (t - 1)), 0 <= t <= 2", lgamma_near, 0, 2, (7, 7))
    yield Fit("LGAMMA_MID", "lgamma(x) / (x - 2) in x - 3, 3 <= x <= 9",
              lambda t: loggamma(3 + t) / (1 + t), 0, 6, (7, 7))
    yield Fit("STIRLING", "x (lgamma(x) - (x - ½) log x + x - ½ log 2π) in x⁻², x >= 9",
              at_limit(stirling, mpf(1) / 12), 0, mpf(1) / 81, (6, 0))
    yield Fit("DIGAMMA_NEAR", "digamma(1 + t) over the distance from its zero, 0 <= t <= 2",
              lambda t: psi(0, 1 + t) / (1 + t - psi_zero), 0, 2, (7, 7))
    yield Fit("DIGAMMA_MID", "digamma(3 + t), 0 <= t <= 6", lambda t: psi(0, 3 + t), 0, 6, (7, 7))
    yield Fit("DIGAMMA_FAR", "(log x - 1 / 2x - digamma(x)) x² in x⁻², x >= 9",
              at_limit(digamma_far, mpf(1) / 12), 0, mpf(1) / 81, (7, 0))
    yield Fit("TRIGAMMA_NEAR", "trigamma(1 + t), 0 <= t <= 4", lambda t: psi(1, 1 + t), 0, 4, (6, 7))
    yield Fit("TRIGAMMA_FAR", "x trigamma(x) in 1 / x, x >= 4",
              at_limit(lambda v: psi(1, 1 / v) / v, mpf(1)), 0, mpf("0.25"), (6, 6))
    yield Fit("LOG1P_SINGLE", "log(1 + x) / x, 0 <= x <= 1, for float32",
              at_limit(lambda x: mp.log1p(x) / x, mpf(1)), 0, 1, (8, 0))
    yield Fit("LOG1P", "log(1 + x) / x, 0 <= x <= 1", at_limit(lambda x: mp.log1p(x) / x, mpf(1)), 0, 1, (6, 6))
    yield Fit("LOG1PMX", "(m - log(1 + m)) / m² in m + ½, -½ <= m <= 1",
              shifted(at_limit(lambda m: (m - mp.log1p(m)) / m**2, mpf("0.5")), mpf("-0.5")), 0, mpf("1.5"), (8, 8))
    yield from bessel_fits()
    yield from airy_fits()


def bessel_fits() -> Iterator[Fit]:
    for n in (0, 1):
        yield Fit(f"I{n}_NEAR", f"I{n}(x) / (x/2)^{n} in x² / 4, x <= 12",
                  at_limit(lambda u, n=n: besseli(n, 2 * sqrt(u)) / sqrt(u) ** n, mpf(1)), 0, 36, (18, 0))
        yield Fit(f"I{n}_FAR", f"sqrt(x) exp(-x) I{n}(x) in 12 / x, x >= 12",
                  scaled_bessel(besseli, n, 12, -1), 0, 1, (16, 0))
    yield Fit("K0_NEAR", "K0(x) + log(x/2) I0(x) in x² / 4, x <= 1",
              at_limit(k0_near, -euler), 0, mpf("0.25"), (7, 0))
    yield Fit("K1_NEAR", "(K1(x) - 1/x - log(x/2) I1(x)) / (x/2) in x² / 4, x <= 1",
              at_limit(k1_near, euler - mpf("0.5")), 0, mpf("0.25"), (7, 0))
    for n in (0, 1):
        yield Fit(f"K{n}_FAR", f"sqrt(x) exp(x) K{n}(x) in 1 / x, x >= 1",
                  scaled_bessel(besselk, n, 1, 1), 0, 1, (8, 8))
        low, high = (mp.besseljzero(n, k) for k in (1, 2))
        yield Fit(f"J{n}_LOW", f"J{n}(x) / x^{n} over x² - zero², in x², x <= 4", j_over_zero(n, low), 0, 16, (5, 5))
        yield Fit(f"J{n}_HIGH", f"J{n}(x) / x^{n} over x² - zero², in x² - 40, 4 <= x <= 8",
                  shifted(j_over_zero(n, high), 40), -24, 24, (7, 7))
        low, high = (mp.besselyzero(n, k) for k in (1, 3 - n))
        yield Fit(f"Y{n}_LOW", f"x^{n} (Y{n}(x) - 2/π log(x/zero) J{n}(x)) over x² - zero², in x², x <= 4",
                  y_over_zero(n, low), 0, 16, (6, 6))
        yield Fit(f"Y{n}_HIGH", "the same in x² - 40, 4 <= x <= 8", shifted(y_over_zero(n, high), 40), -24, 24, (7, 7))
        yield Fit(f"P{n}", f"P of J{n} = sqrt(2 / πx) (P cos χ - Q sin χ), in 64 / x², x >= 8",
                  bessel_wave(n, False), 0, 1, (5, 5))
        yield Fit(f"Q{n}", "x Q of the same", bessel_wave(n, True), 0, 1, (5, 5))


def airy_fits() -> Iterator[Fit]:
    lowest = 1 / (mpf(2) / 3 * mpf(2) ** mpf("1.5")) ** 2
    yield Fit("AIRY_EVEN", "f of Ai(x) = f(x³) - x g(x³), -2 <= x <= 1",
              airy_series(False), -8, 1, (8, 0), lambda w: mpf(1))
    yield Fit("AIRY_ODD", "g of the same", airy_series(True), -8, 1, (8, 0), lambda w: mpf(1))
    yield Fit("AIRY_DECAY", "Ai(x) x^¼ exp(ζ) in 1 / ζ, x >= 1",
              at_limit(airy_decay, 1 / (2 * sqrt(pi))), 0, mpf("1.5"), (9, 9))
    yield Fit("AIRY_P", "P of Ai(-x) = (P cos χ + Q sin χ) / (sqrt(π) x^¼), in ζ⁻², x >= 2",
              airy_wave(False), 0, lowest, (9, 9))
    yield Fit("AIRY_Q", "ζ Q of the same", airy_wave(True), 0, lowest, (10, 10))
# fmt: on


# --------------------------------------------------------------------------------------- what is known in closed form


def digamma_zero() -> Number:
    return mp.findroot(mp.digamma, mpf("1.4616321449683623"))


def zeros() -> Iterator[tuple[str, Number]]:
    yield "DIGAMMA_ZERO", digamma_zero()
    for n in (0, 1):
        yield f"J{n}_LOW_ZERO", mp.besseljzero(n, 1)
        yield f"J{n}_HIGH_ZERO", mp.besseljzero(n, 2)
        yield f"Y{n}_LOW_ZERO", mp.besselyzero(n, 1)
        yield f"Y{n}_HIGH_ZERO", mp.besselyzero(n, 3 - n)


def scaled_erfc_in_x() -> Rational:
    """The fit of `scaled_erfc` written in x: all its coefficients are positive there, so that nothing cancels."""
    fit = minimax(Fit("ERFCX", "", at_limit(scaled_erfc, 1 / (2 * sqrt(pi))), 0, 1, (10, 10)))
    degree = len(fit.top) - 1

    def expanded(coefficients: list[Number], extra: int) -> list[Number]:
        result = [mpf(0)] * (degree + extra + 1)
        for k, coefficient in enumerate(coefficients):
            height = degree + extra - k
            for i in range(height + 1):
                result[i] += coefficient * mpf(2) ** (k + height - i) * mp.binomial(height, i)
        return result

    top, bottom = [2 * c for c in expanded(fit.top, 0)], expanded(fit.bottom, 1)
    return Rational([c / bottom[0] for c in top], [c / bottom[0] for c in bottom], fit.error)


def temme(rows: int = 10, columns: int = 17) -> list[list[Number]]:
    """The coefficients of η^n a^-k in Temme's expansion of the incomplete gamma functions (1979), d[k][n].

    With λ - 1 = Σ α_i η^i (½ η² = λ - 1 - log λ) the first row is 1 / (λ - 1) - 1 / η; each row follows from the last
    by d[k][n] = (-1)^k γ_k d[0][n] + (n + 2) d[k-1][n+2], where Γ*(a) ~ Σ γ_k a^-k.
    """
    length = columns + 2 * rows + 3
    alpha = [mpf(0), mpf(1)]
    for n in range(2, length + 1):  # from η = (λ - 1) / λ dλ/dη, that is η (1 + μ) = μ dμ/dη
        known = sum(alpha[i] * (n - i + 1) * alpha[n - i + 1] for i in range(2, n))
        alpha.append((alpha[n - 1] - known) / (n + 1))
    inverse = [mpf(1)]
    for n in range(1, length):  # 1 / (μ / η)
        inverse.append(-sum(alpha[i + 1] * inverse[n - i] for i in range(1, n + 1)))
    row = inverse[1:]
    series = mp.taylor(
        lambda z: exp(sum(mp.bernoulli(2 * k) / (2 * k * (2 * k - 1)) * z ** (2 * k - 1) for k in range(1, rows + 1))),
        0,
        rows,
    )
    table = [row]
    for k in range(1, rows):
        last = table[-1]
        table.append([(-1) ** k * series[k] * row[n] + (n + 2) * last[n + 2] for n in range(len(last) - 2)])
    return [line[:columns] for line in table]


# ------------------------------------------------------------------------------------------------------- the writing


def literal(values: list[Number], indent: str, dtype: str = "") -> str:
    """A call of `constants`, broken into lines of at most 120 characters."""
    lines, line = [], indent + "   "
    for word in [*(repr(float(value)) for value in values), *([f"dtype={dtype}"] if dtype else [])]:
        if len(line) + len(word) + 2 > 120:
            lines.append(line)
            line = indent + "   "
        line += f" {word},"
    return "\n".join(["constants(", *lines, line, indent + ")"])


def table(name: str, meaning: str, fit: Rational) -> str:
    head = f"\n# {meaning}; off by {mp.nstr(fit.error, 2)} at most.\n{name} = "
    if len(fit.bottom) == 1:
        return head + literal(fit.top, "", "np.float32" if name.endswith("_SINGLE") else "") + "\n"
    return f"{head}(\n    {literal(fit.top, '    ')},\n    {literal(fit.bottom, '    ')},\n)\n"


def module(names: set[str]) -> Iterator[str]:
    """The text of special_tables.py, with the tables that are named or all of them."""
    yield HEADER

    def wanted(name: str) -> bool:
        return not names or name in names

    for name, value in zeros():
        if wanted(name):
            yield f"{name} = ({float(value)!r}, {float(value - float(value))!r})\n"
    if wanted("ERFCX"):
        yield table("ERFCX", "erfcx(x), x >= 0", scaled_erfc_in_x())
    for fit in fits():
        if wanted(fit.name):
            yield table(fit.name, fit.meaning, minimax(fit))
    if wanted("TEMME"):
        yield "\n# Temme's expansion: row k holds the coefficients of η^n a^-k.\nTEMME = (\n"
        yield from (f"    {literal(row, '    ')},\n" for row in temme())
        yield ")\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="tables to fit (default: all)")
    parser.add_argument("--output", type=Path, default=TARGET)
    options = parser.parse_args()
    mp.mp.dps = 70
    options.output.write_text("".join(module(set(options.names))))


if __name__ == "__main__":
    main()
