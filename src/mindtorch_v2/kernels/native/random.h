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

/* A stream: its block, how many words of that are used, whether anything was drawn, and a normal number that is held for
 * the next call. Its memory is an array of int64. */
typedef struct {
    uint32_t key[BLOCK];
    int64_t position, drawn, holds;
    double held;
} Stream;

INLINE int is_stream(PyObject *object) {
    return writable(object, I64) && count_of(object) * sizeof(int64_t) == sizeof(Stream);
}

/* The stream to draw from where none is given, and who knows whether another thread is drawing from it. */
static PyObject *usual_stream, *usual_is_locked;

/* draw_from(stream, is_locked): that is the stream where None is given for one. `is_locked` is a method of a lock, which runs
 * no Python. */
static PyObject *draw_from(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !is_stream(args[0]) || !PyCFunction_CheckExact(args[1])) Py_RETURN_FALSE;
    Py_XSETREF(usual_stream, Py_NewRef(args[0]));
    Py_XSETREF(usual_is_locked, Py_NewRef(args[1]));
    Py_RETURN_TRUE;
}

/* The stream for n numbers, which go into `out`; NULL for what is none, and where the two share memory. Whoever gives one has
 * locked it. The usual one is not locked, but so few numbers are drawn without letting other threads run. */
static Stream *stream_of(PyObject *object, PyObject *out, Py_ssize_t n) {
    if (object == Py_None) {
        if (!usual_stream || n > LARGE) return NULL;
        PyObject *is_locked = Py_NewRef(usual_is_locked), *locked = PyObject_CallNoArgs(is_locked);
        if (!locked) PyErr_Clear(); /* the way in Python asks again */
        Py_XDECREF(locked);
        Py_DECREF(is_locked);
        if (locked != Py_False) return NULL;
        object = usual_stream;
    } else if (!is_stream(object)) {
        return NULL;
    }
    Stream *stream = data_of(object);
    if (!disjoint(object, sizeof(Stream), out, n * size_of_element(((Array *)out)->descr))) return NULL;
    return stream->position >= 0 && stream->position <= BLOCK ? stream : NULL;
}

/* seed_words(stream, seed): a block from 32 bits; it is used up, and nothing is drawn or held. */
static PyObject *seed_words(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !is_stream(args[0])) Py_RETURN_FALSE;
    Stream *stream = data_of(args[0]);
    unsigned long seed = PyLong_AsUnsignedLong(args[1]); /* which runs no Python: what is no int is a TypeError */
    if (seed == (unsigned long)-1 && PyErr_Occurred()) return NULL;
    uint32_t *key = stream->key;
    key[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < BLOCK; i++) key[i] = 1812433253u * (key[i - 1] ^ (key[i - 1] >> 30)) + i;
    stream->position = BLOCK;
    stream->drawn = stream->holds = 0;
    Py_RETURN_TRUE;
}

/* The next n words. */
static void draw(Stream *stream, int64_t *out, Py_ssize_t n) {
    if (n) stream->drawn = 1;
    for (Py_ssize_t part; n; n -= part, out += part, stream->position += part) {
        if (stream->position == BLOCK) {
            next_block(stream->key);
            stream->position = 0;
        }
        part = n < BLOCK - stream->position ? n : BLOCK - stream->position;
        temper(stream->key + stream->position, out, part);
    }
}

WIDE static void uniform_loop(const int64_t *words, float *out, Py_ssize_t n) {
    SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = (float)(int32_t)(words[i] & 0xffffff) * 0x1p-24f;
}

WIDE static void wide_uniform_loop(const int64_t *words, double *out, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++)
        out[i] = (double)((words[2 * i] & 0x1fffff) << 32 | words[2 * i + 1]) * 0x1p-53;
}

/* The next n numbers from [0, 1), each of 24 bits of a word, or (`wide`) of 53 bits of two. */
static void draw_uniform(Stream *stream, void *out, Py_ssize_t n, int wide) {
    for (Py_ssize_t start = 0; start < n; start += BLOCK / 2) {
        int64_t words[BLOCK];
        Py_ssize_t part = n - start < BLOCK / 2 ? n - start : BLOCK / 2;
        draw(stream, words, wide ? 2 * part : part);
        if (wide)
            wide_uniform_loop(words, (double *)out + start, part);
        else
            uniform_loop(words, (float *)out + start, part);
    }
}

/* random_words(stream, out): the next words (kept as int64), or the next numbers from [0, 1) of float32 or float64. False
 * for other arrays. */
static PyObject *random_words(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) Py_RETURN_FALSE;
    int whole = writable(args[1], I64), wide = writable(args[1], F64);
    if (!whole && !wide && !writable(args[1], F32)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[1]);
    Stream *stream = stream_of(args[0], args[1], n);
    if (!stream) Py_RETURN_FALSE;
    BEGIN(n)
    if (whole)
        draw(stream, data_of(args[1]), n);
    else
        draw_uniform(stream, data_of(args[1]), n, wide);
    END
    Py_RETURN_TRUE;
}

/* random_below(stream, out, low, span): the remainders of the next words by span, from low on. False for what is not int64
 * or needs more than a word each. */
static PyObject *random_below(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    int64_t low, span;
    if (count != 4 || !writable(args[1], I64) || !read_whole(args[2], &low) || !read_whole(args[3], &span)) Py_RETURN_FALSE;
    if (span < 1 || span >= 1 << 28 || low > INT64_MAX - span) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[1]);
    Stream *stream = stream_of(args[0], args[1], n);
    if (!stream) Py_RETURN_FALSE;
    int64_t *out = data_of(args[1]);
    BEGIN(n)
    draw(stream, out, n);
    for (Py_ssize_t i = 0; i < n; i++) out[i] = (int64_t)((uint32_t)out[i] % (uint32_t)span) + low;
    END
    Py_RETURN_TRUE;
}

/* random_order(stream, out): 0, 1, ..., each but the last swapped in turn with itself or a later one. */
static PyObject *random_order(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !writable(args[1], I64)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[1]);
    Stream *stream = n <= UINT32_MAX ? stream_of(args[0], args[1], n) : NULL; /* as many as a word tells apart */
    if (!stream) Py_RETURN_FALSE;
    int64_t *order = data_of(args[1]), words[BLOCK];
    BEGIN(n)
    for (Py_ssize_t i = 0; i < n; i++) order[i] = i;
    for (Py_ssize_t i = 0; i < n - 1; i++) {
        if (i % BLOCK == 0) draw(stream, words, n - 1 - i < BLOCK ? n - 1 - i : BLOCK);
        Py_ssize_t other = i + (uint32_t)words[i % BLOCK] % (uint32_t)(n - i);
        int64_t held = order[i];
        order[i] = order[other];
        order[other] = held;
    }
    END
    Py_RETURN_TRUE;
}

WIDE static void stretch_loop(float *x, float low, float high, Py_ssize_t n) {
    float width = high - low;
    SIMD for (Py_ssize_t i = 0; i < n; i++) {
        float value = __builtin_fmaf(x[i], width, low);
        x[i] = value == high ? low : value;
    }
}

/* stretch(x, low, high): numbers from [0, 1) become numbers from [low, high), at their place. */
static PyObject *stretch(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    double bounds[2];
    if (count != 3 || !writable(args[0], F32) || !read_numbers(args + 1, 2, bounds)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[0]);
    BEGIN(n)
    stretch_loop(data_of(args[0]), (float)bounds[0], (float)bounds[1], n);
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
    uint32_t octant = ((uint32_t)(int32_t)(angle * 1.27323954f) + 1u) & ~1u; /* unsigned, as that of inf overflows */
    float whole = (float)(int32_t)octant;
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
    double given[2]; /* mean and deviation */
    if (count != 3 || !writable(args[0], F32) || !read_numbers(args + 1, 2, given)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[0]);
    if (n % 16) Py_RETURN_FALSE;
    BEGIN(n)
    normal_loop(data_of(args[0]), (float)given[0], (float)given[1], n);
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

/* Fewer than sixteen normals, pair by pair; the second of a last pair is held for the next call. `out` has room for one
 * more. */
static void few_normals(Stream *stream, double *out, Py_ssize_t n) {
    Py_ssize_t i = 0;
    if (n && stream->holds) {
        out[i++] = stream->held;
        stream->holds = 0;
    }
    for (double u[2]; i < n; i += 2) {
        draw_uniform(stream, u, 2, 1);
        double radius = sqrt(-2.0 * log1p(-u[1])), angle = 6.283185307179586477 * u[0];
        out[i] = radius * cos(angle);
        out[i + 1] = radius * sin(angle);
    }
    if (i > n) {
        stream->holds = 1;
        stream->held = out[n];
    }
}

static void draw_normals(Stream *stream, char *out, Py_ssize_t n, int wide, double mean, double deviation) {
    if (n < 16) {
        double few[17];
        few_normals(stream, few, n);
        for (Py_ssize_t i = 0; i < n; i++) {
            double value = __builtin_fma(few[i], deviation, mean);
            if (wide) ((double *)out)[i] = value;
            else ((float *)out)[i] = (float)value;
        }
        return;
    }
    /* A rest is drawn, too, and then again, as the end of a block of its own. */
    for (Py_ssize_t again = 0; again <= (n % 16 > 0); again++) {
        Py_ssize_t from = again ? n - 16 : 0, made = again ? 16 : n;
        draw_uniform(stream, out + from * (wide ? 8 : 4), made, wide);
        if (wide) normal_doubles((double *)out + from, mean, deviation, made - made % 16);
        else normal_loop((float *)out + from, (float)mean, (float)deviation, made - made % 16);
    }
}

/* random_normals(stream, out, mean, deviation): False where out is not plain memory of float32 or float64, and for a
 * deviation that is none. */
static PyObject *random_normals(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 4) Py_RETURN_FALSE;
    int wide = writable(args[1], F64);
    double mean, deviation;
    if ((!wide && !writable(args[1], F32)) || !read_number(args[2], &mean) || !read_number(args[3], &deviation)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[1]);
    Stream *stream = deviation >= 0 ? stream_of(args[0], args[1], n) : NULL;
    if (!stream) Py_RETURN_FALSE;
    BEGIN(n)
    draw_normals(stream, data_of(args[1]), n, wide, mean, deviation);
    END
    Py_RETURN_TRUE;
}
