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

/* The next n numbers from [0, 1), each of 24 bits of a word, or (`wide`) of 53 bits of two; the position after them. */
static Py_ssize_t draw_uniform(uint32_t *key, Py_ssize_t position, void *out, Py_ssize_t n, int wide) {
    for (Py_ssize_t start = 0; start < n; start += BLOCK / 2) {
        int64_t words[BLOCK];
        Py_ssize_t part = n - start < BLOCK / 2 ? n - start : BLOCK / 2;
        position = draw(key, position, words, wide ? 2 * part : part);
        if (wide)
            wide_uniform_loop(words, (double *)out + start, part);
        else
            uniform_loop(words, (float *)out + start, part);
    }
    return position;
}

/* Whether args begin with a block and a position in it. */
INLINE int at_position(PyObject *const *args, Py_ssize_t *position) {
    if (!is_block(args[0]) || !PyLong_CheckExact(args[1])) return 0;
    *position = PyLong_AsSsize_t(args[1]);
    PyErr_Clear(); /* what overflows is -1 */
    return *position >= 0 && *position <= BLOCK;
}

/* random_words(block, position, out): the next words (kept as int64), or the next numbers from [0, 1) of float32 or
 * float64; the position after them. None for other arrays. */
static PyObject *random_words(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t position;
    if (count != 3 || !at_position(args, &position)) Py_RETURN_NONE;
    int whole = writable(args[2], I64), wide = writable(args[2], F64);
    if (!whole && !wide && !writable(args[2], F32)) Py_RETURN_NONE;
    Py_ssize_t n = count_of(args[2]);
    BEGIN(n)
    if (whole)
        position = draw(data_of(args[0]), position, data_of(args[2]), n);
    else
        position = draw_uniform(data_of(args[0]), position, data_of(args[2]), n, wide);
    END
    return PyLong_FromSsize_t(position);
}

/* random_below(block, position, out, low, span): the remainders of the next words by span, from low on; the position after
 * them. None for what is not int64 or needs more than a word each. */
static PyObject *random_below(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t position;
    if (count != 5 || !at_position(args, &position) || !writable(args[2], I64)) Py_RETURN_NONE;
    int64_t low = PyLong_AsLongLong(args[3]), span = PyLong_AsLongLong(args[4]);
    if (PyErr_Occurred()) return NULL;
    if (span < 1 || span >= 1 << 28) Py_RETURN_NONE;
    Py_ssize_t n = count_of(args[2]);
    int64_t *out = data_of(args[2]);
    BEGIN(n)
    position = draw(data_of(args[0]), position, out, n);
    for (Py_ssize_t i = 0; i < n; i++) out[i] = (int64_t)((uint32_t)out[i] % (uint32_t)span) + low;
    END
    return PyLong_FromSsize_t(position);
}

/* random_order(block, position, out): 0, 1, ..., each but the last swapped in turn with itself or a later one; the position
 * after the words that took. */
static PyObject *random_order(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t position;
    if (count != 3 || !at_position(args, &position) || !writable(args[2], I64)) Py_RETURN_NONE;
    Py_ssize_t n = count_of(args[2]);
    int64_t *order = data_of(args[2]), words[BLOCK];
    BEGIN(n)
    for (Py_ssize_t i = 0; i < n; i++) order[i] = i;
    for (Py_ssize_t i = 0; i < n - 1; i++) {
        if (i % BLOCK == 0) position = draw(data_of(args[0]), position, words, n - 1 - i < BLOCK ? n - 1 - i : BLOCK);
        Py_ssize_t other = i + (uint32_t)words[i % BLOCK] % (uint32_t)(n - i);
        int64_t held = order[i];
        order[i] = order[other];
        order[other] = held;
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

/* The same in double precision, by the C library's functions, as torch has it. */
static void normal_doubles(double *x, double mean, double deviation, Py_ssize_t n) {
    for (Py_ssize_t block = 0; block < n; block += 16)
        for (double *first = x + block, *second = first + 8; first < x + block + 8; first++, second++) {
            double radius = sqrt(-2.0 * log(1.0 - *first)), angle = 6.283185307179586477 * *second;
            *first = __builtin_fma(radius * cos(angle), deviation, mean);
            *second = __builtin_fma(radius * sin(angle), deviation, mean);
        }
}

/* Fewer than sixteen normals, pair by pair; the second of a last pair is held for the next call. */
static Py_ssize_t few_normals(uint32_t *key, Py_ssize_t position, PyObject **held, double *out, Py_ssize_t n) {
    Py_ssize_t i = 0;
    if (n && *held != Py_None) {
        out[i++] = PyFloat_AsDouble(*held);
        *held = Py_None;
    }
    for (double u[2]; i < n; i += 2) {
        position = draw_uniform(key, position, u, 2, 1);
        double radius = sqrt(-2.0 * log1p(-u[1])), angle = 6.283185307179586477 * u[0];
        out[i] = radius * cos(angle);
        out[i + 1] = radius * sin(angle);
    }
    if (i > n) *held = NULL; /* it is out[n] */
    return position;
}

/* random_normals(block, position, held, out, mean, deviation): fill out; the position after it, and the normal number that
 * is held for the next call, or None. None where out is not plain memory of float32 or float64. */
static PyObject *random_normals(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t position;
    if (count != 6 || !at_position(args, &position) || !(args[2] == Py_None || PyFloat_CheckExact(args[2]))) Py_RETURN_NONE;
    int wide = writable(args[3], F64);
    if (!wide && !writable(args[3], F32)) Py_RETURN_NONE;
    double mean = PyFloat_AsDouble(args[4]), deviation = PyFloat_AsDouble(args[5]), few[17];
    if (PyErr_Occurred()) return NULL;
    Py_ssize_t n = count_of(args[3]), rest = n % 16;
    uint32_t *key = data_of(args[0]);
    PyObject *held = args[2];
    char *out = data_of(args[3]);
    if (n < 16) {
        position = few_normals(key, position, &held, few, n);
        for (Py_ssize_t i = 0; i < n; i++) {
            double value = __builtin_fma(few[i], deviation, mean);
            if (wide) ((double *)out)[i] = value;
            else ((float *)out)[i] = (float)value;
        }
        return held ? Py_BuildValue("nO", position, held) : Py_BuildValue("nd", position, few[n]);
    }
    BEGIN(n)
    /* A rest is drawn, too, and then again, as the end of a block of its own. */
    for (Py_ssize_t again = 0; again <= (rest > 0); again++) {
        Py_ssize_t from = again ? n - 16 : 0, made = again ? 16 : n;
        position = draw_uniform(key, position, out + from * (wide ? 8 : 4), made, wide);
        if (wide) normal_doubles((double *)out + from, mean, deviation, made - made % 16);
        else normal_loop((float *)out + from, (float)mean, (float)deviation, made - made % 16);
    }
    END
    return Py_BuildValue("nO", position, held);
}
