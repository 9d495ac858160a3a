"""Special functions: values to full precision (computed in 60 digits), torch's edges, dtypes and layouts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mindtorch_v2.kernels import blockwise, special
from mindtorch_v2.kernels.compiled import C
from mindtorch_v2.kernels.pointwise import activation

nan, inf = math.nan, math.inf

# fmt: off
VALUES: dict[str, list[tuple[float, float]]] = {
    "erf": [
        (1e-300, 1.1283791670955126e-300), (1e-08, 1.1283791670955126e-08), (0.03, 0.03384122234173543),
        (0.5, 0.5204998778130465), (1.0, 0.8427007929497149), (-1.75, -0.9866716712191824), (2.5, 0.999593047982555),
        (3.9, 0.9999999652077514), (5.5, 0.9999999999999927),
    ],
    "erfc": [
        (-3.0, 1.9999779095030015), (-0.25, 1.276326390168237), (1e-10, 0.999999999887162),
        (0.5, 0.4795001221869535), (1.5, 0.033894853524689274), (4.0, 1.541725790028002e-08),
        (10.0, 2.088487583762545e-45), (26.0, 5.663192408856143e-296),
    ],
    "erfcx": [
        (-20.0, 1.0442939379528289e+174), (-2.0, 108.94090438997797), (-0.1, 1.1236433541992095),
        (0.3, 0.7345993345676551), (1.0, 0.427583576155807), (4.5, 0.12248480427384142), (30.0, 0.01879588886141675),
        (200.0, 0.0028209126572120466),
    ],
    "erfinv": [
        (1e-20, 8.86226925452758e-21), (0.1, 0.08885599049425769), (-0.5, -0.4769362762044699),
        (0.75, 0.8134198475976185), (0.99, 1.8213863677184494), (-0.9999, -2.75106390571208),
        (0.9999999, 3.7665625816384707), (0.999999999999, 5.042031898572696),
    ],
    "ndtr": [
        (-37.0, 5.725571222524577e-300), (-12.0, 1.776482112077679e-33), (-3.0, 0.0013498980316300946),
        (-0.5, 0.3085375387259869), (0.25, 0.5987063256829237), (1.0, 0.8413447460685429), (4.0, 0.9999683287581669),
    ],
    "ndtri": [
        (1e-300, -37.0470962993612), (1e-40, -13.31092137142517), (1e-10, -6.361340902404057),
        (0.01, -2.326347874040841), (0.3, -0.5244005127080408), (0.625, 0.31863936396437514),
        (0.99, 2.3263478740408408), (0.9999999, 5.199337582290661),
    ],
    "log_ndtr": [
        (-1000.0, -500007.82669481216), (-30.0, -454.3212439563432), (-5.0, -15.064998393988725),
        (-1.0, -1.8410216450092636), (-0.25, -0.9130617648111351), (0.5, -0.3689464152886564),
        (3.0, -0.0013508099647481938), (8.0, -6.220960574271786e-16),
    ],
    "normal_pdf": [
        (-30.0, 1.4736461348785476e-196), (-1.0, 0.24197072451914334), (0.0, 0.3989422804014327),
        (0.5, 0.35206532676429947), (4.0, 0.00013383022576488534),
    ],
    "normal_logpdf": [
        (-30.0, -450.91893853320465), (-1.0, -1.4189385332046727), (0.0, -0.9189385332046728),
        (0.5, -1.0439385332046727), (100000.0, -5000000000.918939),
    ],
    "lgamma": [
        (1e-30, 69.07755278982137), (0.1, 2.252712651734206), (0.5, 0.5723649429247001),
        (0.99999, 5.772238896093089e-06), (1.00001, -5.7720744027504825e-06), (1.5, -0.12078223763524522),
        (1.99, -0.004195529088791668), (2.0625, 0.027667521522857022), (2.75, 0.47521466691493713),
        (5.5, 3.9578139676187165), (8.875, 10.337945303822174), (9.25, 11.143400119951712),
        (100.0, 359.1342053695754), (10000000000.0, 220258509288.81058), (-0.3, 1.4648400508576025),
        (-1.5, 0.860047015376481), (-10.25, -14.20399790093109), (-100.625, -365.39876261164756),
    ],
    "digamma": [
        (1e-30, -9.999999999999999e+29), (0.1, -10.423754940411076), (0.75, -1.0858608797864722),
        (1.0, -0.5772156649015329), (1.4375, -0.023613544005297898), (1.5, 0.03648997397857652),
        (2.75, 0.8189010249754326), (5.5, 1.6110931485817512), (8.875, 2.125843651252659),
        (9.25, 2.1695966825786157), (1000.0, 6.907255195648812), (1000000000000000.0, 34.538776394910684),
        (-0.3, 2.113309779635399), (-1.75, -2.322691628614361), (-10.25, 5.516858419886273),
        (-100.625, 3.3150711652156573),
    ],
    "trigamma": [
        (1e-20, 1.0000000000000002e+40), (0.25, 17.19732915450711), (1.0, 1.6449340668482264),
        (2.5, 0.49035775610023485), (3.875, 0.29419107773339603), (4.25, 0.26512373409656215),
        (100.0, 0.010050166663333571), (1000000000000.0, 1.0000000000005e-12), (-0.25, 18.541879647671607),
        (-7.75, 19.61814433435229),
    ],
    "i0": [
        (0.0, 1.0), (0.5, 1.0634833707413236), (-3.0, 4.8807925858650245), (11.5, 11746.141518920069),
        (12.5, 30596.335155785153), (100.0, 1.0737517071310738e+42), (700.0, 1.5295933476718737e+302),
    ],
    "i0e": [
        (0.0, 1.0), (0.5, 0.6450352704491501), (-3.0, 0.2430003541618254), (11.5, 0.1189895130094226),
        (12.5, 0.1140219294622889), (1000.0, 0.012617240455891257),
    ],
    "i1": [
        (1e-10, 5e-11), (0.5, 0.2578943053908963), (-3.0, -3.9533702174026093), (11.5, 11223.209738510568),
        (12.5, 29345.74964207113), (100.0, 1.0683693903381625e+42), (700.0, 1.5285003902339006e+302),
    ],
    "i1e": [
        (1e-10, 4.9999999995e-11), (0.5, 0.1564208031848717), (-3.0, -0.19682671329730086),
        (11.5, 0.11369216512817576), (12.5, 0.10936143099065089), (1000.0, 0.012610930256928629),
    ],
    "bessel_j0": [
        (0.0, 1.0), (1e-05, 0.999999999975), (1.0, 0.7651976865579666), (-2.375, 0.015578373462073278),
        (3.5, -0.3801277399872634), (5.5, -0.006843869417819197), (7.5, 0.2663396578803784),
        (8.25, 0.10920747150610137), (20.0, 0.16702466434058316), (1000.0, 0.024786686152420176),
    ],
    "bessel_j1": [
        (1e-05, 4.9999999999375e-06), (1.0, 0.4400505857449335), (-2.375, -0.525434198465509),
        (3.875, -0.017334251778686322), (5.5, -0.34143821542904335), (7.0, -0.004682823482345833),
        (8.25, 0.2622035519927438), (20.0, 0.06683312417585005), (1000.0, 0.004728311907089524),
    ],
    "bessel_y0": [
        (1e-10, -14.732516272697241), (0.5, -0.44451873350670656), (1.0, 0.08825696421567696),
        (2.5, 0.4980703596152319), (3.5, 0.1890219439208265), (5.5, -0.339480592881911),
        (7.0, -0.025949743967209265), (8.25, 0.2551496050986449), (20.0, 0.06264059680938383),
        (1000.0, 0.0047159179776228135),
    ],
    "bessel_y1": [
        (1e-10, -6366197723.675814), (0.5, -1.471472392670243), (1.0, -0.7812128213002887),
        (2.25, 0.02719205773801714), (3.5, 0.41018841788751187), (5.5, -0.023758238956389618),
        (7.0, -0.30266723702418485), (8.25, -0.0939944870646345), (20.0, -0.1655116143625213),
        (1000.0, -0.024784331292351778),
    ],
    "modified_bessel_k0": [
        (1e-10, 23.14178244559887), (0.25, 1.5415067512483027), (0.9375, 0.4607365029567589),
        (1.25, 0.29760308908410593), (5.0, 0.0036910983340425942), (50.0, 3.4101677497894956e-23),
        (600.0, 1.3558285309948523e-262),
    ],
    "modified_bessel_k1": [
        (1e-10, 10000000000.0), (0.25, 3.7470259744407115), (0.9375, 0.6704710709625459), (1.25, 0.4021240797841954),
        (5.0, 0.004044613445452165), (50.0, 3.4441022267175555e-23), (600.0, 1.356957918112806e-262),
    ],
    "scaled_modified_bessel_k0": [
        (1e-10, 23.141782447913048), (0.25, 1.9793338485985688), (0.9375, 1.176531876895158),
        (1.25, 1.0387368461035982), (5.0, 0.547807564313519), (1000.0, 0.03962832160075422),
    ],
    "scaled_modified_bessel_k1": [
        (1e-10, 10000000001.0), (0.25, 4.811276588171025), (0.9375, 1.7121078587461176), (1.25, 1.40355094990059),
        (5.0, 0.6002738587883126), (1000.0, 0.03964813081296021),
    ],
    "spherical_bessel_j0": [
        (0.0, 1.0), (1e-08, 1.0), (0.5, 0.958851077208406), (-2.0, 0.45464871341284085),
        (30.0, -0.03293438746976206),
    ],
    "airy_ai": [
        (-100.0, 0.1767533932395529), (-10.5, -0.3119260350510506), (-3.0, -0.37881429367765806),
        (-1.875, 0.3008300330020466), (-0.5, 0.4757280916105396), (0.0, 0.3550280538878172),
        (0.75, 0.17933630547864524), (1.25, 0.09964454475691667), (5.0, 0.00010834442813607442),
        (50.0, 4.5849417240748285e-104),
    ],
    "expit": [
        (-700.0, 9.85967654375977e-305), (-30.0, 9.357622968839299e-14), (-1.0, 0.2689414213699951),
        (0.5, 0.6224593312018546), (3.0, 0.9525741268224333), (40.0, 1.0),
    ],
    "logit": [
        (1e-300, -690.7755278982137), (0.1, -2.197224577336219), (0.3, -0.8472978603872037),
        (0.4999, -0.0004000000053332894), (0.5001, 0.0004000000053332894), (0.7, 0.8472978603872034),
        (0.9, 2.1972245773362196), (0.9999999, 16.11809555148467),
    ],
    "entr": [
        (1e-300, 6.9077552789821376e-298), (0.25, 0.34657359027997264), (0.9, 0.09482446409204365),
        (3.0, -3.295836866004329),
    ],
    "sinc": [(1e-10, 1.0), (0.25, 0.9003163161571061), (-0.75, 0.30010543871903533), (2.5, 0.12732395447351627)],
    "log1pexp": [
        (-700.0, 9.85967654375977e-305), (-30.0, 9.357622968839737e-14), (-1.0, 0.3132616875182228),
        (0.5, 0.9740769841801067), (3.0, 3.048587351573742), (40.0, 40.0),
    ],
}

PAIRS: dict[str, list[tuple[float, float, float]]] = {
    "polygamma": [
        (2, 0.25, -129.32773993753693), (2, 3.5, -0.1082040516417274), (2, -0.5, -0.82879664423432),
        (3, 1.5, 1.4090910340024372), (3, -2.25, 1558.4550231887144), (10, 0.5, -7431824508.858769),
        (10, 20.0, -4.5103770549818434e-08), (50, 3.0, -1.4121832832993648e+40),
    ],
    "zeta": [
        (1.0625, 2.0, 15.581747646655021), (1.5, 0.25, 10.213055360466601), (2.0, 1.0, 1.6449340668482264),
        (3.5, 10.0, 0.0014322106437178635), (20.0, 3.0, 2.8771746654611316e-10),
        (100.0, 1.5, 2.4596544265798292e-18), (2.0, 1000000.0, 1.0000005000001667e-06),
    ],
    "gammainc": [
        (0.5, 1e-10, 1.1283791670579e-05), (1e-05, 0.25, 0.9999895571674164), (1.0, 1.0, 0.6321205588285577),
        (5.0, 2.0, 0.05265301734371116), (5.0, 12.0, 0.992399609318933), (15.5, 15.0, 0.48270345068510423),
        (25.0, 24.0, 0.44599877692500434), (100.0, 75.0, 0.003352441498186992),
        (100.0, 60.0, 1.4815276326460468e-06), (10000.0, 9900.0, 0.15865119219356466),
        (100000.0, 100300.0, 0.8286363112512076),
    ],
    "gammaincc": [
        (1e-10, 1e-05, 1.0935719794146443e-09), (1e-05, 0.25, 1.0442832583522803e-05),
        (0.5, 1.25, 0.11384629800665805), (1.0, 1.0, 0.36787944117144233), (0.25, 2.0, 0.017286011859516774),
        (5.0, 12.0, 0.007600390681066996), (15.5, 40.0, 3.3125285528482445e-06), (25.0, 24.0, 0.5540012230749957),
        (100.0, 125.0, 0.009379131668826096), (100.0, 160.0, 1.4420224505352737e-07),
        (10000.0, 10200.0, 0.023287322133598805),
    ],
    "betaln": [
        (0.5, 0.25, 1.6571065161914822), (3.0, 5.5, -4.898306109122336), (0.125, 10000000000.0, -0.858813008683292),
        (50.0, 3.0, -11.101945176173954), (20.0, 1000000.0, -236.970516970851),
        (100000.0, 100000.0, -138633.92706134808),
    ],
    "mvlgamma": [(3.5, 1, 1.2009736023470743), (3.5, 3, 3.8958984821540388), (20.0, 5, 187.76845456045436)],
    "xlogy": [(2.0, 3.0, 2.1972245773362196), (-0.5, 1e-300, 345.38776394910684)],
    "xlog1py": [(2.0, 1e-20, 2e-20), (3.0, 4.0, 4.8283137373023015)],
    "logaddexp": [
        (0.5, 0.5, 1.1931471805599454), (-1000.0, -1001.0, -999.6867383124818), (300.0, 1.0, 300.0),
        (1.0, -2.5, 1.0297504182726205),
    ],
    "chebyshev_polynomial_t": [
        (0.3, 5, 0.99888), (0.3, 40, 0.9291591886517991), (1.5, 12, 51841.0), (-0.75, 20, -0.3122096061706543),
    ],
    "chebyshev_polynomial_u": [
        (0.3, 5, 1.01376), (0.3, 40, 1.0454181275398593), (1.5, 12, 121393.0), (-0.75, 20, 0.7650041580200195),
    ],
    "hermite_polynomial_h": [(0.3, 5, 31.757759999999998), (1.5, 12, 940113.0), (-2.0, 30, 1.4736842857711185e+21)],
    "hermite_polynomial_he": [(0.3, 5, 4.23243), (1.5, 12, 9694.654541015625), (-2.0, 30, 171293822242549.0)],
    "laguerre_polynomial_l": [
        (0.3, 5, -0.09333274999999998), (1.5, 12, 0.02070516350981477), (-2.0, 30, 236656.61812400387),
    ],
    "legendre_polynomial_p": [(0.3, 5, 0.34538625), (0.9, 30, 0.20181239795906342), (1.5, 12, 18151.005744695663)],
}
# fmt: on


def function(name: str) -> Callable[..., Any]:
    return getattr(special, name)  # type: ignore[no-any-return]


def same(actual: np.ndarray[Any, Any], expected: list[float]) -> bool:
    """Equal with equal signs of zeros, nan at the same places."""
    wanted = np.array(expected, actual.dtype)
    signs = np.isnan(wanted) | (np.signbit(actual) == np.signbit(wanted))
    return bool(np.array_equal(actual, wanted, equal_nan=True) and signs.all())


# ------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    x, expected = np.array(VALUES[name]).T
    np.testing.assert_allclose(function(name)(x), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", VALUES)
def test_values_in_single_precision(name: str) -> None:
    x = np.array([x for x, _ in VALUES[name] if 1e-30 < abs(x) < 1e30], np.float32)
    with np.errstate(over="ignore", under="ignore"):
        expected = function(name)(x.astype(np.float64)).astype(np.float32)
    actual = function(name)(x)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=1e-40)


@pytest.mark.parametrize("name", sorted(PAIRS.keys() - {"polygamma", "mvlgamma"}))
def test_values_of_two_arguments(name: str) -> None:
    a, b, expected = np.array(PAIRS[name]).T
    np.testing.assert_allclose(function(name)(a, b), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize(("n", "x", "expected"), PAIRS["polygamma"])
def test_polygamma(n: int, x: float, expected: float) -> None:
    np.testing.assert_allclose(special.polygamma(n, np.array([x])), [expected], rtol=1e-13)


@pytest.mark.parametrize(("x", "p", "expected"), PAIRS["mvlgamma"])
def test_mvlgamma(x: float, p: int, expected: float) -> None:
    np.testing.assert_allclose(special.mvlgamma(np.array([x]), p), [expected], rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_arrays_without_axes_are_read_and_written(dtype: Any) -> None:
    x = np.array(4.5, dtype)
    value = special.lgamma(x)
    assert value.shape == ()
    assert value == special.lgamma(x.reshape(1))[0]
    ones = np.ones(3, dtype)
    assert np.array_equal(special.zeta(x, ones), special.zeta(np.full(3, 4.5, dtype), ones))


def test_polygamma_of_orders_0_and_1_are_digamma_and_trigamma() -> None:
    x = np.array([-0.3, 0.5, 20.0])
    assert np.array_equal(special.polygamma(0, x), special.digamma(x))
    assert np.array_equal(special.polygamma(1, x), special.trigamma(x))


def test_negative_orders_are_refused() -> None:
    with pytest.raises(RuntimeError, match="does not support negative n"):
        special.polygamma(-1, np.ones(1))
    with pytest.raises(RuntimeError, match="p has to be greater than or equal to 1"):
        special.mvlgamma(np.ones(1), 0)


@pytest.mark.parametrize(
    ("name", "coefficients"),
    [
        ("chebyshev_polynomial_t", [0, 5, 0, -20, 0, 16]),
        ("chebyshev_polynomial_u", [0, 6, 0, -32, 0, 32]),
        ("chebyshev_polynomial_v", [-1, 6, 12, -32, -16, 32]),
        ("chebyshev_polynomial_w", [1, 6, -12, -32, 16, 32]),
        ("hermite_polynomial_h", [0, 120, 0, -160, 0, 32]),
        ("hermite_polynomial_he", [0, 15, 0, -10, 0, 1]),
        ("laguerre_polynomial_l", [1, -5, 5, -5 / 3, 5 / 24, -1 / 120]),
        ("legendre_polynomial_p", [0, 15 / 8, 0, -70 / 8, 0, 63 / 8]),
    ],
)
def test_polynomials_of_degree_5(name: str, coefficients: list[float]) -> None:
    x = np.linspace(-2.0, 2.0, 9)
    np.testing.assert_allclose(
        function(name)(x, 5), np.polynomial.polynomial.polyval(x, coefficients), rtol=1e-13, atol=1e-13
    )


@pytest.mark.parametrize("kind", "tuvw")
def test_shifted_polynomials_are_plain_ones_of_2x_minus_1(kind: str) -> None:
    x, n = np.linspace(-0.5, 1.5, 21), np.arange(21.0)
    shifted, plain = function(f"shifted_chebyshev_polynomial_{kind}"), function(f"chebyshev_polynomial_{kind}")
    assert np.array_equal(shifted(x, n), plain(2 * x - 1, n))


@pytest.mark.parametrize("kind", "tuvw")
def test_chebyshev_recurrence_meets_the_closed_form(kind: str) -> None:
    polynomial = function(f"chebyshev_polynomial_{kind}")
    x = np.array([-1.0, -0.999, -0.5, 0.1, 0.7, 1.0, 1.25])
    for n in range(6, 13):  # the closed form begins at 9
        expected = 2 * x * polynomial(x, n) - polynomial(x, n - 1)
        np.testing.assert_allclose(polynomial(x, n + 1), expected, rtol=1e-12, atol=1e-12)


def test_degree_may_be_an_array_with_fractions_and_nonsense() -> None:
    n = np.array([-1.0, 0.0, 1.0, 2.9, nan, inf])
    assert special.legendre_polynomial_p(0.5, n).tolist() == [0.0, 1.0, 0.5, -0.125, 0.0, 0.0]


# ---------------------------------------------------------------------------------------------------------- identities


def test_lower_and_upper_incomplete_gamma_are_complements() -> None:
    a, x = np.meshgrid(np.geomspace(1e-3, 1e6, 40), np.geomspace(1e-3, 1e6, 41))
    np.testing.assert_allclose(special.gammainc(a, x) + special.gammaincc(a, x), 1.0, rtol=1e-14)


def test_incomplete_gamma_is_continuous_where_methods_meet() -> None:
    edges = [
        (19.999999999, 20.000000001, 18.0),
        (30.0, 30.0, 21.0),
        (30.0, 30.0, 39.0),
        (0.3, 0.3, 1.5),
        (5.0, 5.0, 5.0),
    ]
    for a0, a1, x in edges:
        below = special.gammainc(np.array(a0), np.array(x * (1 - 1e-12)))
        above = special.gammainc(np.array(a1), np.array(x * (1 + 1e-12)))
        np.testing.assert_allclose(below, above, rtol=1e-8 if a0 != a1 else 1e-10)


def test_wronskians_of_bessel_functions() -> None:
    x = np.geomspace(1e-3, 300.0, 2001)
    wronskian = special.bessel_j1(x) * special.bessel_y0(x) - special.bessel_j0(x) * special.bessel_y1(x)
    np.testing.assert_allclose(wronskian * x * math.pi / 2, 1.0, rtol=1e-13)
    modified = special.i0e(x) * special.scaled_modified_bessel_k1(x) + special.i1e(
        x
    ) * special.scaled_modified_bessel_k0(x)
    np.testing.assert_allclose(modified * x, 1.0, rtol=1e-13)


def test_gamma_recurrences_hold_across_the_pieces() -> None:
    x = np.linspace(-20.31, 20.3, 4001)
    np.testing.assert_allclose(special.lgamma(x + 1), special.lgamma(x) + np.log(np.abs(x)), rtol=1e-12, atol=1e-12)
    x = x[x > 0]  # next to the other poles x + 1 has lost what decides
    np.testing.assert_allclose(special.digamma(x + 1) - special.digamma(x), 1 / x, rtol=1e-11)
    np.testing.assert_allclose(special.trigamma(x) - special.trigamma(x + 1), x**-2.0, rtol=1e-10)


def test_inverses() -> None:
    x = np.linspace(-5.0, 5.0, 1001)
    np.testing.assert_allclose(special.ndtri(special.ndtr(x[x < 3])), x[x < 3], rtol=1e-12, atol=1e-14)
    y = np.linspace(-1.0, 1.0, 2001)[1:-1]
    np.testing.assert_allclose(special.erf(special.erfinv(y)), y, rtol=1e-14, atol=1e-16)


def test_erf_grows_and_never_exceeds_one() -> None:
    for dtype in (np.float32, np.float64):
        values = special.erf(np.linspace(-8, 8, 200_001, dtype=dtype))
        assert values.min() == -1.0
        assert values.max() == 1.0
        assert np.diff(values).min() > -8 * np.finfo(dtype).eps


def test_erf_of_single_precision_is_off_by_few_units() -> None:
    x = np.concatenate([np.linspace(1e-5, 6, 20_001), 10.0 ** np.linspace(-37, 2, 500)]).astype(np.float32)
    exact = special.erf(x.astype(np.float64))
    off = np.abs(special.erf(x) - exact) / np.spacing(exact.astype(np.float32))
    assert off.max() < (4 if C is None else 7)  # the two have tables of their own
    assert special.erf(np.array([7.0, 1e6, 3e38], np.float32)).tolist() == [1.0, 1.0, 1.0]


def test_erf_of_double_precision_is_one_far_out() -> None:
    x = np.array([6.0, 7.0, 1e6, 1e308, math.inf])
    assert special.erf(x).tolist() == [1.0] * 5
    assert special.erf(-x).tolist() == [-1.0] * 5


def test_gelu_of_single_precision_keeps_seven_digits_of_its_input() -> None:
    x = np.linspace(-14, 14, 40_001).astype(np.float32)
    off = np.abs(activation.gelu(x) - activation.gelu(x.astype(np.float64)))
    assert (off <= (1.6e-7 if C is None else 2.5e-7) * np.abs(x)).all()


# --------------------------------------------------------------------------------------------------------------- edges

POINTS = [nan, inf, -inf, 0.0, -0.0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("erf", [nan, 1.0, -1.0, 0.0, -0.0]),
        ("erfc", [nan, 0.0, 2.0, 1.0, 1.0]),
        ("erfcx", [nan, 0.0, inf, 1.0, 1.0]),
        ("erfinv", [nan, nan, nan, 0.0, -0.0]),
        ("lgamma", [nan, inf, inf, inf, inf]),
        ("digamma", [nan, inf, nan, -inf, inf]),
        ("trigamma", [nan, 0.0, nan, inf, inf]),
        ("ndtr", [nan, 1.0, 0.0, 0.5, 0.5]),
        ("ndtri", [nan, nan, nan, -inf, -inf]),
        ("logit", [nan, nan, nan, -inf, -inf]),
        ("expit", [nan, 1.0, 0.0, 0.5, 0.5]),
        ("entr", [nan, -inf, -inf, 0.0, 0.0]),
        ("sinc", [nan, nan, nan, 1.0, 1.0]),
        ("log1pexp", [nan, inf, 0.0, math.log(2), math.log(2)]),
        ("i0", [nan, nan, nan, 1.0, 1.0]),
        ("i0e", [nan, 0.0, 0.0, 1.0, 1.0]),
        ("i1", [nan, nan, nan, 0.0, 0.0]),
        ("i1e", [nan, 0.0, -0.0, 0.0, 0.0]),
        ("bessel_j0", [nan, nan, nan, 1.0, 1.0]),
        ("bessel_j1", [nan, nan, nan, 0.0, -0.0]),
        ("bessel_y0", [nan, nan, nan, -inf, -inf]),
        ("bessel_y1", [nan, nan, nan, -inf, -inf]),
        ("modified_bessel_k0", [nan, 0.0, nan, inf, inf]),
        ("modified_bessel_k1", [nan, 0.0, nan, inf, inf]),
        ("scaled_modified_bessel_k0", [nan, 0.0, nan, inf, inf]),
        ("scaled_modified_bessel_k1", [nan, 0.0, nan, inf, inf]),
        ("spherical_bessel_j0", [nan, 0.0, 0.0, 1.0, 1.0]),
    ],
)
def test_edges(name: str, expected: list[float]) -> None:
    actual = function(name)(np.array(POINTS))
    np.testing.assert_allclose(actual, expected, rtol=1e-15)
    assert same(np.sign(actual), list(np.sign(expected)))


@pytest.mark.parametrize(
    ("name", "points", "expected"),
    [
        ("erfinv", [1.0, -1.0, 1.5], [inf, -inf, nan]),
        ("ndtri", [1.0, -0.1, 1.1, 0.5], [inf, nan, nan, 0.0]),
        ("log_ndtr", [inf, -inf, nan], [-0.0, -inf, nan]),
        ("logit", [1.0, -0.5, 1.5, 0.5], [inf, nan, nan, 0.0]),
        ("lgamma", [1.0, 2.0, -1.0, -7.0, -1e300], [0.0, 0.0, inf, inf, inf]),
        ("digamma", [-1.0, -7.0, -1e300], [nan, nan, nan]),
        ("entr", [1.0, -1.0], [-0.0, -inf]),
        ("airy_ai", [inf, -inf, nan, 1e10], [nan, nan, nan, 0.0]),
        ("bessel_y0", [-1.0], [nan]),
        ("modified_bessel_k0", [-1.0, 1e10], [nan, 0.0]),
    ],
)
def test_more_edges(name: str, points: list[float], expected: list[float]) -> None:
    assert same(function(name)(np.array(points)), expected)


@pytest.mark.parametrize(
    ("a", "x", "lower", "upper"),
    [
        (0.0, 1.0, 1.0, 0.0),
        (0.0, 0.0, nan, nan),
        (1.0, 0.0, 0.0, 1.0),
        (1.0, inf, 1.0, 0.0),
        (inf, 1.0, 0.0, 1.0),
        (inf, inf, nan, nan),
        (-1.0, 1.0, nan, nan),
        (1.0, -1.0, nan, nan),
        (nan, 1.0, nan, nan),
        (1.0, nan, nan, nan),
        (1e300, 1e300, 0.5, 0.5),
        (2.5, 1e300, 1.0, 0.0),
    ],
)
def test_incomplete_gamma_edges(a: float, x: float, lower: float, upper: float) -> None:
    pair = np.array([a]), np.array([x])
    assert same(special.gammainc(*pair), [lower])
    assert same(special.gammaincc(*pair), [upper])


def test_zeta_edges() -> None:
    s = np.array([1.0, 0.5, 2.0, 2.5, 2.0, 2.0, nan, 2.0])
    q = np.array([2.0, 2.0, -1.0, -1.5, 0.0, inf, 1.0, nan])
    assert same(special.zeta(s, q), [inf, nan, inf, nan, inf, nan, nan, nan])


def test_xlogy_is_zero_for_zero_unless_nan() -> None:
    x = np.array([0.0, 0.0, 0.0, nan])
    assert same(special.xlogy(x, np.array([0.0, -1.0, nan, 1.0])), [0.0, 0.0, nan, nan])
    assert same(special.xlog1py(x, np.array([-1.0, -2.0, nan, 1.0])), [0.0, 0.0, nan, nan])


def test_logit_clamps_by_eps() -> None:
    x = np.array([-1.0, 0.05, 0.5, 2.0, nan])
    expected = np.log([1 / 9, 1 / 9, 1.0, 9.0, nan])
    np.testing.assert_allclose(special.logit(x, 0.1), expected, rtol=1e-15, atol=1e-15)
    assert same(special.logit(x, -1.0), special.logit(x).tolist())
    np.testing.assert_allclose(special.logit(np.array([0.2]), 0.7), np.log(7 / 3), rtol=1e-14)


def test_logaddexp_of_infinities() -> None:
    a, b = np.array([inf, -inf, inf, nan]), np.array([inf, -inf, -inf, 1.0])
    assert same(special.logaddexp(a, b), [inf, -inf, inf, nan])


def test_nothing_warns() -> None:
    x = np.array([nan, inf, -inf, 0.0, -1.0, 1e300, 5e-324])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for name in VALUES:
            assert function(name)(x).shape == x.shape
        special.gammainc(x, x[::-1])
        special.zeta(x, x[::-1])
    assert [str(warning.message) for warning in seen] == []


# -------------------------------------------------------------------------------------------------- dtypes and layouts


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_rounded_once(dtype: Any) -> None:
    x = np.array([-2.5, 0.125, 0.5, 3.0], dtype)
    for name in ("erf", "digamma", "expit", "gammaln"):
        wide = function(name)(x.astype(np.float32))
        assert function(name)(x).dtype == x.dtype
        assert np.array_equal(function(name)(x), wide.astype(dtype))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_integers_become_single_precision(dtype: Any) -> None:
    x = np.array([0, 1], dtype)
    assert special.erf(x).dtype == np.float32
    assert np.array_equal(special.erf(x), special.erf(x.astype(np.float32)))


def test_numbers_take_the_dtype_of_the_array_beside_them() -> None:
    x = np.array([0.5, 2.0], np.float32)
    assert special.xlogy(x, 3.0).dtype == np.float32
    assert special.chebyshev_polynomial_t(x, 3).dtype == np.float32
    assert special.zeta(2.0, x.astype(np.float64)).dtype == np.float64


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="\"erf\" not implemented for 'ComplexDouble'"):
        special.erf(np.array([1j]))


@pytest.mark.parametrize("name", ["erf", "erfcx", "digamma", "log1pexp"])
def test_out_may_be_the_input_or_overlap_it(name: str) -> None:
    x = np.linspace(-3.1, 3.1, 50_001)
    expected = function(name)(x)
    inplace, shifted = x.copy(), x.copy()
    assert function(name)(inplace, out=inplace) is inplace
    assert np.array_equal(inplace, expected)
    function(name)(shifted[1:], out=shifted[:-1])
    assert np.array_equal(shifted[:-1], expected[1:])


def test_layout_follows_the_input() -> None:
    x = np.linspace(0, 1, 24).reshape(2, 3, 4)
    turned = x.transpose(2, 0, 1)
    result = special.erf(turned)
    assert result.strides == turned.strides
    assert np.array_equal(result, special.erf(x).transpose(2, 0, 1))
    assert np.array_equal(special.erf(x[:, ::2, ::-1]), special.erf(x)[:, ::2, ::-1])


def test_scalars_and_empty_arrays_keep_their_shape() -> None:
    assert special.lgamma(np.array(3.0)).shape == ()
    assert special.lgamma(np.zeros((0, 3))).shape == (0, 3)
    assert special.gammainc(np.ones((2, 1)), np.ones(3)).shape == (2, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_leave_no_seams(dtype: Any) -> None:
    x = np.linspace(-6, 6, blockwise.BLOCK_BYTES // 4 + 1000, dtype=dtype)
    whole = special.erf(x)
    for i in (0, len(x) // 2 - 1, len(x) // 2, len(x) - 1001, len(x) - 1):
        assert whole[i] == special.erf(x[i : i + 1])[0]


def test_every_public_name_is_there() -> None:
    assert all(callable(getattr(special, name)) for name in special.__all__)
    assert special.__all__ == sorted(special.__all__)
