/* Functions of one number, without branches, so that loops over them become vectors. */

INLINE float from_bits(int32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
INLINE int32_t to_bits(float x) { int32_t bits; memcpy(&bits, &x, 4); return bits; }

#define ROUNDER 12582912.0f /* 1.5 * 2^23: adding it leaves the nearest integer in the low bits */

/* exp(x) = 2^n * (1 + tail), |x - n ln 2| <= ln 2 / 2; the tail is what a polynomial of degree 6 leaves of exp - 1. */
INLINE float exp_tail(float x, int32_t *n) {
    float t = x * 1.44269504f + ROUNDER;
    float whole = t - ROUNDER;
    *n = to_bits(t) - to_bits(ROUNDER);
    float r = x - whole * 0.693359375f;
    r = r + whole * 2.12194440e-4f;
    float q = 1.3814466740e-3f;
    q = q * r + 8.3687804291e-3f;
    q = q * r + 4.1668394217e-2f;
    q = q * r + 1.6666520108e-1f;
    q = q * r + 4.9999993412e-1f;
    return r + r * r * q;
}

/* Unsigned, as what came of nan is any number. */
INLINE float power_of_two(int32_t n) { return from_bits((int32_t)(((uint32_t)n + 127u) << 23)); }

INLINE float exp_of(float x) {
    x = x < -104.0f ? -104.0f : x; /* nan passes every comparison */
    x = x > 89.0f ? 89.0f : x;
    int32_t n;
    float tail = exp_tail(x, &n);
    int32_t half = n >> 1; /* in two steps, so that results among the subnormal numbers come out */
    return (1.0f + tail) * power_of_two(half) * power_of_two(n - half);
}

INLINE float tanh_of(float x) {
    float a = fabsf(x);
    a = a > 10.0f ? 10.0f : a;
    int32_t n;
    float tail = exp_tail(a + a, &n);
    float scale = power_of_two(n);
    float e = scale * tail + (scale - 1.0f); /* exp(2a) - 1 */
    return copysignf(e / (e + 2.0f), x);
}

INLINE float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }

/* y / sqrt(1 + y^2) with y = x p(x^2) */
INLINE float erf_of(float x) {
    x = x < -4.5f ? -4.5f : x;
    x = x > 4.5f ? 4.5f : x;
    float s = x * x;
    float p = 2.9111048552463874e-06f;
    p = p * s + -9.9288981355304e-06f;
    p = p * s + 0.00022485994179959572f;
    p = p * s + 0.001208614742264115f;
    p = p * s + 0.012828581321129713f;
    p = p * s + 0.08037946242427384f;
    p = p * s + 0.3422342502361569f;
    p = p * s + 1.128378908605456f;
    p *= x;
    return p / sqrtf(p * p + 1.0f);
}

/* erfc(sqrt(half) x) for x >= 0: the square of x cut to half its digits is exact, exp of the small rest taken apart. */
INLINE float right_tail(float x, float half, float root) {
    float top = 10.5f / root;
    x = x > top ? top : x;
    float high = from_bits(to_bits(x) & -4096);
    float rest = (high - x) * (high + x) * half;
    float t = 1.0f / (1.0f + x * (0.5f * root));
    float p = -0.05919332057237625f;
    p = p * t + 0.28518277406692505f;
    p = p * t + -0.4884607791900635f;
    p = p * t + 0.279512494802475f;
    p = p * t + -0.0276233721524477f;
    p = p * t + 0.20310990512371063f;
    p = p * t + 0.24299661815166473f;
    p = p * t + 0.2823900580406189f;
    p = p * t + 0.2820855677127838f;
    return exp_of(high * high * -half) * exp_of(rest) * t * p;
}

INLINE float erfc_of(float x) {
    float tail = right_tail(fabsf(x), 1.0f, 1.0f);
    return x < 0.0f ? 2.0f - tail : tail;
}

INLINE float ndtr_of(float x) {
    float tail = 0.5f * right_tail(fabsf(x), 0.5f, 0.70710678f);
    return x < 0.0f ? tail : 1.0f - tail;
}

INLINE float gelu_of(float x) { return x * 0.5f * (1.0f + erf_of(x * 0.70710678f)); }

INLINE float gelu_inner(float x) { return x * (0.79788456f + 0.035677408f * x * x); }

INLINE float gelu_tanh_of(float x) { return x * 0.5f * (1.0f + tanh_of(gelu_inner(x))); }

INLINE float hardswish_of(float x) {
    float gate = x + 3.0f;
    gate = gate < 0.0f ? 0.0f : gate; /* nan stays nan */
    return x * (gate > 6.0f ? 6.0f : gate) / 6.0f;
}

INLINE float silu_of(float x) { return x / (1.0f + exp_of(-x)); }

INLINE float gelu_slope(float g, float x) {
    float density = 0.39894228f * exp_of(-0.5f * x * x);
    return g * (0.5f * (1.0f + erf_of(x * 0.70710678f)) + x * density);
}

INLINE float gelu_tanh_slope(float g, float x) {
    float t = tanh_of(gelu_inner(x));
    float inner = x * (0.39894228f + 0.053516112f * x * x);
    return g * (0.5f * (1.0f + t) + inner * (1.0f - t * t));
}

/* nan stays nan, and counts as above zero */
INLINE float relu_of(float x) { return x < 0.0f ? 0.0f : x; }

INLINE float sign_of(float x) { return (float)((x > 0.0f) - (x < 0.0f)); }
INLINE float rsqrt_of(float x) { return 1.0f / sqrtf(x); }

INLINE float silu_slope(float g, float x) {
    float s = sigmoid_of(x);
    return g * s * (1.0f + x * (1.0f - s));
}

/* log(x) of a normal number: x = 2^e * m with m from [sqrt(1/2), sqrt(2)) */
INLINE float log_of(float x) {
    int32_t bits = to_bits(x);
    float m = from_bits((bits & 0x7fffff) | 0x3f000000);
    int low = m < 0.70710678f;
    float e = (float)((bits >> 23) - 126 - low);
    m = (m - 1.0f) + (low ? m : 0.0f);
    float p = 7.0376836292e-2f;
    p = p * m + -1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m + -1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m + -1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m + -2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    float s = m * m;
    p = p * m * s + e * -2.12194440e-4f - s * 0.5f;
    return e * 0.693359375f + (m + p);
}

/* log(1 + exp(-|x|)): what rounding takes from 1 + t is put back as a factor. */
INLINE float log_tail(float x) {
    float t = exp_of(-fabsf(x)), u = 1.0f + t, kept = u - 1.0f;
    return kept == 0.0f ? t : log_of(u) * (t / kept);
}

INLINE float softplus_of(float x) { return (x < 0.0f ? 0.0f : x) + log_tail(x); }

INLINE float log_sigmoid_of(float x) { return (x > 0.0f ? 0.0f : x) - log_tail(x); }

INLINE float mish_of(float x) { return x * tanh_of(softplus_of(x)); }

/* The same in double precision. */
INLINE double from_wide_bits(int64_t bits) { double x; memcpy(&x, &bits, 8); return x; }
INLINE int64_t to_wide_bits(double x) { int64_t bits; memcpy(&bits, &x, 8); return bits; }

#define WIDE_ROUNDER 6755399441055744.0 /* 1.5 * 2^52 */

/* 2^n for a whole number from -1022 to 1023 */
INLINE double power_of_two_double(double n) {
    uint64_t bits = (uint64_t)to_wide_bits(n + WIDE_ROUNDER) - (uint64_t)to_wide_bits(WIDE_ROUNDER) + 1023u;
    return from_wide_bits((int64_t)(bits << 52)); /* unsigned, as those of nan overflow */
}

INLINE double exp_tail_double(double x, double *n) {
    double whole = x * 1.4426950408889634 + WIDE_ROUNDER - WIDE_ROUNDER;
    double r = x - whole * 0.693147180369123816490;
    r = r - whole * 1.90821492927058770002e-10;
    *n = whole;
    double q = 1.6059043836821613e-10;
    q = q * r + 2.08767569878681e-09;
    q = q * r + 2.505210838544172e-08;
    q = q * r + 2.755731922398589e-07;
    q = q * r + 2.7557319223985893e-06;
    q = q * r + 2.48015873015873e-05;
    q = q * r + 0.0001984126984126984;
    q = q * r + 0.001388888888888889;
    q = q * r + 0.008333333333333333;
    q = q * r + 0.041666666666666664;
    q = q * r + 0.16666666666666666;
    q = q * r + 0.5;
    return r + r * r * q;
}

INLINE double exp_double(double x) {
    x = x < -746.0 ? -746.0 : x;
    x = x > 710.0 ? 710.0 : x;
    double n, tail = exp_tail_double(x, &n), half = n * 0.5 + WIDE_ROUNDER - WIDE_ROUNDER;
    return (1.0 + tail) * power_of_two_double(half) * power_of_two_double(n - half);
}

/* exp(x) - 1 for x up to 40 */
INLINE double expm1_double(double x) {
    double n, tail = exp_tail_double(x < -40.0 ? -40.0 : x, &n), scale = power_of_two_double(n);
    return scale * tail + (scale - 1.0);
}

INLINE double tanh_double(double x) {
    double a = fabs(x), e = expm1_double(a > 20.0 ? 40.0 : a + a);
    return copysign(e / (e + 2.0), x);
}

/* log(x) of a normal number, by the series of the inverse tanh */
INLINE double log_double(double x) {
    int64_t bits = to_wide_bits(x), low = (bits & 0xfffffffffffff) < 0x6a09e667f3bcd;
    double m = from_wide_bits((bits & 0xfffffffffffff) | (low ? 0x3ff0000000000000 : 0x3fe0000000000000));
    double e = from_wide_bits(((bits >> 52) | 0x4330000000000000)) - 4503599627370496.0 - (low ? 1023.0 : 1022.0);
    double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 0.047619047619047616;
    p = p * z + 0.05263157894736842;
    p = p * z + 0.058823529411764705;
    p = p * z + 0.06666666666666667;
    p = p * z + 0.07692307692307693;
    p = p * z + 0.09090909090909091;
    p = p * z + 0.1111111111111111;
    p = p * z + 0.14285714285714285;
    p = p * z + 0.2;
    p = p * z + 0.3333333333333333;
    p = p * z + 1.0;
    return e * 0.693147180369123816490 + (2.0 * s * p + e * 1.90821492927058770002e-10);
}

INLINE double log_tail_double(double x) {
    double t = exp_double(-fabs(x)), u = 1.0 + t, kept = u - 1.0;
    return kept == 0.0 ? t : log_double(u) * (t / kept);
}

INLINE double sigmoid_double(double x) { return 1.0 / (1.0 + exp_double(-x)); }
INLINE double silu_double(double x) { return x / (1.0 + exp_double(-x)); }
INLINE double sign_double(double x) { return (double)((x > 0.0) - (x < 0.0)); }
INLINE double rsqrt_double(double x) { return 1.0 / sqrt(x); }
INLINE double relu_double(double x) { return x < 0.0 ? 0.0 : x; }
INLINE double gelu_double(double x) { return x * 0.5 * (1.0 + erf(0.70710678118654752440 * x)); }
INLINE double gelu_tanh_double(double x) {
    return x * 0.5 * (1.0 + tanh_double(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
INLINE double hardswish_double(double x) {
    double gate = x + 3.0;
    gate = gate < 0.0 ? 0.0 : gate;
    return x * (gate > 6.0 ? 6.0 : gate) / 6.0;
}
INLINE double log_sigmoid_double(double x) { return (x > 0.0 ? 0.0 : x) - log_tail_double(x); }
INLINE double mish_double(double x) { return x * tanh_double((x < 0.0 ? 0.0 : x) + log_tail_double(x)); }

INLINE float expm1_of(float x) {
    int32_t n;
    float tail = exp_tail(x < -80.0f ? -80.0f : x, &n), scale = power_of_two(n);
    return scale * tail + (scale - 1.0f);
}

/* Functions of either type. */
#define EXP(X) _Generic((X), float: exp_of, double: exp_double)(X)
#define EXPM1(X) _Generic((X), float: expm1_of, double: expm1_double)(X)
#define LOG_TAIL(X) _Generic((X), float: log_tail, double: log_tail_double)(X)
