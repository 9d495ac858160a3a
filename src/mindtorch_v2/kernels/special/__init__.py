"""The special functions of torch, on arrays: every one takes arrays (or numbers beside them) and `out=`.

The error function's family is in special_erf, the gamma function's in special_gamma and special_igamma, the others in
special_bessel, special_polynomials and special_elementary.
"""

from .bessel import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    i0,
    i0e,
    i1,
    i1e,
    modified_bessel_i0,
    modified_bessel_i1,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
)
from .elementary import entr, expit, log1pexp, logaddexp, logit, sinc, xlog1py, xlogy
from .error import erf, erfc, erfcx, erfinv, log_ndtr, ndtr, ndtri, normal_logpdf, normal_pdf
from .gamma import betaln, digamma, lgamma, mvlgamma, polygamma, trigamma, zeta
from .incomplete_gamma import gammainc, gammaincc
from .polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "betaln",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "expit",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "igamma",
    "igammac",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "lgamma",
    "log1pexp",
    "log_ndtr",
    "logaddexp",
    "logit",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "mvlgamma",
    "ndtr",
    "ndtri",
    "normal_logpdf",
    "normal_pdf",
    "polygamma",
    "psi",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "spherical_bessel_j0",
    "trigamma",
    "xlog1py",
    "xlogy",
    "zeta",
]

gammaln = lgamma
psi = digamma
multigammaln = mvlgamma
igamma = gammainc
igammac = gammaincc
