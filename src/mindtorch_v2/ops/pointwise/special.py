"""Rows of special functions: error, gamma and Bessel functions, orthogonal polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dtype import bool_, get_default_dtype
from ...dispatch.op import Op, binary, composite, explicit, in_place, unary
from ...dispatch.overlap import guarded
from ...kernels import special as kernels
from ...kernels.checks import not_implemented
from .. import flops
from ..creation.ranges import arange
from .arithmetic import by_operand, plus, times

SQRT_PI = math.sqrt(math.pi)


def _fresh(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that always gives a new array; the special functions read their input again after they began to write."""
    return lambda *arrays: kernel(*arrays)


def _function(name: str, kernel: Callable[..., Any], formula: Any = None, **options: Any) -> Op:
    formulas = {} if formula is None else {"self": formula}
    return unary(name, _fresh(kernel), all_flops=flops.each(1, 1), takes="bif", **formulas, **options)


# --- error functions --------------------------------------------------------------------------------------------------

erf = _function("erf", kernels.erf, label="erf_vml_cpu", formula=lambda g, self: 2 / SQRT_PI * (-self.pow(2)).exp() * g)
erfc = _function(
    "erfc", kernels.erfc, label="erfc_vml_cpu", formula=lambda g, self: -2 / SQRT_PI * (-self.pow(2)).exp() * g
)
erfinv = _function(
    "erfinv",
    kernels.erfinv,
    label="erfinv_vml_cpu",
    formula=lambda g, self: SQRT_PI / 2 * self.erfinv().pow(2).exp() * g,
)
erf_, erfc_, erfinv_ = in_place(erf), in_place(erfc), in_place(erfinv)
special_erfcx = _function(
    "special_erfcx", kernels.erfcx, lambda g, self, result: (2 * self * result - 2 / SQRT_PI) * g, method=False
)
special_ndtri = _function(
    "special_ndtri",
    kernels.ndtri,
    lambda g, result: g * math.sqrt(2 * math.pi) * (result.square() / 2).exp(),
    method=False,
)
special_log_ndtr = _function(
    "special_log_ndtr",
    kernels.log_ndtr,
    lambda g, self, result: g / (result + self.pow(2) / 2).exp() / math.sqrt(2 * math.pi),
    method=False,
)


@composite("special_ndtr(Tensor self) -> Tensor", out=True, method=False)
def _ndtr(self: Any) -> Any:
    """Half of one more than the error function."""
    return times(plus(times(self, math.sqrt(0.5)).erf(), 1), 0.5)


special_ndtr = _ndtr.function

# --- gamma functions --------------------------------------------------------------------------------------------------

lgamma = _function("lgamma", kernels.lgamma, label="lgamma_vml_cpu", formula=lambda g, self: g * self.digamma())
digamma = _function("digamma", kernels.digamma, lambda g, self: g * polygamma.function(1, self))
lgamma_, digamma_ = in_place(lgamma), in_place(digamma)


def _check_polygamma(n: int, self: Any) -> None:
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")


polygamma = Op(
    "polygamma(int n, Tensor self) -> Tensor",
    lambda n, x: kernels.polygamma(n, x),
    all_flops=flops.each(1, 1),
    rule="float",
    takes="bif",
    check=_check_polygamma,
    formulas={"self": lambda g, n, self: g * polygamma.function(n + 1, self)},
)

polygamma_ = Op(
    "polygamma_(Tensor self, int n) -> Tensor",
    guarded(lambda a, n: np.copyto(a, kernels.polygamma(n, a), casting="unsafe")),
    kind="mutate",
    calls=lambda self, n: self.copy_(polygamma.function(n, self)),
    node="PolygammaBackward1",
    formulas={"self": lambda g, self, n: g * polygamma.function(n + 1, self)},
)


def _half_steps(self: Any, p: int) -> Any:
    """`self` moved by each half step that a multivariate gamma function takes."""
    return self.unsqueeze(-1) + arange(-p / 2 + 0.5, 0.5, 0.5, dtype=self.dtype)


@explicit(
    "mvlgamma(Tensor self, int p) -> Tensor",
    all_flops=flops.each(1, 1),
    self=lambda g, self, p: g * _half_steps(self, p).digamma_().sum(-1),
)
def mvlgamma(self: Any, p: int) -> Any:
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if self.is_complex() or self.dtype is bool_:
        raise not_implemented("mvlgamma_cpu", self._a.dtype)
    self = self if self.is_floating_point() else self.to(get_default_dtype())
    return _half_steps(self, p).lgamma_().sum(-1).add_(p * (p - 1) * math.log(math.pi) / 4)


mvlgamma_ = in_place(mvlgamma, calls=lambda self, p: self.copy_(mvlgamma.function(self, p)))


def _no_gradient(name: str) -> Any:
    def formula(g: Any) -> Any:
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    return formula


def _incomplete(name: str, kernel: Callable[..., Any], sign: int) -> Op:
    """The lower (sign 1) or upper (sign -1) incomplete gamma function."""

    def of_other(g: Any, self: Any, other: Any) -> Any:
        return g * sign * ((self - 1) * other.log() - other - self.lgamma()).exp()

    return binary(
        name,
        _fresh(kernel),
        all_flops=flops.each(1, 2),
        takes="f",
        number_fast=False,
        self=_no_gradient(f"{name}: input"),
        other=of_other,
    )


igamma, igammac = _incomplete("igamma", kernels.igamma, 1), _incomplete("igammac", kernels.igammac, -1)
igamma_, igammac_ = in_place(igamma), in_place(igammac)


def _zeta_other(g: Any, self: Any, other: Any) -> Any:
    return g * -self * special_zeta.function(self + 1.0, other)


special_zeta = binary(
    "special_zeta",
    _fresh(kernels.zeta),
    "float",
    all_flops=flops.each(1, 2),
    takes="bif",
    method=False,
    self=_no_gradient("zeta"),
    other=_zeta_other,
)

# --- Bessel functions -------------------------------------------------------------------------------------------------

i0 = _function("i0", kernels.i0, label="i0_vml_cpu", formula=lambda g, self: g * special_i1.function(self))
i0_ = in_place(i0)


def _i1_self(g: Any, self: Any, result: Any) -> Any:
    """i0(x) - i1(x) / x, which is a half at zero."""
    away, safe = _away_from_zero(self)
    return g * (safe.i0() - result * safe.reciprocal()).where(away, 0.5)


def _i1e_self(g: Any, self: Any, result: Any) -> Any:
    away, safe = _away_from_zero(self)
    slope = special_i0e.function(safe) - result * (safe.sgn() + safe.reciprocal())
    return g * slope.where(away, 0.5)


def _away_from_zero(t: Any) -> tuple[Any, Any]:
    """Where a tensor is not zero, and the tensor with tiny numbers in place of zeros."""
    eps = 2.220446049250313e-16 if t._a.dtype == np.float64 else 1.1920928955078125e-07
    away = t.abs() > eps
    return away, t.where(away, eps)


special_i0e = _function(
    "special_i0e",
    kernels.i0e,
    lambda g, self, result: g * (special_i1e.function(self) - self.sgn() * result),
    node="SpecialI0EBackward0",
    method=False,
)
special_i1 = _function("special_i1", kernels.i1, _i1_self, method=False)
special_i1e = _function("special_i1e", kernels.i1e, _i1e_self, node="SpecialI1EBackward0", method=False)

for _name in """airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1
        modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1
        spherical_bessel_j0""".split():
    _schema = f"special_{_name}(Tensor {'x' if 'scaled' in _name or _name in ('airy_ai', 'spherical_bessel_j0') else 'self'}) -> Tensor"
    unary(_schema, _fresh(getattr(kernels, _name)), all_flops=flops.each(1, 1), takes="bif", method=False)

# --- polynomials ------------------------------------------------------------------------------------------------------

for _name in """chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
        hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p
        shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
        shifted_chebyshev_polynomial_w""".split():
    binary(
        f"special_{_name}(Tensor x, Tensor n) -> Tensor",
        _fresh(getattr(kernels, _name)),
        "float",
        all_flops=flops.each(1, 2),
        takes="bif",
        scalar="n_scalar",
        method=False,
    )

# --- products with a logarithm ----------------------------------------------------------------------------------------

special_entr = _function("special_entr", kernels.entr, lambda g, self: g * -(self.log() + 1), method=False)


def _as_pair(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of two arrays, one of which may be a number."""

    def pair(x: Any, y: Any) -> Any:
        like = x if isinstance(x, np.ndarray) else y
        return kernel(*(v if isinstance(v, np.ndarray) else np.asarray(v, like.dtype) for v in (x, y)))

    return pair


def _x_log_rows(name: str, kernel: Callable[..., Any], shift: int, overloads: tuple[str, str, str]) -> Any:
    """`xlogy` (shift 0) or `xlog1py` (shift 1): of two tensors, of a number and a tensor, of a tensor and a number."""
    title = "".join(w[:1].upper() + w[1:] for w in name.split("_")).replace("1py", "1Py")

    def of_x(g: Any, self: Any, other: Any) -> Any:
        return tensor.function(g, other).masked_fill((self == 0).bitwise_and(other <= -shift), 0)

    def of_x_number(g: Any, self: Any, other: Any) -> Any:
        value = by_number.function(g, other)
        return value if other > -shift else value.masked_fill(self == 0, 0)

    def of_y(g: Any, self: Any, other: Any) -> Any:
        return g * self / (other + shift if shift else other)

    out = [None if shift else f"Out{overload[1:]}" for overload in overloads]
    options: dict[str, Any] = {"takes": "bif", "label": f"{name.removeprefix('special_')}_cpu", "rule": "float"}
    tensor = Op(
        f"{name}{overloads[0]}(Tensor self, Tensor other) -> Tensor",
        _fresh(kernel),
        all_flops=flops.each(2, 2),
        number_fast=False,
        method=not shift,
        node=f"{title}Backward0",
        formulas={"self": of_x, "other": of_y},
        out_overload=out[0],
        **options,
    )
    of_number = Op(
        f"{name}{overloads[1]}(Scalar self, Tensor other) -> Tensor",
        _as_pair(kernel),
        promotes=("self",),
        method=False,
        node=f"{title}Backward1",
        formulas={"other": of_y},
        out_overload=out[1],
        **options,
    )
    by_number = Op(
        f"{name}{overloads[2]}(Tensor self, Scalar other) -> Tensor",
        _as_pair(kernel),
        promotes=("other",),
        method=not shift,
        node=f"{title}Backward2",
        formulas={"self": of_x_number},
        out_overload=out[2],
        **options,
    )
    return tensor, by_number, of_number


_xlogy = _x_log_rows("xlogy", kernels.xlogy, 0, (".Tensor", ".Scalar_Self", ".Scalar_Other"))
_xlog1py = _x_log_rows("special_xlog1py", kernels.xlog1py, 1, ("", ".self_scalar", ".other_scalar"))
xlogy = by_operand("xlogy", *_xlogy)
special_xlog1py = by_operand("special_xlog1py", *_xlog1py)
xlogy_ = by_operand("xlogy_", in_place(_xlogy[0]), in_place(_xlogy[1]))
