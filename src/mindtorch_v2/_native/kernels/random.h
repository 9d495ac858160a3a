/* Random numbers of the words that a generator gives. Every step is rounded as torch's own loops round it, so products
 * and sums are fused where it says so, and nowhere else. */

/* MT19937 (Matsumoto and Nishimura, 1998): a block of 624 words, of which each gives a random word in turn. */
enum { BLOCK = 624, MIDDLE = 397 };

INLINE uint32_t twisted(uint32_t high, uint32_t low, uint32_t far) {
    uint32_t both = (high & 0x80000000u) | (low & 0x7fffffffu);
    return far ^ (both >> 1) ^ (-(both & 1u) & 0x9908b0dfu);
}

WIDE static void next_block(uint32_t *key) {
    int i = 0;
    for (; i < BLOCK - MIDDLE; i++) key[i] = twisted(key[i], key[i + 1], key[i + MIDDLE]);
    for (; i < BLOCK - 1; i++) key[i] = twisted(key[i], key[i + 1], key[i + MIDDLE - BLOCK]);
    key[i] = twisted(key[i], key[0], key[MIDDLE - 1]);
}

WIDE static void temper(const uint32_t *key, int64_t *out, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        uint32_t y = key[i];
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c5680u;
        y ^= (y << 15) & 0xefc60000u;
        out[i] = y ^ (y >> 18);
    }
}

/* Whether an object is the memory of a block: 312 numbers of int64. */
INLINE int is_block(PyObject *object) { return writable(object, I64) && count_of(object) * 2 == BLOCK; }

/* seed_words(block, seed): a block from 32 bits; it is used up. */
static PyObject *seed_words(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !is_block(args[0])) Py_RETURN_FALSE;
    uint32_t *key = data_of(args[0]);
    unsigned long seed = PyLong_AsUnsignedLong(args[1]);
    if (PyErr_Occurred()) return NULL;
    key[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < BLOCK; i++) key[i] = 1812433253u * (key[i - 1] ^ (key[i - 1] >> 30)) + i;
    Py_RETURN_TRUE;
}

/* The next n words of a block of which `position` are used, and of those after it; how many of the last are used then. */
static Py_ssize_t draw(uint32_t *key, Py_ssize_t position, int64_t *out, Py_ssize_t n) {
    for (Py_ssize_t part; n; n -= part, out += part, position += part) {
        if (position == BLOCK) {
            next_block(key);
            position = 0;
        }
        part = n < BLOCK - position ? n : BLOCK - position;
        temper(key + position, out, part);
    }
    return position;
}

WIDE static void uniform_loop(const int64_t *words, float *out, Py_ssize_t n) {
    SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = (float)(int32_t)(words[i] & 0xffffff) * 0x1p-24f;
}

WIDE static void wide_uniform_loop(const int64_t *words, double *out, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++)
        out[i] = (double)((words[2 * i] & 0x1fffff) << 32 | words[2 * i + 1]) * 0x1p-53;
}

/* random_words(block, position, out): the next words (kept as int64), or the next numbers from [0, 1), each of 24 bits of
 * a word for float32 and of 53 bits of two for float64; the position after them. None for other arrays. */
static PyObject *random_words(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !is_block(args[0]) || !PyLong_Check(args[1])) Py_RETURN_NONE;
    int whole = writable(args[2], I64), wide = writable(args[2], F64);
    if (!whole && !wide && !writable(args[2], F32)) Py_RETURN_NONE;
    Py_ssize_t position = PyLong_AsSsize_t(args[1]), n = count_of(args[2]);
    if (PyErr_Occurred()) return NULL;
    if (position < 0 || position > BLOCK) Py_RETURN_NONE;
    uint32_t *key = data_of(args[0]);
    float *single = data_of(args[2]);
    double *twice = data_of(args[2]);
    BEGIN(n)
    if (whole) position = draw(key, position, data_of(args[2]), n);
    for (Py_ssize_t start = 0; !whole && start < n; start += BLOCK / 2) {
        int64_t words[BLOCK];
        Py_ssize_t part = n - start < BLOCK / 2 ? n - start : BLOCK / 2;
        position = draw(key, position, words, wide ? 2 * part : part);
        if (wide)
            wide_uniform_loop(words, twice + start, part);
        else
            uniform_loop(words, single + start, part);
    }
    END
    return PyLong_FromSsize_t(position);
}

WIDE static void stretch_loop(float *x, float low, float high, Py_ssize_t n) {
    float width = high - low;
    SIMD for (Py_ssize_t i = 0; i < n; i++) {
        float value = __builtin_fmaf(x[i], width, low);
        x[i] = value == high ? low : value;
    }
}

/* Two numbers as float32; 0 with an exception set where they are none. */
INLINE int two_floats(PyObject *const *args, float *first, float *second) {
    *first = (float)PyFloat_AsDouble(args[0]);
    *second = (float)PyFloat_AsDouble(args[1]);
    return !PyErr_Occurred();
}

/* stretch(x, low, high): numbers from [0, 1) become numbers from [low, high), at their place. */
static PyObject *stretch(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !writable(args[0], F32)) Py_RETURN_FALSE;
    float low, high;
    if (!two_floats(args + 1, &low, &high)) return NULL;
    Py_ssize_t n = count_of(args[0]);
    BEGIN(n)
    stretch_loop(data_of(args[0]), low, high, n);
    END
    Py_RETURN_TRUE;
}

/* log(x) of a normal number, by the polynomial of Cephes; products and sums are fused. */
INLINE float fused_log(float x) {
    int32_t bits = to_bits(x);
    float m = from_bits((bits & 0x7fffff) | 0x3f000000); /* from [0.5, 1) */
    int low = m < 0.70710678f;
    float e = (float)((bits >> 23) - 126 - low);
    m = (m - 1.0f) + (low ? m : 0.0f);
    float p = 7.0376836292e-2f;
    p = __builtin_fmaf(p, m, -1.1514610310e-1f);
    p = __builtin_fmaf(p, m, 1.1676998740e-1f);
    p = __builtin_fmaf(p, m, -1.2420140846e-1f);
    p = __builtin_fmaf(p, m, 1.4249322787e-1f);
    p = __builtin_fmaf(p, m, -1.6668057665e-1f);
    p = __builtin_fmaf(p, m, 2.0000714765e-1f);
    p = __builtin_fmaf(p, m, -2.4999993993e-1f);
    p = __builtin_fmaf(p, m, 3.3333331174e-1f);
    float s = m * m;
    p = __builtin_fmaf(p * m, s, e * -2.12194440e-4f) - s * 0.5f;
    return __builtin_fmaf(e, 0.693359375f, m + p);
}

/* sin and cos of an angle >= 0, by the polynomials of Cephes on [-pi/4, pi/4]; products and sums are fused. */
INLINE void fused_sine(float angle, float *sine, float *cosine) {
    int32_t octant = ((int32_t)(angle * 1.27323954f) + 1) & ~1;
    float whole = (float)octant;
    float r = __builtin_fmaf(whole, -0.78515625f, angle);
    r = __builtin_fmaf(whole, -2.4187564849853515625e-4f, r);
    r = __builtin_fmaf(whole, -3.77489497744594108e-8f, r);
    float s = r * r;
    float c = __builtin_fmaf(2.443315711809948e-5f, s, -1.388731625493765e-3f);
    c = __builtin_fmaf(c, s, 4.166664568298827e-2f);
    c = __builtin_fmaf(c * s, s, s * -0.5f) + 1.0f;
    float p = __builtin_fmaf(-1.9515295891e-4f, s, 8.3321608736e-3f);
    p = __builtin_fmaf(p, s, -1.6666654611e-1f);
    p = __builtin_fmaf(p * s, r, r);
    float along = octant & 2 ? c : p, across = octant & 2 ? p : c;
    *sine = octant & 4 ? -along : along;
    *cosine = (octant - 2) & 4 ? across : -across;
}

/* Box-Muller on blocks of sixteen uniform numbers: eight for the radii, eight for the angles. */
WIDE static void normal_loop(float *x, float mean, float deviation, Py_ssize_t n) {
    for (Py_ssize_t block = 0; block < n; block += 16) {
        float *first = x + block, *second = first + 8;
        SIMD for (int i = 0; i < 8; i++) {
            float sine, cosine, radius = sqrtf(-2.0f * fused_log(1.0f - first[i]));
            fused_sine(6.28318531f * second[i], &sine, &cosine);
            first[i] = __builtin_fmaf(radius * cosine, deviation, mean);
            second[i] = __builtin_fmaf(radius * sine, deviation, mean);
        }
    }
}

/* normals(x, mean, deviation): whole blocks of sixteen numbers from [0, 1) become normal ones, at their place. */
static PyObject *normals(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !writable(args[0], F32)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[0]);
    if (n % 16) Py_RETURN_FALSE;
    float mean, deviation;
    if (!two_floats(args + 1, &mean, &deviation)) return NULL;
    BEGIN(n)
    normal_loop(data_of(args[0]), mean, deviation, n);
    END
    Py_RETURN_TRUE;
}
